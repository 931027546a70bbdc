"""A growing positive definite matrix, its inverse factor, and solutions with error bounds.

G = L L', and K = L^-1 is kept: a solution is K'K g, two products with one triangle, both done on
a block of rows while it is in cache. One step of refinement follows, and its residual bounds the
error: with d = x - G^-1 g and r = g - G x, the G-norm of d is abs(K r) <= norm(K) abs(r), and the
Frobenius norm of K is the root of trace(G^-1). For a vector y, abs(d y) <= abs(K r) abs(K y).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from qserver.inference.classes import FloatArray
from qserver.inference.growing import grown_matrix

_BLOCK_ENTRIES = 1 << 17
_MAX_BLOCK = 256
_ROUNDING = 2.0**-53


@dataclass(frozen=True)
class Solution:
    """Solution of G x = g.

    Args:
        x: shape (n,).
        residual: g - G x, shape (n,).
        error: bound on the G-norm of what is wrong with x: rigorous up to the rounding of the
            residual, for which an estimate is added.
    """

    x: FloatArray
    residual: FloatArray
    error: float


class GrowingFactor:
    """Symmetric positive definite G with inverse factor K, grown by blocks of rows."""

    def __init__(self) -> None:
        self.n = 0
        self._gram: FloatArray = np.zeros((0, 0))
        self._inverse: FloatArray = np.zeros((0, 0))
        self.inverse_trace = 0.0

    def solve(self, right: FloatArray) -> Solution:
        """Solution of G x = g for g of shape (n,), not yet refined."""
        return self._solution(right, self._apply_inverse(right))

    def refined(self, right: FloatArray, solution: Solution) -> Solution:
        """The same after one step of refinement."""
        return self._solution(right, solution.x + self._apply_inverse(solution.residual))

    def _solution(self, right: FloatArray, x: FloatArray) -> Solution:
        residual = right - self._apply(x)
        size = float(np.linalg.norm(x))
        noise = _ROUNDING * (4.0 * size * (self.n + 1.0) ** 0.5 + float(np.linalg.norm(right)))
        error = self.inverse_trace**0.5 * (float(np.linalg.norm(residual)) + noise)
        return Solution(x, residual, error)

    def dual_norm(self, values: FloatArray) -> float:
        """abs(K y) for y of shape (n,): the largest y d over d of G-norm 1."""
        return float(np.linalg.norm(self._half(values)))

    def leftovers(self, cross: FloatArray, square: FloatArray) -> FloatArray:
        """Gram matrix of new vectors minus their projections on the old, shape (m, m).

        Args:
            cross: inner products of old and new, shape (n, m).
            square: inner products of the new, shape (m, m).
        """
        half = self._half(cross)
        return np.asarray(square - half.T @ half)

    def append(self, cross: FloatArray, square: FloatArray) -> None:
        """Grow by m vectors that are independent of the old and of one another.

        Args:
            cross: inner products of old and new, shape (n, m).
            square: inner products of the new, shape (m, m).
        """
        m, n, end = square.shape[0], self.n, self.n + square.shape[0]
        half = self._half(cross)
        lower = np.linalg.cholesky(square - half.T @ half)
        corner = np.linalg.inv(lower)
        left = -corner @ self._half_transposed(half).T
        self._gram = grown_matrix(self._gram, end, end)
        self._inverse = grown_matrix(self._inverse, end, end)
        self._gram[n:end, :n], self._gram[n:end, n:end] = cross.T, square
        # Above the diagonal only what a block of `_apply` on the diagonal may reach.
        near = max(0, n - _MAX_BLOCK)
        self._gram[near:n, n:end] = cross[near:]
        self._inverse[n:end, :n], self._inverse[n:end, n:end] = left, np.tril(corner)
        self.inverse_trace += float(np.square(left).sum() + np.square(np.tril(corner)).sum())
        self.n += m

    def _blocks(self) -> list[slice]:
        rows = max(16, min(_MAX_BLOCK, _BLOCK_ENTRIES // max(1, self.n)))
        return [slice(i, min(i + rows, self.n)) for i in range(0, self.n, rows)]

    def _half(self, right: FloatArray) -> FloatArray:
        """K right."""
        out = np.empty_like(right)
        for block in self._blocks():
            out[block] = self._inverse[block, : block.stop] @ right[: block.stop]
        return out

    def _half_transposed(self, half: FloatArray) -> FloatArray:
        """K' half."""
        out = np.zeros_like(half)
        for block in self._blocks():
            out[: block.stop] += self._inverse[block, : block.stop].T @ half[block]
        return out

    def _apply_inverse(self, right: FloatArray) -> FloatArray:
        """K'K right, in one pass over K."""
        out = np.zeros_like(right)
        for block in self._blocks():
            rows = self._inverse[block, : block.stop]
            out[: block.stop] += rows.T @ (rows @ right[: block.stop])
        return out

    def _apply(self, x: FloatArray) -> FloatArray:
        """G x, from the blocks on and below the diagonal."""
        out = np.zeros_like(x)
        for block in self._blocks():
            out[block] += self._gram[block, : block.stop] @ x[: block.stop]
            out[: block.start] += self._gram[block, : block.start].T @ x[block]
        return out
