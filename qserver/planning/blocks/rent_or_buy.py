"""Rent or buy: measure the row that is asked, or buy blocks that also answer later questions.

To rent is to measure a row: in the cheapest way by rows alone, or, with coarse blocks, only what
rounding leaves of the query. To buy is to measure blocks of a base. The rules, in the order in
which they are looked at; the constants stand in `qserver.planning.constants`, with their evidence:

    wasteful    Nothing of a base is bought before a row would waste more than the part phi of the
                base's price. A row that is a cell of a block is not wasted if the block is bought.
    cheaper     Blocks that cost no more than the row are bought, and so are blocks where the row
                does not fit into the limit.
    due         Blocks are bought once own rows alone would have cost as much as the best base for
                the questions so far, fitted as if nothing had been bought. After the first spend, a
                base counts for at most a quarter of the limit; otherwise single rows exhaust the
                budget before a base looks worthwhile.
    early       Before that, blocks are bought only if the spend stays within a fixed ratio of what
                own rows alone would have cost, also with one more row. Every cell pays for a table,
                but rows about different records share what they cost. If the whole base is bought,
                the room is only for what it still lacks and what it grew by with this question: a
                base that no longer changes already answers most questions.
    first       With nothing bought, or without coarser levels, the whole base is bought early if
                one more row would lead to a worse ratio at the end.

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

from qserver.inference.tables.blocks.pattern import Lattice
from qserver.planning.blocks.demand import Demand, depth_of, want_of
from qserver.planning.blocks.learner import Learner
from qserver.planning.blocks.needed_part import Need, PurchaseOffer
from qserver.planning.blocks.on_answer_lattice import confirmed
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
        ratio: greatest spend after an early purchase, over the price of own rows alone.
        learner: learns levels that end where questions do; None for regular levels only.
    """

    phi: float = DEFAULT_PHI
    ratio: float = PLANNER.early_ratio
    cells: OwnCells = field(default_factory=OwnCells)
    demand: Demand = field(default_factory=Demand)
    learner: Learner | None = field(default_factory=Learner)
    _paid: list[PaidQuestion] = field(default_factory=list)
    _n_known: int = 0
    _lattice: Lattice | None = None

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
        """Bring the demand up to date; on another lattice, build it from the beginning."""
        if holdings.lattice is not self._lattice:
            self._lattice, self._n_known, self.demand = holdings.lattice, 0, Demand()
        for paid in self._paid[self._n_known :]:
            self.demand.take_in(paid, holdings)
        self._n_known = len(self._paid)


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
        """Whether these blocks, of a base of this depth, are bought in place of a row."""
        if blocks.price_nano <= row.price_nano or row.spent_after_nano > self._allowed_nano:
            return True
        alone = self._alone_nano
        if self._is_due(alone):
            return True
        early, with_next = self._rule.ratio, PLANNER.next_ratio
        # If coarser blocks are there, other choices than one more row or the whole base remain.
        if depth == self._depth and (self._is_flat or not self._is_begun):
            later = self._later_ratio(row)
            early, with_next = max(early, later), max(with_next, later)
        spent = blocks.spent_after_nano
        within = spent <= early * alone
        return within and spent + self._next_nano(blocks, depth) <= with_next * alone

    @property
    def _is_flat(self) -> bool:
        """Whether no attribute has levels between all its values and single ones."""
        return self._depth == 1

    @property
    def _is_begun(self) -> bool:
        """Whether any block is bought."""
        return bool(self._holdings.engine.tables.alpha_nano)

    @cached_property
    def _alone_nano(self) -> int:
        """The price of own rows alone, with this question's row."""
        return self._rule.demand.alone_nano(self._holdings, self._need.query, self._need.want)

    def _next_nano(self, blocks: Priced, depth: int) -> float:
        """Room for the next question: its extra cost after these blocks, over own rows alone.

        It is a row like this one. If the whole base is bought and it is less, it is what the base
        still lacks and what it grew by with this question.
        """
        own = Demand().alone_nano(self._holdings, self._need.query, self._need.want)
        octave = self._need.want.octave
        old = self._rule.demand.stars.get((octave, depth))
        if depth < self._depth or old is None:
            return own
        star = self._star(octave, depth)
        lacks = self._everything(star).price_nano - blocks.price_nano
        grown = (star.price - old.price) * NANO
        return min(own, max(0.0, lacks) + max(0.0, grown))

    def _later_ratio(self, row: Priced) -> float:
        """Upper bound of the spend over the base's price, if the base is bought after this row.

        It is 0 if it is too early to tell.
        """
        star = self._star(self._need.want.octave, self._depth)
        price = star.price
        if self._is_begun:
            if self._alone_nano < PLANNER.near_part * price * NANO:
                return 0.0
            price = min(price, self._anew.price)
        return self._everything(star, row).spent_after_nano / (price * NANO) + PLANNER.in_parts

    def _everything(self, star: Star, row: Priced | None = None) -> Priced:
        """The raises from the holdings to the whole star, after this row."""
        rows = () if row is None else row.purchase.rows
        tables = self._holdings.tables(self._holdings.raises(star.alphas), beside=rows)
        return self._holdings.priced(Purchase(rows, tables))

    def _is_due(self, alone_nano: int) -> bool:
        """Whether own rows alone would have cost as much as the best base for the questions asked.

        The base that purchases are made from also serves combinations that nobody asked for, and
        has blocks only because they were bought. So a base without either decides.
        """
        # More requirements never make a base cheaper.
        old = self._stars.get((self._tightest, self._depth))
        if old is not None and alone_nano < PLANNER.near_part * self._worth_nano(old):
            return False
        star = self._star(self._tightest, self._depth)
        if alone_nano >= self._worth_nano(star):
            return True
        if alone_nano < PLANNER.near_part * self._worth_nano(star):
            return False
        return alone_nano >= self._worth_nano(self._anew)

    @property
    def _tightest(self) -> int:
        """The tightest class asked for."""
        wanted, octave = self._rule.demand.octave, self._need.want.octave
        return octave if wanted is None else max(wanted, octave)

    @cached_property
    def _anew(self) -> Star:
        """The best base for the questions alone, as if nothing had been bought."""
        star = self._star(self._tightest, self._depth)
        asked = [*self._rule.demand.asked.up_to(self._tightest), self._need.want]
        return fit_star(
            self._holdings,
            fitting(self._holdings, asked),
            old=star,
            anew=True,
            effort=self._need.effort,
        )

    def _worth_nano(self, star: Star) -> float:
        price = star.price * NANO
        # Before the first spend no rent has used up any of the limit. A first question that costs
        # much is no reason to buy for others that may never come.
        if not self._holdings.ledger.spent_nano:
            return price
        return min(price, PLANNER.limit_part * self._allowed_nano)

    def _base(self, depth: int, row: Priced) -> PurchaseOffer | None:
        """The part of the best base of this depth that the question needs.

        None as long as the row would waste no more than phi times the worth of the base.
        """
        octave, fits = self._need.want.octave, row.spent_after_nano <= self._allowed_nano
        # More requirements never make a base cheaper, so a row that the old one allows stays.
        old = self._stars.get((octave, depth))
        least = 0.0 if old is None else self._rule.phi * self._worth_nano(old)
        if fits and row.spent_after_nano <= least:
            return None
        if not fits and old is None:
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
        """Whether this row would waste more than phi times the worth of the star."""
        everything = self._everything(star, row).spent_after_nano
        return everything - star.price * NANO > self._rule.phi * self._worth_nano(star)

    def _star(self, octave: int, depth: int) -> Star:
        """The best base of this depth for the requirements of this class and looser ones."""
        wants = fitting(self._holdings, self._wants(octave, depth))
        old = self._stars.get((octave, depth))
        if old is not None and float(uses(self._holdings, old, wants).max()) <= PLANNER.refit_use:
            return old
        # With coarser levels, later questions may be about parts of these, too.
        spare, effort = PLANNER.spare if self._is_flat else 0.0, self._need.effort
        star = fit_star(self._holdings, wants, old=old, spare=spare, effort=effort)
        self._stars[octave, depth] = star
        self._fitted[octave, depth] = FittedBase(octave, depth, star.to_base(self._holdings))
        return star

    def _wants(self, octave: int, depth: int) -> list[Want]:
        wants = self._wanted.up_to(octave)
        if depth == self._depth:
            return wants
        return [w.to_depth(depth, share=PLANNER.coarse_share) for w in wants]
