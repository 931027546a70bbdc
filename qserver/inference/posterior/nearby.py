"""Of data that arrive over time, the rows and cells whose disagreements may bear on a question.

Cells are of one period each. So what a question has in common with the rest are its own periods,
and those that rows of several periods link them to. What is measured in other periods leaves its
posterior as it is, to the last bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from qserver.inference.posterior.cells_as_rows import MOST_CELLS, cells_as_rows
from qserver.inference.tables.measured import asked_periods
from qserver.query.linear import LinearQuery
from qserver.records.history import AnyMeasurement, Measurement, TableMeasurement


def linked(
    row: LinearQuery, measurements: Sequence[AnyMeasurement], apart: int
) -> frozenset[int] | None:
    """The periods of a question, and those that rows link them to; of tables the cells there.

    Where these are too many together, its own periods. None where these are too many, too, or where
    no table has a cell there.

    Args:
        measurements: all live rows and tables by id.
        apart: the attribute of the periods.
    """
    own = asked_periods(row, apart)
    rows = [asked_periods(m.row, apart) for m in measurements if isinstance(m, Measurement)]
    found, grown = own, True
    while grown:
        together = found.union(*(periods for periods in rows if not periods.isdisjoint(found)))
        found, grown = together, together != found
    for periods in (found, own):
        n_cells = sum(_n_cells(m, periods, apart) for m in measurements)
        n_rows = sum(not periods.isdisjoint(other) for other in rows)
        if n_cells and n_cells + n_rows <= MOST_CELLS:
            return periods
    return None


def nearby(
    measurements: Sequence[AnyMeasurement], periods: frozenset[int], apart: int
) -> list[Measurement]:
    """The rows that are about some of these periods, and the tables' cells there, numbered anew."""
    near = [m for m in measurements if not about(m, apart).isdisjoint(periods)]
    rows = cells_as_rows(near)
    kept = [row for row in rows if not asked_periods(row.row, apart).isdisjoint(periods)]
    return [replace(row, id=number) for number, row in enumerate(kept)]


def about(one: AnyMeasurement, apart: int) -> frozenset[int]:
    """The periods that a row or a table is about."""
    row = one.row if isinstance(one, Measurement) else one.partition.inside
    return asked_periods(row, apart)


def _n_cells(one: AnyMeasurement, periods: frozenset[int], apart: int) -> int:
    """Cells of a table that are about these periods."""
    if not isinstance(one, TableMeasurement):
        return 0
    axis = next((a for a in one.partition.axes if a.axis == apart), None)
    if axis is None:
        return one.partition.n_cells
    parts = {int(axis.dense[p]) for p in periods} - {-1}
    return one.partition.n_cells // axis.n * len(parts)
