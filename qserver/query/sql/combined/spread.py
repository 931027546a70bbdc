"""Variances and standard deviations, from a count, a sum and a sum of squares.

Their interval follows from draws of the errors of these. Where the intervals of the three sums must
hold at once, it is what `qserver.query.sql.combined.moments` finds possible with all three.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from qserver.query.sql.combined.moments import (
    outward,
    root_range,
    sample_factors,
    variance_range,
)
from qserver.query.sql.functions.function import Combination, KnownPart, Order, Smooth

_STATED_SHARE = Fraction(1, 20)
_SAMPLE_ROOT = Fraction(3, 2)


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
    order: Order | None = None

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

    @property
    def smooth(self) -> Smooth:
        """The value; without one where the sums allow no number of records, or no deviation."""
        # Of a sample it is at most twice as much: that of two records.
        most = float(self.radius**2 * (2 if self.is_sample else 1))
        return Smooth(self._values, 0.0, math.sqrt(most) if self.is_root else most)

    def _values(self, parts: NDArray[np.float64]) -> NDArray[np.float64]:
        n, s, q = parts
        divisor = n - 1.0 if self.is_sample else n
        with np.errstate(all="ignore"):
            found = (q + n * float(self.radius) ** 2 / 2.0 - s * s / n) / divisor
            found = np.sqrt(found) if self.is_root else found
        return np.where(divisor > 0.0, found, np.nan)

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

    def _estimate(self, n: float, s: float, q: float) -> float | None:
        """None with too few records."""
        divisor = n - 1.0 if self.is_sample else n
        if not divisor > 0.0:
            return None
        squares = max(q + n * float(self.radius) ** 2 / 2.0 - s * s / n, 0.0)
        return math.sqrt(squares / divisor) if self.is_root else squares / divisor
