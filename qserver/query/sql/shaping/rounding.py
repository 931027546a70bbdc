"""Rounded numbers, and intervals rounded outward."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

MOST_DIGITS = 12


@dataclass(frozen=True)
class Rounding:
    """The rounding of a number.

    Args:
        digits: after the point.
        how: ROUND, FLOOR, CEIL or TRUNC.
    """

    digits: int
    how: Literal["nearest", "down", "up", "cut"] = "nearest"

    def number(self, value: float | None) -> float | None:
        """The shown number; None and infinity stay."""
        if self.how == "nearest":
            return rounded(value, self.digits)
        goes_up = self.how == "up" or (self.how == "cut" and value is not None and value < 0)
        return (rounded_up if goes_up else rounded_down)(value, self.digits)

    def low(self, value: float | None) -> float | None:
        """The low end of an interval that holds the exact and the shown number.

        FLOOR, CEIL and TRUNC are monotone, so their interval holds the number that they make.
        """
        return rounded_down(value, self.digits) if self.how == "nearest" else self.number(value)

    def high(self, value: float | None) -> float | None:
        """The high end of an interval."""
        return rounded_up(value, self.digits) if self.how == "nearest" else self.number(value)


def rounded(value: float | None, digits: int) -> float | None:
    """A number rounded to digits, halves upwards; None and infinity stay."""
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
