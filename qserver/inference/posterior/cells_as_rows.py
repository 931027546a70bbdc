"""Cells of measured tables as rows, so that they can disagree with each other and with rows.

*Data that arrive over time* have one period per cell. So only a question's own periods, and periods
that rows link to these, bear on it. Measurements in other periods leave its posterior unchanged, to
the last bit. *Large histories* become few rows: cells that a question does not separate are merged.

Values of an attribute that neither the question nor any row tells apart are of one class. Parts of
a table that meet the same classes are merged, and so are its cells; the merged cell is released,
too, as the sum of theirs. If every permutation within a class leaves the tables unchanged, the
weights of least variance are equal on the cells of a merged one. So nothing is lost but
disagreements inside merged cells. Merging depends on the question and on public scales alone.

Tables with several partitions of one attribute separate values of one class by their parts. Then
classes are refined (`_refined`) until two parts of one kind have equally many values of each class,
and two values of one class lie in parts of the same kinds. On such classes, too, the weights of
least variance are constant.

References:
    Weisfeiler and Leman (1968) for the refinement; Grohe et al. (2014) for least squares on it.
"""

from __future__ import annotations

import itertools
import math
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache

import numpy as np

from qserver.inference.corners.vectors import IntArray
from qserver.inference.disagreement.finest_table import Beside, LargeTable
from qserver.inference.limits import MOST_MERGED
from qserver.inference.reach import Reach
from qserver.inference.tables.pieces import asked_periods
from qserver.query.class_grid import AxisClasses, ProductPartition, class_grid, product_partition
from qserver.query.linear_query import LinearQuery
from qserver.records.charge import NANO
from qserver.records.history import AnyMeasurement, Measurement, TableMeasurement

MOST_CELLS = 1_000
"""Most rows and cells together whose disagreements are sought."""
_N_BLOCKS = 8
"""Into how many blocks so many are parted that are taken together."""


