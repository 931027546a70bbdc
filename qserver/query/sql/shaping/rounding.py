"""Numbers to so many digits, and intervals rounded outward."""

from __future__ import annotations

import math
from fractions import Fraction

MOST_DIGITS = 12


def rounded(value: float | None, digits: int) -> float | None:
    """A number to so many digits, a half away from below; None and infinity stay."""
    return _at(value, digits, Fraction(1, 2))


def rounded_down(value: float | None, digits: int) -> float | None:
    """The low end of an interval: never above it."""
    return _at(value, digits, Fraction(0))


def rounded_up(value: float | None, digits: int) -> float | None:
    """The high end of an interval: never below it."""
    found = _at(None if value is None else -value, digits, Fraction(0))
    return None if found is None else -found


def _at(value: float | None, digits: int, more: Fraction) -> float | None:
    if value is None or not math.isfinite(value):
        return value
    scale = Fraction(10) ** digits
    # The nearest float of a decimal below a float is not above that float.
    return float(math.floor(Fraction(value) * scale + more) / scale)
