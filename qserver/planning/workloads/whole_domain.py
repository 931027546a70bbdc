"""Whether questions together are about every cell, so that a table weighs on no others.

A table adds its alpha to every cell of the domain, a row to its own cells alone. Where both cost
the same now, the row leaves room elsewhere: whoever asks about other cells next pays less. So at an
equal price a table is taken only where the questions are about all cells that it would weigh on.
Then it costs later questions nothing, and serves more of them.
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

    Of data that arrive over time, tables weigh on the periods that they have cells for. Rows of
    several terms that are no indicator of a box count for nothing, and where the cells that the
    questions tell apart are more than a table may have, the answer is no.
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
    """Per attribute of the grid the classes that the row of one term weighs."""
    (term,) = row.terms
    found = []
    for classes in grid.axes:
        weights = term.by_axis.get(classes.axis)
        every = np.ones(classes.n, dtype=bool)
        found.append(every if weights is None else classes.on_classes(weights) != 0)
    return found


def _weighed(holdings: Holdings, grid: ClassGrid) -> list[np.ndarray]:
    """Per attribute of the grid the classes that a table weighs on."""
    found = []
    for classes in grid.axes:
        weighed = np.ones(classes.n, dtype=bool)
        if classes.axis == holdings.period_axis and holdings.table_periods is not None:
            weighed[:] = False
            weighed[classes.dense[sorted(holdings.table_periods)]] = True
        found.append(weighed)
    return found
