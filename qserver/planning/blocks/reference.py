"""Whether blocks replace rows, decided for a question at the reference precision of a class.

The reference precision of a class is the tightest that was paid for in it. The decision is made for
the question at that precision, whatever length is asked now. So a shorter length never turns blocks
into a cheaper row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

from qserver.planning.blocks.needed_part import Need, PurchaseOffer, Raises
from qserver.planning.blocks.rent import Course, Own, OwnRowsAlone
from qserver.planning.blocks.settled import At, Bases
from qserver.planning.blocks.star import Star, everything
from qserver.planning.constants import PLANNER
from qserver.planning.holdings import Holdings
from qserver.planning.purchase import Priced
from qserver.records.charge import NANO
from qserver.records.paid_question import FittedBase


@dataclass(frozen=True, eq=False)
class NeededBlocks:
    """The part of a settled base that the reference question needs.

    Args:
        star: the base.
        raises: that part.
        offer: the part, with a row of what it leaves, at the reference precision.
        is_whole: whether the part alone meets the reference question; else a row is needed.
        is_due: whether it replaces a row that costs less.
    """

    star: Star
    raises: Raises
    offer: PurchaseOffer
    is_whole: bool
    is_due: bool


@dataclass(eq=False)
class ReferenceQuestion:
    """A question at the reference precision of a class.

    Args:
        need: the question at that precision.
        row: the cheapest way by rows alone to meet it.
        phi: least waste, as a part of a base's price, at which its blocks are bought.
        ratio: greatest spend after a purchase with room for one more, over own rows alone, where
            all questions are about the same attributes.
        course: of all paid questions.
        within: the bases for the paid questions about some attributes.
        fitted: takes the bases that are fitted anew.
    """

    need: Need
    row: Priced
    bases: Bases
    octave: int
    phi: float
    ratio: float
    course: Course
    within: Callable[[Iterable[int]], Bases]
    fitted: dict[At, FittedBase] = field(default_factory=dict)
    _stars: dict[At, Star] = field(default_factory=dict)

    @property
    def _holdings(self) -> Holdings:
        return self.need.holdings

    def blocks(self) -> Iterator[NeededBlocks]:
        """The blocks of settled bases that the row would waste, from the finest base on."""
        finest = self.octave, self.bases.depth
        if not self._is_settled(finest):
            return
        for depth in range(self.bases.depth, 0, -1):
            if self.need.effort.is_spent:
                return
            found = self._part((self.octave, depth))
            if found is not None:
                yield found

    def _is_settled(self, finest: At) -> bool:
        """Whether the base has settled for what was paid for, and with this question."""
        bases, own = self.bases, self._own
        if not bases.has_settled(self.octave, own, self.fitted):
            return False
        if not bases.reaches(self.need.want, finest):
            return False
        return self._star(finest).price * NANO <= bases.most_nano(self.octave, own)

    def _part(self, at: At) -> NeededBlocks | None:
        # More requirements never make a base cheaper, so a row that the old one allows stays.
        old = self.bases.demand.stars.get(at)
        if old is not None and self.row.spent_after_nano <= self.phi * old.price * NANO:
            return None
        star, is_whole = self._star(at), at[1] == self.bases.depth
        if not self._is_wasteful(star):
            return None
        found = self.need.blocks(star, at[1], self.bases.depth)
        if found is None:
            return None
        raises, offer = found
        is_due = self._is_due(offer.priced, at, raises)
        return NeededBlocks(star, raises, offer, is_whole, is_due)

    def _star(self, at: At) -> Star:
        """The best base with this question."""
        if at not in self._stars:
            old, wanted = self.bases.star(at), self.bases.demand.with_want(self.need.want)
            star = self.bases.fit(at, wanted, old=old, effort=self.need.effort)
            self._stars[at] = star
        return self._stars[at]

    def _is_wasteful(self, star: Star) -> bool:
        """Whether the row would waste more than phi times the price of the star."""
        after = everything(self._holdings, star, self.row).spent_after_nano
        return after - star.price * NANO > self.phi * star.price * NANO

    def _is_due(self, blocks: Priced, at: At, raises: Raises) -> bool:
        """Whether they cost more than the row, and the spend stays near that of own rows alone.

        More than own rows is risked only for questions that a single one of the blocks is about.
        """
        if blocks.price_nano <= self.row.price_nano:
            return False
        ratio = self.ratio
        if not self.bases.is_part and at[1] == self.bases.depth:
            ratio = max(ratio, self._later_ratio)
        after = blocks.spent_after_nano + self._next_nano(blocks, at)
        return after <= self._alone_nano + (ratio - 1.0) * self._answered_nano(raises)

    def _answered_nano(self, raises: Raises) -> int:
        """The price of own rows alone of the questions that a block, or this scope, is about."""
        found = {frozenset(axis for axis, _ in block) for block in raises}
        found.add(frozenset(self.need.query.row.scope))
        largest = [s for s in found if not any(s < other for other in found)]
        courses = [self.within(scope).course for scope in largest]
        return max(course.rent_nano(self._holdings, self._own) for course in courses)

    @cached_property
    def _later_ratio(self) -> float:
        """What would be spent over the base's price, if the base is first bought after this row.

        With blocks bought, other choices remain than a row or the whole base.
        """
        if self._holdings.engine.tables.alpha_nano:
            return 0.0
        star = self._star((self.octave, self.bases.depth))
        later = everything(self._holdings, star, self.row).spent_after_nano
        return later / (star.price * NANO) + PLANNER.in_parts

    @property
    def _own(self) -> Own:
        want = self.need.want
        return Own(self.need.query, want.half_width, want.confidence)

    @cached_property
    def _alone_nano(self) -> int:
        """The price of own rows alone, with this question's row."""
        return self.course.rent_nano(self._holdings, self._own)

    def _next_nano(self, blocks: Priced, at: At) -> float:
        """Room for the next question: its extra cost after these blocks, over own rows alone.

        It is a row like this one. If the whole base is bought and it is less, it is what the base
        still lacks and what it grew by with this question.
        """
        own = OwnRowsAlone().with_row(self._holdings, self._own)
        if at[1] < self.bases.depth:
            return own
        star = self._star(at)
        lacks = everything(self._holdings, star).price_nano - blocks.price_nano
        grown = (star.price - self.bases.star(at).price) * NANO
        return min(own, max(0.0, lacks) + max(0.0, grown))
