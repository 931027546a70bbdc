"""Normal factors in place of those of the errors, by expectation propagation (Minka 2001).

Given the known sums, the density of the errors is a product of factors exp(-abs(u_i)), or of those
of sums of Laplace variables, of which each is replaced by a normal one, its site. A site is chosen
so that the normal law, with the site put back to the error's own factor, keeps the mean and the
variance of u_i. Without known sums all sites
have mean 0 and variance 2, and the normal law is that of least variance.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.special import erfcx, expit, log_ndtr

from qserver.inference.arrays import FloatArray
from qserver.inference.given.known_sums import Reduced
from qserver.inference.given.variances import LAPLACE_VARIANCE, log_density, log_edges

_SWEEPS = 6
_DAMPING = 0.9
_WIDEST = 1e4
_NARROWEST = 1e-8
_KNOWN = 1e-14
_N_NODES = 161


@dataclass(frozen=True, eq=False)
class Cavity:
    """Normal laws of single errors without their own factor, arrays of shape (n,).

    Args:
        counts: of each error how many Laplace variables it is the sum of.
    """

    mean: FloatArray
    variance: FloatArray
    counts: FloatArray

    def with_factors(self) -> tuple[FloatArray, FloatArray]:
        """Mean and variance of each law times the density of its error."""
        alone = self.counts == 1.0
        mean, variance = self._with_laplace()
        if not alone.all():
            sums = Cavity(self.mean[~alone], self.variance[~alone], self.counts[~alone])
            mean[~alone], variance[~alone], _, _ = sums._moments()
        return mean, np.maximum(variance, _NARROWEST * self.variance)

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
        variance = np.maximum(variance, _NARROWEST * self.variance)
        return np.abs(third) / variance**1.5, np.abs(fourth / variance**2 - 3.0)

    def _moments(self) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Mean and central moments 2 to 4, by the normal laws given each variance."""
        logs = log_edges(self.counts, _N_NODES - 1)
        variances = np.exp(logs)
        spread = self.variance[:, None] + variances
        density = log_density(logs, self.counts[:, None]) - 0.5 * np.log(spread)
        density -= 0.5 * np.square(self.mean)[:, None] / spread
        shares = np.exp(density - density.max(axis=1, keepdims=True))
        shares /= shares.sum(axis=1, keepdims=True)
        gain = variances / spread
        means, within = gain * self.mean[:, None], gain * self.variance[:, None]
        mean = (shares * means).sum(axis=1)
        off = means - mean[:, None]
        square = np.square(off)
        second = (shares * (square + within)).sum(axis=1)
        third = (shares * off * (square + 3.0 * within)).sum(axis=1)
        fourth = square * (square + 6.0 * within) + 3.0 * np.square(within)
        return mean, second, third, (shares * fourth).sum(axis=1)


@dataclass(frozen=True, eq=False)
class Sites:
    """Normal factors of single errors, arrays of shape (n,), in units of each scale."""

    means: FloatArray
    variances: FloatArray

    def moved(self, cavity: Cavity) -> Sites:
        """The sites that keep the moments of each cavity times the error's density, nearly."""
        mean, variance = cavity.with_factors()
        precision = np.maximum(1.0 / variance - 1.0 / cavity.variance, _NARROWEST)
        shift = mean / variance - cavity.mean / cavity.variance
        old = 1.0 / self.variances
        new = old + _DAMPING * (precision - old)
        shifted = self.means * old + _DAMPING * (shift - self.means * old)
        return Sites(shifted / new, 1.0 / new)


@dataclass(frozen=True, eq=False)
class NormalLaw:
    """The normal law of the errors, in units of each scale.

    Args:
        mean: shape (n,).
        covariance: shape (n, n).
        sites: the normal factors.
        counts: of each error how many Laplace variables it is the sum of, shape (n,).
    """

    mean: FloatArray
    covariance: FloatArray
    sites: Sites
    counts: FloatArray

    @property
    def cavity(self) -> Cavity:
        """The law of each error without its own site."""
        return _cavity(self.mean, np.diag(self.covariance), self.sites, self.counts)

    @cached_property
    def shapes(self) -> tuple[FloatArray, FloatArray]:
        """Sizes of skewness and excess kurtosis of each error's law, shape (n,)."""
        return self.cavity.shapes()


def _ratio(x: FloatArray) -> FloatArray:
    """Density over distribution function of the standard normal law, without underflow."""
    return np.asarray(np.sqrt(2.0 / np.pi) / erfcx(-x / np.sqrt(2.0)))


def normal_law(known: Reduced) -> NormalLaw:
    """The normal law of the errors given the known sums. It depends on nothing else."""
    n = len(known.counts)
    sites = Sites(np.zeros(n), np.full(n, LAPLACE_VARIANCE))
    if not known.n_disagreements:
        return NormalLaw(sites.means, np.diag(sites.variances), sites, known.counts)
    sums = known.sums
    for _ in range(_SWEEPS):
        mean, gain, spread = _given(sums, known.values, sites)
        variance = sites.variances - (spread * gain).sum(axis=0)
        sites = sites.moved(_cavity(mean, variance, sites, known.counts))
    mean, gain, spread = _given(sums, known.values, sites)
    covariance = np.diag(sites.variances) - spread.T @ gain
    return NormalLaw(mean, covariance, sites, known.counts)


def _given(
    sums: FloatArray, values: FloatArray, sites: Sites
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Independent normal errors, given the sums: means, and the two factors of what these tell."""
    spread = sums * sites.variances
    gain = cho_solve(cho_factor(spread @ sums.T), spread)
    mean = sites.means + (values - sums @ sites.means) @ gain
    return mean, gain, spread


def _cavity(mean: FloatArray, variance: FloatArray, sites: Sites, counts: FloatArray) -> Cavity:
    """The law of each error without its own site, widened to a bound where there is none."""
    variance = np.maximum(variance, _KNOWN * sites.variances)
    precision = np.maximum(1.0 / variance - 1.0 / sites.variances, 1.0 / _WIDEST)
    shift = mean / variance - sites.means / sites.variances
    return Cavity(shift / precision, 1.0 / precision, counts)
