"""Intervals of a quotient N / D, by the joint law of the errors of both estimates.

For any number t the estimate of N - t D has an error of known law, and N - t D = 0 at t = N / D.
Let h(t) be the half-width at confidence c of the error of N^ - t D^. The set of all t with
abs(N^ - t D^) <= h(t) then holds the quotient with probability c. This is the construction of
Fieller (1954), with the law of a sum of Laplace variables in place of the normal law.

Let the errors of N^ and D^ stay within a and b, with chances to miss that add up to 1 - c. By the
union bound h(t) <= a + abs(t) b, so the set lies within {t: abs(N^ - t D^) <= a + abs(t) b}, and
the search starts there. It removes only values that are proven to be outside: between two values
of t no weight of a noise is larger in size than at one of them, larger weights have a larger
half-width, and N^ - t D^ is linear.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from qserver.inference.arrays import FloatArray
from qserver.inference.rows.tail import safe_half_width

_ULP = 2.0**-52
_RESOLUTION = 2.0**-8
"""Least step of the search, as a part of the interval that it starts from."""


@dataclass(frozen=True)
class QuotientPart:
    """The numerator or the denominator.

    Args:
        estimate: unbiased estimate, in units of the query.
        loads: per measured row, its weight times the scale of its noise, in the same units.
        allowance: bound on the error that lattice and floats add, >= 0.
    """

    estimate: float
    loads: Mapping[int, float]
    allowance: float


@dataclass(frozen=True)
class JointParts:
    """Two estimates from noisy rows, some perhaps shared; noises of rows are independent."""

    over: QuotientPart
    under: QuotientPart

    def bounds(self, low: float, high: float, *, confidence: float) -> tuple[float, float] | None:
        """An interval that holds the quotient with `confidence`, within `low` to `high`.

        Args:
            low, high: finite; from the union bound, or bounds that always hold.
            confidence: 1 - delta.

        Returns:
            Ends around all of the set between `low` and `high`. Except for gaps of the set, the
            interval is too long by at most a part in 256. None if the set is empty.
        """
        search = _Tightening(*self._aligned(), self, confidence)
        first = search.left_out(low, high)
        last = search.left_out(high, first)
        return (first, last) if first < last else None

    def _aligned(self) -> tuple[FloatArray, FloatArray]:
        """The loads of both parts, row by row."""
        ids = sorted({*self.over.loads, *self.under.loads})
        return (
            np.array([self.over.loads.get(i, 0.0) for i in ids]),
            np.array([self.under.loads.get(i, 0.0) for i in ids]),
        )


@dataclass(frozen=True, eq=False)
class _Tightening:
    over: FloatArray
    under: FloatArray
    parts: JointParts
    confidence: float

    def left_out(self, start: float, stop: float) -> float:
        """The point up to which all values from `start` towards `stop` are outside the set."""
        # Halved first: the distance of two floats may be more than floats reach.
        at, step = start, stop / 2.0 - start / 2.0
        least = abs(step) * (2.0 * _RESOLUTION)
        while at != stop and abs(step) >= least:
            beyond = at + step
            if beyond == at:
                # Smaller steps than this are lost in rounding.
                return at
            # The last step may pass the end by rounding.
            beyond = min(beyond, stop) if step > 0 else max(beyond, stop)
            if self._is_outside(at, beyond):
                at = beyond
            else:
                step /= 2.0
        return at

    def _is_outside(self, a: float, b: float) -> bool:
        """Whether no t between `a` and `b` can belong to the set."""
        over, under = self.parts.over, self.parts.under
        ends = over.estimate - a * under.estimate, over.estimate - b * under.estimate
        far = max(abs(a), abs(b))
        rounding = 4.0 * _ULP * (abs(over.estimate) + far * abs(under.estimate))
        if ends[0] * ends[1] <= 0.0:
            return False
        loads = np.maximum(np.abs(self.over - a * self.under), np.abs(self.over - b * self.under))
        loads *= 1.0 + 8.0 * _ULP
        loads += 4.0 * _ULP * (np.abs(self.over) + far * np.abs(self.under))
        allowance = over.allowance + far * under.allowance + rounding
        noise = safe_half_width(loads, self.confidence)
        return min(map(abs, ends)) > noise + math.nextafter(allowance, math.inf)
