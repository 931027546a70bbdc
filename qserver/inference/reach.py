"""Which measurements may bear on questions: those that reach their cells, directly or by others.

Two rows that weigh no cell in common have nothing to disagree about, unless a chain of others links
them. Cells of a table are such rows. So a question's support grows by the rows and tables' cells
that it meets, until it meets no more. All others have no bearing. Boxes replace supports: that may
keep more, never less.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from qserver.inference.corners.vectors import IntArray
from qserver.query.class_grid import AxisClasses
from qserver.query.linear_query import LinearQuery
from qserver.records.history import AnyMeasurement, Measurement, TableMeasurement


@dataclass(frozen=True, eq=False)
class Boxes:
    """The first and the last value per attribute, arrays of shape (n, d) or (d,)."""

    low: IntArray
    high: IntArray

    def met(self, box: Boxes) -> npt.NDArray[np.bool_]:
        """Whether each of n boxes meets one box, shape (n,)."""
        return np.asarray(((self.low <= box.high) & (self.high >= box.low)).all(axis=1))

    def each(self) -> Iterator[Boxes]:
        """Each box by itself, without the first axis."""
        return (Boxes(*one) for one in zip(self.low, self.high, strict=True))

    def around(self, which: npt.NDArray[np.bool_], box: Boxes) -> Boxes:
        """The box around one box and some of these."""
        low, high = self.low[which], self.high[which]
        return Boxes(
            np.minimum(box.low, low.min(axis=0, initial=np.iinfo(np.int64).max)),
            np.maximum(box.high, high.max(axis=0, initial=-1)),
        )


class Reach:
    """The reach of questions in one history; `measurements`: all live rows and tables."""

    def __init__(self, measurements: Iterable[AnyMeasurement]) -> None:
        everything = tuple(measurements)
        self._rows = [m for m in everything if isinstance(m, Measurement)]
        self._tables = [m for m in everything if isinstance(m, TableMeasurement)]
        self._by_id = {m.id: m for m in everything}
        self._boxes = _boxes([m.row for m in self._rows])

    def of(self, queries: Sequence[LinearQuery]) -> list[AnyMeasurement]:
        """The measurements that may bear on some of these questions, in the order of their ids."""
        own = _boxes(queries)
        around = Boxes(own.low.min(axis=0)[None], own.high.max(axis=0)[None])
        (ids,) = self._ids(around)
        return [self._by_id[i] for i in ids]

    def of_each(self, queries: Sequence[LinearQuery]) -> list[tuple[int, ...]]:
        """The ids of the measurements that may bear on each of these questions, in order."""
        return self._ids(_boxes(queries)) if queries else []

    def _ids(self, boxes: Boxes) -> list[tuple[int, ...]]:
        """Ids of measurements that may bear on questions in each box."""
        is_grown = np.ones(len(boxes.low), dtype=np.bool_)
        low, high = boxes.low.copy(), boxes.high.copy()
        while is_grown.any():
            some = Boxes(low[is_grown], high[is_grown])
            grown = some
            if self._rows:
                each = [self._boxes.around(self._boxes.met(one), one) for one in some.each()]
                grown = Boxes(np.stack([o.low for o in each]), np.stack([o.high for o in each]))
            for table in self._tables:
                grown = _with_met_cells(table, grown)[0]
            low[is_grown], high[is_grown] = grown.low, grown.high
            is_grown[is_grown] = ((grown.low < some.low) | (grown.high > some.high)).any(axis=1)
        # Many grow to the same one.
        ends, place = np.unique(np.hstack([low, high]), axis=0, return_inverse=True)
        found = Boxes(*np.hsplit(ends, 2))
        tables = [(m.id, _with_met_cells(m, found)[1]) for m in self._tables]
        rows = np.array([row.id for row in self._rows], dtype=np.int64)
        ids = [
            tuple(
                sorted([*rows[self._boxes.met(box)].tolist(), *(n for n, met in tables if met[i])])
            )
            for i, box in enumerate(found.each())
        ]
        return [ids[i] for i in place.ravel().tolist()]


def _boxes(rows: Sequence[LinearQuery]) -> Boxes:
    pairs = np.array([row.ends for row in rows], dtype=np.int64)
    pairs = pairs.reshape(len(rows), 2, -1) if len(rows) else np.zeros((0, 2, 1), dtype=np.int64)
    return Boxes(pairs[:, 0], pairs[:, 1])


def _with_met_cells(table: TableMeasurement, boxes: Boxes) -> tuple[Boxes, npt.NDArray[np.bool_]]:
    """Boxes extended by the table's cells that each meets, and which boxes meet any."""
    low, high = boxes.low.copy(), boxes.high.copy()
    is_met = np.ones(len(low), dtype=np.bool_)
    told = {parts.axis for parts in table.partition.axes}
    for parts in table.partition.axes:
        of_parts, axis = _parts(parts), parts.axis
        met = (of_parts.low <= high[:, axis, None]) & (of_parts.high >= low[:, axis, None])
        is_met &= met.any(axis=1)
        size = table.partition.sizes[axis]
        low[:, axis] = np.minimum(low[:, axis], np.where(met, of_parts.low, size).min(axis=1))
        high[:, axis] = np.maximum(high[:, axis], np.where(met, of_parts.high, -1).max(axis=1))
    for axis in set(range(low.shape[1])) - told:
        low[:, axis], high[:, axis] = 0, table.partition.sizes[axis] - 1
    others = ~is_met
    low[others], high[others] = boxes.low[others], boxes.high[others]
    return Boxes(low, high), is_met


@lru_cache(maxsize=1 << 8)
def _parts(parts: AxisClasses) -> Boxes:
    """The first and the last value of each part, shape (n,)."""
    values = np.flatnonzero(parts.dense >= 0)
    of_values = parts.dense[values]
    low, high = np.full(parts.n, len(parts.dense)), np.full(parts.n, -1)
    np.minimum.at(low, of_values, values)
    np.maximum.at(high, of_values, values)
    return Boxes(low, high)
