"""Normal laws of independent errors with known sums, without a matrix of all by all errors.

A Laplace variable is normal given its variance t, and t is exponential with mean 2. A sum of m of
them, divided by the root of m, is normal given a variance that is a gamma variable of shape m and
mean 2. So one law serves cells of tables and sums of cells alike.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Final

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.special import erfcx, expit, gammainccinv, gammaincinv, log_ndtr

from qserver.inference.arrays import FloatArray, Places

LAPLACE_VARIANCE: Final = 2.0
"""Variance of Lap(1), and mean of t."""
_BELOW, _ABOVE = 5e-8, 4e-18
"""Probabilities that t lies outside the edges: above, the law of an error may be far out."""


def log_edges(counts: FloatArray, n_cells: int) -> FloatArray:
    """Even edges of log t that cover nearly all of its law, shape (n, n_cells + 1).

    Args:
        counts: m of each error, whole and >= 1, shape (n,).
    """
    kinds, which = np.unique(counts, return_inverse=True)
    edges = np.array([_edges(count, n_cells) for count in kinds.tolist()])
    return np.asarray(edges.reshape(-1, n_cells + 1)[which.ravel()])


@lru_cache(maxsize=1 << 10)
def _edges(count: float, n_cells: int) -> FloatArray:
    low = np.log(LAPLACE_VARIANCE * gammaincinv(count, _BELOW) / count)
    high = np.log(LAPLACE_VARIANCE * gammainccinv(count, _ABOVE) / count)
    return np.linspace(low, high, n_cells + 1)


def log_density(logs: FloatArray, counts: FloatArray) -> FloatArray:
    """Log density of log t, up to a constant per count."""
    return np.asarray(counts * (logs - np.exp(logs) / LAPLACE_VARIANCE))


NARROWEST = 1e-8
"""Least variance of such a law, in that of the normal one."""
_N_NODES = 161


@dataclass(frozen=True, eq=False)
class Cavity:
    """Normal laws of single errors without their own factor, arrays of shape (n,).

    Args:
        mean, variance: under several histories that differ only in answers, shape (any, n).
        counts: number of Laplace variables in each error.
    """

    mean: FloatArray
    variance: FloatArray
    counts: FloatArray

    def with_factors(self) -> tuple[FloatArray, FloatArray]:
        """Mean and variance of each law times the density of its error."""
        alone = self.counts == 1.0
        mean, variance = self._with_laplace()
        if not alone.all():
            sums = Cavity(self.mean[..., ~alone], self.variance[..., ~alone], self.counts[~alone])
            mean[..., ~alone], variance[..., ~alone], _, _ = sums._moments()
        return mean, np.maximum(variance, NARROWEST * self.variance)

    def _with_laplace(self) -> tuple[FloatArray, FloatArray]:
        """Mean and variance of each law times exp(-abs(u))."""
        deviation = np.sqrt(self.variance)
        # Two halves of normal laws: u > 0 with the mean lowered by the variance, and u < 0.
        a = (self.mean - self.variance) / deviation
        b = -(self.mean + self.variance) / deviation
        # log of each half's mass, but for a common factor.
        log_a, log_b = log_ndtr(a) - self.mean, log_ndtr(b) + self.mean
        share = expit(log_a - log_b)
        ratio_a, ratio_b = _ratio(a), _ratio(b)
        mean_a, mean_b = deviation * (a + ratio_a), -deviation * (b + ratio_b)
        within_a, within_b = 1.0 - ratio_a * (a + ratio_a), 1.0 - ratio_b * (b + ratio_b)
        within = self.variance * (share * within_a + (1.0 - share) * within_b)
        between = share * (1.0 - share) * np.square(mean_a - mean_b)
        mean = share * mean_a + (1.0 - share) * mean_b
        return mean, within + between

    def shapes(self) -> tuple[FloatArray, FloatArray]:
        """Sizes of skewness and excess kurtosis of each law times the density of its error."""
        _, variance, third, fourth = self._moments()
        variance = np.maximum(variance, NARROWEST * self.variance)
        return np.abs(third) / variance**1.5, np.abs(fourth / variance**2 - 3.0)

    def _moments(self) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Mean and central moments 2 to 4, by the normal laws given each variance."""
        logs = log_edges(self.counts, _N_NODES - 1)
        variances = np.exp(logs)
        spread = self.variance[..., None] + variances
        shares = self.shares(logs)
        gain = variances / spread
        means, within = gain * self.mean[..., None], gain * self.variance[..., None]
        mean = (shares * means).sum(axis=-1)
        off = means - mean[..., None]
        square = np.square(off)
        second = (shares * (square + within)).sum(axis=-1)
        third = (shares * off * (square + 3.0 * within)).sum(axis=-1)
        fourth = square * (square + 6.0 * within) + 3.0 * np.square(within)
        return mean, second, third, (shares * fourth).sum(axis=-1)

    def shares(self, logs: FloatArray) -> FloatArray:
        """The law of each error's own variance on even places of its logarithm, shape (..., n, m).

        Args:
            logs: shape (n, m).
        """
        spread = self.variance[..., None] + np.exp(logs)
        density = log_density(logs, self.counts[:, None]) - 0.5 * np.log(spread)
        density -= 0.5 * np.square(self.mean)[..., None] / spread
        shares = np.exp(density - density.max(axis=-1, keepdims=True))
        return np.asarray(shares / shares.sum(axis=-1, keepdims=True))

    def some(self, places: Places) -> Cavity:
        """The cavities of some errors."""
        return Cavity(self.mean[..., places], self.variance[..., places], self.counts[places])


