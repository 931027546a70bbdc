"""Cells of measured tables as rows, so that they can disagree with each other and with rows."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache

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
    n_cells = sum(_size(measurements[i]) for i in found)
    if n_cells > MOST_CELLS:
        return None
    for one in measurements:
        if one.id not in found and n_cells + _size(one) <= MOST_CELLS:
            n_cells += _size(one)
            found.add(one.id)
    return tuple(sorted(found))


def are_few(measurements: Sequence[AnyMeasurement]) -> bool:
    """Whether there are tables, and few enough cells and rows that all can be taken."""
    has_table = any(isinstance(one, TableMeasurement) for one in measurements)
    return has_table and sum(map(_size, measurements)) <= MOST_CELLS


def cells_as_rows(measurements: Iterable[AnyMeasurement]) -> list[Measurement]:
    """The measurements, with cells of tables as rows, numbered anew.

    Of the same row measured twice, as a cell or by itself, only the one with the least noise is
    taken: the other may be the same noise with more added, and then says nothing more.
    """
    best: dict[LinearQuery, Measurement] = {}
    for row in _rows(measurements):
        known = best.get(row.row)
        if known is None or row.scale < known.scale:
            best[row.row] = row
    return [replace(row, id=number) for number, row in enumerate(best.values())]


def _size(measurement: AnyMeasurement) -> int:
    return 1 if isinstance(measurement, Measurement) else len(measurement.indices)


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
