"""Rent or buy: measure the row that is asked, or buy blocks that also answer later questions.

To rent is to measure a row: in the cheapest way by rows alone, or, with coarse blocks, only what
rounding leaves of the query. To buy is to measure blocks of a base. Let A be the rent: what the own
rows of all paid questions and of this one would have cost alone. Let B be the price of the best
base found for them. Blocks of a base may replace a row only if all of this holds:

    reached     Blocks for questions that were paid for before tell every component of the query.
    wasteful    The row would waste more than the part phi of B. A row that is a cell of a block is
                not wasted if the block is bought.
    settled     B grew by at most A / 2 since the rent was A / 2: no more than own rows did. Here A
                and B are those of a class of precision and of looser ones, which its blocks
                answer, and B is fitted to all of these questions. The base of the tightest class
                must have settled, too.

Such blocks are bought where they cost no more than the row. Dearer ones are bought if they are due:
all that is then spent, with room for one more question, is at most A + .85 R. Here A is the rent of
all questions, and R that of the questions about the attributes of one block that is bought. So
where questions spread over many attributes, little is risked for any of them. If nothing is bought
and one more row would lead to a worse ratio of spend to B, that ratio takes the place of 1.85.
Where the row does not fit into the limit, any blocks that do are bought.

**What returns among what never does.** If the tightest base for all questions has not settled, the
same is asked of those within the scope of this one: the questions about its attributes alone, or
fewer of them. No price is known from when their rent was half as large, so that price counts as 0.

**A shorter length never costs less.** The reference precision of a class is the tightest that was
paid for in it. What is reached, settled and due is decided for the query at that precision, for
each class, and never at the length that is asked. If blocks of a class are due, any length gets the
part of them that it needs, and a tighter length all of them and a row of the rest. If none are due,
the least price of rows and blocks is taken. Each of these prices rises as the length gets shorter.

**Never far worse than asking one by one.** While no base has settled, rows are measured, nothing is
spent on blocks, and B > A / 2. Blocks dearer than their row are bought only while all that is spent
stays within A + .85 R. The second is proven; so is the first, as far as B is the least price,
but it is a local optimum. It is measured, not proven, that a base which has settled repays what it
cost.

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

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isinf

from qserver.inference.tables.blocks.pattern import BlockKey, Lattice
from qserver.ledger.cell_ledger import CellLedger
from qserver.planning.blocks.demand import Demand
from qserver.planning.blocks.levels.learner import Learner
from qserver.planning.blocks.needed_part import ByRows, Need, PurchaseOffer, cheaper, need_of
from qserver.planning.blocks.reference import NeededBlocks, ReferenceQuestion
from qserver.planning.blocks.rent import Course, Own
from qserver.planning.blocks.saved_demand import demand_of_state, state_of_demand
from qserver.planning.blocks.scopes import Scopes
from qserver.planning.blocks.settled import At, Bases
from qserver.planning.blocks.star import Star
from qserver.planning.constants import PLANNER
from qserver.planning.effort import Effort
from qserver.planning.holdings import Holdings
from qserver.planning.own_cells import OwnCells
from qserver.query.question import Question
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
    _state: tuple[int, Lattice, Mapping[BlockKey, float]] | None = None
    _fits: dict[At, Star] = field(default_factory=dict)
    _scopes: Scopes = field(default_factory=Scopes)
    _asked: set[int] = field(default_factory=set)
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
        self._asked |= set(paid.row.scope)

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
        direct: PurchaseOffer,
        by_rows: ByRows,
        allowed_nano: int,
        effort: Effort,
    ) -> Decision:
        """The purchase that replaces `direct`, the cheapest way by rows alone, if there is one.

        Pure apart from caches. For a question that measures nothing else, blocks are never bought:
        at most another row replaces `direct`, that of what the tables leave of the query. The
        demand is then not needed, and not followed.

        Args:
            by_rows: the cheapest way by rows alone at another half-width of the row.
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
        need = need_of(question, holdings, answered, effort)
        is_beyond = direct.priced.spent_after_nano > allowed_nano and not self.demand.stars
        if need is None or is_beyond or direct.price_nano == 0 or effort.is_spent:
            return Decision()
        bases = self._bases(holdings)
        return _Choice(self, bases, need, direct, by_rows, allowed_nano).decision()

    def _bases(self, holdings: Holdings) -> Bases:
        """The best bases for the paid questions; those fitted are kept until something is paid."""
        state = self._n_known, holdings.lattice, dict(holdings.alphas)
        if self._state != state:
            self._state, self._fits = state, {}
        return Bases(holdings, self.demand, self.course, self._fits)

    def within(self, scope: Iterable[int], holdings: Holdings) -> Bases:
        """The best bases for the paid questions about these attributes."""
        if self._asked.issubset(scope):
            return self._bases(holdings)
        return self._scopes.bases(frozenset(scope), self._paid, holdings)

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