def _ratio(x: FloatArray) -> FloatArray:
    """Density over distribution function of the standard normal law, without underflow."""
    return np.asarray(np.sqrt(2.0 / np.pi) / erfcx(-x / np.sqrt(2.0)))


_WIDEST = 1e4
_KNOWN = 1e-14


@dataclass(frozen=True, eq=False)
class Sites:
    """Normal factors of single errors, arrays of shape (n,), in units of each scale."""

    means: FloatArray
    variances: FloatArray


@dataclass(frozen=True, eq=False)
class Axis:
    """Places of the logarithm of a variance, and logarithms of their weights; shape (b, n)."""

    logs: FloatArray
    weights: FloatArray

    def every_second(self, start: int) -> Axis:
        """Every second place."""
        return Axis(self.logs[:, start::2], self.weights[:, start::2])


class NormalLaw(ABC):
    """The normal law of errors given known sums, in units of each scale.

    Under several histories that differ only in answers, all arrays have an axis of these first.

    Attributes:
        mean: shape (n,).
        diagonal: their variances, shape (n,).
        sites: the normal factors of the errors.
        counts: number of Laplace variables in each error, shape (n,).
        axes: places for the variances of single errors, where they were found.
    """

    mean: FloatArray
    diagonal: FloatArray

    def __init__(self, sites: Sites, counts: FloatArray) -> None:
        self.sites, self.counts = sites, counts
        self.axes: dict[tuple[float, ...], Axis] = {}

    @abstractmethod
    def times(self, weights: FloatArray) -> FloatArray:
        """The covariances times weights, of shape (n,) or (n, any)."""

    @abstractmethod
    def among(self, places: Places) -> FloatArray:
        """The covariances of some errors, shape (m, m)."""

    @cached_property
    def cavity(self) -> Cavity:
        """The law of each error without its own site; a bounded variance if there is none."""
        sites = self.sites
        variance = np.maximum(self.diagonal, _KNOWN * sites.variances)
        precision = np.maximum(1.0 / variance - 1.0 / sites.variances, 1.0 / _WIDEST)
        shift = self.mean / variance - sites.means / sites.variances
        return Cavity(shift / precision, 1.0 / precision, self.counts)

    @cached_property
    def shapes(self) -> tuple[FloatArray, FloatArray]:
        """Sizes of skewness and excess kurtosis of each error's law, shape (n,)."""
        return self.cavity.shapes()


