"""Rent or buy: measure the row that is asked, or buy blocks that also answer later questions.

To rent is to measure a row: in the cheapest way by rows alone, or, with coarse blocks, only what
rounding leaves of the query. To buy is to measure blocks of a base. Let A be the rent: what the own
rows of all paid questions and of this one would have cost alone. Let B be the price of the best
base found for them. Blocks replace a row only if all of this holds:

    wasteful    The row would waste more than the part phi of B. A row that is a cell of a block is
                not wasted if the block is bought.
    settled     B grew by at most A / 2 since the rent was A / 2: no more than own rows did. Here A
                and B are those of the question's class of precision and of looser ones, which
                its blocks answer, and B is fitted to all of these questions.
    worth it    The blocks cost no more than the row; or all that is then spent, with room for one
                more question, is at most 1.85 A. If nothing is bought and one more row would lead
                to a worse ratio of spend to B, that ratio takes the place of 1.85.

Where the row does not fit into the limit, any blocks that do are bought.

**Never far worse than asking one by one.** While the base is not settled, rows are measured,
nothing is spent on blocks, and B > A / 2. Blocks dearer than their row are bought only while all
that is spent stays within that ratio of A. The second is proven; so is the first, as far as B is
the least price, but it is a local optimum. It is measured, not proven, that a base which has
settled repays what it cost.

Bases are offered from the finest to the coarsest: first the coarse blocks become affordable, with
rows of the rest that weigh on few cells, then finer ones. Of a base only what the question needs is
bought. Whatever is bought can be raised later for the difference.

A base that was fitted to few questions may be of little use for the next ones. So if attributes
have no coarser levels, and the single block as fine as all others costs little more than the best
base, that block is the base.

Every decision is a function of public facts: paid questions in their order, live measurements, the
ledger.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import inf, isinf

from qserver.inference.tables.blocks.pattern import BlockKey, Lattice
from qserver.ledger.cell_ledger import CellLedger
from qserver.planning.blocks.demand import Demand, depth_of, want_of
from qserver.planning.blocks.learner import Learner
from qserver.planning.blocks.needed_part import Need, PurchaseOffer
from qserver.planning.blocks.on_answer_lattice import confirmed
from qserver.planning.blocks.rent import Course, Own, OwnRowsAlone
from qserver.planning.blocks.saved_demand import demand_of_state, state_of_demand
from qserver.planning.blocks.star import Star, fit_star, fitting, uses
from qserver.planning.blocks.wants import Want, Wants
from qserver.planning.constants import PLANNER
from qserver.planning.effort import Effort
from qserver.planning.holdings import Holdings
from qserver.planning.own_cells import OwnCells
from qserver.planning.purchase import Priced, Purchase
from qserver.query.question import Question
from qserver.records.charge import NANO
from qserver.records.paid_question import DEFAULT_PHI, FittedBase, PaidQuestion
from qserver.records.state import State


@dataclass(frozen=True, eq=False)
class Decision:
    """The rule's decision on one question.

    Args:
        offer: the purchase that replaces the direct plan; None for the direct plan.
        bases: the bases that were fitted anew.
    """

    offer: PurchaseOffer | None = None
    bases: tuple[FittedBase, ...] = ()


@dataclass
class RentOrBuy:
    """The rule, with the demand that its decisions depend on.

    Args:
        phi: least waste, as a part of a base's price, at which its blocks are bought, > 0;
            infinite for never buying.
        ratio: greatest spend after a purchase with room for one more, over own rows alone.
        learner: learns levels that end where questions do; None for regular levels only.
    """

    phi: float = DEFAULT_PHI
    ratio: float = PLANNER.most_ratio
    cells: OwnCells = field(default_factory=OwnCells)
    demand: Demand = field(default_factory=Demand)
    course: Course = field(default_factory=Course)
    learner: Learner | None = field(default_factory=Learner)
    _paid: list[PaidQuestion] = field(default_factory=list)
    _n_known: int = 0
    _lattice: Lattice | None = None
    _saved: State | None = None

    def state(self) -> State:
        """What `restore` needs: public, as paid questions are."""
        parts, head = {"course": self.course.state()}, {"n_known": self._n_known}
        if self._lattice is not None:
            parts["demand"] = state_of_demand(self.demand, self._lattice)
        return State.of_parts(parts, head)

    def restore(self, state: State, ledger: CellLedger) -> None:
        """Take over what was known of the questions taken in so far, in place of a replay."""
        self.course = Course.from_state(state.part("course"), self._paid, ledger)
        self._saved = state if "demand" in state.head else None

    def take_in(self, paid: PaidQuestion) -> None:
        """Add a question that was paid for."""
        self._paid.append(paid)

    def views(
        self,
        holdings: Holdings,
        asked: Sequence[PaidQuestion],
        effort: Effort,
    ) -> list[Holdings]:
        """The holdings on every lattice that a base for these questions may be planned on.

        The present lattice comes first.

        Args:
            effort: counts the work.
        """
        if self.learner is None or isinf(self.phi):
            return [holdings]
        return self.learner.views(holdings, self._paid, asked, effort)

    def propose(
        self,
        holdings: Holdings,
        question: Question,
        *,
        direct: Priced,
        allowed_nano: int,
        effort: Effort,
    ) -> Decision:
        """The purchase that replaces `direct`, the cheapest way by rows alone, if there is one.

        Pure apart from caches. For a question that measures nothing else, blocks are never bought:
        at most another row replaces `direct`, that of what the tables leave of the query. The
        demand is then not needed, and not followed.

        Args:
            allowed_nano: most that may be spent in all.
            effort: counts the work. Once it is spent, the best offer found so far is taken.
        """
        if isinf(self.phi):
            return Decision()
        if question.measure == "only_this":
            return _only_row(holdings, question, direct, effort)
        answered = holdings
        if self.learner is not None:
            holdings = self.learner.view(holdings, self._paid)
        self._follow(holdings)
        target, confidence = question.roomy_half_width, question.confidence
        want = want_of(holdings, question.row, half_width=target, confidence=confidence)
        is_beyond = direct.spent_after_nano > allowed_nano and not self.demand.stars
        if want is None or is_beyond or direct.price_nano == 0 or effort.is_spent:
            return Decision()
        fits = direct.spent_after_nano <= allowed_nano
        left = inf if fits else allowed_nano - holdings.ledger.spent_nano
        need = Need(holdings, question.row, want, effort, left_nano=left)
        return _Proposal(self, need, direct, allowed_nano, answered).choice()

    def _follow(self, holdings: Holdings) -> None:
        """Bring course and demand up to date; on another lattice, build the demand anew."""
        self.course.follow(self._paid, holdings)
        if holdings.lattice is not self._lattice:
            self._lattice, self._n_known, self.demand = holdings.lattice, 0, Demand()
            self._resume(holdings)
        for paid in self._paid[self._n_known :]:
            self.demand.take_in(paid, holdings)
        self._n_known = len(self._paid)

    def _resume(self, holdings: Holdings) -> None:
        """Begin with the demand that was saved, if it was made on this lattice."""
        saved, self._saved = self._saved, None
        if saved is None:
            return
        sizes = holdings.ledger.sizes
        found = demand_of_state(saved.part("demand"), holdings.lattice, sizes=sizes)
        if found is not None:
            self._n_known, self.demand = saved.head["n_known"], found


def _only_row(holdings: Holdings, question: Question, direct: Priced, effort: Effort) -> Decision:
    """The row of what the present tables leave of the query, if it is cheaper."""
    row, target = question.row, question.roomy_half_width
    want = want_of(holdings, row, half_width=target, confidence=question.confidence)
    if want is None or direct.price_nano == 0 or effort.is_spent:
        return Decision()
    beside = Need(holdings, row, want, effort).row({})
    is_cheaper = beside is not None and beside.priced.price_nano < direct.price_nano
    return Decision(beside if is_cheaper else None)


class _Proposal:
    """The decision on one question, from the rule's state, the need and the direct plan."""

    def __init__(
        self, rule: RentOrBuy, need: Need, direct: Priced, allowed_nano: int, answered: Holdings
    ) -> None:
        self._rule, self._need, self._allowed_nano = rule, need, allowed_nano
        self._direct, self._holdings, self._answered = direct, need.holdings, answered
        self._wanted: Wants = rule.demand.with_want(need.want)
        self._stars = dict(rule.demand.stars)
        self._fitted: dict[tuple[int, int], FittedBase] = {}
        self._depth = depth_of(need.holdings)

    def choice(self) -> Decision:
        """The cheapest row, or the blocks of a base that replace it."""
        row = PurchaseOffer(self._direct)
        beside = self._confirmed(self._need.row({}))
        if beside is not None and beside.priced.price_nano < row.priced.price_nano:
            row = beside
        found = self._bought_instead(row.priced) or row
        bases = tuple(self._fitted.values())
        return Decision(None if found.priced is self._direct else found, bases)

    def _bought_instead(self, row: Priced) -> PurchaseOffer | None:
        """The first worthwhile offer, from the finest base to the coarsest; None for the row."""
        for depth in range(self._depth, 0, -1):
            if self._need.effort.is_spent:
                break
            offer = self._base(depth, row)
            # With enough blocks a base offers only a row, which was considered before.
            if offer is not None and offer.priced.purchase.tables:
                offer = self._confirmed(offer)
            if offer is None or not offer.priced.purchase.tables:
                continue
            if offer.priced.spent_after_nano > self._allowed_nano:
                continue
            if self._is_worthwhile(offer.priced, row, depth):
                return offer
        return None

    def _confirmed(self, offer: PurchaseOffer | None) -> PurchaseOffer | None:
        """The offer, raised until it meets the question on the lattice used for answering."""
        if offer is None or self._answered is self._holdings:
            return offer
        return confirmed(self._answered, self._need.query, self._need.want, offer)

    def _is_worthwhile(self, blocks: Priced, row: Priced, depth: int) -> bool:
        """Whether these blocks, of a settled base of this depth, are bought in place of a row."""
        if blocks.price_nano <= row.price_nano or row.spent_after_nano > self._allowed_nano:
            return True
        ratio = self._rule.ratio
        if depth == self._depth:
            ratio = max(ratio, self._later_ratio(row))
        after = blocks.spent_after_nano + self._next_nano(blocks, depth)
        return after <= ratio * self._alone_nano

    def _later_ratio(self, row: Priced) -> float:
        """What would be spent over the base's price, if the base is first bought after this row.

        With blocks bought, other choices remain than a row or the whole base.
        """
        if self._holdings.engine.tables.alpha_nano:
            return 0.0
        star = self._star(self._need.want.octave, self._depth)
        return self._everything(star, row).spent_after_nano / (star.price * NANO) + PLANNER.in_parts

    @cached_property
    def _is_settled(self) -> bool:
        """Whether the best base grew by no more than own rows did since they cost half as much.

        Own rows are those of the question's class of precision and of looser ones: its base
        answers no others.
        """
        octave, course = self._need.want.octave, self._rule.course
        half = course.rent_nano(self._holdings, self._own, octave=octave) / 2
        most = max(course.price_nano(octave, rent_nano=half), self._bought_nano) + half
        old = self._stars.get((octave, self._depth))
        # More requirements never make a base cheaper, so an old one may say no.
        if old is not None and old.price * NANO > most:
            return False
        return self._is_for_all(octave) and self._star(octave, self._depth).price * NANO <= most

    def _is_for_all(self, octave: int) -> bool:
        """Whether a base of this class is fitted to every component that was wanted.

        The price of a base for a part of the questions says nothing of the rent of all.
        """
        wants = self._wants(octave, self._depth)
        reached = set[BlockKey]().union(*(w.energies for w in wants))
        fits = len(fitting(self._holdings, wants)) == len(wants)
        return fits and self._rule.demand.forgotten(octave) <= reached

    @property
    def _bought_nano(self) -> float:
        """What the tables cost that are bought."""
        bought = self._holdings.engine.tables.alpha_nano
        return sum(self._holdings.cost_of(b) * a for b, a in bought.items())

    @property
    def _is_flat(self) -> bool:
        """Whether no attribute has levels between all its values and single ones."""
        return self._depth == 1

    @property
    def _own(self) -> Own:
        want = self._need.want
        return Own(self._need.query, want.half_width, want.confidence)

    @cached_property
    def _alone_nano(self) -> int:
        """The price of own rows alone, with this question's row."""
        return self._rule.course.rent_nano(self._holdings, self._own)

    def _next_nano(self, blocks: Priced, depth: int) -> float:
        """Room for the next question: its extra cost after these blocks, over own rows alone.

        It is a row like this one. If the whole base is bought and it is less, it is what the base
        still lacks and what it grew by with this question.
        """
        own, octave = OwnRowsAlone().with_row(self._holdings, self._own), self._need.want.octave
        old = self._rule.demand.stars.get((octave, depth))
        if depth < self._depth or old is None:
            return own
        star = self._star(octave, depth)
        lacks = self._everything(star).price_nano - blocks.price_nano
        grown = (star.price - old.price) * NANO
        return min(own, max(0.0, lacks) + max(0.0, grown))

    def _everything(self, star: Star, row: Priced | None = None) -> Priced:
        """The raises from the holdings to the whole star, after this row."""
        rows = () if row is None else row.purchase.rows
        tables = self._holdings.tables(self._holdings.raises(star.alphas), beside=rows)
        return self._holdings.priced(Purchase(rows, tables))

    def _base(self, depth: int, row: Priced) -> PurchaseOffer | None:
        """The part of the best base of this depth that the question needs.

        None as long as the row would waste no more than phi times the base's price, or the base
        still grows.
        """
        octave, fits = self._need.want.octave, row.spent_after_nano <= self._allowed_nano
        # More requirements never make a base cheaper, so a row that the old one allows stays.
        old = self._stars.get((octave, depth))
        least = 0.0 if old is None else self._rule.phi * old.price * NANO
        if fits and row.spent_after_nano <= least:
            return None
        if not fits and old is None:
            return None
        if fits and not self._is_settled:
            return None
        # If a row does not fit into the limit, no base is fitted: an old one serves, or none.
        star = self._star(octave, depth) if fits or old is None else old
        if fits and not self._is_wasteful(star, row):
            return None
        if depth == self._depth:
            return self._need.whole(star)
        coarse = self._need.want.to_depth(depth, share=PLANNER.coarse_share)
        return self._need.beside(star, coarse=coarse)

    def _is_wasteful(self, star: Star, row: Priced) -> bool:
        """Whether this row would waste more than phi times the price of the star."""
        everything = self._everything(star, row).spent_after_nano
        return everything - star.price * NANO > self._rule.phi * star.price * NANO

    def _star(self, octave: int, depth: int) -> Star:
        """The best base of this depth for the requirements of this class and looser ones."""
        wants = fitting(self._holdings, self._wants(octave, depth))
        old = self._stars.get((octave, depth))
        most = 1.0 + PLANNER.calibration_off
        if old is not None and float(uses(self._holdings, old, wants).max()) <= most:
            return old
        # With coarser levels, later questions may be about parts of these, too.
        spare, effort = PLANNER.spare if self._is_flat else 0.0, self._need.effort
        star = fit_star(self._holdings, wants, old=old, spare=spare, effort=effort)
        self._stars[octave, depth] = star
        is_finest = depth == self._depth
        base = star.to_base(self._holdings)
        self._fitted[octave, depth] = FittedBase(octave, depth, base, is_finest)
        return star

    def _wants(self, octave: int, depth: int) -> list[Want]:
        wants = self._wanted.up_to(octave)
        if depth == self._depth:
            return wants
        return [w.to_depth(depth, share=PLANNER.coarse_share) for w in wants]
