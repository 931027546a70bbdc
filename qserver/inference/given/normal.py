"""Normal laws of independent errors with known sums, without a matrix of all by all errors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from qserver.inference.arrays import FloatArray, Places
from qserver.inference.given.cavity import Cavity
from qserver.inference.given.variances import LAPLACE_VARIANCE

_WIDEST = 1e4
_KNOWN = 1e-14


@dataclass(frozen=True, eq=False)
class Sites:
    """Normal factors of single errors, arrays of shape (n,), in units of each scale."""

    means: FloatArray
    variances: FloatArray


class GivenSums(ABC):
    """Independent normal errors given known sums.

    Of several histories that differ in answers alone all have an axis of these first.

    Attributes:
        mean: shape (n,).
        diagonal: their variances, shape (n,).
    """

    mean: FloatArray
    diagonal: FloatArray

    @abstractmethod
    def times(self, weights: FloatArray) -> FloatArray:
        """The covariances times weights, of shape (n,) or (n, any)."""

    @abstractmethod
    def among(self, places: Places) -> FloatArray:
        """The covariances of some errors, shape (m, m)."""


class BySums(GivenSums):
    """The errors corrected by what the sums tell.

    Args:
        sums, values: sums @ u = values, shapes (k, n) and (k,).
        sites: of the errors.
    """

    def __init__(self, sums: FloatArray, values: FloatArray, sites: Sites) -> None:
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


class ByBasis(GivenSums):
    """The errors of a basis by all factors; the others follow from them.

    Args:
        mixing, values: the others are values + mixing @ basis, shapes (k, r) and (k,).
        sites: of all errors, those of the basis first.
    """

    def __init__(self, mixing: FloatArray, values: FloatArray, sites: Sites) -> None:
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


class WithFree(GivenSums):
    """The same with errors that are in no sum, between those before `place` and the others.

    Args:
        n: number of these errors.
    """

    def __init__(self, given: GivenSums, place: int, n: int) -> None:
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


@dataclass(frozen=True, eq=False)
class NormalLaw:
    """The normal law of the errors, in units of each scale.

    Args:
        given: means and covariances.
        sites: the normal factors.
        counts: of each error how many Laplace variables it is the sum of, shape (n,).
    """

    given: GivenSums
    sites: Sites
    counts: FloatArray

    @property
    def mean(self) -> FloatArray:
        """Shape (n,)."""
        return self.given.mean

    @cached_property
    def cavity(self) -> Cavity:
        """The law of each error without its own site."""
        return cavity(self.mean, self.given.diagonal, self.sites, self.counts)

    @cached_property
    def shapes(self) -> tuple[FloatArray, FloatArray]:
        """Sizes of skewness and excess kurtosis of each error's law, shape (n,)."""
        return self.cavity.shapes()

    def with_free(self, place: int, counts: FloatArray) -> NormalLaw:
        """The same with errors that are in no sum: their sites are their own laws' moments."""
        n = len(counts)
        sites = Sites(
            np.insert(self.sites.means, place, np.zeros(n)),
            np.insert(self.sites.variances, place, np.full(n, LAPLACE_VARIANCE)),
        )
        all_counts = np.insert(self.counts, place, counts)
        return NormalLaw(WithFree(self.given, place, n), sites, all_counts)


def _solved(matrix: FloatArray, right: FloatArray) -> FloatArray:
    """`matrix` inverse times `right`, of one positive definite matrix or of several.

    Raises:
        LinAlgError: one is not positive definite.
    """
    if matrix.ndim == 2:
        return np.asarray(cho_solve(cho_factor(matrix), right))
    np.linalg.cholesky(matrix)
    return np.asarray(np.linalg.solve(matrix, right), dtype=np.float64)


def cavity(mean: FloatArray, variance: FloatArray, sites: Sites, counts: FloatArray) -> Cavity:
    """The law of each error without its own site, widened to a bound where there is none."""
    variance = np.maximum(variance, _KNOWN * sites.variances)
    precision = np.maximum(1.0 / variance - 1.0 / sites.variances, 1.0 / _WIDEST)
    shift = mean / variance - sites.means / sites.variances
    return Cavity(shift / precision, 1.0 / precision, counts)
