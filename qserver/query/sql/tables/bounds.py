"""What is public of a quotient: the least and the greatest value that it has for any data."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np

from qserver.query.grid import class_grid
from qserver.query.linear import LinearQuery
from qserver.query.sql.statement import Ratio
from qserver.query.sql.tables.intervals import Centred, PublicBounds

# Bounds of a quotient are searched on grids of at most this many cells.
_MAX_GRID = 1 << 16


@lru_cache(maxsize=1_024)
def centred(cell: Ratio, *, about_zero: bool = False) -> Centred:
    """The quotient about the middle of its bounds, or about 0 where that is told or costs less."""
    low, high = cell.low, cell.high
    middle = Fraction(0) if about_zero else None
    if low is None or high is None:
        found = _of_records(cell.numerator, cell.denominator)
        low, high = found.bounds if found else (None, None)
        middle = found.middle if found and middle is None else middle
    if low is None or high is None:
        return Centred(Fraction(0), cell.numerator, cell.denominator, None)
    middle = (low + high) / 2 if middle is None else middle
    part = cell.numerator - cell.denominator.scaled(middle)
    bounds = PublicBounds(low - middle, high - middle)
    return Centred(middle, part, cell.denominator, bounds)


def public_bounds(
    numerator: LinearQuery, denominator: LinearQuery
) -> tuple[Fraction, Fraction] | None:
    """The least and the greatest value of the quotient for all data, or None if unknown.

    If no record has a negative weight in the denominator, and none with weight 0 there counts in
    the numerator, then it is a weighted average of the quotients of single records.
    """
    found = _of_records(numerator, denominator)
    return None if found is None else found.bounds


@dataclass(frozen=True)
class _OfRecords:
    """The quotients of single records: their ends, and the number to measure a part about."""

    bounds: tuple[Fraction, Fraction]
    middle: Fraction


def _of_records(numerator: LinearQuery, denominator: LinearQuery) -> _OfRecords | None:
    grid = class_grid(numerator, denominator)
    if grid.n_cells > _MAX_GRID:
        return None
    over, under = grid.values(numerator).ravel(), grid.values(denominator).ravel()
    if (under < 0).any() or (over[under == 0] != 0).any() or not (under > 0).any():
        return None
    scale = Fraction(denominator.denominator, numerator.denominator)
    pairs = set(zip(over[under > 0].tolist(), under[under > 0].tolist(), strict=True))
    found = [scale * Fraction(a, b) for a, b in pairs]
    low, high = min(found), max(found)
    weights = np.array([[float(scale * a), float(b)] for a, b in pairs]).T
    middle = min(
        ((low + high) / 2, Fraction(0)),
        key=lambda at: _worst(weights, float(at), float(max(high - at, at - low))),
    )
    return _OfRecords((low, high), middle)


def _worst(
    weights: np.ndarray[tuple[int, int], np.dtype[np.float64]], at: float, far: float
) -> float:
    """What a quotient costs, as far from the number that it is measured about as it may be.

    The error of its part and that of the denominator add up, each in the least costly share.
    """
    over, under = weights
    part = float(np.abs(over - at * under).max())
    return math.sqrt(part) + math.sqrt(far * float(under.max()))
