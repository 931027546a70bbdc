"""Simple rational numbers close to floats: guesses that an exact test must confirm."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from qserver.inference.rows.axis_vectors import FloatArray

_MAX_DENOMINATOR = 1 << 20
_MAX_STEP = 1000
_MAX_STEPS = 6
_CLOSE = 1e-5
_MAX_NUMERATOR = 2.0**50


@dataclass(frozen=True)
class RationalWeights:
    """Weights `numerators` / `denominator`; the numerators are whole floats below 2^50."""

    numerators: FloatArray
    denominator: int

    @property
    def values(self) -> FloatArray:
        """The weights as floats, each within half an ulp."""
        return self.numerators / self.denominator


def simple_rationals(values: FloatArray) -> RationalWeights | None:
    """Rationals with one small denominator close to `values`, or None if none is found."""
    denominator = 1
    for _ in range(_MAX_STEPS):
        scaled = values * denominator
        if np.abs(scaled).max(initial=0.0) > _MAX_NUMERATOR:
            return None
        rounded = np.rint(scaled)
        off = np.abs(scaled - rounded)
        if off.max(initial=0.0) <= _CLOSE:
            return RationalWeights(rounded + 0.0, denominator)
        worst = Fraction(float(scaled[int(off.argmax())]))
        denominator *= worst.limit_denominator(_MAX_STEP).denominator
        if denominator > _MAX_DENOMINATOR:
            return None
    return None
