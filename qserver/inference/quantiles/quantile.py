"""A quantile or an extreme of a numeric attribute, bracketed by counts at thresholds.

For a threshold v let D(v) be the number of values up to v less the part p of all values. It rises
with v, from -p N before the first value to (1 - p) N. All usual definitions of the p-quantile agree
on this:

    a <= quantile <= b,   D(a) >= -1,   D(b - 1) <= 1,

where a and b are values of the data, and b - 1 the threshold before b: the definitions differ by
less than one record. So a and b are fixed before any noise is drawn. Of the thresholds that history
knows, let a' be the first from a on, and b' the last before b. As D rises, D(a') >= -1 and D(b') <=
1. The interval goes from the threshold before the first one whose upper end is at least -1 to the
one after the last whose lower end is at most 1. It begins above a only if the upper end of D(a') is
too low, and ends below b only if the lower end of D(b') is too high. Each happens with half of the
miss probability. The other thresholds need not hold at the same time, however many. But an inexact
threshold does not override a far more exact one.

For p = 0, D(v) is the number of values up to v, and 0 before the least value a. The interval goes
from the first value of all to the one after the last threshold whose lower end is at most 0, and
misses a only as above, at that end. Up to there some record surely lies, and that value is
reported. No noisy count can tell whether one lies below it. For p = 1, -D(v) is the number of
values above v; the rest is mirrored.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from qserver.errors import RequirementError
from qserver.inference.arrays import FloatArray
from qserver.inference.law.number_in_steps import Asked
from qserver.query.sql.functions.thresholds import RECORD, Levels


@dataclass(frozen=True, eq=False)
class Quantile(Asked):
    """The p-quantile of values in bins; of an extreme, half_width is about counts.

    Args:
        p: in [0, 1]; 0 for the least value, and 1 for the greatest.
        lows, highs: per bin the least and the greatest value in it, rising, shape (n,).
    """

    p: float
    lows: FloatArray
    highs: FloatArray

    def __post_init__(self) -> None:
        if not 0.0 <= self.p <= 1.0:
            raise RequirementError("p", "lie in [0, 1]", self.p)
        super().__post_init__()

    @property
    def n_bins(self) -> int:
        """Number of bins."""
        return len(self.lows)

    @property
    def is_extreme(self) -> bool:
        """Whether it is the least or the greatest value."""
        return self.p in (0.0, 1.0)

    @property
    def levels(self) -> Levels:
        """Sufficient levels of D; an extreme of few records may be missed."""
        return Levels.sought(self.p, self.most_beyond)

    @property
    def most_beyond(self) -> float:
        """Bound on the records beyond a reported extreme."""
        return max(2.0 * self.half_width, RECORD)

    @cached_property
    def reach(self) -> FloatArray:
        """Per bin the first bin beyond an asked interval that starts there.

        No interval is shorter than a bin.
        """
        one_bin = np.arange(1.0, self.n_bins + 1.0)
        if self.is_extreme:
            return one_bin
        room = 2.0 * self.half_width * (1.0 + _ROUNDING)
        as_asked = np.searchsorted(self.highs, self.lows + room, side="right")
        return np.where(as_asked > one_bin, as_asked, one_bin)

    @property
    def is_bounded(self) -> bool:
        """Whether the public range alone is as short as asked."""
        return not self.is_extreme and bool(self.reach[0] >= self.n_bins)


_ROUNDING = 1e-9


_AS_EXACT = 2.0
"""Thresholds count as about as exact if their intervals are up to so many times as long."""
BoolArray = np.ndarray[tuple[int, ...], np.dtype[np.bool_]]


@dataclass(frozen=True, eq=False)
class Thresholds:
    """D by threshold, from history; arrays of shape (k,).

    Args:
        stops: a threshold is the number of bins up to it; rising, from 0 to all of them.
        means: estimates of D.
        lows, highs: ends of its interval, each missed with half the number's miss probability.
    """

    stops: tuple[int, ...]
    means: FloatArray
    lows: FloatArray
    highs: FloatArray

    @property
    def is_whole(self) -> bool:
        """Whether only the number of records is known."""
        return len(self.stops) == 2

    @cached_property
    def rising(self) -> FloatArray:
        """Monotone estimates of D."""
        up = np.maximum.accumulate(self.means)
        down = np.minimum.accumulate(self.means[::-1])[::-1]
        return np.asarray((up + down) / 2.0)

    def bracket(self, levels: Levels) -> Bracket:
        """The bins that the number may lie in."""
        room, n = self.highs - self.lows, len(self.stops) - 1
        not_below, not_above = self.highs >= levels.below, self.lows <= levels.above
        if levels.hold_at_ends:
            # What D is at both ends is sure: noise alone may say the contrary.
            not_below[[0, n]], not_above[[0, n]] = (False, True), (True, False)
        below = [i for i in _places(~not_below) if not _vetoed(i, not_below[:i], room[:i], room)]
        above = [i for i in _places(~not_above) if not _vetoed(i, not_above[i:], room[i:], room)]
        first, last = max(below, default=0), min(above, default=n)
        if levels.overlap and first >= last:
            return Bracket(self.stops[last] - 1, self.stops[last])
        return Bracket(self.stops[min(first, last)], self.stops[max(first, last)])

    def at(self, stops: FloatArray) -> FloatArray:
        """D at other thresholds, interpolated linearly."""
        return np.asarray(np.interp(stops, self.stops, self.rising))


def _places(chosen: BoolArray) -> list[int]:
    return [int(i) for i in np.flatnonzero(chosen)]


def _vetoed(i: int, others: BoolArray, their_room: FloatArray, room: FloatArray) -> bool:
    """Whether contrary thresholds are about as exact."""
    return bool((others & (their_room <= _AS_EXACT * room[i])).any())


@dataclass(frozen=True)
class Bracket:
    """The bins from `start` up to `stop`, exclusive."""

    start: int
    stop: int

    @property
    def n_bins(self) -> int:
        """Number of bins in it."""
        return self.stop - self.start


def crossing(known: Thresholds, level: float) -> float:
    """Place where D passes a level, interpolated linearly between thresholds."""
    rising = known.rising
    i = int(np.searchsorted(rising, level, side="left"))
    if i == 0:
        return float(known.stops[0])
    if i == len(rising):
        return float(known.stops[-1])
    low, high = float(rising[i - 1]), float(rising[i])
    part = (level - low) / (high - low) if high > low else 0.5
    return known.stops[i - 1] + part * (known.stops[i] - known.stops[i - 1])