class BySums(NormalLaw):
    """Errors corrected by the known sums.

    Args:
        sums, values: sums @ u = values, shapes (k, n) and (k,).
    """

    def __init__(
        self, sums: FloatArray, values: FloatArray, sites: Sites, counts: FloatArray
    ) -> None:
        super().__init__(sites, counts)
        self._variances = sites.variances
        self._spread = sums * sites.variances[..., None, :]
        self._gain, self.mean = self._spread, sites.means
        if len(sums):
            self._gain = _solved(self._spread @ sums.T, self._spread)
            left = values - sites.means @ sums.T
            self.mean = sites.means + (left[..., None, :] @ self._gain)[..., 0, :]
        self.diagonal = sites.variances - (self._spread * self._gain).sum(axis=-2)

    def times(self, weights: FloatArray) -> FloatArray:
        """The covariances times weights."""
        plain = (self._variances * weights.T).T if weights.ndim > 1 else self._variances * weights
        told = self._gain @ weights
        if self._spread.ndim == 2:
            return np.asarray(plain - self._spread.T @ told)
        return np.asarray(plain - (told[..., None, :] @ self._spread)[..., 0, :])

    def among(self, places: Places) -> FloatArray:
        """The covariances of some errors."""
        told = np.swapaxes(self._spread[..., places], -1, -2) @ self._gain[..., places]
        return np.asarray(self._variances[..., places, None] * np.eye(len(places)) - told)


class ByBasis(NormalLaw):
    """The errors of a basis by all factors; the others follow from them.

    Args:
        mixing, values: the others are values + mixing @ basis, shapes (k, r) and (k,).
        sites, counts: of all errors, those of the basis first.
    """

    def __init__(
        self, mixing: FloatArray, values: FloatArray, sites: Sites, counts: FloatArray
    ) -> None:
        super().__init__(sites, counts)
        r = mixing.shape[1]
        self._mixing, precisions = mixing, 1.0 / sites.variances
        of_others = precisions[r:]
        whole = (mixing.T * of_others) @ mixing
        whole[np.diag_indices(r)] += precisions[:r]
        self._basis = cho_solve(cho_factor(whole), np.eye(r))
        left = of_others * (sites.means[r:] - values)
        basis = self._basis @ (precisions[:r] * sites.means[:r] + left @ mixing)
        self.mean = np.append(basis, values + mixing @ basis)
        others = ((mixing @ self._basis) * mixing).sum(axis=1)
        self.diagonal = np.append(np.diag(self._basis), others)

    def times(self, weights: FloatArray) -> FloatArray:
        """The covariances times weights."""
        r = len(self._basis)
        basis = self._basis @ (weights[:r] + self._mixing.T @ weights[r:])
        return np.concatenate([basis, self._mixing @ basis])

    def among(self, places: Places) -> FloatArray:
        """The covariances of some errors."""
        r = len(self._basis)
        on_basis = np.zeros((len(places), r))
        own = places < r
        on_basis[own, places[own]] = 1.0
        on_basis[~own] = self._mixing[places[~own] - r]
        return np.asarray(on_basis @ self._basis @ on_basis.T)


class WithFree(NormalLaw):
    """Errors of another law with further ones, in no sum, inserted at `place`.

    Their sites have their own laws' moments.

    Args:
        counts: of these errors.
    """

    def __init__(self, given: NormalLaw, place: int, counts: FloatArray) -> None:
        n = len(counts)
        sites = Sites(
            np.insert(given.sites.means, place, np.zeros(n)),
            np.insert(given.sites.variances, place, np.full(n, LAPLACE_VARIANCE)),
        )
        super().__init__(sites, np.insert(given.counts, place, counts))
        self._given = given
        self._is_free = np.zeros(len(given.mean) + n, dtype=np.bool_)
        self._is_free[place : place + n] = True
        self._old = np.cumsum(~self._is_free) - 1
        self.mean = np.insert(given.mean, place, np.zeros(n))
        self.diagonal = np.insert(given.diagonal, place, np.full(n, LAPLACE_VARIANCE))

    def times(self, weights: FloatArray) -> FloatArray:
        """The covariances times weights."""
        found = LAPLACE_VARIANCE * weights
        found[~self._is_free] = self._given.times(weights[~self._is_free])
        return found

    def among(self, places: Places) -> FloatArray:
        """The covariances of some errors."""
        free = self._is_free[places]
        found = LAPLACE_VARIANCE * np.eye(len(places))
        found[np.ix_(~free, ~free)] = self._given.among(self._old[places[~free]])
        return found


def _solved(matrix: FloatArray, right: FloatArray) -> FloatArray:
    """Inverse of `matrix` times `right`, for one positive definite matrix or several.

    Raises:
        LinAlgError: one is not positive definite.
    """
    if matrix.ndim == 2:
        return np.asarray(cho_solve(cho_factor(matrix), right))
    np.linalg.cholesky(matrix)
    return np.asarray(np.linalg.solve(matrix, right), dtype=np.float64)
