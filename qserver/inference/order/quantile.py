"""A quantile of a numeric attribute, or an extreme, and where it lies by counts at thresholds.

For a threshold v let D(v) be the number of values up to v less the part p of all values. It rises
with v, from -p N before the first value to (1 - p) N. All usual definitions of the p-quantile agree
on this:

    a <= quantile <= b,   D(a) >= -1,   D(b - 1) <= 1,

where a and b are values of the data, and b - 1 the threshold before b: the definitions differ by
less than one record. So a and b are fixed before any noise is drawn. Of the thresholds that history
knows, let a' be the first from a on, and b' the last before b. As D rises, D(a') >= -1 and
D(b') <= 1. The interval goes from the threshold before the first one whose upper end is at least -1
to the one after the last whose lower end is at most 1. It begins above a only if the upper end of
D(a') is too low, and ends below b only if the lower end of D(b') is too high. Each happens with
half of the miss probability. The other thresholds need not hold at the same time, however many.
But a threshold that is told far less exactly than another does not undo what that one says.

For p = 0, D(v) is the number of values up to v, and 0 before the least value a. The interval goes
from the first value of all to the one after the last threshold whose lower end is at most 0, and
misses a only as above, at that end. Up to there some record surely lies, and that is the value that
is given. Whether one lies below it no count with noise can tell. For p = 1, -D(v) is the number of
values behind v, and all is the same from the other end.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from qserver.errors import RequirementError
from qserver.inference.arrays import FloatArray
from qserver.inference.law.asked import Asked
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
        """How many bins there are."""
        return len(self.lows)

    @property
    def is_extreme(self) -> bool:
        """Whether it is the least or the greatest value."""
        return self.p in (0.0, 1.0)

    @property
    def levels(self) -> Levels:
        """What suffices of D: an extreme may be passed over that few records have."""
        return Levels.sought(self.p, self.most_beyond)

    @property
    def most_beyond(self) -> float:
        """Fewer records than these may lie beyond an extreme that is given."""
        return max(2.0 * self.half_width, RECORD)

    @cached_property
    def reach(self) -> FloatArray:
        """Per bin the first bin after those that an interval as asked may hold from there on."""
        if self.is_extreme:
            return np.arange(1.0, self.n_bins + 1.0)
        room = 2.0 * self.half_width * (1.0 + _ROUNDING)
        return np.searchsorted(self.highs, self.lows + room, side="right").astype(float)

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
    """What history says of D, by threshold; each number has shape (k,).

    Args:
        stops: a threshold is the number of bins up to it; rising, from 0 to all of them.
        means: estimates of D.
        lows, highs: the ends of its interval, each missed with half the probability that the
            number may miss with.
    """

    stops: tuple[int, ...]
    means: FloatArray
    lows: FloatArray
    highs: FloatArray

    @property
    def is_whole(self) -> bool:
        """Whether nothing is known but how many records there are."""
        return len(self.stops) == 2

    @cached_property
    def rising(self) -> FloatArray:
        """Estimates of D that never fall, as it does not."""
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
        """D at other thresholds, as if it rose evenly between those that are known."""
        return np.asarray(np.interp(stops, self.stops, self.rising))


def _places(chosen: BoolArray) -> list[int]:
    return [int(i) for i in np.flatnonzero(chosen)]


def _vetoed(i: int, others: BoolArray, their_room: FloatArray, room: FloatArray) -> bool:
    """Whether some others that say the contrary are about as exact."""
    return bool((others & (their_room <= _AS_EXACT * room[i])).any())


@dataclass(frozen=True)
class Bracket:
    """The bins from `start` to before `stop`."""

    start: int
    stop: int

    @property
    def n_bins(self) -> int:
        """How many these are."""
        return self.stop - self.start


def crossing(known: Thresholds, level: float) -> float:
    """Where D passes a level by its estimates, as if it rose evenly between thresholds."""
    rising = known.rising
    i = int(np.searchsorted(rising, level, side="left"))
    if i == 0:
        return float(known.stops[0])
    if i == len(rising):
        return float(known.stops[-1])
    low, high = float(rising[i - 1]), float(rising[i])
    part = (level - low) / (high - low) if high > low else 0.5
    return known.stops[i - 1] + part * (known.stops[i] - known.stops[i - 1])
