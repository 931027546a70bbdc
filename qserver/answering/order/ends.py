"""The interval of a number that is told by places in order."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True)
class Ends:
    """Both ends, and a value between that is given; None where nothing more is known."""

    low: Fraction
    middle: Fraction | None
    high: Fraction
