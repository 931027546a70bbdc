"""Arrays that grow at their end in amortised constant time."""

from __future__ import annotations

from copy import copy
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

S = TypeVar("S", bound=np.generic)

FloatArray = npt.NDArray[np.float64]
Places = npt.NDArray[np.intp]


class GrowingArray(Generic[S]):
    """A one-dimensional array with `extend`; a `view` is valid until the next `extend`."""

    def __init__(self, dtype: type[S]) -> None:
        self._data: npt.NDArray[S] = np.empty(16, dtype=dtype)
        self._size = 0

    @classmethod
    def of(cls, values: npt.NDArray[S]) -> GrowingArray[S]:
        """An array that begins with these values, which may be for reading only."""
        found = cls(values.dtype.type)
        found._data, found._size = values, len(values)
        return found

    def __len__(self) -> int:
        return self._size

    @property
    def view(self) -> npt.NDArray[S]:
        """The entries so far."""
        return self._data[: self._size]

    def copy(self) -> GrowingArray[S]:
        """The same entries in an array that shares nothing."""
        found = copy(self)
        found._data = self._data.copy()
        return found

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
