"""Public rows as constraints: all other rows modulo the public ones.

A public row has no noise, so any multiple of it may be taken off a query. Each independent public
row gives up one corner, its pivot: rows and queries are reduced until they have no pivot. The total
is one corner alone, so reducing by it only drops that corner.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from qserver.inference.arrays import FloatArray
from qserver.inference.corners.vectors import IntArray

_NOTHING = 1e-9


@dataclass(frozen=True, eq=False)
class Quotient:
    """Public rows in reduced form.

    Args:
        pivots: corner of each independent public row, shape (k,).
        reduced: combinations of public rows with 1 at their own pivot and 0 at the others,
            shape (k, n_corners).
        mix: weights of the public rows in the reduced ones, shape (k, n_public).
    """

    pivots: IntArray
    reduced: csr_array
    mix: FloatArray

    @classmethod
    def of(cls, public: csr_array) -> Quotient:
        """The reduced form of these rows; those that repeat others get no weight."""
        columns = np.unique(public.indices)
        work = np.asarray(public[:, columns].todense(), dtype=np.float64)
        n = len(work)
        sizes = np.abs(work).max(axis=1, initial=0.0)
        sizes[sizes == 0.0] = 1.0
        work = np.hstack([work, np.eye(n)]) / sizes[:, None]
        left, pivots = list(range(n)), []
        while left:
            part = np.abs(work[left][:, : len(columns)])
            if part.max(initial=0.0) <= _NOTHING:
                break
            place, column = divmod(int(part.argmax()), len(columns))
            row = left.pop(place)
            work[row] /= work[row, column]
            others = np.arange(n) != row
            work[others] -= np.outer(work[others, column], work[row])
            pivots.append((row, column))
        rows = [r for r, _ in pivots]
        reduced = work[rows][:, : len(columns)]
        reduced[np.abs(reduced) < _NOTHING] = 0.0
        spread = csr_array(reduced)
        spread = csr_array(
            (spread.data, columns[spread.indices], spread.indptr),
            shape=(len(rows), public.shape[1]),
        )
        at = columns[[c for _, c in pivots]] if pivots else np.zeros(0, dtype=np.int64)
        return cls(at.astype(np.int64), spread, work[rows][:, len(columns) :])

    def without(self, rows: csr_array) -> csr_array:
        """The rows modulo the public ones."""
        if not len(self.pivots):
            return rows
        shares = rows[:, self.pivots]
        found = csr_array(rows - shares @ self.reduced)
        # What is as small as rounding is nothing.
        sizes = _largest(rows) + _largest(shares) * float(np.abs(self.reduced.data).max())
        row_of = np.repeat(np.arange(found.shape[0]), np.diff(found.indptr))
        found.data[np.abs(found.data) < _NOTHING * sizes[row_of]] = 0.0
        found.eliminate_zeros()
        return found


def _largest(rows: csr_array) -> FloatArray:
    """The largest value of each row by size."""
    rows = csr_array(rows)
    found = np.zeros(rows.shape[0])
    np.maximum.at(found, np.repeat(np.arange(len(found)), np.diff(rows.indptr)), np.abs(rows.data))
    return found
