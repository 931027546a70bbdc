"""Whether questions together cover every cell, so that a table weighs on no others.

A table adds its alpha to every cell of the domain, a row to its own cells alone. At an equal price
the row leaves room elsewhere, so later questions about other cells cost less. So a table is taken
only if the questions cover all its cells. Then it costs later questions nothing, and serves more of
them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from qserver.errors import CapacityError
from qserver.inference.tables.blocks.pattern import as_box
from qserver.planning.holdings import Holdings
from qserver.query.class_grid import MAX_TABLE_CELLS, ClassGrid, class_grid
from qserver.query.linear_query import LinearQuery
from qserver.query.question import Question


def are_about_all(holdings: Holdings, questions: Sequence[Question]) -> bool:
    """Whether every cell that a table weighs on is in a question's row.

    Of data that arrive over time, tables weigh on the periods that they have cells for. Rows other
    than indicators of a box do not count. The answer is no if the questions need more cells than a
    table may have.
    """
    rows = [as_box(q.row.row) for q in questions]
    try:
        grid = class_grid(*rows)
    except CapacityError:
        return False
    if grid.n_cells > MAX_TABLE_CELLS:
        return False
    inside = np.zeros(grid.shape, dtype=bool)
    for row in rows:
        if row.n_terms == 1:
            inside[np.ix_(*_sides(grid, row))] = True
    return bool(inside[np.ix_(*_weighed(holdings, grid))].all())


def _sides(grid: ClassGrid, row: LinearQuery) -> list[np.ndarray]:
    """Weighed classes of a row of one term, per attribute of the grid."""
    (term,) = row.terms
    found = []
    for classes in grid.axes:
        weights = term.by_axis.get(classes.axis)
        every = np.ones(classes.n, dtype=bool)
        found.append(every if weights is None else classes.on_classes(weights) != 0)
    return found


def _weighed(holdings: Holdings, grid: ClassGrid) -> list[np.ndarray]:
    """Weighed classes of a table, per attribute of the grid."""
    found = []
    for classes in grid.axes:
        weighed = np.ones(classes.n, dtype=bool)
        if classes.axis == holdings.period_axis and holdings.table_periods is not None:
            weighed[:] = False
            weighed[classes.dense[sorted(holdings.table_periods)]] = True
        found.append(weighed)
    return found
