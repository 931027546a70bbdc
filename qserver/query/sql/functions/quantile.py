"""Quantiles of one numeric attribute, and its least and greatest value: places in order.

Which counts are measured for them depends on released answers (`qserver.inference.quantiles`). So a
text asks only for the number of values, and the counts follow from it. If all intervals must hold
at once, all counts below values are asked at once; `ByThresholds` evaluates them as
`qserver.inference.quantiles.quantile` does.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate

from qserver.query.linear_query import LinearQuery
from qserver.query.sql.functions.function_of_sums import (
    STATED_COUNT,
    Combination,
    Combined,
    FunctionOfSums,
    KnownPart,
    Order,
)
from qserver.query.sql.functions.thresholds import RECORD, Levels, QuantileOf

DAYS_SAID = "MIN and MAX of days are numbers of days: 0 is 1970-01-01."
MOST_THRESHOLDS = 128
"""Most that are asked at once; of an attribute with more bins some are left out."""
_STATED_SHARE = Fraction(1, 20)


@dataclass(frozen=True)
class Quantile(FunctionOfSums):
    """A quantile, or the least or the greatest value, as a function of the number of values."""

    of: QuantileOf

    @property
    def has_steps(self) -> bool:
        """Whether WITHIN is about the value."""
        return self.of.has_steps

    @property
    def stated_half_width(self) -> Fraction:
        """A twentieth of the public range; for an extreme a count's half-width."""
        if self.of.is_extreme:
            return STATED_COUNT
        return (self.of.bins.highs[-1] - self.of.bins.lows[0]) * _STATED_SHARE or Fraction(1)

    @property
    def order(self) -> Order:
        """The quantile alone."""
        return Order(((Fraction(1), 0, self.of),))

    def value(self, _parts: Sequence[KnownPart]) -> Combination:
        """All possible values: the number of values does not determine it."""
        return Combination(None, float(self.of.bins.lows[0]), float(self.of.bins.highs[-1]))

    def at_once(
        self, base: LinearQuery, most: int
    ) -> tuple[tuple[LinearQuery, ...], FunctionOfSums]:
        """The quantile by at most this number of simultaneous counts, and these counts."""
        of, stops = self.of, even_stops(self.of.n_bins, most)
        lows = tuple(of.bins.lows[i] for i in (0, *stops[:-1]))
        highs = tuple(of.bins.highs[i - 1] for i in stops)
        if of.p == 1:
            # Behind the last bin there is no value; from the first one on are all.
            stops = [0, *stops[:-1]]
        return tuple(of.threshold(base, stop) for stop in stops), ByThresholds(of.p, lows, highs)


def is_day(cell: object) -> bool:
    """Whether a cell is the least or the greatest of some days."""
    if not isinstance(cell, Combined):
        return False
    return isinstance(cell.function, Quantile) and cell.function.of.is_day


@dataclass(frozen=True)
class ByThresholds(FunctionOfSums):
    """The p-quantile by simultaneous counts D at all thresholds.

    Args:
        p: in [0, 1].
        lows, highs: of the values between thresholds, the least and the greatest. The first
            threshold is behind the first of them; for the greatest value it is before.
    """

    p: Fraction
    lows: tuple[Fraction, ...]
    highs: tuple[Fraction, ...]

    @property
    def has_steps(self) -> bool:
        """Whether WITHIN is about the value."""
        return 0 < self.p < 1

    @property
    def stated_half_width(self) -> Fraction:
        """A twentieth of the public range; for an extreme a count's half-width."""
        if not self.has_steps:
            return STATED_COUNT
        return (self.highs[-1] - self.lows[0]) * _STATED_SHARE or Fraction(1)

    def widths(self, half_width: float, base: float) -> tuple[float, ...]:
        """Half-widths for `base` records spread evenly over the public range."""
        if not self.has_steps:
            return (half_width,) * len(self.lows)
        span = float(self.highs[-1] - self.lows[0]) or 1.0
        share = min(half_width / span, 1.0)
        return (max(share * base / 2.0, RECORD),) * len(self.lows)

    def value(self, parts: Sequence[KnownPart]) -> Combination:
        """The quantile and its interval; an extreme is the end that a record surely reaches."""
        levels, n = Levels.reached(float(self.p)), len(parts)
        known = [*parts, _BEYOND] if self.p == 1 else [_BEFORE, *parts]
        first = next((i for i in range(n) if known[i + 1].high >= levels.below), n - 1)
        last = next((i for i in reversed(range(n)) if known[i].low <= levels.above), 0)
        first, last = min(first, last), max(first, last)
        low, high = float(self.lows[first]), float(self.highs[last])
        if self.p == 0:
            return Combination(high if known[-1].low > 0.0 else None, low, high)
        if self.p == 1:
            return Combination(low if known[0].high < 0.0 else None, low, high)
        rising = list(accumulate((d.estimate for d in parts), max))
        at = min(max(bisect_left(rising, 0.0), first), last)
        return Combination(float((self.lows[at] + self.highs[at]) / 2), low, high)


_BEFORE = KnownPart(-math.inf, -math.inf, -math.inf)
_BEYOND = KnownPart(math.inf, math.inf, math.inf)
"""What is sure of D before the first value, and behind the last."""


def even_stops(n: int, most: int) -> list[int]:
    """Ends of the parts of n values: all values, or `most` nearly even parts."""
    k = max(1, min(n, most))
    return list(accumulate(n // k + (i < n % k) for i in range(k)))
