"""The correlation of two numbers, from six sums over the records that have both.

Of N, S and Q of either number, as `qserver.query.sql.combined.moments` has them, and P, the sum of
the products of both less their middles. Its interval follows from draws of the errors of these.
Where the intervals of the six sums must hold at once, it holds the quotient of every covariance and
all deviations that they allow. What bins hide is added: a bound on that is not public, since it
depends on the deviations.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from qserver.query.sql.combined.moments import covariance_range, of_both, root_range, variance_range
from qserver.query.sql.functions.function import Combination, KnownPart, Order, Smooth
from qserver.query.sql.tables.intervals import PublicBounds

_STATED = Fraction(1, 10)


@dataclass(frozen=True)
class Correlation:
    """The correlation, from N, S and Q of the first number, S and Q of the second, and P.

    Args:
        radii: half of the public range of each number.
        errors: most distance of a value from the middle of its bin, for each number.
    """

    radii: tuple[Fraction, Fraction]
    errors: tuple[Fraction, Fraction]

    has_steps = True
    order: Order | None = None

    @property
    def stated_half_width(self) -> Fraction:
        """A twentieth of what a correlation may be."""
        return _STATED

    @property
    def smooth(self) -> Smooth:
        """The correlation; without a value where one of the deviations is not above zero."""
        return Smooth(self._values, -1.0, 1.0, hides=any(self.errors))

    def _values(self, parts: NDArray[np.float64]) -> NDArray[np.float64]:
        with np.errstate(all="ignore"):
            both, first, second = of_both(parts, self.radii)
            found = both / np.sqrt(first * second)
        return np.where((parts[0] > 0.0) & (first > 0.0) & (second > 0.0), found, np.nan)

    def value(self, parts: Sequence[KnownPart]) -> Combination:
        """The correlation of the estimates, and all that the six intervals and the bins allow."""
        n, sx, qx, sy, qy, p = parts
        x, y = self.radii
        both = covariance_range(n, sx, sy, p, x * y)
        first = root_range(variance_range(n, sx, qx, x))
        second = root_range(variance_range(n, sy, qy, y))
        a, b = map(float, self.errors)
        off = a * second[1] + b * first[1] + a * b
        least = max(first[0] - a, 0.0) * max(second[0] - b, 0.0)
        most = (first[1] + a) * (second[1] + b)
        low = _quotient(float(both.low) - off, least, most)
        high = -_quotient(-float(both.high) - off, least, most)
        # Beyond all rounding of what is above.
        low, high = PublicBounds(-1.0, 1.0).cut(low - _ROUNDING, high + _ROUNDING)
        return Combination(self._estimate(parts, low, high), low, high)

    def _estimate(self, parts: Sequence[KnownPart], low: float, high: float) -> float | None:
        """None where an estimated deviation is not above zero."""
        found = float(self._values(np.array([[part.estimate] for part in parts]))[0])
        return min(max(found, low), high) if math.isfinite(found) else None


_ROUNDING = 1e-9


def _quotient(over: float, least: float, most: float) -> float:
    """The least quotient of a number and one between two that are not negative."""
    under = least if over < 0.0 else most
    return over / under if under > 0.0 else -1.0
