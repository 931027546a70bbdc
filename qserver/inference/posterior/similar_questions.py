"""The posteriors of many similar questions, computed at once.

The cells of a GROUP BY differ only in the names of values: their merged rows have the same noise,
and other answers. So rows are combined once, for the first question; weights and known sums serve
all, and known values are linear in the answers.

Values of an attribute are numbered by the question, the rows and the tables, not by their order.
Questions with equal tables of numbers are similar; a missed similarity costs only time.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import numpy as np

from qserver.inference.arrays import FloatArray
from qserver.inference.corners.vectors import IntArray
from qserver.inference.limits import MOST_MERGED
from qserver.inference.posterior.cells_as_rows import (
    cells_of,
    kinds_of,
    numbered_places,
    sum_of,
)
from qserver.query.class_grid import ProductPartition, product_partition
from qserver.query.linear_query import LinearQuery
from qserver.query.weights import Weights
from qserver.records.history import AnyMeasurement, Measurement, TableMeasurement

_MOST_SUM: Final = 1 << 53


@dataclass(frozen=True, eq=False)
class AxisShape:
    """How the values of one attribute are separated.

    Args:
        key: equal if only the names of values differ.
        kinds: of each part, by the table's place in the history.
    """

    key: Hashable
    kinds: Mapping[int, IntArray]


@dataclass(frozen=True, eq=False)
class Alike:
    """Merged rows of similar questions.

    Args:
        rows: numbered from 0, with answers that are the largest of all questions by size.
        answers: shape (questions, rows).
    """

    rows: list[Measurement]
    answers: FloatArray


class Shapes:
    """Merged rows of questions on one history.

    Args:
        measurements: those in reach of the questions.
    """

    def __init__(self, measurements: Sequence[AnyMeasurement]) -> None:
        self._rows = [one for one in measurements if isinstance(one, Measurement)]
        self._tables = [one for one in measurements if isinstance(one, TableMeasurement)]
        self._axes: dict[tuple[int, tuple[Weights | None, ...]], AxisShape] = {}

    @cached_property
    def are_usable(self) -> bool:
        """Whether rows leave room, sums are exact, and each table has a cell for every record."""
        return len(self._rows) <= MOST_MERGED and all(
            not any(parts.leaves_out for parts in table.partition.axes)
            and max(map(abs, table.indices)) * len(table.indices) < _MOST_SUM
            for table in self._tables
        )

    @cached_property
    def _axes_of_history(self) -> set[int]:
        of_tables = (parts.axis for table in self._tables for parts in table.partition.axes)
        of_rows = (axis for row in self._rows for term in row.row.terms for axis in term.by_axis)
        return {*of_tables, *of_rows}

    def key(self, row: LinearQuery) -> Hashable:
        """Key of similar questions."""
        axes = self._axes_of_history.union(*(term.by_axis for term in row.terms))
        told = tuple((axis, self._axis(row, axis).key) for axis in sorted(axes))
        return tuple(term.coefficient for term in row.terms), told

    def _axis(self, row: LinearQuery, axis: int) -> AxisShape:
        weights = tuple(term.by_axis.get(axis) for term in row.terms)
        if (axis, weights) not in self._axes:
            self._axes[axis, weights] = self._shape(axis, weights, row.sizes[axis])
        return self._axes[axis, weights]

    def _shape(self, axis: int, weights: Sequence[Weights | None], size: int) -> AxisShape:
        of_rows = self._weights_of_rows.get(axis, ())
        dense = [_dense(one, size) for one in (*weights, *of_rows)]
        told, classes = np.unique(np.stack(dense), axis=1, return_inverse=True)
        classes = classes.ravel()
        kinds, marks = dict[int, IntArray](), [classes]
        key = list[Hashable]([told.tobytes(), told.shape])
        for i, table in enumerate(self._tables):
            for parts in (one.dense for one in table.partition.axes if one.axis == axis):
                kinds[i] = _in_order(parts, classes)
                marks.append(kinds[i][parts])
                key.append((i, np.bincount(kinds[i]).tobytes()))
        # Which kinds meet which classes.
        key.append(np.unique(np.stack(marks), axis=1).tobytes())
        return AxisShape(tuple(key), kinds)

    @cached_property
    def _weights_of_rows(self) -> Mapping[int, tuple[Weights, ...]]:
        found = dict[int, dict[Weights, None]]()
        for term in (term for row in self._rows for term in row.row.terms):
            for axis, weights in term.by_axis.items():
                found.setdefault(axis, {})[weights] = None
        return {axis: tuple(of) for axis, of in found.items()}

    def alike(self, rows: Sequence[LinearQuery]) -> Alike | None:
        """Merged rows of questions with one key; None if they are too many."""
        found: list[Measurement] = list(self._rows)
        answers = [np.tile([one.value_float for one in found], (len(rows), 1))]
        for i, table in enumerate(self._tables):
            by_axis = [
                [self._axis(row, parts.axis).kinds[i] for parts in table.partition.axes]
                for row in rows
            ]
            sums = np.stack([_sums(table, kinds) for kinds in by_axis])
            merged, order = _merged_cells(table.partition, by_axis[0])
            counts = np.bincount(cells_of(table.partition, merged), minlength=merged.n_cells)
            of_cells = sums[:, order]
            if len(found) + merged.n_cells > MOST_MERGED:
                return None
            most = np.abs(of_cells).max(axis=0).tolist()
            found += [
                sum_of(merged.row(cell), table, index, count)
                for cell, (index, count) in enumerate(zip(most, counts.tolist(), strict=True))
            ]
            answers.append(of_cells * float(table.step))
        kept = numbered_places(found)
        rows_ = [replace(found[i], id=number) for number, i in enumerate(kept)]
        return Alike(rows_, np.hstack(answers)[:, kept])


def _dense(weights: Weights | None, size: int) -> IntArray:
    return np.ones(size, dtype=np.int64) if weights is None else weights.dense


def _in_order(parts: IntArray, classes: IntArray) -> IntArray:
    """The kind of each part, numbered in the order of the classes that they meet."""
    kinds = kinds_of(parts, classes)[:-1]
    met = np.zeros((kinds.max() + 1, classes.max() + 1), dtype=np.int64)
    met[kinds[parts], classes] = 1
    rank = np.argsort(np.lexsort(met.T[::-1]))
    return np.asarray(rank[kinds])


def _sums(table: TableMeasurement, kinds: Sequence[IntArray]) -> IntArray:
    """Sums of the table's answers over parts of a kind, in its steps, row-major."""
    found = np.array(table.indices, dtype=np.int64).reshape(table.partition.shape)
    for axis, of_parts in enumerate(kinds):
        alike = (of_parts[:, None] == np.arange(of_parts.max() + 1)).astype(np.int64)
        found = np.moveaxis(np.tensordot(found, alike, axes=(axis, 0)), -1, axis)
    return np.asarray(found.ravel())


def _merged_cells(
    partition: ProductPartition, kinds: Sequence[IntArray]
) -> tuple[ProductPartition, IntArray]:
    """The partition by kinds, and where each of its cells is among the products of kinds."""
    pairs = list(zip(partition.axes, kinds, strict=True))
    merged = product_partition(
        partition.sizes, {parts.axis: of[parts.dense] for parts, of in pairs}
    )
    own = np.zeros(1, dtype=np.int64)
    for of in kinds:
        own = (own[:, None] * (of.max() + 1) + of).ravel()
    order = np.zeros(merged.n_cells, dtype=np.int64)
    order[cells_of(partition, merged)] = own
    return merged, order
