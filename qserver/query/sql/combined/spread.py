"""Variances and standard deviations, from a count, a sum and a sum of squares.

The three sums have intervals of confidence 1 - (1 - c) / 3 each, so all of them hold at once with
confidence c, for any dependence of their errors: the sums may come from the same noise, or not. The
interval is what `qserver.query.sql.combined.moments` finds possible with all three. So it holds
whenever they do, without a normal law and without linearisation.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from qserver.query.sql.combined.function import Combination, Fitted, KnownPart
from qserver.query.sql.combined.moments import (
    outward,
    root_range,
    sample_factors,
    variance_range,
)

_PARTS = 3
_STATED_SHARE = Fraction(1, 20)
_SAMPLE_ROOT = Fraction(3, 2)
_LEAST_SHARE = 0.125
"""Deviations below this part of the radius are measured no more exactly than one of this size."""
# To first order V errs by (dQ + 2 r dS + 1.5 r^2 dN) / N at most, wherever the mean lies. These
# half-widths, in units of r, 1 and 1 / r, keep that in balance with what a record weighs in each.
_BALANCE = (math.sqrt(0.5), math.sqrt(0.5), math.sqrt(2.0 / 3.0))
_BALANCED_ERROR = _BALANCE[0] + 2.0 * _BALANCE[1] + 1.5 * _BALANCE[2]


@dataclass(frozen=True)
class Spread:
    """The variance of a number, from N, S and Q, or its square root.

    Args:
        radius: half of the public range.
        is_root: whether it is the standard deviation.
        is_sample: whether it divides by N - 1.
    """

    radius: Fraction
    is_root: bool
    is_sample: bool

    has_steps = True
    has_base = True
    marks = (None, None, None)

    @property
    def stated_half_width(self) -> Fraction:
        """A twentieth of the public range, from zero to the radius or its square."""
        return (self.radius if self.is_root else self.radius**2) * _STATED_SHARE or Fraction(1)

    def error(self, of_value: Fraction) -> Fraction:
        """How far it is at most from that of the bins' middles, `of_value` from each value.

        The deviation of a sum is at most the sum of the deviations, and that of the distances is
        at most the greatest of them. A deviation is at most the radius. With N - 1 it is at most
        the root of 2 times as much, or 3 / 2.
        """
        error = of_value * _SAMPLE_ROOT if self.is_sample else of_value
        most = self.radius * _SAMPLE_ROOT if self.is_sample else self.radius
        return error if self.is_root else error * 2 * most

    def part_confidence(self, confidence: float) -> float:
        """Each sum may miss with a third of the value's chance."""
        return 1 - (1 - confidence) / _PARTS

    def widths(self, half_width: float, base: float, /) -> tuple[float, ...]:
        """What suffices for `base` records, to first order, but for a very small deviation."""
        radius = float(self.radius) or 1.0
        wanted = half_width
        if self.is_root:
            wanted *= 2.0 * max(half_width, radius * _LEAST_SHARE)
        unit = min(wanted, radius**2 / 2.0) * base / (radius * _BALANCED_ERROR)
        of_sum, of_squares, of_count = _BALANCE[1], _BALANCE[0] * radius, _BALANCE[2] / radius
        return (of_count * unit, of_sum * unit, of_squares * unit)

    def records(self, parts: Sequence[KnownPart]) -> KnownPart:
        """The first of the sums."""
        return parts[0]

    def value(self, parts: Sequence[KnownPart]) -> Combination:
        """The value of the estimates, and all that the three intervals allow."""
        n, s, q = parts
        found = variance_range(n, s, q, self.radius)
        if self.is_sample:
            found = found.times(sample_factors(n))
        low, high = root_range(found) if self.is_root else outward(found)
        estimate = self._estimate(n.estimate, s.estimate, q.estimate)
        if estimate is not None:
            estimate = min(max(estimate, low), high)
        return Combination(estimate, low, high)

    def fitted(self, _most: int, /) -> Fitted | None:
        """It needs all three."""
        return None

    def _estimate(self, n: float, s: float, q: float) -> float | None:
        """None with too few records."""
        divisor = n - 1.0 if self.is_sample else n
        if not divisor > 0.0:
            return None
        squares = max(q + n * float(self.radius) ** 2 / 2.0 - s * s / n, 0.0)
        return math.sqrt(squares / divisor) if self.is_root else squares / divisor
