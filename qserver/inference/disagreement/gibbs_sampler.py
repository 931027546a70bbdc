"""Draws of many errors W together, given known sums of errors, by a Gibbs sampler.

A Laplace variable is normal given its variance t. So the chain goes in turns:

    errors given variances   normal: independent ones, moved until they have the known sums
    variances given errors   1/t is inverse Gaussian with mean 1/abs(u) and shape 1

The first solves a system with one unknown per known sum, or per basis error if these are fewer: it
takes nearly all of the time. If the draws themselves are used, each state of the variances gives
one: with 5 of each the probability beyond an end of a 90 percent interval was .067 in one of 29
histories, and with one at most .062 in 60.

An error that is a sum of Laplace variables is first split into these: they are normal given their
sum. Errors outside of all known sums are drawn separately.

References:
    Andrews and Mallows (1974) for the mixture; Park and Casella (2008) for both turns; Hoffman and
    Ribak (1991) for draws given sums.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.linalg.lapack import dposv
from scipy.sparse import csc_array, csr_array
from scipy.sparse.csgraph import connected_components

from qserver.inference.arrays import FloatArray, Places
from qserver.inference.disagreement.known_sums import Reduced

N_CHAINS: Final = 8
_MOST, _LEAST = 1_500, 250
"""Draws of each chain: more than `_MOST` are not needed, and fewer than `_LEAST` say too little."""
_MANY, _WARM, _OF_EACH = 40, 50, 100
"""Chains, and draws dropped and kept of each, where the draws themselves are wanted."""
_BEFORE = 100
"""Draws of each chain that are dropped, since they may still tell of where it began."""
_SEED = 18
_MOST_WORK: Final = 1.2e10
"""About two seconds."""
_WORK_OF_DRAW = 300.0
"""Of a variance, where that of a product of two numbers is 1."""
_NEAREST = 1e-12
_MOST_PAIRS = 1 << 22
_LARGE = 40
"""Unknowns from which Cholesky factors one by one are quicker: twice as quick at 160."""


def farthest_off(known: Reduced, middles: FloatArray, reaches: FloatArray) -> FloatArray | None:
    """Fixed draws of the largest distance of any W from its middle, in reaches, shape (8, any).

    Args:
        middles: of W minus its shift, shape (m,).
        reaches: how far each W may be from its middle, > 0, shape (m,).

    Returns:
        None if enough draws would take too long.
    """
    chain = _Chain(known, N_CHAINS)
    n = min(_MOST, int(_MOST_WORK / chain.work / N_CHAINS) - _BEFORE)
    if n < _LEAST:
        return None
    found = np.empty((N_CHAINS, n))
    for i in range(-_BEFORE, n):
        errors = chain.step()
        if i >= 0:
            found[:, i] = (np.abs(errors - middles) / reaches).max(axis=-1)
    return found


class _Chain:
    """Chains side by side.

    Args:
        known: sums of m errors W together.
        n: how many chains.
    """

    def __init__(self, known: Reduced, n: int) -> None:
        r, is_free = known.mixing.shape[1], ~known.mixing.any(axis=0)
        linked = np.flatnonzero(~is_free)
        self._random = np.random.default_rng(_SEED)
        mixing = known.mixing[:, linked]
        self._mixing, self._across = csr_array(mixing), csr_array(mixing.T)
        self._values = known.values
        self._products = _Products.of(mixing if len(mixing) <= len(linked) else mixing.T)
        self._is_by_sums = len(mixing) <= len(linked)
        self._weights = known.weights[:, linked].T
        self._free, self._free_counts = (
            known.weights[:, :r][:, is_free].T,
            known.counts[:r][is_free],
        )
        counts = np.append(known.counts[:r][~is_free], known.counts[r:]).astype(np.intp)
        self._counts, self._owners = counts, np.repeat(np.arange(len(counts)), counts)
        self._starts = np.cumsum(counts) - counts
        self._n = n
        self._variances = 2.0 * self._random.exponential(size=(n, int(counts.sum())))

    @property
    def work(self) -> float:
        """Approximate work of a draw of one chain."""
        n_drawn = len(self._owners) + len(self._free)
        n_weights = self._weights.size + self._free.size
        return self._products.work + float(n_weights) + _WORK_OF_DRAW * n_drawn

    def step(self) -> FloatArray:
        """The next draw of W minus its shift, per chain."""
        shares = self._sums(self._variances) / self._counts
        basis = self._basis(shares)
        others = self._values + _summed(self._mixing, basis)
        errors = np.concatenate([basis, others], axis=1)
        parts = self._parted(errors, shares)
        inverses = self._random.wald(1.0 / np.maximum(np.abs(parts), _NEAREST), 1.0)
        self._variances = 1.0 / np.maximum(inverses, _NEAREST)
        return np.asarray(basis @ self._weights + self._alone() @ self._free)

    def _basis(self, variances: FloatArray) -> FloatArray:
        """The basis errors given the variances of all."""
        r = self._mixing.shape[1]
        drawn = self._random.standard_normal(variances.shape) * np.sqrt(variances)
        basis, own = np.split(variances, [r], axis=1)
        missing = self._values + _summed(self._mixing, drawn[:, :r]) - drawn[:, r:]
        if self._is_by_sums:
            solved = self._products.solved(basis, own, missing)
            moved = basis * _summed(self._across, solved)
        else:
            sides = _summed(self._across, missing / own)
            moved = self._products.solved(1.0 / own, 1.0 / basis, sides)
        return np.asarray(drawn[:, :r] - moved)

    def _parted(self, errors: FloatArray, shares: FloatArray) -> FloatArray:
        """The Laplace variables that sum to the errors, over the root of their number."""
        if len(self._owners) == len(self._counts):
            return errors
        drawn = self._random.standard_normal(self._variances.shape) * np.sqrt(self._variances)
        missing = np.sqrt(self._counts) * errors - self._sums(drawn)
        return drawn + self._variances * (missing / (shares * self._counts))[:, self._owners]

    def _sums(self, parts: FloatArray) -> FloatArray:
        return np.asarray(np.add.reduceat(parts, self._starts, axis=1))

    def _alone(self) -> FloatArray:
        """Draws of the errors outside of all known sums, by chain."""
        counts = self._free_counts
        pair = self._random.standard_gamma(counts, (2, self._n, len(counts)))
        return np.asarray((pair[0] - pair[1]) / np.sqrt(counts))


@dataclass(frozen=True, eq=False)
class _Products:
    """Products A diag(v) A' of a matrix A, and their linear systems.

    Columns without a chain of common rows form separate blocks, solved apart.

    Args:
        rows: of the blocks of each size, shape (n_blocks, size).
        pairs: products of two entries of one column, block after block, shape (any, n); None for a
            single block with many.
    """

    matrix: FloatArray
    rows: tuple[Places, ...]
    pairs: csr_array | None

    @classmethod
    def of(cls, matrix: FloatArray) -> _Products:
        if (np.count_nonzero(matrix, axis=0) ** 2).sum() > _MOST_PAIRS:
            return cls(matrix, (np.arange(len(matrix))[None],), None)
        rows = _linked_rows(matrix)
        return cls(matrix, rows, csr_array(_pairs(matrix, rows)))

    @property
    def work(self) -> float:
        """Approximate work of a system."""
        if self.pairs is None:
            k, n = self.matrix.shape
            return float(k * k * (k + n))
        return float(self.pairs.nnz + sum(one.size * one.shape[1] ** 2 for one in self.rows))

    def solved(self, values: FloatArray, diagonal: FloatArray, sides: FloatArray) -> FloatArray:
        """x with (A diag(v) A' + a diagonal) x = side, for each v of shape (any, n)."""
        found, at = np.empty_like(sides), 0
        entries = None if self.pairs is None else (self.pairs @ values.T).T
        for rows in self.rows:
            n, k = rows.shape
            if entries is None:
                systems = ((self.matrix * values[:, None]) @ self.matrix.T)[:, None]
            else:
                systems = entries[:, at : at + rows.size * k].reshape(len(values), n, k, k)
                at += rows.size * k
            systems[..., np.arange(k), np.arange(k)] += diagonal[:, rows]
            found[:, rows] = _solved(systems, sides[:, rows])
        return found


def _solved(systems: FloatArray, sides: FloatArray) -> FloatArray:
    """x with S x = side, for positive definite S of shape (..., k, k).

    Large ones are factored one by one, by half as many steps.
    """
    k = sides.shape[-1]
    if k >= _LARGE:
        pairs = zip(systems.reshape(-1, k, k), sides.reshape(-1, k), strict=True)
        # A transposed view is in the order of columns, so it is not copied again.
        solved = [dposv(one.T, side, lower=1)[1:] for one, side in pairs]
        if not any(fault for _, fault in solved):
            return np.array([x for x, _ in solved]).reshape(sides.shape)
    return np.asarray(np.linalg.solve(systems, sides[..., None])[..., 0])


def _linked_rows(matrix: FloatArray) -> tuple[Places, ...]:
    """The rows of each block, grouped by the blocks' size."""
    pattern = csr_array(matrix != 0.0)
    _, labels = connected_components(pattern @ pattern.T, directed=False)
    sizes = np.bincount(labels)[labels]
    order = np.lexsort((labels, sizes))
    return tuple(order[sizes[order] == k].reshape(-1, k) for k in np.unique(sizes).tolist())


def _pairs(matrix: FloatArray, blocks: tuple[Places, ...]) -> csc_array:
    """The products of two entries of one column by their places in the blocks."""
    k, n = matrix.shape
    first, inside, size = (np.zeros(k, dtype=np.intp) for _ in range(3))
    n_entries = 0
    for rows in blocks:
        n_blocks, own = rows.shape
        first[rows] = n_entries + own * own * np.arange(n_blocks)[:, None]
        inside[rows], size[rows] = np.arange(own), own
        n_entries += own * rows.size
    at = [np.flatnonzero(column) for column in matrix.T]
    places = [((first[one] + inside[one] * size[one])[:, None] + inside[one]).ravel() for one in at]
    entries = [np.outer(matrix[one, j], matrix[one, j]).ravel() for j, one in enumerate(at)]
    starts = np.cumsum([0, *map(len, places)])
    joined = np.concatenate([np.zeros(0), *entries]), np.concatenate([first[:0], *places])
    return csc_array((*joined, starts), shape=(n_entries, n))


def _summed(matrix: csr_array, errors: FloatArray) -> FloatArray:
    """The matrix times the errors of each chain."""
    return np.asarray((matrix @ errors.T).T)


def drawn_errors(known: Reduced) -> FloatArray:
    """Fixed joint draws of errors W minus their shift, shape (m, any).

    Small errors outside of all known sums are drawn as normal.
    """
    chain = _Chain(known, _MANY)
    for _ in range(_WARM):
        chain.step()
    found = np.concatenate([chain.step() for _ in range(_OF_EACH)]).T
    random = np.random.default_rng(_SEED)
    small = random.standard_normal((found.shape[1], known.rest.shape[-1])) * np.sqrt(2.0)
    return np.asarray(found + known.rest @ small.T)
