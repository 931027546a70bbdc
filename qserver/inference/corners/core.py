"""The rows that are left after peeling: weights of least variance on one connected part of them.

Minimise the sum of a_i^2 b_i^2 with H'a = r. Small parts are solved by orthogonal factors: first
the row space of H, which does not depend on the noise, then the weights on it. In a large part let
M = H'WH with W = 1/b^2 and columns of unit length. M is singular where rows depend on others, so
M + eI is factored, and the weights are a = WHy with y = (M + eI)^-1 r. They leave a small rest
r - My of the right side. Repeated on the rest this is a proximal point method, and it converges to
the weights of least variance.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from scipy.linalg import blas, lapack, qr
from scipy.sparse import csc_array, csr_array, diags_array, eye_array
from scipy.sparse.linalg import splu

from qserver.inference.arrays import FloatArray
from qserver.inference.corners.vectors import IntArray

MOST_FOR_DIRECTIONS = 200
"""With more rows in reach of a question, only the weights of least variance are tried."""

_SMALL = 300
_RANK = 1e-13
_SHIFTS = (1e-12, 1e-11, 1e-10, 1e-9)
_SPARSE = 0.1


class Core(ABC):
    """One connected part of the core.

    Args:
        rows: numbers of its rows, shape (n,).
        matrix: the rows on the part's corners, shape (n, m).
        scales: b per row, > 0, shape (n,).
    """

    def __init__(self, rows: IntArray, matrix: csr_array, scales: FloatArray) -> None:
        self.rows = rows
        self._matrix, self._scales = matrix, scales

    @abstractmethod
    def weights(self, right: FloatArray) -> FloatArray:
        """Weights of least variance that give `right`, or come close to it, shape (n,)."""

    @property
    def directions(self) -> FloatArray | None:
        """Weights that give nothing, orthonormal in sum of a^2 b^2; None if there are many rows."""
        return None

    @property
    def factor(self) -> FloatArray | None:
        """The factor that takes long to find again, if there is one."""
        return None


def core_of(
    rows: IntArray, matrix: csr_array, scales: FloatArray, factor: FloatArray | None = None
) -> Core:
    """The solver for a part, by its size.

    Args:
        factor: of a large dense part, if it is known.
    """
    if min(matrix.shape) <= _SMALL and matrix.shape[0] < 10 * _SMALL:
        return SmallCore(rows, matrix, scales)
    return LargeCore(rows, matrix, scales, factor)


class SmallCore(Core):
    """A part with few rows or few corners."""

    def weights(self, right: FloatArray) -> FloatArray:
        """Weights of least variance that give `right`, or come close to it, shape (n,)."""
        return np.asarray(self._solution @ right)

    @property
    def directions(self) -> FloatArray | None:
        """Weights that give nothing, orthonormal in sum of a^2 b^2; None if there are many rows."""
        return self._null_space if self._has_few_rows else None

    @cached_property
    def _solution(self) -> FloatArray:
        """The weights as a matrix on the right side, shape (n, m)."""
        found = self._factors
        rank = len(found.order)
        inner = np.linalg.solve(found.right.T, found.spanning.T[found.order])
        return np.asarray((found.left[:, :rank] @ inner) / self._scales[:, None])

    @cached_property
    def _null_space(self) -> FloatArray:
        found = self._factors
        return np.asarray(found.left[:, len(found.order) :].T / self._scales)

    @cached_property
    def _factors(self) -> _Factors:
        dense = np.asarray(self._matrix.todense())
        unit = dense / np.linalg.norm(dense, axis=1)[:, None]
        _, values, right = np.linalg.svd(unit, full_matrices=False)
        rank = int(np.count_nonzero(values > _RANK * values[0]))
        spanning = right[:rank].T
        work = (dense @ spanning) / self._scales[:, None]
        # Rows of least noise come first: elimination is then stable at any ratio of the scales.
        order = np.argsort(-np.abs(work).max(axis=1), kind="stable")
        mode: Literal["full", "economic"] = "full" if self._has_few_rows else "economic"
        left, upper, columns = qr(work[order], mode=mode, pivoting=True)
        back = np.empty_like(left)
        back[order] = left
        return _Factors(spanning, back, np.asarray(upper[:rank]), columns.astype(np.int64))

    @property
    def _has_few_rows(self) -> bool:
        return len(self.rows) <= MOST_FOR_DIRECTIONS


@dataclass(frozen=True, eq=False)
class _Factors:
    """Rows on their row space, over their scales, as `left` `right` with columns in `order`.

    Args:
        spanning: an orthonormal basis of the row space, shape (m, rank).
        left: orthonormal columns, shape (n, rank), or (n, n) for few rows.
        right: upper triangular, shape (rank, rank).
    """

    spanning: FloatArray
    left: FloatArray
    right: FloatArray
    order: IntArray


class LargeCore(Core):
    """A part with many rows and corners, by a sparse or dense factor."""

    def __init__(
        self, rows: IntArray, matrix: csr_array, scales: FloatArray, factor: FloatArray | None
    ) -> None:
        super().__init__(rows, matrix, scales)
        weighted = diags_array(1.0 / scales) @ matrix
        self._norms = np.sqrt(np.asarray(weighted.multiply(weighted).sum(axis=0)).ravel())
        self._unit = csr_array(weighted @ diags_array(1.0 / self._norms))
        self._lower = factor
        if factor is not None:
            return
        gram = csc_array(csr_array(self._unit.T) @ self._unit)
        if gram.nnz < _SPARSE * gram.shape[0] ** 2:
            shifted = csc_array(gram + _SHIFTS[0] * eye_array(gram.shape[0]))
            options = {"SymmetricMode": True, "Equil": False}
            self._sparse = splu(
                shifted, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options=options
            )
        else:
            self._lower = _cholesky(gram)

    @property
    def factor(self) -> FloatArray | None:
        """The factor that takes long to find again, if there is one."""
        return self._lower

    def weights(self, right: FloatArray) -> FloatArray:
        """Weights of least variance that give `right`, or come close to it, shape (n,)."""
        found = self._unit @ self._inverse(right / self._norms)
        return np.asarray(found / self._scales)

    def _inverse(self, right: FloatArray) -> FloatArray:
        if self._lower is None:
            return np.asarray(self._sparse.solve(right))
        # For one right side this takes half of the time of LAPACK's dpotrs.
        half = blas.dtrsv(self._lower, right, lower=1)
        return np.asarray(blas.dtrsv(self._lower, half, lower=1, trans=1))


def _cholesky(gram: csc_array) -> FloatArray:
    for shift in _SHIFTS:
        dense = np.asfortranarray(gram.todense())
        dense[np.diag_indices_from(dense)] += shift
        lower, failed = lapack.dpotrf(dense, lower=1, overwrite_a=1, clean=0)
        if not failed:
            return np.asarray(lower)
    raise np.linalg.LinAlgError("The Gram matrix of the core is not positive definite.")
