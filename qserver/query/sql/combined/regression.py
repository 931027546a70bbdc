"""Covariances, and the line of least squares, from the six sums of a correlation.

With x and y less the middles of their public ranges, C = P / N - Sx Sy / N^2 and V the variance of
x: the slope is C / V, and the line goes through the means. Of attributes in which each bin is one
value.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from qserver.query.sql.combined.moments import covariance_range, of_both
from qserver.query.sql.functions.function import Combination, KnownPart, Order, Smooth

Kind = Literal["covar_pop", "covar_samp", "slope", "intercept", "r2"]
_STATED = Fraction(1, 20)
FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Regression:
    """A number that the sums N, Sx, Qx, Sy, Qy and P tell.

    Args:
        middles, radii: of the public ranges of x and y.
    """

    kind: Kind
    middles: tuple[Fraction, Fraction]
    radii: tuple[Fraction, Fraction]

    has_steps = True
    order: Order | None = None

    @property
    def stated_half_width(self) -> Fraction:
        """A twentieth of the public range, or of what the ranges of both give for a line."""
        x, y = self.radii
        wide = {"r2": Fraction(1), "slope": 2 * y / x, "intercept": 2 * y}
        return wide.get(self.kind, 2 * x * y) * _STATED or _STATED

    @property
    def smooth(self) -> Smooth:
        """The number; without a value where x, and for r2 y, does not vary."""
        low, high = self._ends
        return Smooth(self._values, low, high)

    @property
    def _ends(self) -> tuple[float, float]:
        if self.kind == "r2":
            return 0.0, 1.0
        if self.kind == "covar_pop":
            most = float(self.radii[0] * self.radii[1])
            return -most, most
        return -math.inf, math.inf

    def _values(self, parts: FloatArray) -> FloatArray:
        n, sx, _, sy, _, _ = parts
        at_x, at_y = map(float, self.middles)
        with np.errstate(all="ignore"):
            both, first, second = of_both(parts, self.radii)
            is_told = n > 0.0
            if self.kind == "covar_samp":
                both, is_told = both * n / (n - 1.0), n > 1.0
            elif self.kind != "covar_pop":
                is_told = is_told & (first > 0.0)
            found = both
            if self.kind in ("slope", "intercept"):
                found = both / first
            if self.kind == "intercept":
                found = at_y + sy / n - found * (at_x + sx / n)
            if self.kind == "r2":
                found, is_told = both**2 / (first * second), is_told & (second > 0.0)
        return np.where(is_told & np.isfinite(found), found, np.nan)

    def value(self, parts: Sequence[KnownPart]) -> Combination:
        """The number of the estimates; of a covariance all that the six intervals allow."""
        low, high = self._ends
        found = float(self._values(np.array([[part.estimate] for part in parts]))[0])
        if self.kind == "covar_pop":
            n, sx, _, sy, _, p = parts
            ends = covariance_range(n, sx, sy, p, self.radii[0] * self.radii[1])
            low = math.nextafter(float(ends.low), -math.inf)
            high = math.nextafter(float(ends.high), math.inf)
        estimate = min(max(found, low), high) if math.isfinite(found) else None
        return Combination(estimate, low, high)
