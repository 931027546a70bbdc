"""What is public of a quotient: the least and the greatest value that it has for any data."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache

import numpy as np

from qserver.query.grid import IntegerGrid, class_grid
from qserver.query.linear import LinearQuery
from qserver.query.sql.statement import Ratio
from qserver.query.sql.tables.intervals import Centred, PublicBounds

# Bounds of a quotient are searched on grids of at most this many cells.
_MAX_GRID = 1 << 16
_MIDDLES = 1_000
"""Numbers that a part is measured about have at most this denominator."""


@lru_cache(maxsize=1_024)
def centred(cell: Ratio, *, about_zero: bool = False) -> Centred:
    """The quotient about the number that costs least, or about 0 where that is told.

    It is the middle of its bounds, 0, or the quotient if all kinds of records were alike often.
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
    """Kinds of records by their weights in numerator and denominator, in units of whole numbers.

    Args:
        scale: of a quotient of both.
    """

    over: IntegerGrid
    under: IntegerGrid
    scale: Fraction

    @classmethod
    def of(cls, numerator: LinearQuery, denominator: LinearQuery) -> _Kinds | None:
        """None for too many kinds, or where a denominator of some data is negative or always 0."""
        grid = class_grid(numerator, denominator)
        if grid.n_cells > _MAX_GRID:
            return None
        over, under = grid.values(numerator).ravel(), grid.values(denominator).ravel()
        if (under < 0).any() or not (under > 0).any():
            return None
        return cls(over, under, Fraction(denominator.denominator, numerator.denominator))

    @cached_property
    def bounds(self) -> tuple[Fraction, Fraction] | None:
        """The least and the greatest quotient; None where a record may count above alone.

        Else the quotient of any data is a weighted average of those of single records.
        """
        if (self.over[self.under == 0] != 0).any():
            return None
        inside = self.under > 0
        pairs = set(zip(self.over[inside].tolist(), self.under[inside].tolist(), strict=True))
        found = [self.scale * Fraction(a, b) for a, b in pairs]
        return min(found), max(found)

    @property
    def middle(self) -> Fraction:
        """The number that a part is measured about."""
        alike = self.scale * Fraction(sum(self.over.tolist()), sum(self.under.tolist()))
        found = [alike.limit_denominator(_MIDDLES), Fraction(0)]
        ends = self.bounds or (alike, alike)
        if self.bounds is not None:
            found.append(sum(self.bounds, Fraction(0)) / 2)
        return min(found, key=lambda at: self._cost(at, max(abs(end - at) for end in ends)))

    def _cost(self, at: Fraction, far: Fraction) -> float:
        """What a quotient costs that is so far from the number it is measured about.

        The error of its part and that of the denominator add up, each in the least costly share.
        """
        over, under = float(self.scale) * self.over.astype(float), self.under.astype(float)
        part = float(np.abs(over - float(at) * under).max())
        return math.sqrt(part) + math.sqrt(float(far) * float(under.max()))
