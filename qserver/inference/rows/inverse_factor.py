"""A growing positive definite matrix, its inverse factor, and solutions with error bounds.

G = L L', and K = L^-1 is stored: a solution is K'K g, two products with one triangle, both done on
a block of rows while it is in cache. One step of refinement follows, and its residual bounds the
error: with d = x - G^-1 g and r = g - G x, the G-norm of d is abs(K r) <= norm(K) abs(r), and the
Frobenius norm of K is the root of trace(G^-1). For a vector y, abs(d y) <= abs(K r) abs(K y).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from qserver.inference.rows.axis_vectors import FloatArray

_BLOCK_ENTRIES = 1 << 17
_MAX_BLOCK = 256
_ROUNDING = 2.0**-53


@dataclass(frozen=True)
class Solution:
    """Solution of G x = g.

    Args:
        x: shape (n,).
        residual: g - G x, shape (n,).
        error: bound on the G-norm of the error of x. It is rigorous except for the rounding of the
            residual, for which an estimate is added.
    """

    x: FloatArray
    residual: FloatArray
    error: float


@dataclass(frozen=True)
class Newcomers:
    """Vectors that may join.

    Args:
        cross: inner products with the n old ones, shape (n, m).
        square: inner products with one another, shape (m, m).
        half: K cross.
    """

    cross: FloatArray
    square: FloatArray
    half: FloatArray

    @property
    def leftovers(self) -> FloatArray:
        """Gram matrix of the new vectors less their projections on the old, shape (m, m)."""
        return np.asarray(self.square - self.half.T @ self.half)

    def only(self, chosen: Sequence[int]) -> Newcomers:
        """The chosen ones."""
        return Newcomers(
            self.cross[:, chosen], self.square[np.ix_(chosen, chosen)], self.half[:, chosen]
        )

    def independent(self, least: float) -> list[int]:
        """Places of vectors with squared distance above `least` from the old and earlier ones."""
        rest, chosen = self.leftovers, []
        for i in range(len(rest)):
            pivot = rest[i, i]
            if pivot > least:
                chosen.append(i)
                rest -= np.outer(rest[:, i], rest[i]) / pivot
        return chosen


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
        """The solution after one step of refinement."""
        return self._solution(right, solution.x + self._apply_inverse(solution.residual))

    def _solution(self, right: FloatArray, x: FloatArray) -> Solution:
        residual = right - self._apply(x)
        size = float(np.linalg.norm(x))
        noise = _ROUNDING * (4.0 * size * (self.n + 1.0) ** 0.5 + float(np.linalg.norm(right)))
        error = self.inverse_trace**0.5 * (float(np.linalg.norm(residual)) + noise)
        return Solution(x, residual, error)

    def dual_norm(self, values: FloatArray) -> float:
        """abs(K y) for y of shape (n,): the largest y d over d of G-norm 1."""
        return float(np.linalg.norm(self.newcomers(values[:, None], np.zeros((1, 1))).half))

    @property
    def inverse_factor(self) -> FloatArray:
        """K, shape (n, n); existing entries stay the same when G grows."""
        return self._inverse[: self.n, : self.n]

    def newcomers(self, cross: FloatArray, square: FloatArray) -> Newcomers:
        """New vectors with their relation to the old ones.

        Args:
            cross: inner products of old and new, shape (n, m).
            square: inner products of the new, shape (m, m).
        """
        half = np.empty_like(cross)
        for block in self._blocks(_MAX_BLOCK):
            half[block] = self._inverse[block, : block.stop] @ cross[: block.stop]
        return Newcomers(cross, square, half)

    def append(self, new: Newcomers) -> None:
        """Grow by vectors that are independent of the old and of one another."""
        n, end = self.n, self.n + len(new.square)
        corner = np.tril(np.linalg.inv(np.linalg.cholesky(new.leftovers)))
        left = np.zeros((n, len(corner)))
        for block in self._blocks(_MAX_BLOCK):
            left[: block.stop] -= self._inverse[block, : block.stop].T @ new.half[block]
        left = corner @ left.T
        self._gram, self._inverse = self._grown(self._gram, end), self._grown(self._inverse, end)
        self._gram[n:end, :n], self._gram[n:end, n:end] = new.cross.T, new.square
        # Above the diagonal only entries that a diagonal block of `_apply` may reach.
        near = max(0, n - _MAX_BLOCK)
        self._gram[near:n, n:end] = new.cross[near:]
        self._inverse[n:end, :n], self._inverse[n:end, n:end] = left, corner
        self.inverse_trace += float(np.square(left).sum() + np.square(corner).sum())
        self.n = end

    def _blocks(self, rows: int) -> list[slice]:
        return [slice(i, min(i + rows, self.n)) for i in range(0, self.n, rows)]

    def _cached_blocks(self) -> list[slice]:
        """Blocks of rows that stay in cache while two products use them."""
        return self._blocks(max(16, min(_MAX_BLOCK, _BLOCK_ENTRIES // max(1, self.n))))

    def _grown(self, matrix: FloatArray, end: int) -> FloatArray:
        """`matrix` with room for `end` rows. Pages above the diagonal take no memory: untouched."""
        if end <= len(matrix):
            return matrix
        grown = np.zeros((max(end, 2 * len(matrix), 64),) * 2)
        for block in self._blocks(_MAX_BLOCK):
            used = slice(0, min(block.stop + _MAX_BLOCK, self.n))
            grown[block, used] = matrix[block, used]
        return grown

    def _apply_inverse(self, right: FloatArray) -> FloatArray:
        """K'K right, in one pass over K."""
        out = np.zeros_like(right)
        for block in self._cached_blocks():
            rows = self._inverse[block, : block.stop]
            out[: block.stop] += rows.T @ (rows @ right[: block.stop])
        return out

    def _apply(self, x: FloatArray) -> FloatArray:
        """G x, from the blocks on and below the diagonal."""
        out = np.zeros_like(x)
        for block in self._cached_blocks():
            out[block] += self._gram[block, : block.stop] @ x[: block.stop]
            out[: block.start] += self._gram[block, : block.start].T @ x[block]
        return out
