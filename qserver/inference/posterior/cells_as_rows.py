"""Cells of measured tables as rows, so that they can disagree with each other and with rows.

Where data arrive over time, cells are of one period each. So what a question has in common with the
rest are its own periods, and those that rows of several periods link them to. What is measured in
other periods leaves its posterior as it is, to the last bit.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from qserver.inference.corners.vectors import IntArray
from qserver.inference.tables.measured import asked_periods
from qserver.query.linear import LinearQuery
from qserver.query.partition import ProductPartition
from qserver.records.history import AnyMeasurement, Measurement

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
    """The rows that `numbered_places` names, numbered from 0."""
    found = list(rows)
    return [replace(found[i], id=number) for number, i in enumerate(numbered_places(found))]


def numbered_places(rows: Sequence[Measurement]) -> list[int]:
    """Which of these rows are taken, in their new order.

    Of the same row measured twice, as a cell or by itself, only the one with the least noise is
    taken: the other may be the same noise with more added, and then says nothing more. The noise of
    a sum of several cells is no other row's.
    """
    best: dict[LinearQuery, int] = {}
    sums = list[int]()
    for i, row in enumerate(rows):
        if row.n_summed > 1:
            sums.append(i)
            continue
        known = best.get(row.row)
        if known is None or row.scale < rows[known].scale:
            best[row.row] = i
    return [*best.values(), *sums]


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


@dataclass(frozen=True)
class NearPeriods:
    """Some periods, as those whose rows and cells may bear on questions.

    Args:
        periods: values of an attribute.
        apart: the attribute of the periods.
    """

    periods: frozenset[int]
    apart: int

    def holds(self, one: AnyMeasurement) -> bool:
        """Whether a row or a table is about some of these periods."""
        row = one.row if isinstance(one, Measurement) else one.partition.inside
        return not asked_periods(row, self.apart).isdisjoint(self.periods)

    def n_cells(self, partition: ProductPartition) -> int:
        """Cells that are about these periods."""
        axis = next((a for a in partition.axes if a.axis == self.apart), None)
        if axis is None:
            return partition.n_cells
        parts = {int(axis.dense[p]) for p in self.periods} - {-1}
        return partition.n_cells // axis.n * len(parts)

    def mask(self, size: int) -> IntArray:
        """1 for each of these periods, and 0 for the others, shape (size,)."""
        found = np.zeros(size, dtype=np.int64)
        found[sorted(self.periods)] = 1
        return found

    def n_rows(self, periods_of_rows: Iterable[frozenset[int]]) -> int:
        """How many rows, each about some periods, are about these."""
        return sum(not periods.isdisjoint(self.periods) for periods in periods_of_rows)

    def those(self, rows: Iterable[Measurement]) -> list[Measurement]:
        """The rows that are about these periods, numbered anew."""
        kept = filter(self.holds, rows)
        return [replace(row, id=number) for number, row in enumerate(kept)]

    def cells_as_rows(self, measurements: Iterable[AnyMeasurement]) -> list[Measurement]:
        """The rows and the tables' cells that are about these periods, numbered anew."""
        return self.those(cells_as_rows(filter(self.holds, measurements)))


def own_periods(queries: Sequence[LinearQuery], apart: int) -> NearPeriods:
    """The periods that questions are about."""
    own = frozenset[int]().union(*(asked_periods(query, apart) for query in queries))
    return NearPeriods(own, apart)


def linked(near: NearPeriods, periods_of_rows: Sequence[frozenset[int]]) -> NearPeriods:
    """These periods, and those that rows link them to."""
    found, grown = near.periods, True
    while grown:
        linking = (periods for periods in periods_of_rows if not periods.isdisjoint(found))
        together = found.union(*linking)
        found, grown = together, together != found
    return NearPeriods(found, near.apart)
