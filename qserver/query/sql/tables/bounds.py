"""What is public of a quotient: the least and the greatest value that it has for any data."""

from __future__ import annotations

from fractions import Fraction

from qserver.query.grid import class_grid
from qserver.query.linear import LinearQuery
from qserver.query.sql.statement import Ratio
from qserver.query.sql.tables.intervals import Centred

# Bounds of a quotient are searched on grids of at most this many cells.
_MAX_GRID = 1 << 16


def centred(cell: Ratio) -> Centred:
    """The quotient about the middle of its bounds, or of the guess -1 to 1."""
    low, high = cell.low, cell.high
    if low is None or high is None:
        low, high = public_bounds(cell.numerator, cell.denominator) or (None, None)
    is_bounded = low is not None and high is not None
    middle = (low + high) / 2 if low is not None and high is not None else Fraction(0)
    radius = (high - low) / 2 if low is not None and high is not None else Fraction(1)
    part = cell.numerator - cell.denominator.scaled(middle)
    return Centred(middle, radius, part, cell.denominator, is_bounded)


def public_bounds(
    numerator: LinearQuery, denominator: LinearQuery
) -> tuple[Fraction, Fraction] | None:
    """The least and the greatest value of the quotient for all data, or None if unknown.

    If no record has a negative weight in the denominator, and none with weight 0 there counts in
    the numerator, then it is a weighted average of the quotients of single records.
    """
    grid = class_grid(numerator, denominator)
    if grid.n_cells > _MAX_GRID:
        return None
    over, under = grid.values(numerator).ravel(), grid.values(denominator).ravel()
    if (under < 0).any() or (over[under == 0] != 0).any() or not (under > 0).any():
        return None
    scale = Fraction(denominator.denominator, numerator.denominator)
    pairs = set(zip(over[under > 0].tolist(), under[under > 0].tolist(), strict=True))
    found = [scale * Fraction(a, b) for a, b in pairs]
    return min(found), max(found)