class Blocks:
    """The rows and cells of one version of a history, by blocks of those that came together.

    A block has about an eighth of what is taken at most. A table of more is a block by itself, so
    that no row is left out with it.

    Args:
        measurements: live rows and tables by id.
    """

    def __init__(self, measurements: Sequence[AnyMeasurement]) -> None:
        self._sizes = list(map(n_rows, measurements))
        small = [0 if n * _N_BLOCKS > MOST_CELLS else n for n in self._sizes]
        starts = np.cumsum([0, *small])[:-1].tolist()
        blocks = dict[tuple[int, int], list[int]]()
        for i, (start, n) in enumerate(zip(starts, small, strict=True)):
            key = (start * _N_BLOCKS // MOST_CELLS, -1) if n else (start, i)
            blocks.setdefault(key, []).append(i)
        self._blocks = list(blocks.values())
        self._n_rows = [sum(self._sizes[i] for i in block) for block in self._blocks]
        self._block_of = {i: place for place, block in enumerate(self._blocks) for i in block}

    def chosen(self, used: Collection[int]) -> tuple[int, ...] | None:
        """The ids of those whose disagreements are sought: of all, if they are few.

        Args:
            used: ids of those that must be among them.

        Returns:
            The used ones, and others as long as there is room, sorted: blocks of those that came
            near used ones, then the newest, then the oldest first. So questions of one history
            share a few sets of these, and a longer history goes on from the same ones. None if the
            used ones alone are too many.
        """
        found, used_of = set(used), dict[int, int]()
        for i in found:
            block = self._block_of[i]
            used_of[block] = used_of.get(block, 0) + self._sizes[i]
        n_cells = sum(used_of.values())
        if n_cells > MOST_CELLS:
            return None
        last = len(self._blocks) - 1
        for block in dict.fromkeys((*sorted(used_of), last, *range(last))):
            n_more = self._n_rows[block] - used_of.get(block, 0)
            if n_cells + n_more <= MOST_CELLS:
                n_cells += n_more
                found.update(self._blocks[block])
        return tuple(sorted(found))


def n_rows(measurement: AnyMeasurement) -> int:
    """Number of rows; each cell of a table is a row."""
    return 1 if isinstance(measurement, Measurement) else len(measurement.indices)


def numbered(rows: Iterable[Measurement]) -> list[Measurement]:
    """Rows at `numbered_places`, numbered from 0."""
    found = list(rows)
    return [replace(found[i], id=number) for number, i in enumerate(numbered_places(found))]


def numbered_places(rows: Sequence[Measurement]) -> list[int]:
    """Places of the kept rows, in their new order.

    Of a row measured twice, alone or as a cell, only the least noisy is kept: the other may repeat
    its noise and then adds nothing. A sum of several cells has its own noise.
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


def as_rows(
    measurements: Iterable[AnyMeasurement], keeps: Callable[[AnyMeasurement], bool] | None = None
) -> Iterator[Measurement]:
    """Rows, and cells of tables as rows with the tables' ids.

    Args:
        keeps: whether a row, a cell or a whole measurement is included; None for all.
    """
    rows = _rows(measurements if keeps is None else filter(keeps, measurements))
    return rows if keeps is None else filter(keeps, rows)


def _rows(measurements: Iterable[AnyMeasurement]) -> Iterator[Measurement]:
    for one in measurements:
        if isinstance(one, Measurement):
            yield one
            continue
        for row, index in zip(_cells(one.partition), one.indices, strict=True):
            yield Measurement(one.id, row, "", one.alpha_nano, one.step, index)


# A table that is raised or extended keeps its cells, and every new event asks for them again.
@lru_cache(maxsize=32)
def _cells(partition: ProductPartition) -> tuple[LinearQuery, ...]:
    return tuple(map(partition.row, range(partition.n_cells)))


@dataclass(frozen=True)
class NearPeriods:
    """Periods whose rows and cells may bear on questions.

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
        """Number of cells in these periods."""
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
        """Number of rows in these periods."""
        return sum(not periods.isdisjoint(self.periods) for periods in periods_of_rows)

    def those(self, rows: Iterable[Measurement]) -> list[Measurement]:
        """The rows in these periods, renumbered."""
        kept = filter(self.holds, rows)
        return [replace(row, id=number) for number, row in enumerate(kept)]


def own_periods(queries: Sequence[LinearQuery], apart: int) -> NearPeriods:
    """Periods of questions."""
    own = frozenset[int]().union(*(asked_periods(query, apart) for query in queries))
    return NearPeriods(own, apart)


def linked(near: NearPeriods, periods_of_rows: Sequence[frozenset[int]]) -> NearPeriods:
    """These periods and all that rows link to them."""
    found, grown = near.periods, True
    while grown:
        linking = (periods for periods in periods_of_rows if not periods.isdisjoint(found))
        together = found.union(*linking)
        found, grown = together, together != found
    return NearPeriods(found, near.apart)


_MOST_BESIDE = 100
"""Most cells of a table each of which counts by itself beside a finer one."""


@dataclass(frozen=True)
class SummedCells(Measurement):
    """A sum of cells of one table, as a row: its noise is a sum of Laplace variables.

    Args:
        n_cells: number of cells; `alpha_nano` is that of each.
    """

    n_cells: int

    @property
    def n_summed(self) -> int:
        """Number of independent Laplace variables in the noise."""
        return self.n_cells

    @cached_property
    def scale(self) -> float:
        """Scale of the Laplace variable that has the same variance, in records."""
        return NANO / self.alpha_nano * math.sqrt(self.n_cells)

    @cached_property
    def lattice_allowance(self) -> float:
        """Bound on the lattice's effect on the continuous law of all cells together."""
        return float(self.step) * self.n_cells


@dataclass(frozen=True)
class Merging:
    """The merged tables of one question, or of several together.

    Args:
        as_they_are: rows, not merged.
        tables: each table with its merged partition.
    """

    as_they_are: Sequence[Measurement]
    tables: Sequence[tuple[TableMeasurement, ProductPartition]]

    @classmethod
    def of(
        cls,
        queries: Sequence[LinearQuery],
        measurements: Sequence[AnyMeasurement],
        most: int,
        *,
        near: NearPeriods | None = None,
        refines: bool = False,
    ) -> Merging | None:
        """The merged rows of `near`; None if more than `most` are left.

        Args:
            refines: whether parts of tables separate values, too.
        """
        rows = [one for one in measurements if isinstance(one, Measurement)]
        if len(rows) > most:
            return None
        classes = {
            axis.axis: axis.dense for axis in class_grid(*queries, *(m.row for m in rows)).axes
        }
        if near is not None:
            told = near.mask(queries[0].sizes[near.apart])
            classes[near.apart] = _together(classes.get(near.apart, told), told)
        if refines:
            found = [one.partition for one in measurements if isinstance(one, TableMeasurement)]
            classes = _refined(classes, found)
        left, tables = most - len(rows), list[tuple[TableMeasurement, ProductPartition]]()
        for table in measurements:
            if isinstance(table, TableMeasurement):
                coarse = _coarsened(table.partition, classes)
                left -= coarse.n_cells if near is None else near.n_cells(coarse)
                if left < 0:
                    return None
                tables.append((table, coarse))
        return cls(rows, tables)

    def rows(self) -> list[Measurement]:
        """The rows and the merged cells, numbered from 0."""
        cells = itertools.chain.from_iterable(_summed(*pair) for pair in self.tables)
        return numbered([*self.as_they_are, *cells])


def merged_rows(
    queries: Sequence[LinearQuery],
    reach: Reach,
    used: Set[int],
    near: NearPeriods | None = None,
    *,
    refines: bool = False,
) -> list[Measurement]:
    """Rows and merged cells of all measurements in reach, or as many as fit.

    The used ones come first, then the others, least noise first.

    Args:
        used: ids that must be included.
        near: the only periods of rows and cells; None for all.
        refines: whether parts of tables separate values, too.

    Returns:
        Numbered from 0; none if the used ones alone are too many.
    """
    measurements = [m for m in reach.of(queries) if near is None or near.holds(m)]
    first = [one for one in measurements if one.id in used]
    others = [one for one in measurements if one.id not in used]
    others.sort(key=lambda one: (one.alpha_nano != 0, -one.alpha_nano, one.id))

    def merging(n: int, most: int = MOST_MERGED) -> Merging | None:
        return Merging.of(queries, [*first, *others[:n]], most, near=near, refines=refines)

    found = merging(len(others))
    if found is None:
        fits = bisect_left(range(len(others)), 1, key=lambda n: int(merging(n) is None))
        found = merging(fits - 1) if fits else merging(0, MOST_CELLS)
    if found is None:
        return []
    return found.rows() if near is None else near.those(found.rows())


def finest_and_others(
    queries: Sequence[LinearQuery], reach: Reach, used: Set[int]
) -> tuple[TableMeasurement, Beside]:
    """The largest used table, and other measurements that may bear on the questions.

    Cells of other tables are merged until they are sums of its cells. A row may repeat a cell's
    noise. So no table that has a row as a cell is merged.

    Raises:
        ValueError: no table is used.
    """
    measurements = reach.of(queries)
    rows = [one for one in measurements if isinstance(one, Measurement)]
    tables = [one for one in measurements if isinstance(one, TableMeasurement)]
    finest = max((t for t in tables if t.id in used), key=lambda table: table.partition.n_cells)
    found, large = list(rows), list[LargeTable]()
    for table in tables:
        coarse = _common(table.partition, finest.partition)
        is_merged = coarse.n_cells < table.partition.n_cells
        if table is finest or (
            is_merged and any(table.partition.cell_of(r.row) is not None for r in rows)
        ):
            continue
        if coarse.n_cells <= _MOST_BESIDE:
            found.extend(_summed(table, coarse))
        else:
            large.append(_large(table, coarse, finest))
    return finest, Beside(sorted(numbered(found), key=lambda row: row.scale), large)


def _large(
    table: TableMeasurement, coarse: ProductPartition, finest: TableMeasurement
) -> LargeTable:
    totals, counts = _sums(table, coarse)
    return LargeTable(
        cells_of(finest.partition, coarse),
        np.array(totals, dtype=np.float64) * float(table.step),
        np.array(counts),
        NANO / table.alpha_nano,
        float(table.step),
    )


def _common(partition: ProductPartition, finest: ProductPartition) -> ProductPartition:
    """A partition that both refine: per attribute the coarser parts, else one part."""
    own = {parts.axis: parts.dense for parts in partition.axes}
    labels = dict[int, IntArray]()
    for parts in finest.axes:
        dense = own.get(parts.axis)
        if dense is not None:
            both = len(np.unique(np.stack([parts.dense, dense]), axis=1).T)
            if both == parts.n:
                labels[parts.axis] = dense
            elif both == dense.max() + 1:
                labels[parts.axis] = parts.dense
    return product_partition(partition.sizes, labels)


def _coarsened(partition: ProductPartition, classes: Mapping[int, IntArray]) -> ProductPartition:
    """Merge parts of an attribute that meet the same classes."""
    labels = dict[int, IntArray]()
    for parts in partition.axes:
        dense = parts.dense
        kinds = kinds_of(dense, classes.get(parts.axis, np.zeros_like(dense)))
        labels[parts.axis] = np.where(dense >= 0, kinds[dense], -1)
    return product_partition(partition.sizes, labels)


def _refined(
    classes: Mapping[int, IntArray], partitions: Sequence[ProductPartition]
) -> dict[int, IntArray]:
    """The coarsest refinement of which like parts of tables have equally many values."""
    by_axis: dict[int, dict[AxisClasses, None]] = {}
    for parts in itertools.chain.from_iterable(one.axes for one in partitions):
        by_axis.setdefault(parts.axis, {})[parts] = None
    found = dict(classes)
    for axis, all_parts in by_axis.items():
        dense = [parts.dense for parts in all_parts]
        found[axis] = _refined_axis(found.get(axis, np.zeros_like(dense[0])), dense)
    return found


def _refined_axis(classes: IntArray, partitions: Sequence[IntArray]) -> IntArray:
    """The refined classes of one attribute, shape (size,); part -1 is a separate kind."""
    # Parts of one value each tell no more apart than their classes.
    told = [parts for parts in partitions if parts.max() + 1 < np.count_nonzero(parts >= 0)]
    # Values that are alike in everything stay alike: one stands for them, with their number.
    alike, of_values, sizes = np.unique(
        np.stack([classes, *told]), axis=1, return_inverse=True, return_counts=True
    )
    found, parts_of_alike = alike[0], alike[1:]
    while True:
        kinds = [kinds_of(parts, found, sizes)[parts] for parts in parts_of_alike]
        finer = _together(found, *kinds)
        if finer.max() == len(np.unique(found)) - 1:
            return np.asarray(found[of_values.ravel()])
        found = finer


def _together(*labels: IntArray) -> IntArray:
    """Label values so that labels are equal if all given ones are."""
    return np.asarray(np.unique(np.stack(labels), axis=1, return_inverse=True)[1].ravel())


def kinds_of(parts: IntArray, classes: IntArray, sizes: IntArray | None = None) -> IntArray:
    """Kind of each part, equal for parts that meet the same classes; the last is of part -1.

    Args:
        parts, classes: shape (n,).
        sizes: number of values that each of the n stands for; parts of one kind then have equally
            many of each class.
    """
    n, met, inside = int(parts.max()) + 1, dict[bytes, int](), parts >= 0
    pairs, places = np.unique(
        np.stack([parts[inside], classes[inside]]), axis=1, return_inverse=True
    )
    told = pairs[1:].T
    if sizes is not None:
        counts = np.bincount(places.ravel(), weights=sizes[inside]).astype(np.int64)
        told = np.stack([pairs[1], counts], axis=1)
    stops = np.searchsorted(pairs[0], np.arange(n + 1))
    kinds = [met.setdefault(told[a:b].tobytes(), len(met)) for a, b in itertools.pairwise(stops)]
    return np.array([*kinds, len(met)], dtype=np.int64)


def _summed(table: TableMeasurement, coarse: ProductPartition) -> Iterator[Measurement]:
    """Cells of a coarser partition, as sums of the table's cells."""
    for cell, (total, count) in enumerate(zip(*_sums(table, coarse), strict=True)):
        yield sum_of(coarse.row(cell), table, total, count)


def _sums(table: TableMeasurement, coarse: ProductPartition) -> tuple[list[int], list[int]]:
    """Sum of the table's indices, and number of cells, per cell of a coarser partition."""
    totals, counts = [0] * coarse.n_cells, [0] * coarse.n_cells
    for place, index in zip(cells_of(table.partition, coarse).tolist(), table.indices, strict=True):
        totals[place] += index
        counts[place] += 1
    return totals, counts


def sum_of(row: LinearQuery, table: TableMeasurement, index: int, count: int) -> Measurement:
    """A sum of cells of a table, as a row."""
    step: Fraction = table.step
    if count == 1:
        return Measurement(table.id, row, "", table.alpha_nano, step, index)
    return SummedCells(table.id, row, "", table.alpha_nano, step, index, count)


def cells_of(fine: ProductPartition, coarse: ProductPartition) -> IntArray:
    """The coarse cell that each fine one lies in, shape (n_cells,), row-major."""
    coarse_axes = {parts.axis: parts for parts in coarse.axes}
    places = np.zeros(1, dtype=np.int64)
    for parts in fine.axes:
        into = coarse_axes.get(parts.axis)
        if into is None:
            places = np.repeat(places, parts.n)
            continue
        found, first = np.unique(parts.dense, return_index=True)
        first = first[found >= 0]
        places = (places[:, None] * into.n + into.dense[first]).ravel()
    return places
