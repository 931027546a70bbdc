"""Large histories as few rows: cells that a question does not tell apart are taken together.

Values of an attribute that neither the question nor any row tells apart are of one class. Parts of
a table that meet the same classes are merged, and so are its cells; the merged cell is released,
too, as the sum of theirs. Where every permutation within a class leaves the tables what they are,
the weights of least variance are the same on the cells of a merged one. So they are not lost, and
only what merged cells disagree about among each other is left out. What is merged depends on the
question and on public scales alone.
"""

from __future__ import annotations

import itertools
import math
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Final

import numpy as np

from qserver.inference.corners.core import MOST_FOR_DIRECTIONS
from qserver.inference.corners.vectors import IntArray
from qserver.inference.posterior.cells_as_rows import MOST_CELLS, numbered
from qserver.query.grid import AxisClasses, class_grid
from qserver.query.linear import LinearQuery
from qserver.query.partition import ProductPartition, product_partition
from qserver.records.charge import NANO
from qserver.records.history import AnyMeasurement, Measurement, TableMeasurement

MOST_MERGED: Final = MOST_FOR_DIRECTIONS
"""Most rows and cells whose disagreements are all found; of more, those are that weigh most."""


@dataclass(frozen=True)
class SummedCells(Measurement):
    """The sum of some cells of one table, as a row: its noise is a sum of Laplace variables.

    Args:
        n_cells: how many; `alpha_nano` is that of each.
    """

    n_cells: int

    @property
    def n_summed(self) -> int:
        """How many independent Laplace variables its noise is the sum of."""
        return self.n_cells

    @cached_property
    def scale(self) -> float:
        """Scale of the Laplace variable that has the same variance, in records."""
        return NANO / self.alpha_nano * math.sqrt(self.n_cells)

    @cached_property
    def lattice_allowance(self) -> float:
        """Bound on what the lattice changes of the continuous law of all cells together."""
        return float(self.step) * self.n_cells


@dataclass(frozen=True)
class Merging:
    """What is merged for one question, or for some together.

    Args:
        as_they_are: the rows.
        tables: each table with the partition that its cells are merged to.
    """

    as_they_are: Sequence[Measurement]
    tables: Sequence[tuple[TableMeasurement, ProductPartition]]

    @classmethod
    def of(
        cls,
        queries: Sequence[LinearQuery],
        measurements: Sequence[AnyMeasurement],
        most: int = MOST_MERGED,
    ) -> Merging | None:
        """What is merged; None where that leaves more rows than `most`."""
        rows = [one for one in measurements if isinstance(one, Measurement)]
        if len(rows) > most:
            return None
        classes = {
            axis.axis: axis.dense for axis in class_grid(*queries, *(m.row for m in rows)).axes
        }
        left, tables = most - len(rows), list[tuple[TableMeasurement, ProductPartition]]()
        for table in measurements:
            if isinstance(table, TableMeasurement):
                coarse = _coarsened(table.partition, classes)
                left -= coarse.n_cells
                if left < 0:
                    return None
                tables.append((table, coarse))
        return cls(rows, tables)

    def rows(self) -> list[Measurement]:
        """The rows and the merged cells, numbered from 0."""
        cells = itertools.chain.from_iterable(_summed(*pair) for pair in self.tables)
        return numbered([*self.as_they_are, *cells])


def merged_rows(
    queries: Sequence[LinearQuery], measurements: Sequence[AnyMeasurement], used: Sequence[int]
) -> list[Measurement]:
    """The rows and merged cells of all that was measured, or else of as much as there is room for.

    The used ones come first, and then the others in the order of their noise, the least first.

    Args:
        measurements: all live rows and tables by id.
        used: ids of those that must be among them.

    Returns:
        Numbered from 0; none where the used ones alone are too many.
    """
    first = [measurements[i] for i in used]
    others = [one for one in measurements if one.id not in used]
    others.sort(key=lambda one: (one.alpha_nano != 0, -one.alpha_nano, one.id))

    def merging(n: int) -> Merging | None:
        return Merging.of(queries, [*first, *others[:n]], MOST_MERGED)

    found = merging(len(others))
    if found is None:
        fits = bisect_left(range(len(others)), 1, key=lambda n: int(merging(n) is None))
        found = merging(fits - 1) if fits else Merging.of(queries, first, MOST_CELLS)
    return [] if found is None else found.rows()


def _coarsened(partition: ProductPartition, classes: Mapping[int, IntArray]) -> ProductPartition:
    """The partition with those parts of an attribute together that meet the same classes."""
    labels = {
        parts.axis: _same(parts, classes[parts.axis])
        for parts in partition.axes
        if parts.axis in classes
    }
    return product_partition(partition.sizes, labels)


def _same(parts: AxisClasses, classes: IntArray) -> IntArray:
    """A label per value, equal for values of parts that meet the same classes, shape (size,)."""
    pairs = np.unique(np.stack([parts.dense, classes]), axis=1)
    stops = np.searchsorted(pairs[0], np.arange(1, parts.n))
    met: dict[tuple[int, ...], int] = {}
    of_part = [
        met.setdefault(tuple(found.tolist()), len(met)) for found in np.split(pairs[1], stops)
    ]
    return np.asarray(of_part, dtype=np.int64)[parts.dense]


def _summed(table: TableMeasurement, coarse: ProductPartition) -> Iterator[Measurement]:
    """The cells of a coarser partition, each the sum of cells of the table."""
    places, counts = _cells_of(table.partition, coarse), [0] * coarse.n_cells
    totals = [0] * coarse.n_cells
    for place, index in zip(places.tolist(), table.indices, strict=True):
        totals[place] += index
        counts[place] += 1
    for cell, (total, count) in enumerate(zip(totals, counts, strict=True)):
        yield _sum_of(coarse.row(cell), table, total, count)


def _sum_of(row: LinearQuery, table: TableMeasurement, index: int, count: int) -> Measurement:
    step: Fraction = table.step
    if count == 1:
        return Measurement(table.id, row, "", table.alpha_nano, step, index)
    return SummedCells(table.id, row, "", table.alpha_nano, step, index, count)


def _cells_of(fine: ProductPartition, coarse: ProductPartition) -> IntArray:
    """The coarse cell that each fine one lies in, shape (n_cells,), row-major."""
    coarse_axes = {parts.axis: parts for parts in coarse.axes}
    places = np.zeros(1, dtype=np.int64)
    for parts in fine.axes:
        into = coarse_axes.get(parts.axis)
        if into is None:
            places = np.repeat(places, parts.n)
            continue
        first = np.unique(parts.dense, return_index=True)[1]
        places = (places[:, None] * into.n + into.dense[first]).ravel()
    return places
