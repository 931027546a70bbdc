"""Which measurements may bear on questions: those that reach their cells, directly or by others.

Two rows that weigh no cell in common have nothing to disagree about, unless a chain of others links
them. Cells of a table are such rows. So what a question is about grows by the cells of the rows and
of the tables' cells that it meets, until it meets no more. Whatever it does not meet then has no
bearing. Supports are replaced by boxes around them: that may keep more, and never less.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from qserver.inference.corners.vectors import IntArray
from qserver.query.grid import AxisClasses
from qserver.query.linear import LinearQuery
from qserver.query.weights import Weights
from qserver.records.history import AnyMeasurement, Measurement, TableMeasurement


@dataclass(frozen=True, eq=False)
class Boxes:
    """The first and the last value per attribute, arrays of shape (n, d) or (d,)."""

    low: IntArray
    high: IntArray

    def met(self, box: Boxes) -> npt.NDArray[np.bool_]:
        """Which of n boxes meet one box, shape (n,)."""
        return np.asarray(((self.low <= box.high) & (self.high >= box.low)).all(axis=1))

    def around(self, which: npt.NDArray[np.bool_], box: Boxes) -> Boxes:
        """The box around one box and some of these."""
        low, high = self.low[which], self.high[which]
        return Boxes(
            np.minimum(box.low, low.min(axis=0, initial=np.iinfo(np.int64).max)),
            np.maximum(box.high, high.max(axis=0, initial=-1)),
        )


class Reach:
    """What questions meet in one history.

    Args:
        measurements: all live rows and tables.
    """

    def __init__(self, measurements: Iterable[AnyMeasurement]) -> None:
        everything = tuple(measurements)
        self._rows = [m for m in everything if isinstance(m, Measurement)]
        self._tables = [m for m in everything if isinstance(m, TableMeasurement)]
        self._boxes = _boxes([m.row for m in self._rows])

    def of(self, queries: Sequence[LinearQuery]) -> list[AnyMeasurement]:
        """The measurements that may bear on some of these questions, in the order of their ids."""
        own = _boxes(queries)
        box, is_grown = Boxes(own.low.min(axis=0), own.high.max(axis=0)), True
        while is_grown:
            rows = self._boxes.met(box)
            grown = self._boxes.around(rows, box)
            for table in self._tables:
                grown = _met_cells(table, grown) or grown
            is_grown = bool((grown.low < box.low).any() or (grown.high > box.high).any())
            box = grown
        found = [m for m, is_met in zip(self._rows, rows.tolist(), strict=True) if is_met]
        tables = [m for m in self._tables if _met_cells(m, box) is not None]
        return sorted([*found, *tables], key=lambda one: one.id)


def _boxes(rows: Sequence[LinearQuery]) -> Boxes:
    pairs = np.array([_box(row) for row in rows], dtype=np.int64)
    pairs = pairs.reshape(len(rows), 2, -1) if len(rows) else np.zeros((0, 2, 1), dtype=np.int64)
    return Boxes(pairs[:, 0], pairs[:, 1])


# Every event makes the boxes of all rows anew.
@lru_cache(maxsize=1 << 15)
def _box(row: LinearQuery) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The first and the last value per attribute of the cells that a row weighs; it weighs some."""
    ends = [
        [
            (0, size - 1) if (weights := term.by_axis.get(axis)) is None else _ends(weights)
            for axis, size in enumerate(row.sizes)
        ]
        for term in row.terms
    ]
    by_axis = list(zip(*ends, strict=True))
    return (
        tuple(min(low for low, _ in of) for of in by_axis),
        tuple(max(high for _, high in of) for of in by_axis),
    )


def _ends(weights: Weights) -> tuple[int, int]:
    """The first and the last value with a weight."""
    starts = (0, *weights.stops[:-1])
    runs = [(a, b) for a, b, w in zip(starts, weights.stops, weights.values, strict=True) if w != 0]
    return runs[0][0], runs[-1][1] - 1


def _met_cells(table: TableMeasurement, box: Boxes) -> Boxes | None:
    """The box around one box and the table's cells that it meets; None if it meets none."""
    low, high = box.low.copy(), box.high.copy()
    for parts in table.partition.axes:
        of_parts = _parts(parts)
        met = (of_parts.low <= box.high[parts.axis]) & (of_parts.high >= box.low[parts.axis])
        if not met.any():
            return None
        low[parts.axis] = min(low[parts.axis], of_parts.low[met].min())
        high[parts.axis] = max(high[parts.axis], of_parts.high[met].max())
    for axis in set(range(len(low))) - {parts.axis for parts in table.partition.axes}:
        low[axis], high[axis] = 0, table.partition.sizes[axis] - 1
    return Boxes(low, high)


@lru_cache(maxsize=1 << 8)
def _parts(parts: AxisClasses) -> Boxes:
    """The first and the last value of each part, shape (n,)."""
    values = np.flatnonzero(parts.dense >= 0)
    of_values = parts.dense[values]
    low, high = np.full(parts.n, len(parts.dense)), np.full(parts.n, -1)
    np.minimum.at(low, of_values, values)
    np.maximum.at(high, of_values, values)
    return Boxes(low, high)
