"""The number of groups that pass a test of their counts, with an interval for all groups at once.

A group surely passes if it passes for all counts in their intervals, and surely fails if it fails
for all. If all intervals hold, the number lies between the groups that surely pass and those that
may: each count may miss with its part of the number's miss probability. If the test compares one
count with a constant, only one end of the interval matters, which misses half as often. So each
count may then miss with twice the part.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from qserver.query.sql.functions.function_of_sums import (
    STATED_COUNT,
    Combination,
    FunctionOfSums,
    KnownPart,
    Order,
)
from qserver.query.sql.order_by import Compare, Every, Opposite, Test, sides_of

_STATED_SHARE = Fraction(1, 20)
LAST_LOOK = 0.85
"""Part of what the number may miss with that is left for the last look at each count. The looks
before have the rest."""
_LEAST_WIDTH = 0.5
"""Whole numbers are told apart by intervals that are this long to each side."""


@dataclass(frozen=True)
class Passing(FunctionOfSums):
    """The number of groups that pass, by the counts of each group in turn.

    Args:
        columns: columns of a group's counts.
        is_whole: per count, whether it is a whole number.
    """

    test: Test
    columns: tuple[int, ...]
    is_whole: tuple[bool, ...]
    n_groups: int

    @property
    def has_steps(self) -> bool:
        """Whether WITHIN is about the number of groups.

        Not if one record suffices: an empty group is almost never certain.
        """
        return self._scale > 1.0

    @property
    def stated_half_width(self) -> Fraction:
        """A twentieth of the groups; without steps a count's half-width."""
        if not self.has_steps:
            return STATED_COUNT
        return max(self.n_groups * _STATED_SHARE, Fraction(1, 2))

    @property
    def order(self) -> Order:
        """The number of these groups alone."""
        return Order(((Fraction(1), 0, self),))

    @property
    def n_counts(self) -> int:
        """Number of counts of all groups."""
        return self.n_groups * len(self.columns)

    def part_missed(self, missed: float) -> float:
        """Final miss probability of each count's interval, so that all groups are judged correctly.

        Args:
            missed: the number's miss probability.
        """
        last = LAST_LOOK * missed
        if _is_one_sided(self.test):
            return min(2.0 * last / self.n_groups, missed)
        return last / self.n_counts

    def width(self, half_width: float) -> float:
        """Half-width of each count, for groups spread up to twice the test's constant."""
        if not self.has_steps:
            return half_width
        most = max(half_width * self._scale / self.n_groups, _LEAST_WIDTH)
        return min(most, self._scale / 2.0)

    def value(self, parts: Sequence[KnownPart]) -> Combination:
        """Numbers of groups that pass by estimates, surely, and possibly.

        If one record suffices, the sure number is the estimate: by estimates half of the empty
        groups would pass.
        """
        judged = self.judged(parts)
        low, high = sum(one.surely for one in judged), sum(one.may for one in judged)
        estimate = sum(one.by_estimate for one in judged)
        estimate = min(max(estimate, low), high) if self.has_steps else low
        return Combination(float(estimate), float(low), float(high))

    def judged(self, parts: Sequence[KnownPart]) -> list[Judged]:
        """The judgement of each group by its counts."""
        size, found = len(self.columns), list[Judged]()
        for start in range(0, len(parts), size):
            group = {
                column: _whole(part) if is_whole else part
                for column, is_whole, part in zip(
                    self.columns, self.is_whole, parts[start : start + size], strict=True
                )
            }
            middles = {k: KnownPart(p.estimate, p.estimate, p.estimate) for k, p in group.items()}
            surely = not _may_fail(self.test, group)
            may = _may_hold(self.test, group)
            found.append(Judged(_may_hold(self.test, middles), surely, may))
        return found

    @property
    def _scale(self) -> float:
        return max((abs(float(c)) for c in _constants(self.test)), default=0.0)


@dataclass(frozen=True)
class Judged:
    """Whether a group passes: by its estimates, surely, and possibly."""

    by_estimate: bool
    surely: bool
    may: bool

    @property
    def is_open(self) -> bool:
        """Whether it may pass or fail."""
        return self.may and not self.surely


_Group = dict[int, KnownPart]


def columns_of(test: Test) -> tuple[int, ...]:
    """The columns that a test names, in order."""
    return tuple(sorted({side for side in sides_of(test) if isinstance(side, int)}))


def _constants(test: Test) -> list[Fraction]:
    return [side for side in sides_of(test) if isinstance(side, Fraction)]


def _is_one_sided(test: Test) -> bool:
    if isinstance(test, Every) and len(test.parts) == 1:
        return _is_one_sided(test.parts[0])
    if isinstance(test, Opposite):
        return _is_one_sided(test.of)
    is_compare = isinstance(test, Compare) and test.by not in ("=", "<>")
    return is_compare and len(columns_of(test)) == len(_constants(test)) == 1


def _may_hold(test: Test, group: _Group) -> bool:
    if isinstance(test, Compare):
        return _compared(test, group, holds=True)
    if isinstance(test, Every):
        return all(_may_hold(part, group) for part in test.parts)
    return _may_fail(test.of, group) if isinstance(test, Opposite) else False


def _may_fail(test: Test, group: _Group) -> bool:
    if isinstance(test, Compare):
        return _compared(test, group, holds=False)
    if isinstance(test, Every):
        return any(_may_fail(part, group) for part in test.parts)
    return _may_hold(test.of, group) if isinstance(test, Opposite) else True


def _compared(test: Compare, group: _Group, *, holds: bool) -> bool:
    """Whether numbers in the intervals can make a comparison hold, and fail."""
    one, other = (_side(side, group) for side in (test.left, test.right))
    if test.by in ("=", "<>"):
        if holds == (test.by == "="):
            return one.low <= other.high and other.low <= one.high
        return not one.low == one.high == other.low == other.high
    if test.by in ("<", "<="):
        one, other = other, one
    is_strict = test.by in ("<", ">")
    if holds:
        return one.high > other.low or (one.high == other.low and not is_strict)
    return one.low < other.high or (one.low == other.high and is_strict)


def _side(side: int | Fraction, group: _Group) -> KnownPart:
    if isinstance(side, Fraction):
        return KnownPart(float(side), float(side), float(side))
    return group[side]


def _whole(part: KnownPart) -> KnownPart:
    """The whole numbers of an interval; the interval itself if it holds none."""
    low = math.ceil(part.low) if math.isfinite(part.low) else part.low
    high = math.floor(part.high) if math.isfinite(part.high) else part.high
    middle = float(round(part.estimate))
    if low > high:
        low, high = part.low, part.high
    return KnownPart(middle, low, high)
