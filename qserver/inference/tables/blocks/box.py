"""A query of several terms that is the indicator of a product of sets, as a single term.

With it, a query that is a cell of a table is recognised, however the query was written.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from functools import reduce

import numpy as np

from qserver.query.grid import class_grid
from qserver.query.linear import LinearQuery, linear_query
from qserver.query.primitive import MAX_KEY_GRID, Primitive, primitive
from qserver.query.weights import indicator


def as_box(row: LinearQuery) -> LinearQuery:
    """`row`; if it is the indicator of a product of sets, the single term that equals it.

    A row on a grid so large that equal vectors may have different keys is returned unchanged.
    """
    if len(row.terms) < 2:
        return row
    grid = class_grid(row)
    if grid.n_cells > MAX_KEY_GRID:
        return row
    values = grid.values(row)
    inside = np.asarray(values != 0)
    if not bool((values[inside] == row.denominator).all()):
        return row
    axes = range(inside.ndim)
    sides = [
        np.asarray(inside.any(axis=tuple(b for b in axes if b != a)), dtype=bool) for a in axes
    ]
    if not bool((reduce(np.logical_and.outer, sides, np.ones((), bool)) == inside).all()):
        return row
    chosen = {
        classes.axis: indicator(
            row.sizes[classes.axis], np.flatnonzero(side[classes.dense]).tolist()
        )
        for classes, side in zip(grid.axes, sides, strict=True)
        if not side.all()
    }
    return linear_query(row.sizes, [(1, chosen)])


def remainder(row: LinearQuery, weighted: Iterable[tuple[LinearQuery, float]]) -> Primitive:
    """`row` without these multiples of rows, exactly: every float is a dyadic fraction."""
    left = row
    for other, weight in weighted:
        left = left - other.scaled(Fraction(weight))
    return primitive(as_box(left))
