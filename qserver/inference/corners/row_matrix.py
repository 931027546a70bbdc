"""The rows by corner, as one growing sparse matrix."""

from __future__ import annotations

import copy
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.sparse import csc_array, csr_array

from qserver.inference.arrays import FloatArray, GrowingArray
from qserver.inference.corners.vectors import CornerVector, IntArray
from qserver.records.state import State

_BITS = 52
_FEW = 8
"""Fewer rows than a part in so many are gathered one by one."""


@dataclass(frozen=True, eq=False)
class Sums:
    """Values by corner; corners that are not named have 0.

    Args:
        ids: rising, shape (n,).
        values: shape (n,).
    """

    ids: IntArray
    values: FloatArray

    def at(self, corner: int) -> float:
        """The value of one corner."""
        place = int(np.searchsorted(self.ids, corner))
        found = place < len(self.ids) and self.ids[place] == corner
        return float(self.values[place]) if found else 0.0

    def minus(self, other: Sums, factor: float = 1.0) -> Sums:
        """These less `factor` times the others."""
        if not len(other.ids):
            return self
        ids = np.concatenate([self.ids, other.ids])
        return _summed(ids, np.concatenate([self.values, -factor * other.values]))

    @classmethod
    def of(cls, vector: CornerVector) -> Sums:
        """The values of a vector."""
        order = np.argsort(vector.ids)
        return cls(vector.ids[order], vector.values[order])

    @property
    def largest(self) -> float:
        """The largest value by size, or 0."""
        return float(np.abs(self.values).max(initial=0.0))

    @property
    def size(self) -> float:
        """Sum of the values' sizes."""
        return float(np.abs(self.values).sum())


class RowMatrix:
    """Rows, each a corner vector with whole values; row i is `units[i]` times a measured row."""

    def __init__(self) -> None:
        self._ids = GrowingArray(np.int32)
        self._values = GrowingArray(np.float64)
        self._ends = GrowingArray(np.int32)
        self._ends.extend([0])
        self._known: csc_array | None = None
        self._units = GrowingArray(np.float64)
        self._largest = GrowingArray(np.float64)
        self._sizes = GrowingArray(np.float64)
        self._are_small = GrowingArray(np.bool_)

    def state(self, n_rows: int) -> State:
        """What `from_state` needs for the first `n_rows` rows."""
        end = int(self._ends.view[n_rows])
        return State(
            {},
            {
                "ids": self._ids.view[:end],
                "values": self._values.view[:end],
                "ends": self._ends.view[: n_rows + 1],
                "units": self.units[:n_rows],
                "largest": self.largest[:n_rows],
                "sizes": self.sizes[:n_rows],
                "are_small": self.are_small[:n_rows],
            },
        )

    @classmethod
    def from_state(cls, state: State) -> RowMatrix:
        """The rows as they were."""
        found = cls()
        for name, array in state.arrays.items():
            setattr(found, f"_{name}", GrowingArray.of(array))
        return found

    def __len__(self) -> int:
        return len(self._units)

    @property
    def units(self) -> FloatArray:
        """Unit per row, shape (n,)."""
        return self._units.view

    @property
    def largest(self) -> FloatArray:
        """Largest value per row by size, shape (n,)."""
        return self._largest.view

    @property
    def sizes(self) -> FloatArray:
        """Sum of the values' sizes per row, shape (n,)."""
        return self._sizes.view

    @property
    def are_small(self) -> npt.NDArray[np.bool_]:
        """Whether sums of each row's values can be exact, shape (n,)."""
        return self._are_small.view

    def append(self, vector: CornerVector) -> None:
        """Add a row."""
        self._known = None
        self._ids.extend(vector.ids)
        self._values.extend(vector.values)
        self._ends.extend([len(self._ids)])
        self._units.extend([vector.unit])
        self._largest.extend([vector.largest])
        self._sizes.extend([np.abs(vector.values).sum()])
        self._are_small.extend([vector.is_small])

    def tried(self) -> RowMatrix:
        """A copy to add rows to; valid until this matrix gets a row."""
        found = copy.copy(self)
        for name, array in vars(self).items():
            if isinstance(array, GrowingArray):
                setattr(found, name, copy.copy(array))
        return found

    def vector(self, i: int) -> CornerVector:
        """One row as it was appended."""
        part = slice(int(self._ends.view[i]), int(self._ends.view[i + 1]))
        ids = self._ids.view[part].astype(np.int64)
        return CornerVector(ids, self._values.view[part], float(self.units[i]))

    def row(self, i: int) -> Sums:
        """One row."""
        part = slice(int(self._ends.view[i]), int(self._ends.view[i + 1]))
        order = np.argsort(self._ids.view[part])
        return Sums(self._ids.view[part][order].astype(np.int64), self._values.view[part][order])

    def matrix(self, n_columns: int, n_rows: int | None = None) -> csr_array:
        """The first `n_rows` rows as a sparse matrix; columns are corners."""
        n = len(self) if n_rows is None else n_rows
        ends = self._ends.view[: n + 1]
        parts = (self._values.view[: ends[-1]], self._ids.view[: ends[-1]], ends)
        return csr_array(parts, shape=(n, n_columns))

    @property
    def whole(self) -> csr_array:
        """All rows; valid until the next one."""
        return csr_array(self._transposed.T)

    @property
    def _transposed(self) -> csc_array:
        """The rows as columns, shape (n corners, n)."""
        if self._known is None:
            n_corners = int(self._ids.view.max(initial=0)) + 1
            self._known = self.matrix(n_corners).T
        return self._known

    def combined(self, weights: FloatArray) -> Sums:
        """Sum of weights times rows, shape of weights: (n,)."""
        used = np.flatnonzero(weights)
        if not len(used):
            return Sums(np.zeros(0, dtype=np.int64), np.zeros(0))
        ends = self._ends.view
        if _FEW * len(used) > len(weights) and len(used) > _FEW:
            dense = self._transposed @ weights
            ids = np.flatnonzero(dense)
            return Sums(ids, np.asarray(dense[ids]))
        parts = [slice(int(ends[i]), int(ends[i + 1])) for i in used]
        ids = np.concatenate([self._ids.view[p] for p in parts]).astype(np.int64)
        values = [self._values.view[p] * weights[i] for p, i in zip(parts, used, strict=True)]
        return _summed(ids, np.concatenate(values))

    def part_of(self, weights: FloatArray, rest: Sums) -> FloatArray:
        """The leading bits of the weights, few enough that `rest` less the combination is exact."""
        most = float(np.abs(weights) @ self._largest.view) + rest.largest
        unit = np.ldexp(1.0, int(np.frexp(most)[1]) - _BITS)
        return np.asarray(np.rint(weights / unit) * unit)


def _summed(ids: IntArray, values: FloatArray) -> Sums:
    distinct, where = np.unique(ids, return_inverse=True)
    sums = np.bincount(where, weights=values, minlength=len(distinct))
    used = sums != 0.0
    return Sums(distinct[used], sums[used])
