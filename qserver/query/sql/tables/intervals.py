"""Intervals of cells: of quotients from those of their parts, and of numbers that are moved."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from qserver.query.linear import LinearQuery


@dataclass(frozen=True)
class Centred:
    """A quotient as middle + part / denominator, with part / denominator within +-radius.

    Args:
        is_bounded: whether the radius is a bound. Otherwise it is a guess, and the interval may be
            longer than asked.
    """

    middle: Fraction
    radius: Fraction
    part: LinearQuery
    denominator: LinearQuery
    is_bounded: bool


@dataclass(frozen=True)
class CellInterval:
    """The interval of a value; an end of None is open."""

    low: float | None
    high: float | None


def quotient_interval(
    part: CellInterval, denominator: CellInterval, shape: Centred
) -> CellInterval:
    """All values of middle + n / d with n in `part` and d in `denominator`, d > 0.

    The whole line if d may be zero or have either sign. It is clipped to the public bounds, if
    any; ends are rounded outward.
    """
    ends = _quotients(part, denominator)
    if shape.is_bounded:
        inside = _clipped(ends, shape.radius)
        # It is empty only if an interval missed; then only the bounds are sure.
        ends = inside if inside is not None else (-shape.radius, shape.radius)
    low = None if ends[0] is None else _rounded(ends[0] + shape.middle, -math.inf)
    high = None if ends[1] is None else _rounded(ends[1] + shape.middle, math.inf)
    return CellInterval(low, high)


def shifted_interval(
    low: float, high: float, shape: Centred, *, within: CellInterval
) -> CellInterval:
    """The quotient's interval from that of its part about the middle, no longer than `within`."""
    ends = (
        _rounded(Fraction(low) + shape.middle, -math.inf),
        _rounded(Fraction(high) + shape.middle, math.inf),
    )
    return CellInterval(
        ends[0] if within.low is None else max(ends[0], within.low),
        ends[1] if within.high is None else min(ends[1], within.high),
    )


_Ends = tuple[Fraction | None, Fraction | None]


def _quotients(part: CellInterval, denominator: CellInterval) -> _Ends:
    n1, n2, d1, d2 = map(_fraction, (part.low, part.high, denominator.low, denominator.high))
    if d2 is not None and d2 < 0:
        n1, n2 = (None if n2 is None else -n2), (None if n1 is None else -n1)
        d1, d2 = -d2, (None if d1 is None else -d1)
    if d1 is None or d1 <= 0:
        return None, None
    far = Fraction(0) if d2 is None else 1 / d2
    low = None if n1 is None else n1 * (1 / d1 if n1 < 0 else far)
    high = None if n2 is None else n2 * (1 / d1 if n2 > 0 else far)
    return low, high


def _clipped(ends: _Ends, radius: Fraction) -> _Ends | None:
    low = -radius if ends[0] is None else max(ends[0], -radius)
    high = radius if ends[1] is None else min(ends[1], radius)
    return (low, high) if low <= high else None


def _fraction(value: float | None) -> Fraction | None:
    return None if value is None or math.isinf(value) else Fraction(value)


def _rounded(value: Fraction, towards: float) -> float:
    found = float(value)
    beyond = Fraction(found) > value if towards < 0 else Fraction(found) < value
    return math.nextafter(found, towards) if beyond else found


def moved(interval: CellInterval, by: float) -> CellInterval:
    """An interval of a number, of that number plus another; ends are rounded outward."""
    if by == 0.0:
        return interval
    low, high = (None if end is None else Fraction(end) for end in (interval.low, interval.high))
    return CellInterval(
        None if low is None else _rounded(low + Fraction(by), -math.inf),
        None if high is None else _rounded(high + Fraction(by), math.inf),
    )