def _only_row(
    holdings: Holdings, question: Question, direct: PurchaseOffer, effort: Effort
) -> Decision:
    """The row of what the present tables leave of the query, if it is cheaper."""
    need = need_of(question, holdings, holdings, effort)
    if need is None or direct.price_nano == 0 or effort.is_spent:
        return Decision()
    beside = need.row({})
    is_cheaper = beside is not None and beside.price_nano < direct.price_nano
    return Decision(beside if is_cheaper else None)


class _Choice:
    """The decision on one question, from the rule's state, the need and the ways by rows."""

    def __init__(
        self,
        rule: RentOrBuy,
        bases: Bases,
        need: Need,
        direct: PurchaseOffer,
        by_rows: ByRows,
        allowed_nano: int,
    ) -> None:
        self._rule, self._bases, self._need, self._direct = rule, bases, need, direct
        self._by_rows, self._allowed_nano = by_rows, allowed_nano
        self._fitted: dict[At, FittedBase] = {}

    def decision(self) -> Decision:
        """The cheapest of the blocks that are due; else of rows and blocks."""
        due, others = self._blocks()
        row = cheaper(self._direct, self._need.row({}))
        found = self._fit([*due, *others]) if self._fit(due) else self._fit([*others, row])
        best = min(found or self._last() or [row], key=lambda o: o.price_nano)
        bases = tuple(self._fitted.values())
        return Decision(None if best is self._direct else best, bases)

    def _blocks(self) -> tuple[list[PurchaseOffer], list[PurchaseOffer]]:
        """Blocks that are due, and others."""
        due, others = list[PurchaseOffer](), list[PurchaseOffer]()
        for reference in self._references():
            for blocks in reference.blocks():
                offer = self._now(reference, blocks)
                (due if blocks.is_due else others).append(offer)
                if blocks.is_due:
                    break
        return due, others

    def _references(self) -> Iterator[ReferenceQuestion]:
        """The question at the reference precision of each class, the tightest class first.

        If the tightest base for all questions has not settled, the demand is that within the scope
        of this one.
        """
        bases = self._bases
        if not self._has_settled(bases):
            bases = self._within(self._need.query.row.scope)
        if self._has_settled(bases):
            yield from self._of(bases)

    def _within(self, scope: Iterable[int]) -> Bases:
        return self._rule.within(scope, self._need.holdings)

    def _has_settled(self, bases: Bases) -> bool:
        """Whether the base of the tightest class has, so that looser ones may be bought."""
        octave = max(bases.course.octaves, default=None)
        if octave is None:
            return False
        want = self._need.want
        half_width = bases.course.tightest(octave, confidence=want.confidence)
        own = Own(self._need.query, half_width, want.confidence)
        return bases.has_settled(octave, own, self._fitted)

    def _of(self, bases: Bases) -> Iterator[ReferenceQuestion]:
        rule, want = self._rule, self._need.want
        for octave in bases.course.octaves:
            half_width = bases.course.tightest(octave, confidence=want.confidence)
            row = self._direct if half_width == want.half_width else self._by_rows(half_width)
            if row is None:
                continue
            need = self._need.at(half_width)
            row = cheaper(row, need.row({}))
            if row.price_nano == 0:
                continue
            yield ReferenceQuestion(
                *(need, row.priced, bases, octave, rule.phi, rule.ratio),
                course=rule.course,
                within=self._within,
                fitted=self._fitted,
            )

    def _now(self, reference: ReferenceQuestion, blocks: NeededBlocks) -> PurchaseOffer:
        """These blocks for the length that is asked."""
        need, then = self._need, reference.need
        if not blocks.is_whole:
            return need.beside(blocks.raises, self._direct)
        return need.part_beside(blocks.star, blocks.raises, then=then, direct=self._direct)

    def _fit(self, offers: Sequence[PurchaseOffer]) -> list[PurchaseOffer]:
        return [o for o in offers if o.priced.spent_after_nano <= self._allowed_nano]

    def _last(self) -> list[PurchaseOffer]:
        """Blocks of an old base, where nothing else fits into the limit."""
        holdings, octave = self._need.holdings, self._need.want.octave
        left = self._allowed_nano - holdings.ledger.spent_nano
        need, stars = replace(self._need, left_nano=left), self._rule.demand.stars
        for depth in range(self._bases.depth, 0, -1):
            star = stars.get((octave, depth))
            found = None if star is None else need.blocks(star, depth, self._bases.depth)
            if found is not None and self._fit([found[1]]):
                return [found[1]]
        return []
