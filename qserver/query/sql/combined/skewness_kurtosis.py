"""Skewness and kurtosis: how a number leans to one side, and how heavy its tails are.

With y the value less the middle of its public range and r half of that, they follow from N and the
sums of u, u^2 - 1/2, u^3 and u^4 - 1/2, where u = y / r: from the third and the fourth moment about
the mean, by powers of the second. Of a sample they are corrected as in DuckDB and spreadsheets.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from qserver.query.sql.functions.function import Combination, KnownPart, Order, Smooth

Kind = Literal["skewness", "kurtosis", "kurtosis_pop"]
FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Standardised:
    """A number that these sums tell; where their intervals hold at once it has none."""

    kind: Kind

    has_steps = True
    order: Order | None = None
    stated_half_width = Fraction(1, 2)

    @property
    def smooth(self) -> Smooth:
        """The number; without a value where nothing varies, or of too few records."""
        return Smooth(self._values, *self._ends)

    @property
    def _ends(self) -> tuple[float, float]:
        return (-2.0 if self.kind == "kurtosis_pop" else -math.inf), math.inf

    def _values(self, parts: FloatArray) -> FloatArray:
        n, first, second, third, *rest = parts
        with np.errstate(all="ignore"):
            mean, square, cube = first / n, second / n + 0.5, third / n
            variance = square - mean**2
            if self.kind == "skewness":
                found = (cube - 3.0 * mean * square + 2.0 * mean**3) / variance**1.5
                found, least = found * np.sqrt(n * (n - 1.0)) / (n - 2.0), 2.0
            else:
                fourth = rest[0] / n + 0.5
                fourth = fourth - 4.0 * mean * cube + 6.0 * mean**2 * square - 3.0 * mean**4
                found, least = fourth / variance**2 - 3.0, 1.0
            if self.kind == "kurtosis":
                found = (n - 1.0) * ((n + 1.0) * found + 6.0) / ((n - 2.0) * (n - 3.0))
                least = 3.0
        return np.where((n > least) & (variance > 0.0) & np.isfinite(found), found, np.nan)

    def value(self, parts: Sequence[KnownPart]) -> Combination:
        """The number of the estimates, and all that is public of it."""
        low, high = self._ends
        found = float(self._values(np.array([[part.estimate] for part in parts]))[0])
        return Combination(max(found, low) if math.isfinite(found) else None, low, high)
