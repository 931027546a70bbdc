"""Cells of measured tables as rows, so that they can disagree with each other and with rows.

Where data arrive over time, cells are of one period each. So what a question has in common with the
rest are its own periods, and those that rows of several periods link them to. What is measured in
other periods leaves its posterior as it is, to the last bit.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache

from qserver.inference.tables.measured import asked_periods
from qserver.query.linear import LinearQuery
from qserver.query.partition import ProductPartition
from qserver.records.history import AnyMeasurement, Measurement, TableMeasurement

MOST_CELLS = 1_000
"""Most rows and cells together whose disagreements are sought."""


def chosen(measurements: Sequence[AnyMeasurement], used: Collection[int]) -> tuple[int, ...] | None:
    """The ids of those whose disagreements are sought: of all, if they are few.

    Args:
        measurements: live rows and tables by id.
        used: ids of those that must be among them.

    Returns:
        The used ones, and others in the order of their ids as long as there is room, sorted. None
        if the used ones alone are too many.
    """
    found = set(used)
    n_cells = sum(n_rows(measurements[i]) for i in found)
    if n_cells > MOST_CELLS:
        return None
    for one in measurements:
        if one.id not in found and n_cells + n_rows(one) <= MOST_CELLS:
            n_cells += n_rows(one)
            found.add(one.id)
    return tuple(sorted(found))


def n_rows(measurement: AnyMeasurement) -> int:
    """Of a table its cells, each of which is a row."""
    return 1 if isinstance(measurement, Measurement) else len(measurement.indices)


def cells_as_rows(measurements: Iterable[AnyMeasurement]) -> list[Measurement]:
    """The measurements, with cells of tables as rows, numbered anew."""
    return numbered(_rows(measurements))


def numbered(rows: Iterable[Measurement]) -> list[Measurement]:
    """The rows, numbered from 0.

    Of the same row measured twice, as a cell or by itself, only the one with the least noise is
    taken: the other may be the same noise with more added, and then says nothing more. The noise of
    a sum of several cells is no other row's.
    """
    best: dict[LinearQuery, Measurement] = {}
    sums = list[Measurement]()
    for row in rows:
        if row.n_summed > 1:
            sums.append(row)
            continue
        known = best.get(row.row)
        if known is None or row.scale < known.scale:
            best[row.row] = row
    return [replace(row, id=number) for number, row in enumerate([*best.values(), *sums])]


def _rows(measurements: Iterable[AnyMeasurement]) -> Iterator[Measurement]:
    for one in measurements:
        if isinstance(one, Measurement):
            yield one
            continue
        for cell, (row, index) in enumerate(zip(_cells(one.partition), one.indices, strict=True)):
            yield Measurement(cell, row, "", one.alpha_nano, one.step, index)


# A table that is raised or extended keeps its cells, and every new event asks for them again.
@lru_cache(maxsize=32)
def _cells(partition: ProductPartition) -> tuple[LinearQuery, ...]:
    return tuple(map(partition.row, range(partition.n_cells)))


def linked(
    queries: Sequence[LinearQuery], measurements: Sequence[AnyMeasurement], apart: int
) -> frozenset[int] | None:
    """The periods of questions, and those that rows link them to; of tables the cells there.

    Where these are too many together, its own periods. None where these are too many, too, or where
    no table has a cell there.

    Args:
        measurements: all live rows and tables by id.
        apart: the attribute of the periods.
    """
    own = frozenset[int]().union(*(asked_periods(query, apart) for query in queries))
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
