"""The law of an error as a mixture of normal laws.

An error is normal given its variance t (`variances`). So given the variances of the errors that
matter, and with sites in place of the others, W is normal. Variances
are drawn from evenly filling points by the law that each would have alone, given the normal law of
the rest. Weights make up for the difference.

With u = m + L z for the errors that matter, sites N(mu, s) and variances t, let
    Q = I + L' (1/t - 1/s) L,   g = L' ((m - mu)/s - m/t).
Then z given t is N(Q^-1 g, Q^-1), and the weight of t is
    prior / proposal * abs(Q)^-1/2 prod_i t_i^-1/2 exp(g' Q^-1 g / 2 - sum_i m_i^2 / 2 t_i).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

from qserver.inference.arrays import FloatArray
from qserver.inference.given.known_sums import Reduced
from qserver.inference.given.normal import NormalLaw
from qserver.inference.given.points import N_SHIFTS, even_points
from qserver.inference.given.table_of_law import TableOfLaw
from qserver.inference.given.variances import LAPLACE_VARIANCE, log_density, log_edges

_RANK = 1e-11
_N_CELLS = 800
_REACH = 9.0
_FAR = 8.3
N_PLACES = 201
_AT_ONCE = 1024
"""Points of which the matrices are held at once."""
_STANDARD_ERRORS = 2.0
_CHUNK = 1 << 19


@dataclass(frozen=True, eq=False)
class Mixture:
    """Normal laws with weights, arrays of shape (k, points): k rows, each of which is the law."""

    means: FloatArray
    deviations: FloatArray
    weights: FloatArray

    def table(self, *, left_out: float, n_places: int = N_PLACES) -> TableOfLaw:
        """Probabilities around the mean; the error is what the rows differ by.

        Args:
            left_out: bound on the error of what was replaced by normal laws.
            n_places: of the table; what lies between two is bounded by their neighbours.
        """
        mean, deviation = self.moments()
        places = mean + deviation * np.sinh(np.linspace(-1.0, 1.0, n_places) * np.arcsinh(_REACH))
        # The nearer tail is the smaller one, and keeps its digits.
        half = len(places) // 2
        low, low_errors = self._tail(places[:half], sign=1.0)
        high, high_errors = self._tail(places[half:], sign=-1.0)
        errors = _STANDARD_ERRORS * np.append(low_errors, high_errors) + left_out
        below, above = np.append(low, 1.0 - high), np.append(1.0 - low, high)
        return TableOfLaw(places, below, above, errors, is_exact_in_tails=False, mean=mean)

    def below(self, places: FloatArray) -> tuple[FloatArray, FloatArray]:
        """P(W <= place), and what the rows differ by, shape (m,)."""
        found, errors = self._tail(places, sign=1.0)
        return found, _STANDARD_ERRORS * errors

    def moments(self) -> tuple[float, float]:
        """Mean and deviation."""
        total = self.weights.sum()
        mean = float((self.weights * self.means).sum() / total)
        squares = np.square(self.means - mean) + np.square(self.deviations)
        return mean, float(np.sqrt((self.weights * squares).sum() / total))

    def _tail(self, places: FloatArray, *, sign: float) -> tuple[FloatArray, FloatArray]:
        """P(W <= place), or P(W > place) for a negative sign, and standard errors, shape (m,)."""
        n = len(self.weights)
        sums = np.empty((len(places), n))
        rows = zip(self.means, self.deviations, self.weights, strict=True)
        for k, row in enumerate(rows):
            means, deviations, weights = (of[row[2] > 0.0] for of in row)
            step = max(1, _CHUNK // max(1, len(means)))
            for i in range(0, len(places), step):
                off = sign * (places[i : i + step, None] - means) / deviations
                sums[i : i + step, k] = _normal_below(off) @ weights
        totals = self.weights.sum(axis=1)
        found = sums.sum(axis=1) / totals.sum()
        differences = (sums - found[:, None] * totals) / totals.mean()
        return found, differences.std(axis=1, ddof=1) / np.sqrt(n)


def _normal_below(off: FloatArray) -> FloatArray:
    """The normal distribution function, 0 or 1 where it is so but for less than 1e-16.

    That is so for half of all places and points, and `ndtr` takes longest there.
    """
    found = (off > 0.0).astype(np.float64)
    is_between = np.abs(off) < _FAR
    found[is_between] = ndtr(off[is_between])
    return found


@dataclass(frozen=True, eq=False)
class JointMixture:
    """Normal laws of m errors W together, with weights of shape (8, points).

    Args:
        means: shape (8, points, m).
        covariances: shape (8, points, m, m).
    """

    means: FloatArray
    covariances: FloatArray
    weights: FloatArray

    def along(self, direction: FloatArray) -> Mixture:
        """The law of direction @ W."""
        variances = self.covariances @ direction @ direction
        return Mixture(self.means @ direction, np.sqrt(np.maximum(variances, 0.0)), self.weights)


def mixture(
    known: Reduced, normal: NormalLaw, matter: npt.NDArray[np.intp], *, size: int
) -> JointMixture:
    """The law of W less its shift.

    Args:
        matter: the errors that keep their Laplace factors.
        size: points per shift.
    """
    drawn = _Drawn(normal, matter)
    part = _Part.of(known, normal, matter)
    # Few points at a time: all at once take an eighth of a gigabyte for each matrix of 30 errors.
    points = even_points(size, len(matter)).reshape(-1, len(matter))
    chunks = np.split(points, range(_AT_ONCE, len(points), _AT_ONCE))
    found = [part.given(*drawn.variances(chunk)) for chunk in chunks]
    means, covariances, logs = (
        np.concatenate(one).reshape(N_SHIFTS, size, *one[0].shape[1:])
        for one in zip(*found, strict=True)
    )
    return JointMixture(means, covariances, np.exp(logs - logs.max()))


@dataclass(frozen=True, eq=False)
class _Part:
    """The normal law of the errors that matter, less their sites, and of W.

    Args:
        mean: of the n errors that matter, shape (n,).
        site_mean, site: means and variances of their sites, shape (n,).
        spread: L, shape (n, rank).
        on_w: covariance of z and W, shape (rank, m).
        w_mean, rest: mean of W, shape (m,), and its covariance given z, shape (m, m).
    """

    mean: FloatArray
    site_mean: FloatArray
    site: FloatArray
    spread: FloatArray
    on_w: FloatArray
    w_mean: FloatArray
    rest: FloatArray

    @classmethod
    def of(cls, known: Reduced, normal: NormalLaw, matter: npt.NDArray[np.intp]) -> _Part:
        """The part of a normal law that these errors have in W."""
        values, vectors = np.linalg.eigh(normal.given.among(matter))
        kept = values > _RANK * values.max()
        roots, vectors = np.sqrt(values[kept]), vectors[:, kept]
        weights, small = np.atleast_2d(known.weights), np.atleast_2d(known.rest)
        covered = normal.given.times(weights.T)
        on_w = (vectors / roots).T @ covered[matter]
        rest = weights @ covered - on_w.T @ on_w + LAPLACE_VARIANCE * (small @ small.T)
        sites = normal.sites
        w_mean = weights @ normal.mean
        return cls(
            normal.mean[matter],
            sites.means[matter],
            sites.variances[matter],
            vectors * roots,
            on_w,
            w_mean,
            rest,
        )

    def given(
        self, variances: FloatArray, logs: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Means and covariances of W, and logarithms of weights, for points of variances.

        Args:
            variances: shape (points, n).
            logs: of prior over proposal, shape (points,).
        """
        rank = len(self.on_w)
        squares = (self.spread[:, :, None] * self.spread[:, None, :]).reshape(len(self.mean), -1)
        inner = (1.0 / variances) @ squares + (np.eye(rank).ravel() - (1.0 / self.site) @ squares)
        lower = np.linalg.cholesky(inner.reshape(-1, rank, rank))
        g = self.spread.T @ ((self.mean - self.site_mean) / self.site)
        g = g - (self.mean / variances) @ self.spread
        on_w = np.broadcast_to(self.on_w, (len(g), *self.on_w.shape))
        solved = np.linalg.solve(lower, np.concatenate([g[..., None], on_w], axis=-1))
        with_g, with_w = solved[..., 0], solved[..., 1:]
        logs = logs + 0.5 * np.square(with_g).sum(axis=1)
        logs -= 0.5 * (np.square(self.mean) / variances).sum(axis=1)
        logs -= np.log(np.einsum("nii->ni", lower)).sum(axis=1)
        logs -= 0.5 * np.log(variances).sum(axis=1)
        means = self.w_mean + (with_g[..., None] * with_w).sum(axis=1)
        return means, self.rest + with_w.transpose(0, 2, 1) @ with_w, logs


class _Drawn:
    """Variances drawn by the law that each error would have alone, given the rest.

    Its density of log variance is constant within each of 800 cells.
    """

    def __init__(self, normal: NormalLaw, matter: npt.NDArray[np.intp]) -> None:
        cavity = normal.cavity.some(matter)
        self._counts = cavity.counts
        self._edges = log_edges(self._counts, _N_CELLS)
        self._shares = cavity.shares(0.5 * (self._edges[:, 1:] + self._edges[:, :-1]))

    def variances(self, points: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Variances at points of the cube, shape (points, n), and logs of prior over proposal."""
        found, logs = np.empty_like(points), np.zeros(len(points))
        for j, (edges, shares) in enumerate(zip(self._edges, self._shares, strict=True)):
            sums = np.append(0.0, np.cumsum(shares))
            cell = np.searchsorted(sums, points[:, j], side="right") - 1
            cell = np.clip(cell, 0, _N_CELLS - 1)
            inside = np.clip((points[:, j] - sums[cell]) / shares[cell], 0.0, 1.0)
            log_variance = edges[cell] + inside * (edges[1] - edges[0])
            found[:, j] = np.exp(log_variance)
            logs += log_density(log_variance, self._counts[j]) - np.log(shares[cell])
        return found, logs
