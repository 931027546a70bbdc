"""Quantiles of one numeric attribute, which follow from the counts below its values.

Which of these counts are measured depends on released answers (`qserver.inference.order`). So a
text asks for the number of values alone, and the counts are made of it. Where all intervals must
hold at once, all counts are asked at once.

For a threshold v let D(v) be the number of values up to v less the part p of all values. It rises
with v, and its last one is (1 - p) N. All usual definitions of the p-quantile agree on this:

    a <= quantile <= b,   D(a) >= -1,   D(b - 1) <= 1,

where a and b are values of the data, and b - 1 the threshold before b: the definitions differ by
less than one record. So a and b are fixed before any noise is drawn. The interval goes from the
least v at which the upper end of D(v) is at least -1 to the greatest v at which the lower end of
D(v - 1) is at most 1. It begins above a only if the upper end of D(a) is too low, and it ends below
b only if the lower end of D(b - 1) is too high. Each happens with half of the miss probability of
one interval, so the quantile's interval holds with the confidence of the intervals of the D(v), one
by one. They need not hold all at once.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate

from qserver.query.asking.marks import Marks
from qserver.query.linear import LinearQuery
from qserver.query.sql.combined.function import (
    Combination,
    Fitted,
    FunctionOfSums,
    KnownPart,
    Order,
    Smooth,
)
from qserver.query.sql.combined.thresholds import QuantileOf

MOST_THRESHOLDS = 128
"""Most that are asked at once; of an attribute with more bins some are left out."""
_RECORD = 1.0
"""How far the definitions of a quantile are apart, in records."""
_STATED_SHARE = Fraction(1, 20)


@dataclass(frozen=True)
class Quantile:
    """A quantile, as a function of the number of values."""

    of: QuantileOf

    has_steps = True
    has_base = True
    marks: tuple[Marks | None, ...] = (None,)
    smooth: Smooth | None = None

    @property
    def stated_half_width(self) -> Fraction:
        """A twentieth of the public range."""
        return (self.of.highs[-1] - self.of.lows[0]) * _STATED_SHARE or Fraction(1)

    @property
    def order(self) -> Order:
        """The quantile alone."""
        return Order(((Fraction(1), 0, self.of),))

    def value(self, _parts: Sequence[KnownPart]) -> Combination:
        """All that is possible: how many values there are does not tell it."""
        return Combination(None, float(self.of.lows[0]), float(self.of.highs[-1]))

    def fitted(self, _most: int, /) -> Fitted | None:
        """It needs the one."""
        return None

    def at_once(
        self, base: LinearQuery, most: int
    ) -> tuple[tuple[LinearQuery, ...], FunctionOfSums]:
        """The same by counts that are asked at once, and these: at most so many."""
        of, stops = self.of, even_stops(self.of.n_bins, most)
        queries = tuple(of.threshold(base, stop) for stop in stops)
        lows = tuple(of.lows[i] for i in (0, *stops[:-1]))
        return queries, ByThresholds(of.p, lows, tuple(of.highs[i - 1] for i in stops))


@dataclass(frozen=True)
class ByThresholds:
    """The p-quantile by the counts D at thresholds, all of which are asked at once.

    Args:
        p: in (0, 1).
        lows, highs: per threshold the least and the greatest value since the threshold before.
    """

    p: Fraction
    lows: tuple[Fraction, ...]
    highs: tuple[Fraction, ...]

    has_steps = True
    has_base = True
    smooth: Smooth | None = None
    order: Order | None = None

    @property
    def marks(self) -> tuple[Marks, ...]:
        """Where a record more or less decides."""
        return (Marks(-_RECORD, _RECORD),) * len(self.lows)

    @property
    def stated_half_width(self) -> Fraction:
        """A twentieth of the public range."""
        return (self.highs[-1] - self.lows[0]) * _STATED_SHARE or Fraction(1)

    def part_confidence(self, confidence: float) -> float:
        """That of the value: only two of the intervals can make it miss, each at one end."""
        return confidence

    def widths(self, half_width: float, base: float, /) -> tuple[float, ...]:
        """As exactly as `base` records need that are spread evenly over the public range."""
        span = float(self.highs[-1] - self.lows[0]) or 1.0
        share = min(half_width / span, 1.0)
        return (max(share * base / 2.0, _RECORD),) * len(self.lows)

    def records(self, parts: Sequence[KnownPart]) -> KnownPart:
        """The last threshold counts 1 - p of all values."""
        last, rest = parts[-1], float(1 - self.p)
        return KnownPart(last.estimate / rest, last.low / rest, last.high / rest)

    def value(self, parts: Sequence[KnownPart]) -> Combination:
        """The quantile: its interval need not hold its estimate's bin alone."""
        places = bracket(parts, reached=-_RECORD, not_yet=_RECORD)
        rising = list(accumulate((d.estimate for d in parts), max))
        at = min(max(bisect_left(rising, 0.0), places.first), places.last)
        middle = (self.lows[at] + self.highs[at]) / 2
        low, high = self.lows[places.first], self.highs[places.last]
        return Combination(float(middle), float(low), float(high))

    def fitted(self, _most: int, /) -> Fitted | None:
        """It needs them all."""
        return None


@dataclass(frozen=True)
class Bracket:
    """The first and the last of the thresholds between which something lies."""

    first: int
    last: int


def bracket(parts: Sequence[KnownPart], *, reached: float, not_yet: float) -> Bracket:
    """From the first threshold that may be `reached` to the last before which it may be `not_yet`.

    It misses thresholds a <= b with D(a) >= reached and D(b - 1) <= not_yet only if the upper end
    of D(a) or the lower end of D(b - 1) is wrong.
    """
    last = len(parts) - 1
    first = next((i for i, d in enumerate(parts) if d.high >= reached), last)
    final = next((i for i in range(last, 0, -1) if parts[i - 1].low <= not_yet), 0)
    return Bracket(min(first, final), max(first, final))


def even_stops(n: int, most: int) -> list[int]:
    """Where the parts of n values end: all of them, or `most` parts, as even as can be."""
    k = max(1, min(n, most))
    return list(accumulate(n // k + (i < n % k) for i in range(k)))
