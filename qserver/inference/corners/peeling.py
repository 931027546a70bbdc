"""Rows whose weights a query fixes corner by corner, in rounds, before anything is minimised.

1. A corner that one remaining row has fixes that row's weight. The row leaves.
2. A group of remaining rows on the same attributes may be independent on the corners that only this
   group has. These corners fix the weights of the whole group. It leaves.

All unbiased weights agree on rows that left. What remains is the core.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.linalg import lapack
from scipy.sparse import csr_array

from qserver.inference.corners.vectors import IntArray

BoolArray = npt.NDArray[np.bool_]

_INDEPENDENT = 1e-7
_MOST_DENSE = 1 << 23


@dataclass(frozen=True, eq=False)
class Peeled:
    """Rows in the order in which they left, and the corners that fixed their weights.

    Args:
        rows: shape (k,).
        pivots: corner per row, shape (k,).
        core: the remaining rows, shape (n - k,).
    """

    rows: IntArray
    pivots: IntArray
    core: IntArray


def peeled(rows: csr_array, groups: IntArray) -> Peeled:
    """The rows that leave, round by round, until nothing changes.

    Args:
        groups: number of each row's set of attributes, shape (n,).
    """
    work = _Peeling(rows, groups)
    while work.take_single() or work.take_groups():
        pass
    return work.result()


class _Peeling:
    def __init__(self, rows: csr_array, groups: IntArray) -> None:
        self._rows, self._groups = rows, groups
        self._n, self._m = rows.shape
        self._entry_row = np.repeat(np.arange(self._n), np.diff(rows.indptr))
        self._entry_corner, self._entry_value = rows.indices, np.abs(rows.data)
        # A row without corners says nothing that public rows do not say.
        self._left: BoolArray = np.diff(rows.indptr) > 0
        self._taken: list[IntArray] = []
        self._pivots: list[IntArray] = []

    def take_single(self) -> bool:
        """Take all rows that have a corner to themselves; whether there was one."""
        counts = np.bincount(self._entry_corner, minlength=self._m)
        single = counts[self._entry_corner] == 1
        rows, corners = self._entry_row[single], self._entry_corner[single]
        # The largest single corner of each row comes last and stays.
        order = np.argsort(self._entry_value[single], kind="stable")
        pivot = np.full(self._n, -1)
        pivot[rows[order]] = corners[order]
        found = np.flatnonzero(pivot >= 0)
        self._take(found, pivot[found])
        return bool(len(found))

    def take_groups(self) -> bool:
        """Take all groups that are independent on corners of their own; whether there was one."""
        group = self._groups[self._entry_row]
        least = np.full(self._m, np.iinfo(np.int64).max)
        most = np.full(self._m, -1)
        np.minimum.at(least, self._entry_corner, group)
        np.maximum.at(most, self._entry_corner, group)
        own = least[self._entry_corner] == most[self._entry_corner]
        found = []
        for number in np.unique(group[own]):
            corners = np.unique(self._entry_corner[own & (group == number)])
            rows = np.flatnonzero(self._left & (self._groups == number))
            pivots = self._pivots_of(rows, corners)
            if pivots is not None:
                found.append((rows, pivots))
        for rows, pivots in found:
            self._take(rows, pivots)
        return bool(found)

    def _pivots_of(self, rows: IntArray, corners: IntArray) -> IntArray | None:
        """A corner per row, in an order in which elimination is stable; None if dependent."""
        if len(corners) < len(rows) or len(rows) * len(corners) > _MOST_DENSE:
            return None
        dense = np.asarray(self._rows[rows][:, corners].todense()).T
        dense = np.asfortranarray(dense / np.maximum(np.abs(dense).max(axis=0), 1e-300))
        lower_upper, swaps, _ = lapack.dgetrf(dense, overwrite_a=True)
        if np.abs(np.diag(lower_upper)).min() < _INDEPENDENT:
            return None
        order = corners.copy()
        for i, other in enumerate(swaps):
            order[[i, other]] = order[[other, i]]
        return np.asarray(order[: len(rows)])

    def _take(self, rows: IntArray, pivots: IntArray) -> None:
        if not len(rows):
            return
        self._taken.append(rows)
        self._pivots.append(pivots)
        self._left[rows] = False
        stays = self._left[self._entry_row]
        self._entry_row = self._entry_row[stays]
        self._entry_corner = self._entry_corner[stays]
        self._entry_value = self._entry_value[stays]

    def result(self) -> Peeled:
        nothing = np.zeros(0, dtype=np.int64)
        return Peeled(
            np.concatenate([nothing, *self._taken]),
            np.concatenate([nothing, *self._pivots]),
            np.flatnonzero(self._left),
        )
