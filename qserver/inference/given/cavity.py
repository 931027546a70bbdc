"""Single errors: a normal law of what else is known, times the density of the error."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import erfcx, expit, log_ndtr

from qserver.inference.arrays import FloatArray, Places
from qserver.inference.given.variances import log_density, log_edges

NARROWEST = 1e-8
"""Least variance of such a law, in that of the normal one."""
_N_NODES = 161


@dataclass(frozen=True, eq=False)
class Cavity:
    """Normal laws of single errors without their own factor, arrays of shape (n,).

    Args:
        mean, variance: of several histories that differ in answers alone, shape (any, n).
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
        """Those of some errors."""
        return Cavity(self.mean[..., places], self.variance[..., places], self.counts[places])


def _ratio(x: FloatArray) -> FloatArray:
    """Density over distribution function of the standard normal law, without underflow."""
    return np.asarray(np.sqrt(2.0 / np.pi) / erfcx(-x / np.sqrt(2.0)))
