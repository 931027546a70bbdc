"""Draws of many errors W together, given known sums of errors, by a Gibbs sampler.

A Laplace variable is normal given its variance t. So the chain goes in turns:

    errors given variances   normal: u = u[:r] by the precision 1/t[:r] + mixing' (1/t[r:]) mixing
    variances given errors   1/t is inverse Gaussian with mean 1/abs(u) and shape 1

An error that is the sum of some Laplace variables is parted into these first: they are normal given
their sum. Errors that are in no known sum are drawn by themselves.

References:
    Andrews and Mallows (1974) for the mixture; Park and Casella (2008) for both turns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.linalg import solve_triangular

from qserver.inference.arrays import FloatArray, Places
from qserver.inference.given.known_sums import Reduced

N_CHAINS: Final = 8
_MOST, _LEAST = 1_500, 250
"""Draws of each chain: more than `_MOST` are not needed, and fewer than `_LEAST` say too little."""
_MANY, _OF_EACH = 40, 100
"""Chains, and draws of each, where the draws themselves are wanted."""
_BEFORE = 100
"""Draws of each chain that are dropped, since they may still tell of where it began."""
_SEED = 18
_MOST_WORK: Final = 1.2e10
"""About two seconds."""
_WORK_OF_DRAW = 300.0
"""Of a variance, where that of a product of two numbers is 1."""
_NEAREST = 1e-12
_AT_ONCE = 40
"""Systems of at most so many errors are solved for all chains at once."""


@dataclass(frozen=True, eq=False)
class Limits:
    """How far each W may be from its middle, arrays of shape (m,).

    Args:
        middles: of W less its shift.
        reaches: > 0.
    """

    middles: FloatArray
    reaches: FloatArray

    def farthest(self, errors: FloatArray) -> FloatArray:
        """By draw the most that any W is off, in reaches; errors of shape (any, m)."""
        return np.asarray((np.abs(errors - self.middles) / self.reaches).max(axis=-1))


def farthest_off(known: Reduced, limits: Limits) -> FloatArray | None:
    """Draws of the most that any W is off its middle, in reaches, shape (8, any); always the same.

    Returns:
        None where as many draws as it takes would take too long.
    """
    chain = _Chain.of(known)
    n = min(_MOST, int(_MOST_WORK / chain.work / N_CHAINS) - _BEFORE)
    if n < _LEAST:
        return None
    found = np.empty((N_CHAINS, n))
    for i in range(-_BEFORE, n):
        errors = chain.step()
        if i >= 0:
            found[:, i] = limits.farthest(errors)
    return found


class _Chain:
    """Chains side by side.

    Args:
        known: of m errors W together.
        linked: places of the basis errors that are in known sums.
        n: how many chains.
    """

    def __init__(self, known: Reduced, linked: Places, n: int) -> None:
        r = known.mixing.shape[1]
        is_free = ~np.isin(np.arange(r), linked)
        self._random = np.random.default_rng(_SEED)
        self._mixing, self._values = known.mixing[:, linked], known.values
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

    @classmethod
    def of(cls, known: Reduced, *, n: int = N_CHAINS) -> _Chain:
        return cls(known, np.flatnonzero(known.mixing.any(axis=0)), n)

    @property
    def work(self) -> float:
        """Of a draw of one chain, about."""
        k, r = self._mixing.shape
        n_drawn = len(self._owners) + len(self._free)
        n_weights = self._weights.size + self._free.size
        return float(r * r * (r + k) + n_weights) + _WORK_OF_DRAW * n_drawn

    def step(self) -> FloatArray:
        """The next draw of W less its shift, of each chain."""
        shares = self._sums(self._variances) / self._counts
        basis = self._basis(1.0 / shares)
        errors = np.concatenate([basis, self._values + basis @ self._mixing.T], axis=1)
        parts = self._parted(errors, shares)
        inverses = self._random.wald(1.0 / np.maximum(np.abs(parts), _NEAREST), 1.0)
        self._variances = 1.0 / np.maximum(inverses, _NEAREST)
        return np.asarray(basis @ self._weights + self._alone() @ self._free)

    def _basis(self, precisions: FloatArray) -> FloatArray:
        """The basis errors given the variances."""
        mixing, r = self._mixing, self._mixing.shape[1]
        of_others = precisions[:, r:]
        whole = (mixing.T * of_others[:, None]) @ mixing
        whole[:, np.arange(r), np.arange(r)] += precisions[:, :r]
        lower = np.linalg.cholesky(whole)
        left = -(of_others * self._values) @ mixing
        noise = self._random.standard_normal((self._n, r))
        if r <= _AT_ONCE:
            inner = np.linalg.solve(lower, left[..., None]) + noise[..., None]
            return np.asarray(np.linalg.solve(lower.swapaxes(1, 2), inner)[..., 0])
        return np.stack([_drawn(*one) for one in zip(lower, left, noise, strict=True)])

    def _parted(self, errors: FloatArray, shares: FloatArray) -> FloatArray:
        """The Laplace variables that the errors are sums of, over the root of their number."""
        if len(self._owners) == len(self._counts):
            return errors
        drawn = self._random.standard_normal(self._variances.shape) * np.sqrt(self._variances)
        missing = np.sqrt(self._counts) * errors - self._sums(drawn)
        return drawn + self._variances * (missing / (shares * self._counts))[:, self._owners]

    def _sums(self, parts: FloatArray) -> FloatArray:
        return np.asarray(np.add.reduceat(parts, self._starts, axis=1))

    def _alone(self) -> FloatArray:
        """The errors that are in no known sum, by chain."""
        counts = self._free_counts
        pair = self._random.standard_gamma(counts, (2, self._n, len(counts)))
        return np.asarray((pair[0] - pair[1]) / np.sqrt(counts))


def _drawn(lower: FloatArray, left: FloatArray, noise: FloatArray) -> FloatArray:
    """Normal with precision lower @ lower.T, and a mean that this takes to `left`."""
    inner = solve_triangular(lower, left, lower=True, check_finite=False) + noise
    return np.asarray(solve_triangular(lower, inner, lower=True, trans="T", check_finite=False))


def drawn_errors(known: Reduced) -> FloatArray:
    """Draws of some errors W together, less their shift, shape (m, any); always the same.

    Errors that are small, and in no known sum, are drawn as normal ones.
    """
    chain = _Chain.of(known, n=_MANY)
    drawn = [chain.step() for _ in range(_BEFORE + _OF_EACH)][_BEFORE:]
    found = np.concatenate(drawn).T
    random = np.random.default_rng(_SEED)
    small = random.standard_normal((found.shape[1], known.rest.shape[-1])) * np.sqrt(2.0)
    return np.asarray(found + known.rest @ small.T)
