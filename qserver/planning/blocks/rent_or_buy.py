"""Rent or buy: measure the row that is asked, or buy blocks that also answer later questions.

To rent is to measure a row, in the cheapest way by rows alone, or, with coarse blocks, the rest
that rounding leaves. To buy is to measure blocks of a base. Let A be the rent: what the own rows of
all paid questions and of this one would have cost alone. Let B be the price of the best base found
for them. Blocks of a base may replace a row only if all of this holds:

    reached     Blocks for questions that were paid for before tell every component of the query.
    wasteful    The row would waste more than the part phi of B. A row that is a cell of a block is
                not wasted if the block is bought.
    settled     B grew by at most A / 2 since A was half as large: no more than own rows did. Here A
                and B are those of a class of precision and of looser ones. B is known where a
                question may use the base, and else from time to time: a fit takes long.

Such blocks are bought where they cost no more than the row, or where they are due: the limit could
pay all of B, and all that is then spent, with room for one more question, is at most A + .85 R.
Here A is the rent of all questions, and R that of the questions about the attributes of one block
that is bought; where others are asked, too, of those that came before this one. Where the base has
settled for the questions of one scope alone, phi takes the place of .85. If nothing is bought and
one more row would lead to a worse ratio of spend to B, that ratio replaces 1.85. If the row does
not fit into the limit, no base is fitted: only a row of the rest that present tables leave is
tried. docs/comparison.md has the proven and measured properties of this rule.

**What returns among what never does.** If no class has settled for all questions, the rule is
applied within the scope of this one: questions about its attributes or some of them. Their earlier
prices are not known and count as 0.

**A shorter length never costs less.** The reference precision of a class is the tightest that was
paid for in it. Each class decides for the query at that precision, never at the asked length. If
blocks of a class are due, any length gets its part of them, and a tighter length all of them and a
row of the rest. If none are due, the least price of rows and blocks is taken. Each of these prices
rises as the length gets shorter.

Bases are offered from the finest to the coarsest: first the coarse blocks become affordable, with
rows of the rest that weigh on few cells, then finer ones. Only the question's part of a base is
bought, of blocks about its attributes. Bought blocks can be raised later for the difference. Where
data arrive over time, no blocks are due: they are bought where they cost no more than rows. Rows of
single periods cost as one there and serve again, so rent says too much about them.

**Under Gaussian noise** prices are rho, 2 takes the place of 1.85, and B is the least price of
tables for the questions so far: the problem is convex. Let R be what was spent on rows, x the price
of one more own row, phi <= 1, and let these hold: all questions are about the attributes of one
block and of one class; R <= A, as where each row is its question's own; the limit could pay B;
nothing that costs more than a row was bought. Then one of three is so:

    the row would not be wasteful      R <= phi B
    it would, and no blocks are due    R + B + x > 2 A >= 2 R, so R < B + x
    B has not settled                  B > A / 2, so R < 2 B

When a whole base is bought, all that is spent then, and x, is at most 2 A by the rule. And it is at
most R + B for the R before: at most 2 B + x if B had settled by then, else 3 B + x.

If attributes have no coarser levels, and the single block as fine as all others costs little more
than the best base, that block is the base: one fitted to few questions may be of little use for the
next ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import isinf

from qserver.planning.balanced_row import BalancedDemand, is_apt
from qserver.planning.blocks.horizon import invested
from qserver.planning.blocks.levels import Learner
from qserver.planning.blocks.needed_part import ByRows, Need, PurchaseOffer, cheaper, need_of
from qserver.planning.blocks.reference_question import NeededBlocks, ReferenceQuestion
from qserver.planning.blocks.scopes import Bases, Scopes
from qserver.planning.constants import PLANNER
from qserver.planning.effort import Effort
from qserver.planning.holdings import Holdings
from qserver.planning.own_cells import OwnCells
from qserver.query.question import Question
from qserver.query.requirement import DEFAULT_PHI
from qserver.records.paid_question import FittedBase, PaidQuestion
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
        phi: least waste, as a part of a base's price, at which its blocks are bought, > 0; infinite
            for never buying. It also limits the risk of a base of one scope; see above.
        ratio: greatest spend after a purchase with room for one more, over own rows alone.
        learner: learns levels that end where questions do; None for regular levels only.
        expected: number of questions that the owner expects until the limit; 0 if not said.
    """

    phi: float = DEFAULT_PHI
    ratio: float = PLANNER.most_ratio
    cells: OwnCells = field(default_factory=OwnCells)
    learner: Learner | None = field(default_factory=Learner)
    scopes: Scopes = field(default_factory=Scopes)
    expected: int = 0
    balanced: BalancedDemand = field(default_factory=BalancedDemand)

    def state(self) -> State:
        """State that `restore` reads; public, as paid questions are."""
        return self.scopes.state()

    def restore(self, state: State) -> None:
        """Restore the state of the questions so far, in place of a replay."""
        self.scopes.restore(state)

    def take_in(self, paid: PaidQuestion) -> None:
        """Add a question that was paid for."""
        self.scopes.take_in(paid)

    def balanced_total(self, holdings: Holdings) -> float | None:
        """The total's best rho where balanced rows would have cost less; None elsewhere."""
        if not is_apt(holdings):
            return None
        # A demand that a checkpoint kept is one on the learnt levels.
        if self.learner is not None:
            holdings = self.learner.view(holdings, self.scopes.paid)
        return self.balanced.total(self.scopes, holdings)

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
        return self.learner.views(holdings, self.scopes.paid, asked, effort)

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

        Pure apart from caches. No blocks are bought for a question that measures only itself, or if
        `direct` does not fit into the limit: at most a row of the rest that tables leave replaces
        `direct`. The demand is then not followed.

        Args:
            by_rows: the cheapest way by rows alone at any half-width of the row.
            allowed_nano: most that may be spent in all.
            effort: counts the work. Once it is spent, the best offer found so far is taken.
        """
        if isinf(self.phi):
            return Decision()
        is_beyond = direct.priced.spent_after_nano > allowed_nano
        if is_beyond or question.measure == "only_this":
            return _only_row(holdings, question, direct, effort)
        answered = holdings
        if self.learner is not None:
            holdings = self.learner.view(holdings, self.scopes.paid)
        scope = self.scopes.all(holdings)
        bases = scope.bases(holdings, effort)
        need = need_of(question, holdings, answered, effort)
        if need is None or direct.price_nano == 0 or effort.is_spent:
            return Decision()
        bought = invested(need, scope, direct, expected=self.expected, allowed_nano=allowed_nano)
        if bought is not None:
            return Decision(bought)
        return _Choice(self, bases, need, direct, by_rows, allowed_nano).decision()


def _only_row(
    holdings: Holdings, question: Question, direct: PurchaseOffer, effort: Effort
) -> Decision:
    """The row of the rest that present tables leave, if it is cheaper."""
    need = need_of(question, holdings, holdings, effort)
    if need is None or direct.price_nano == 0 or effort.is_spent:
        return Decision()
    beside = need.row({})
    is_cheaper = beside is not None and beside.price_nano < direct.price_nano
    return Decision(beside if is_cheaper else None)


class _Choice:
    """Decides on one question from the rule's state, the need and the ways by rows."""

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

    def decision(self) -> Decision:
        """The cheapest of the blocks that are due; else of rows and blocks."""
        due, others = self._blocks()
        if self._need.holdings.period_axis is not None:
            due, others = [], [*due, *others]
        row = cheaper(self._direct, self._need.row({}))
        found = self._fit([*due, *others]) if self._fit(due) else self._fit([*others, row])
        best = min(found or [row], key=lambda o: o.price_nano)
        bases = tuple(self._bases.anew.values())
        return Decision(None if best is self._direct else best, bases)

    def _blocks(self) -> tuple[list[PurchaseOffer], list[PurchaseOffer]]:
        """Blocks for each class of precision, due or not, tightest first."""
        # All is found before anything is priced for the length that is asked: that work must not
        # end this search, or a longer length would find less and cost more.
        found = [(r, blocks) for r in self._references() for blocks in self._wasted(r)]
        due = [self._now(r, blocks) for r, blocks in found if blocks.is_due]
        return due, [self._now(r, blocks) for r, blocks in found if not blocks.is_due]

    def _wasted(self, reference: ReferenceQuestion) -> Iterator[NeededBlocks]:
        """Blocks that would make the row a waste, down to the first that are due."""
        row = self._row(reference.need)
        if row is None or row.price_nano == 0:
            return
        for blocks in reference.blocks(row.priced):
            yield blocks
            if blocks.is_due:
                return

    def _references(self) -> list[ReferenceQuestion]:
        """The question at the reference precision of each class whose base has settled.

        If none has for all questions, the demand is that within the scope of this one.
        """
        found = self._settled(self._bases)
        if not self._need.effort.is_spent:
            self._bases.write_down()
        if found:
            return found
        need = self._need
        scope = self._rule.scopes.within(need.query.row.scope, need.holdings)
        # The same bases would be looked at twice.
        return self._settled(scope.bases(need.holdings, need.effort)) if scope.is_part else []

    def _settled(self, bases: Bases) -> list[ReferenceQuestion]:
        rule, need, found = self._rule, self._need, list[ReferenceQuestion]()
        is_convex = need.holdings.engine.law.is_additive
        ratio = max(rule.ratio, PLANNER.convex_ratio if is_convex else 0.0)
        for octave in bases.course.octaves:
            if need.effort.is_spent:
                break
            then = need.at(bases.course.tightest(octave, confidence=need.want.confidence))
            reference = ReferenceQuestion(
                then, bases, octave, rule.phi, ratio, rule.scopes, self._allowed_nano
            )
            if reference.is_settled():
                found.append(reference)
        return found

    def _row(self, need: Need) -> PurchaseOffer | None:
        """The cheapest way by rows alone at this precision; None if none is needed."""
        row = self._by_rows(need.want.half_width)
        return None if row is None else cheaper(row, need.row({}))

    def _now(self, reference: ReferenceQuestion, blocks: NeededBlocks) -> PurchaseOffer:
        """The blocks for the asked length."""
        need, then = self._need, reference.need
        if not blocks.is_whole:
            return need.beside(blocks.raises, self._direct)
        return need.part_beside(blocks.star, blocks.raises, then=then, direct=self._direct)

    def _fit(self, offers: Sequence[PurchaseOffer]) -> list[PurchaseOffer]:
        return [o for o in offers if o.priced.spent_after_nano <= self._allowed_nano]
