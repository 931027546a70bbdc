"""Whether blocks replace rows, decided for a question at the reference precision of a class.

The reference precision of a class is the tightest paid for. The decision uses the question at that
precision, not at the asked length. So a shorter length never turns blocks into a cheaper row.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from qserver.planning.blocks.needed_part import Need, Raises
from qserver.planning.blocks.own_rows import Own, OwnRows
from qserver.planning.blocks.scopes import At, Bases, Scopes
from qserver.planning.blocks.star import Star, everything
from qserver.planning.constants import PLANNER
from qserver.planning.effort import Effort
from qserver.planning.holdings import Holdings
from qserver.planning.purchase import Priced
from qserver.records.charge import NANO


@dataclass(frozen=True, eq=False)
class NeededBlocks:
    """The reference question's part of a settled base.

    Args:
        star: the base.
        raises: of the part.
        is_whole: whether the part alone meets the question; else a row is needed.
        is_due: whether it replaces even a cheaper row.
    """

    star: Star
    raises: Raises
    is_whole: bool
    is_due: bool


@dataclass(eq=False)
class ReferenceQuestion:
    """A question at the reference precision of a class.

    Args:
        need: of the question at the reference precision.
        phi: least waste, as a part of a base's price, at which its blocks are bought.
        ratio: greatest spend after a purchase, with room for one more, over own rows alone, where
            all questions are about the same attributes.
        scopes: of the paid questions.
        allowed_nano: most that may be spent in all.
    """

    need: Need
    bases: Bases
    octave: int
    phi: float
    ratio: float
    scopes: Scopes
    allowed_nano: int
    _stars: dict[At, Star] = field(default_factory=dict)

    @property
    def _holdings(self) -> Holdings:
        return self.need.holdings

    def is_settled(self) -> bool:
        """Whether the base has settled for the paid questions and this one."""
        bases, own, finest = self.bases, self._own, (self.octave, self.bases.depth)
        if not bases.may_reach(self.need.want, finest) or bases.was_dear(self.octave, own):
            return False
        most = bases.most_nano(self.octave, own)
        if not bases.has_settled(self.octave, most) or not bases.reaches(self.need.want, finest):
            return False
        return self._star(finest).price * NANO <= most

    def blocks(self, row: Priced) -> Iterator[NeededBlocks]:
        """Blocks that would make the row a waste, from the finest base on.

        Args:
            row: the cheapest way by rows alone at this precision.
        """
        for depth in range(self.bases.depth, 0, -1):
            if self.need.effort.is_spent:
                return
            found = self._part((self.octave, depth), row)
            if found is not None:
                yield found

    def _part(self, at: At, row: Priced) -> NeededBlocks | None:
        # More requirements never make a base cheaper, so a row that the old one allows stays.
        old = self.bases.demand.stars.get(at)
        if old is not None and row.spent_after_nano <= self.phi * old.price * NANO:
            return None
        star, is_whole = self._star(at), at[1] == self.bases.depth
        if not self._is_wasteful(star, row):
            return None
        raises = self.need.raises(star, at[1], self.bases.depth)
        if not raises:
            return None
        found = self.need.bought(raises) if is_whole else self.need.row(raises)
        if found is None:
            return None
        is_dearer = found.price_nano > row.price_nano
        is_due = is_dearer and self._fits() and self._is_near(found.priced, raises, at, row)
        return NeededBlocks(star, raises, is_whole, is_due)

    def _star(self, at: At) -> Star:
        """The best base with this question."""
        if at not in self._stars:
            old, wanted = self.bases.star(at), self.bases.demand.with_want(self.need.want)
            effort = Effort(PLANNER.fit_work, self.need.effort)
            # One more question seldom moves the optimum far, so no start is drawn.
            star = self.bases.fit(at, wanted, old=old, effort=effort, n_drawn=0)
            self._stars[at] = star
        return self._stars[at]

    def _is_wasteful(self, star: Star, row: Priced) -> bool:
        """Whether the row would waste more than phi times the price of the star."""
        after = everything(self._holdings, star, row).spent_after_nano
        return after - star.price * NANO > self.phi * star.price * NANO

    def _fits(self) -> bool:
        """Whether the limit could pay the whole base; otherwise a part would never repay."""
        star = self._star((self.octave, self.bases.depth))
        return star.price * NANO <= self.allowed_nano

    def _is_near(self, blocks: Priced, raises: Raises, at: At, row: Priced) -> bool:
        """Whether the spend after these blocks stays near that of own rows alone.

        A spend above own rows is risked only for questions about a single block, and less if the
        base has settled for one scope only.
        """
        ratio = self.ratio
        if not self.bases.is_part and at[1] == self.bases.depth:
            ratio = max(ratio, self._later_ratio(row))
        after, alone = blocks.spent_after_nano + self._next_nano(blocks, at), self._alone_nano
        if after > ratio * alone:
            return False
        risk = min(self.phi, ratio - 1.0) if self.bases.is_part else ratio - 1.0
        return after <= alone + risk * self._answered_nano(raises)

    def _later_ratio(self, row: Priced) -> float:
        """Spend over the base's price, if the base is bought after this row.

        Once blocks are bought, there are more choices than a row or the whole base.
        """
        if self._holdings.engine.tables.alpha_nano:
            return 0.0
        star = self._star((self.octave, self.bases.depth))
        later = everything(self._holdings, star, row).spent_after_nano
        return later / (star.price * NANO) + PLANNER.in_parts

    def _answered_nano(self, raises: Raises) -> int:
        """Price of own rows of the questions about a block, or within this scope.

        If other questions are asked too, earlier ones must show that this one returns.
        """
        found = {frozenset(axis for axis, _ in block) for block in raises}
        found.add(frozenset(self.need.query.row.scope))
        largest = [s for s in found if not any(s < other for other in found)]
        known = [self.scopes.within(scope, self._holdings) for scope in largest]
        return max(
            scope.course.rent_nano(
                self._holdings, None if scope.is_part else self._own, effort=self.need.effort
            )
            for scope in known
        )

    @property
    def _own(self) -> Own:
        want = self.need.want
        return Own(self.need.query, want.half_width, want.confidence)

    @cached_property
    def _alone_nano(self) -> int:
        """The price of own rows alone, with this question's row."""
        course = self.scopes.all(self._holdings).course
        return course.rent_nano(self._holdings, self._own, effort=self.need.effort)

    def _next_nano(self, blocks: Priced, at: At) -> float:
        """Room for the next question: its extra cost after these blocks, over own rows alone.

        That is one more row. If the whole base is bought, it may be less: the base's missing part
        plus its growth by this question.
        """
        neighbours, effort = self._holdings.ledger.neighbours, self.need.effort
        own = OwnRows().price_nano(neighbours, self._own, effort=effort)
        if at[1] < self.bases.depth:
            return own
        star = self._star(at)
        lacks = everything(self._holdings, star).price_nano - blocks.price_nano
        grown = (star.price - self.bases.star(at).price) * NANO
        return min(own, max(0.0, lacks) + max(0.0, grown))
