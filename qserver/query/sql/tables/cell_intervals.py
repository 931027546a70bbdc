"""Intervals of cells: of quotients, by public bounds, and of shifted numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Generic, TypeVar

import numpy as np

from qserver.query.class_grid import IntegerGrid, class_grid
from qserver.query.linear_query import LinearQuery
from qserver.query.sql.statement import Ratio


@dataclass(frozen=True)
class CellInterval:
    """The interval of a value; an end of None is open."""

    low: float | None
    high: float | None


_N = TypeVar("_N", float, Fraction)


@dataclass(frozen=True)
class PublicBounds(Generic[_N]):
    """The least and the greatest value that a number has for any data."""

    least: _N
    most: _N

    @property
    def whole(self) -> tuple[_N, _N]:
        """The whole range."""
        return self.least, self.most

    def cut(self, low: _N, high: _N) -> tuple[_N, _N]:
        """The interval from `low` to `high` cut to the bounds.

        It keeps at least half its length, within the bounds: noise may carry an interval over a
        bound, and the rest would be short by chance. An interval beyond a bound has missed; then
        only the bounds are sure.
        """
        if low > self.most or high < self.least:
            return self.whole
        return self.reaching((max(low, self.least), min(high, self.most)), (high - low) / 2)

    def reaching(self, inside: tuple[_N, _N], length: _N) -> tuple[_N, _N]:
        """An interval between the bounds, away from the bound that it ends at, to this length."""
        low, high = inside
        if high - low >= length:
            return inside
        if high >= self.most:
            return max(self.least, min(low, high - length)), high
        if low <= self.least:
            return low, min(self.most, max(high, low + length))
        return inside


@dataclass(frozen=True)
class Centred:
    """A quotient as middle + part / denominator.

    Args:
        bounds: of part / denominator; None if unknown.
    """

    middle: Fraction
    part: LinearQuery
    denominator: LinearQuery
    bounds: PublicBounds[Fraction] | None

    @property
    def width(self) -> Fraction | None:
        """Distance of the greatest value from the least; None without bounds."""
        return None if self.bounds is None else self.bounds.most - self.bounds.least


def quotient_interval(
    part: CellInterval,
    denominator: CellInterval,
    *,
    middle: Fraction,
    bounds: PublicBounds[Fraction] | None,
) -> CellInterval:
    """All values of middle + n / d with n in `part` and d in `denominator`, d > 0.

    The whole line if d may be zero or have either sign. Public bounds cut it, if there are any;
    ends are rounded outward.
    """
    low, high = _quotients(part, denominator)
    if bounds is not None:
        # Bounds are those of weighted averages, whose denominator is not negative.
        is_sure = denominator.low is not None and denominator.low > 0.0
        if is_sure and low is not None and high is not None:
            low, high = bounds.cut(low, high)
        else:
            low, high = bounds.whole
    return CellInterval(
        None if low is None else outward(low + middle, -math.inf),
        None if high is None else outward(high + middle, math.inf),
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


def _fraction(value: float | None) -> Fraction | None:
    return None if value is None or math.isinf(value) else Fraction(value)


def outward(value: Fraction, towards: float) -> float:
    """The nearest float on one side of a number."""
    found = float(value)
    beyond = Fraction(found) > value if towards < 0 else Fraction(found) < value
    return math.nextafter(found, towards) if beyond else found


def moved(interval: CellInterval, by: float | None) -> CellInterval:
    """The interval of a number plus another; ends are rounded outward.

    Args:
        by: the other number; None is NULL, and opens both ends.
    """
    if by is None:
        return CellInterval(None, None)
    if by == 0.0:
        return interval
    low, high = (None if end is None else Fraction(end) for end in (interval.low, interval.high))
    return CellInterval(
        None if low is None else outward(low + Fraction(by), -math.inf),
        None if high is None else outward(high + Fraction(by), math.inf),
    )


# Bounds of a quotient are searched on grids of at most this many cells.
_MAX_GRID = 1 << 16
_MIDDLES = 1_000
"""Numbers that a part is measured about have at most this denominator."""


@lru_cache(maxsize=1_024)
def centred(cell: Ratio, *, about_zero: bool = False) -> Centred:
    """The quotient about the cheapest number, or about 0 on request.

    That is the middle of its bounds, 0, or the quotient if all kinds of records were equally
    frequent.
    """
    low, high, middle = cell.low, cell.high, Fraction(0)
    if low is None or high is None:
        kinds = _Kinds.of(cell.numerator, cell.denominator)
        low, high = (None, None) if kinds is None else kinds.bounds or (None, None)
        middle = Fraction(0) if kinds is None else kinds.middle
    else:
        middle = (low + high) / 2
    middle = Fraction(0) if about_zero else middle
    part = cell.numerator - cell.denominator.scaled(middle)
    if low is None or high is None:
        return Centred(middle, part, cell.denominator, None)
    return Centred(middle, part, cell.denominator, PublicBounds(low - middle, high - middle))


@dataclass(frozen=True)
class _Kinds:
    """Kinds of records by their whole-number weights in numerator and denominator.

    Args:
        scale: of a quotient of both.
    """

    over: IntegerGrid
    under: IntegerGrid
    scale: Fraction

    @classmethod
    def of(cls, numerator: LinearQuery, denominator: LinearQuery) -> _Kinds | None:
        """Kinds of records; None for too many, or a denominator that may be negative or is 0."""
        grid = class_grid(numerator, denominator)
        if grid.n_cells > _MAX_GRID:
            return None
        over, under = grid.values(numerator).ravel(), grid.values(denominator).ravel()
        if (under < 0).any() or not (under > 0).any():
            return None
        return cls(over, under, Fraction(denominator.denominator, numerator.denominator))

    @cached_property
    def bounds(self) -> tuple[Fraction, Fraction] | None:
        """The least and the greatest quotient; None if a record may count only above."""
        if (self.over[self.under == 0] != 0).any():
            return None
        inside = self.under > 0
        pairs = set(zip(self.over[inside].tolist(), self.under[inside].tolist(), strict=True))
        found = [self.scale * Fraction(a, b) for a, b in pairs]
        return min(found), max(found)

    @property
    def middle(self) -> Fraction:
        """The number about which the part is measured."""
        alike = self.scale * Fraction(sum(self.over.tolist()), sum(self.under.tolist()))
        found = [alike.limit_denominator(_MIDDLES), Fraction(0)]
        ends = self.bounds or (alike, alike)
        if self.bounds is not None:
            found.append(sum(self.bounds, Fraction(0)) / 2)
        return min(found, key=lambda at: self._cost(at, max(abs(end - at) for end in ends)))

    def _cost(self, at: Fraction, far: Fraction) -> float:
        """The cost of a quotient at a distance from the number it is measured about.

        The errors of its part and of the denominator add up, in the cheapest shares.
        """
        over, under = float(self.scale) * self.over.astype(float), self.under.astype(float)
        part = float(np.abs(over - float(at) * under).max())
        return math.sqrt(part) + math.sqrt(float(far) * float(under.max()))
