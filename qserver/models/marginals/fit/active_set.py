"""Non-negative least squares with columns that are added over time (Lawson and Hanson)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from qserver.models.marginals.graph.layout import FloatArray

_LEAST_PIVOT = 1e-10
"""A column with less than this part of its square outside the active span counts as dependent."""
_ROUNDING = 1e-12
_TINY = 1e-300


class ActiveSet:
    """The active columns and their values > 0, a least squares fit to the target.

    Args:
        target: the vector to fit, shape (rows,).

    References:
        Lawson and Hanson (1974), chapter 23.
    """

    def __init__(self, target: FloatArray) -> None:
        self._target = target
        self._values: FloatArray = np.zeros(0)
        # There are never more active columns than rows: further ones depend on them.
        n = len(target)
        self._columns: FloatArray = np.zeros((n, n))
        self._gram: FloatArray = np.zeros((n, n))
        self._root: FloatArray = np.zeros((n, n))
        self.ids: list[int] = []

    @property
    def values(self) -> FloatArray:
        """The value of each active column, in the order of `ids`."""
        return self._values

    @property
    def columns(self) -> FloatArray:
        """The active columns, shape (rows, n)."""
        return self._columns[: len(self._values)].T

    def add(self, columns: FloatArray, ids: list[int]) -> int:
        """Add columns while one lowers the distance; returns how many were added.

        Args:
            columns: candidates, shape (rows, n).
            ids: identifier of each candidate.
        """
        n_entered = 0
        left = np.ones(columns.shape[1], dtype=np.bool_)
        while left.any():
            slopes = columns.T @ (self._target - self.columns @ self._values)
            slopes[~left] = -np.inf
            i = int(slopes.argmax())
            left[i] = False
            if slopes[i] <= 0.0:
                break
            if self._append(columns[:, i], ids[i]):
                n_entered += 1
                self._settle()
        return n_entered

    def _append(self, column: FloatArray, name: int) -> bool:
        """Add a column with value 0, unless it depends on the active ones."""
        k = len(self._values)
        inner, norm = self.columns.T @ column, float(column @ column)
        root = self._root[:k, :k]
        cross = solve_triangular(root, inner, lower=True, check_finite=False) if k else inner
        pivot = norm - float(cross @ cross)
        if k == len(self._target) or pivot <= _LEAST_PIVOT * norm:
            return False
        self._columns[k] = column
        self._gram[k, :k], self._gram[:k, k], self._gram[k, k] = inner, inner, norm
        self._root[k, :k], self._root[k, k] = cross, np.sqrt(pivot)
        self.ids.append(name)
        self._values = np.append(self._values, 0.0)
        return True

    def _settle(self) -> None:
        """Move to the least squares of the active columns; drop those that reach zero."""
        while True:
            found = self._solved(self._target)
            if (found > 0.0).all():
                # Solve once more for the residual: the Gram matrix squares errors.
                found += self._solved(self._target - self.columns @ found)
            low = found <= 0.0
            if not low.any():
                self._values = found
                return
            now = self._values
            part = float((now[low] / np.maximum(now[low] - found[low], _TINY)).min())
            moved = now + part * (found - now)
            moved[low & (moved <= _ROUNDING * moved.max())] = 0.0
            # The column that stops the move is dropped, even if rounding left it above zero.
            moved[np.flatnonzero(low)[moved[low].argmin()]] = 0.0
            self._keep(moved > 0.0, moved)

    def _keep(self, kept: NDArray[np.bool_], values: FloatArray) -> None:
        """Drop columns; those before the first dropped one keep their place."""
        k, n = len(values), int(kept.sum())
        i = int(kept.argmin())
        stay = np.flatnonzero(kept[i:]) + i
        self._columns[i:n] = self._columns[stay]
        self._gram[i:n, :k] = self._gram[stay, :k]
        self._gram[:n, i:n] = self._gram[:n, stay]
        left = self._root[stay, :i]
        self._root[i:n, :i] = left
        self._root[i:n, i:n] = np.linalg.cholesky(self._gram[i:n, i:n] - left @ left.T)
        self.ids = [name for name, stays in zip(self.ids, kept, strict=True) if stays]
        self._values = values[kept]

    def _solved(self, target: FloatArray) -> FloatArray:
        """Least squares solution on the active columns."""
        root = self._root[: len(self._values), : len(self._values)]
        right = self.columns.T @ target
        half = solve_triangular(root, right, lower=True, check_finite=False)
        return np.asarray(solve_triangular(root, half, lower=True, trans=1, check_finite=False))
