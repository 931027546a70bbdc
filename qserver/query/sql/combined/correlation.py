"""The correlation of two numbers, from six sums over the records that have both.

Of N, S and Q of either number, as `qserver.query.sql.combined.moments` has them, and P, the sum of
the products of both less their middles. Each has an interval of confidence 1 - (1 - c) / 6, so all
hold at once with confidence c, for any dependence of their errors. The interval holds the quotient
of every covariance and all deviations that they allow, and beyond that what bins hide: a bound on
that is not public, since it depends on the deviations.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from qserver.query.sql.combined.function import Combination, Fitted, KnownPart
from qserver.query.sql.combined.moments import covariance_range, root_range, variance_range
from qserver.query.sql.tables.intervals import PublicBounds

_PARTS = 6
_STATED = Fraction(1, 10)
# In units of both radii, to first order, where both deviations are 1/4 and both means 1/2: what an
# error of each sum does to the correlation, and what a record weighs in it at most.
_EFFECTS = (20.0, 16.0, 8.0, 16.0, 8.0, 16.0)
_WEIGHTS = (1.0, 1.0, 0.5, 1.0, 0.5, 1.0)
_BALANCE = tuple(math.sqrt(w / e) for w, e in zip(_WEIGHTS, _EFFECTS, strict=True))
_BALANCED_ERROR = sum(e * b for e, b in zip(_EFFECTS, _BALANCE, strict=True))


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
    has_base = True
    marks = (None,) * 6

    @property
    def stated_half_width(self) -> Fraction:
        """A twentieth of what a correlation may be."""
        return _STATED

    def part_confidence(self, confidence: float) -> float:
        """Each sum may miss with a sixth of the value's chance."""
        return 1 - (1 - confidence) / _PARTS

    def widths(self, half_width: float, base: float, /) -> tuple[float, ...]:
        """What `base` records need, where means and deviations are not at their worst."""
        x, y = (float(radius) or 1.0 for radius in self.radii)
        unit = min(half_width, 1.0) * base / _BALANCED_ERROR
        units = (1.0, x, x * x, y, y * y, x * y)
        return tuple(b * u * unit for b, u in zip(_BALANCE, units, strict=True))

    def records(self, parts: Sequence[KnownPart]) -> KnownPart:
        """The first of the sums."""
        return parts[0]

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

    def fitted(self, _most: int, /) -> Fitted | None:
        """It needs all six."""
        return None

    def _estimate(self, parts: Sequence[KnownPart], low: float, high: float) -> float | None:
        """None where an estimated deviation is not above zero."""
        n, sx, qx, sy, qy, p = (part.estimate for part in parts)
        if not n > 0.0:
            return None
        x, y = (float(radius) for radius in self.radii)
        first = qx / n + x * x / 2 - (sx / n) ** 2
        second = qy / n + y * y / 2 - (sy / n) ** 2
        if not (first > 0.0 and second > 0.0):
            return None
        found = (p / n - sx * sy / n**2) / math.sqrt(first * second)
        return min(max(found, low), high)


_ROUNDING = 1e-9


def _quotient(over: float, least: float, most: float) -> float:
    """The least quotient of a number and one between two that are not negative."""
    under = least if over < 0.0 else most
    return over / under if under > 0.0 else -1.0
