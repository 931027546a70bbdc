"""Arrays that grow at their end in amortised constant time."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

S = TypeVar("S", bound=np.generic)


class GrowingArray(Generic[S]):
    """A one-dimensional array with `extend`; a `view` is valid until the next `extend`."""

    def __init__(self, dtype: type[S]) -> None:
        self._data: npt.NDArray[S] = np.empty(16, dtype=dtype)
        self._size = 0

    def __len__(self) -> int:
        return self._size

    @property
    def view(self) -> npt.NDArray[S]:
        """The entries so far."""
        return self._data[: self._size]

    def extend(self, values: npt.ArrayLike) -> None:
        """Append `values`, shape (n,)."""
        new = np.asarray(values, dtype=self._data.dtype)
        end = self._size + len(new)
        if end > len(self._data):
            grown = np.empty(max(end, 2 * len(self._data)), dtype=self._data.dtype)
            grown[: self._size] = self.view
            self._data = grown
        self._data[self._size : end] = new
        self._size = end


def grown_matrix(matrix: npt.NDArray[Any], n_rows: int, n_columns: int) -> npt.NDArray[Any]:
    """`matrix`, or a zero-padded copy with room for at least the given rows and columns."""
    rows, columns = matrix.shape
    if n_rows <= rows and n_columns <= columns:
        return matrix
    shape = (rows, columns)
    if n_rows > rows:
        shape = (max(n_rows, 2 * rows, 64), shape[1])
    if n_columns > columns:
        shape = (shape[0], max(n_columns, 2 * columns, 64))
    # Zero pages that are never written take no memory: a triangular matrix costs half.
    grown = np.zeros(shape, dtype=matrix.dtype)
    grown[:rows, :columns] = matrix
    return grown
