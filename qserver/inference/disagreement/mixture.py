"""The law of an error as a mixture of normal laws.

An error is normal given its variance t (`normal.log_density`). So W is normal given the variances
of the errors that matter, with sites for the others. Variances are drawn at evenly filling points,
by the law that each would have alone given the normal law of the rest. Importance weights correct
the difference.

With u = m + L z for the errors that matter, sites N(mu, s) and variances t, let
    Q = I + L' (1/t - 1/s) L,   g = L' ((m - mu)/s - m/t).
Then z given t is N(Q^-1 g, Q^-1), and the weight of t is
    prior / proposal * abs(Q)^-1/2 prod_i t_i^-1/2 exp(g' Q^-1 g / 2 - sum_i m_i^2 / 2 t_i).

*Few errors with Laplace factors*: nodes for their variances.

Again W is normal given these variances. For the error that bears most on W the logarithm of the
variance takes even places: such sums converge faster than any power of their distance. Each other
variance has the nodes of a Gauss rule for the law that it would have alone, given the normal law of
the rest. Every second place has rules of one node more than the places between. The two laws are
separate approximations; their difference is the error of their mean.

One error after the other gets its variance: with u of mean m and variance S, and its site N(mu, s)
replaced by N(0, t), let a = 1/t - 1/s, g = mu/s and D = 1 + a S. Then for v of covariance c with u
the mean moves by -c (a m + g) / D, covariances by -a c c' / D, and the weight is
    t^-1/2 D^-1/2 exp(-(a m^2 + 2 g m - g^2 S) / 2 D).

References:
    Trefethen and Weideman (2014) for even places; Golub and Welsch (1969) for the nodes.
    Korobov (1959) for the lattices; Hickernell (2002) for the fold, which makes the error of a
    smooth integrand fall nearly with the square of the number of points.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

from qserver.inference.arrays import FloatArray, Places
from qserver.inference.disagreement.known_sums import Reduced
from qserver.inference.disagreement.normal_law_given_sums import (
    LAPLACE_VARIANCE,
    Axis,
    Cavity,
    NormalLaw,
    log_density,
    log_edges,
)
from qserver.inference.disagreement.normal_laws_on_grid import OFF, Normals, on_grid
from qserver.inference.disagreement.table_of_law import TableOfLaw

SIZES: Final = (128, 256, 512, 1024, 2048, 4096)
"""Numbers of points per shift, each twice the one before."""
N_SHIFTS: Final = 8
GENERATOR: Final = 233
"""Of lattices of all sizes. For each size let P_2, with weight 1 / j^2 for the j-th of 30 axes, be
divided by the least of any generator. The greatest of these ratios is least for this one: 1.18."""
_SEED: Final = 18
_INSIDE: Final = 1e-9


def even_points(size: int, n_axes: int, *, added: bool = False) -> FloatArray:
    """Points in the open cube, shape (8, points, n_axes); always the same.

    Args:
        size: points per shift, one of `SIZES`.
        added: only those that the lattice of half the size lacks.
    """
    numbers = np.arange(int(added), size, 1 + int(added))
    powers = np.array([pow(GENERATOR, i, size) for i in range(n_axes)])
    lattice = (numbers[:, None] * powers % size) / size
    shifts = np.random.default_rng(_SEED).random((N_SHIFTS, 1, n_axes))
    shifted = lattice + shifts
    shifted -= shifted >= 1.0
    folded = 1.0 - np.abs(2.0 * shifted - 1.0)
    return np.asarray(np.clip(folded, _INSIDE, 1.0 - _INSIDE))


_RANK, _LARGE = 1e-11, 1e300
_N_CELLS = 800
_CELLS = np.arange(_N_CELLS + 1.0)
_REACH = 9.0
_FAR = 8.3
N_PLACES = 201
_AT_ONCE = 512
"""Points of which the matrices are held at once."""
_STANDARD_ERRORS = 2.0
_CHUNK = 1 << 19


@dataclass(frozen=True, eq=False)
class Mixture:
    """Weighted normal laws, arrays of shape (k, points): each of the k rows is the law."""

    means: FloatArray
    deviations: FloatArray
    weights: FloatArray

    def table(self, *, left_out: float, n_places: int = N_PLACES) -> TableOfLaw:
        """Table of probabilities around the mean; its error is the spread of the rows.

        Args:
            left_out: bound on the error of the normal replacements.
            n_places: of the table; values between two places are bounded by their neighbours.
        """
        mean, deviation = self.moments()
        places = mean + deviation * np.sinh(np.linspace(-1.0, 1.0, n_places) * np.arcsinh(_REACH))
        # The nearer tail is the smaller one, and keeps its digits.
        half, groups = len(places) // 2, self._groups()
        low, low_errors = self._tail(groups, places[:half], sign=1.0)
        high, high_errors = self._tail(groups, places[half:], sign=-1.0)
        errors = _STANDARD_ERRORS * np.append(low_errors, high_errors) + left_out
        if len(groups) > 1:
            errors += OFF
        below, above = np.append(low, 1.0 - high), np.append(1.0 - low, high)
        return TableOfLaw(places, below, above, errors, is_exact_in_tails=False, mean=mean)

    def _groups(self) -> list[Normals]:
        """The normal laws of all rows, on a grid if they are many."""
        used = self.weights > 0.0
        rows = np.nonzero(used)[0]
        weights = np.zeros((len(rows), len(self.weights)))
        weights[np.arange(len(rows)), rows] = self.weights[used]
        return on_grid(Normals(self.means[used], self.deviations[used], weights), rows)

    def moments(self) -> tuple[float, float]:
        """Mean and deviation."""
        total = self.weights.sum()
        mean = float((self.weights * self.means).sum() / total)
        squares = np.square(self.means - mean) + np.square(self.deviations)
        return mean, float(np.sqrt((self.weights * squares).sum() / total))

    def _tail(
        self, groups: Sequence[Normals], places: FloatArray, *, sign: float
    ) -> tuple[FloatArray, FloatArray]:
        """P(W <= place), or P(W > place) for a negative sign, and standard errors, shape (m,)."""
        n = len(self.weights)
        sums = np.zeros((len(places), n))
        for one in groups:
            step = max(1, _CHUNK // max(1, len(one.means)))
            for i in range(0, len(places), step):
                off = sign * (places[i : i + step, None] - one.means) / one.deviations
                sums[i : i + step] += _normal_below(off) @ one.weights
        totals = self.weights.sum(axis=1)
        found = sums.sum(axis=1) / totals.sum()
        differences = (sums - found[:, None] * totals) / totals.mean()
        return found, differences.std(axis=1, ddof=1) / np.sqrt(n)


def _normal_below(off: FloatArray) -> FloatArray:
    """The normal distribution function, 0 or 1 to within 1e-16.

    Half of all places and points are so far out, and `ndtr` is slowest there.
    """
    found = (off > 0.0).astype(np.float64)
    is_between = np.abs(off) < _FAR
    found[is_between] = ndtr(off[is_between])
    return found


def mixtures(
    known: Reduced, normal: NormalLaw, matter: npt.NDArray[np.intp], sizes: Iterable[int]
) -> Iterator[Mixture]:
    """The law of one W minus its shift, by more and more points.

    Args:
        matter: the errors that keep their Laplace factors, best in order of their effect.
        sizes: points per shift; each is twice the one before, whose points are among its own.
    """
    drawn, part = _Drawn(normal, matter), _Part(known, normal, matter)
    found = np.empty((3, N_SHIFTS, 0))
    for size in sizes:
        points = even_points(size, len(matter), added=found.size > 0).reshape(-1, len(matter))
        # Few at a time: all at once take an eighth of a gigabyte for each matrix of 30 errors.
        chunks = np.split(points, range(_AT_ONCE, len(points), _AT_ONCE))
        rows = np.concatenate([part.given(*drawn.variances(one)) for one in chunks], axis=1)
        found = np.append(found, rows.reshape(3, N_SHIFTS, -1), axis=2)
        means, variances, logs = found
        yield Mixture(means, np.sqrt(np.maximum(variances, 0.0)), np.exp(logs - logs.max()))


class _Part:
    """The normal law of the errors that matter, without their sites, and of W.

    Let c be the covariances of z and W. The matrix of a point holds Q, below it the rows g' and c',
    and on their diagonal a large number. With Q = F F' the rows of its Cholesky factor are then
    those of F, g' F'^-1 and c' F'^-1: all that the law of W and the weight need.
    """

    def __init__(self, known: Reduced, normal: NormalLaw, matter: npt.NDArray[np.intp]) -> None:
        values, vectors = np.linalg.eigh(normal.among(matter))
        kept = values > _RANK * values.max()
        roots, vectors = np.sqrt(values[kept]), vectors[:, kept]
        covered = normal.times(known.weights)
        spread, on_w = vectors * roots, (vectors / roots).T @ covered[matter]
        # The variance of W given z.
        self._rest = float(known.weights @ covered - on_w @ on_w)
        self._rest += LAPLACE_VARIANCE * float(known.rest @ known.rest)
        self._mean, self._w_mean = normal.mean[matter], float(known.weights @ normal.mean)
        sites = normal.sites.variances[matter]
        shifts = (self._mean - normal.sites.means[matter]) / sites
        self._rank = rank = len(on_w)
        fixed = np.diag(np.append(np.ones(rank), [_LARGE, _LARGE]))
        fixed[:rank, :rank] -= (spread.T / sites) @ spread
        fixed[rank, :rank], fixed[rank + 1, :rank] = shifts @ spread, on_w
        by_error = np.zeros((len(matter), *fixed.shape))
        by_error[:, :rank, :rank] = spread[:, :, None] * spread[:, None, :]
        by_error[:, rank, :rank] = -self._mean[:, None] * spread
        self._fixed, self._by_error = fixed.ravel(), by_error.reshape(len(matter), -1)

    def given(self, variances: FloatArray, logs: FloatArray) -> FloatArray:
        """Means and variances of W, and logarithms of weights, by points; shape (3, points).

        Args:
            variances: of the errors, shape (points, n).
            logs: of prior over proposal, shape (points,).

        Raises:
            LinAlgError: the precision of z is not positive definite at a point.
        """
        inverse, rank = 1.0 / variances, self._rank
        matrices = inverse @ self._by_error
        matrices += self._fixed
        factors = np.linalg.cholesky(matrices.reshape(-1, rank + 2, rank + 2))
        with_g, with_w = factors[:, rank, :rank], factors[:, rank + 1, :rank]
        diagonals = np.diagonal(factors, axis1=1, axis2=2)[:, :rank]
        exponents = np.square(with_g).sum(axis=1) - inverse @ np.square(self._mean)
        determinants = np.log(diagonals).sum(axis=1) + 0.5 * np.log(variances).sum(axis=1)
        means = self._w_mean + (with_g * with_w).sum(axis=1)
        found = self._rest + np.square(with_w).sum(axis=1)
        return np.stack([means, found, logs + 0.5 * exponents - determinants])


class _Drawn:
    """Variances drawn by each error's marginal law given the rest.

    The density of log variance is constant within each of 800 cells.
    """

    def __init__(self, normal: NormalLaw, matter: npt.NDArray[np.intp]) -> None:
        cavity = normal.cavity.some(matter)
        self._counts = cavity.counts
        self._edges = log_edges(self._counts, _N_CELLS)
        shares = cavity.shares(0.5 * (self._edges[:, 1:] + self._edges[:, :-1]))
        self._sums = np.pad(np.cumsum(shares, axis=1), ((0, 0), (1, 0)))
        self._log_shares = np.log(np.maximum(shares, np.finfo(float).tiny))

    def variances(self, points: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Variances at points of the cube, shape (points, n), and logs of prior over proposal."""
        places = np.array(
            [np.interp(of, sums, _CELLS) for of, sums in zip(points.T, self._sums, strict=True)]
        )
        cells = np.minimum(places.astype(np.intp), _N_CELLS - 1)
        steps = self._edges[:, 1:2] - self._edges[:, :1]
        found = self._edges[:, :1] + places * steps
        drawn = np.take_along_axis(self._log_shares, cells, axis=1)
        logs = log_density(found, self._counts[:, None]) - drawn
        return np.exp(found).T, logs.sum(axis=0)


MOST_FEW: Final = 4
"""Most errors that keep their factors: each further one takes 4 to 6 times as many points."""
_N_CELLS_OF_NODES = 400
STEPS: Final = (0.45, 0.3)
"""Distances of places, of which the first is enough as a rule."""
_USUAL_SPREAD = 1.1
"""The deviation of a logarithm of a variance for which they are enough."""
_TAIL = 1e-7
_MUCH = 2e-3
_FEW_NODES, _MANY_NODES = 4, 6
"""Of an error that adds less to a probability than `_MUCH`, and of others. With four nodes for all
the mean of one of two halves that disagree with the whole by 4.7 scales is off by .0015 scales."""
DROPPED: Final = 1e-5
"""Share of all points that weigh least and are dropped: three in four of them."""


@dataclass(frozen=True)
class Few:
    """The errors that keep their Laplace factors, and the number of nodes of all but the first.

    Args:
        order: the error that bears most on W first.
    """

    order: tuple[int, ...]
    n_nodes: tuple[int, ...]

    @classmethod
    def of(cls, order: Places, of_each: FloatArray) -> Few:
        """Choose errors by the effect of their laws' shapes on probabilities."""
        sizes = [_MANY_NODES if of_each[i] > _MUCH else _FEW_NODES for i in order]
        return cls(tuple(order.tolist()), tuple(sizes[1:]))


def by_nodes(
    known: Reduced, normal: NormalLaw, few: Few, histories: Places, *, step: float = STEPS[0]
) -> list[Mixture]:
    """The law of W minus its shift, under some histories of `known`.

    Args:
        step: distance of places for the first error, one of `STEPS`.
    """
    order, found = np.array(few.order), []
    first = _axis(normal, few.order[0], histories, partial(_even_places, step=step))
    for i in range(2):
        rules = [partial(_nodes, n=n - i) for n in few.n_nodes]
        pairs = zip(few.order[1:], rules, strict=True)
        nodes = [_axis(normal, number, histories, rule) for number, rule in pairs]
        state = _State(known, normal, order, histories)
        found.append(state.given([first.every_second(i), *nodes]))
    return [_mixture(rows) for rows in zip(*found, strict=True)]


def _axis(normal: NormalLaw, number: int, histories: Places, rule: partial[Axis]) -> Axis:
    """Places for the variance of one error, which depend on no question.

    They are kept with the law of one history: many questions have errors in common.
    """
    key = (number, *rule.keywords.values()) if normal.mean.ndim == 1 else ()
    found = normal.axes.get(key)
    if found is None:
        whole = normal.cavity.some(np.array([number]))
        means, variances = (np.atleast_2d(of)[histories] for of in (whole.mean, whole.variance))
        found = rule(Cavity(means, variances, whole.counts))
    if key:
        normal.axes[key] = found
    return found


@dataclass(frozen=True, eq=False)
class _Rows:
    """Normal laws of W, and logarithms of their weights; shape (n,)."""

    means: FloatArray
    variances: FloatArray
    weights: FloatArray


class _State:
    """The normal law of errors and of W; errors get their variances one after the other.

    All arrays have an axis of histories, then one of errors.
    """

    def __init__(self, known: Reduced, normal: NormalLaw, order: Places, histories: Places) -> None:
        covered = np.atleast_2d(normal.times(known.weights))[histories]
        mean = np.atleast_2d(normal.mean)[histories]
        among = normal.among(order)
        among = among if among.ndim == 2 else among[histories]
        variance = covered @ known.weights + LAPLACE_VARIANCE * float(known.rest @ known.rest)
        # The last one is W, which has no site.
        n, b = len(order), len(covered)
        covariances = np.empty((b, n + 1, n + 1))
        covariances[:, :n, :n] = among
        covariances[:, :n, n] = covariances[:, n, :n] = covered[:, order]
        covariances[:, n, n] = variance
        means = np.column_stack([mean[:, order], mean @ known.weights])
        of_sites = normal.sites.means, normal.sites.variances
        self._sites = [np.atleast_2d(of)[histories][:, order] for of in of_sites]
        self._axes, every = (slice(None), *(None,) * n), range(n + 1)
        self._means = [means[:, i][self._axes] for i in every]
        self._covariances = [[covariances[:, i, j][self._axes] for j in every] for i in every]

    def given(self, axes: Sequence[Axis]) -> list[_Rows]:
        """The laws of W at all combinations of places, by history."""
        weights: FloatArray = np.zeros(1)
        for i, axis in enumerate(axes):
            shape = [len(axis.logs), *(1,) * len(axes)]
            shape[1 + i] = axis.logs.shape[1]
            weights = weights + self._take(i, axis.logs.reshape(shape))
            weights = weights + axis.weights.reshape(shape)
        rows = np.broadcast_arrays(self._means[-1], self._covariances[-1][-1], weights)
        flat = [one.reshape(len(one), -1) for one in rows]
        return [_Rows(*one) for one in zip(*flat, strict=True)]

    def _take(self, i: int, logs: FloatArray) -> FloatArray:
        """Give an error its variance; returns the logarithms of weights."""
        means, covariances = self._means, self._covariances
        site_mean, site = (of[:, i][self._axes] for of in self._sites)
        rise, shift = np.exp(-logs) - 1.0 / site, site_mean / site
        mean, variance = means[i], covariances[i][i]
        divisor = np.maximum(1.0 + rise * variance, np.finfo(float).tiny)
        off, gain = (rise * mean + shift) / divisor, rise / divisor
        later = range(i + 1, len(means))
        for j in later:
            means[j] = means[j] - covariances[i][j] * off
            for k in range(j, len(means)):
                covariances[j][k] = covariances[j][k] - gain * covariances[i][j] * covariances[i][k]
        square = rise * np.square(mean) + 2.0 * shift * mean - np.square(shift) * variance
        return np.asarray(-0.5 * (logs + np.log(divisor) + square / divisor))


def _even_places(cavity: Cavity, *, step: float) -> Axis:
    """Even places of one error's log variance, where it is likely given normal others."""
    edges = log_edges(cavity.counts, _N_CELLS_OF_NODES)
    shares = cavity.shares(0.5 * (edges[:, 1:] + edges[:, :-1]))[:, 0]
    middles, sums = 0.5 * (edges[0, 1:] + edges[0, :-1]), np.cumsum(shares, axis=1)
    low = edges[0, (sums < _TAIL).sum(axis=1)]
    high = edges[0, np.minimum((sums < 1.0 - _TAIL).sum(axis=1) + 1, _N_CELLS_OF_NODES)]
    mean = shares @ middles
    spread = np.sqrt(np.maximum(shares @ np.square(middles) - np.square(mean), 0.0))
    steps = step * np.minimum(1.0, spread / _USUAL_SPREAD)
    n = 2 * int(np.ceil(0.5 * ((high - low) / steps).max()))
    logs = low[:, None] + (high - low)[:, None] * (np.arange(n) + 0.5) / n
    return Axis(logs, log_density(logs, cavity.counts))


def _nodes(cavity: Cavity, *, n: int) -> Axis:
    """Nodes for the variance t of one error: of a Gauss rule for t / (t + v), v of the rest."""
    edges = log_edges(cavity.counts, _N_CELLS_OF_NODES)
    middles = 0.5 * (edges[:, 1:] + edges[:, :-1])
    t = np.exp(middles)
    part, weights = _gauss(t / (t + cavity.variance), cavity.shares(middles)[:, 0], n)
    t = cavity.variance * part / (1.0 - part)
    spread = cavity.variance + t
    # Prior over what the rule is for.
    ratio = 0.5 * np.log(spread) + 0.5 * np.square(cavity.mean) / spread
    return Axis(np.log(t), np.log(weights) + ratio)


def _gauss(x: FloatArray, shares: FloatArray, n: int) -> tuple[FloatArray, FloatArray]:
    """Nodes and weights for laws on places, both of shape (b, n), by Stieltjes' recurrence."""
    before, present = np.zeros_like(x), np.ones_like(x)
    matrix = np.zeros((len(x), n, n))
    ratio, size = np.zeros(len(x)), shares.sum(axis=1)
    for i in range(n):
        matrix[:, i, i] = middle = (shares * x * present**2).sum(axis=1) / size
        after = (x - middle[:, None]) * present - ratio[:, None] * before
        new = (shares * np.square(after)).sum(axis=1)
        before, present, ratio, size = present, after, new / size, new
        if i + 1 < n:
            matrix[:, i, i + 1] = matrix[:, i + 1, i] = np.sqrt(ratio)
    nodes, vectors = np.linalg.eigh(matrix)
    tiny = np.finfo(float).eps
    return np.clip(nodes, tiny, 1.0 - tiny), np.maximum(
        np.square(vectors[:, 0]), np.finfo(float).tiny
    )


def _mixture(rows: Sequence[_Rows]) -> Mixture:
    """One mixture of both, without negligible points."""
    n = max(len(one.weights) for one in rows)
    top = max(one.weights.max() for one in rows)
    means, deviations, weights = (np.zeros((len(rows), n)) for _ in range(3))
    for i, one in enumerate(rows):
        used = len(one.weights)
        means[i, :used] = one.means
        deviations[i, :used] = np.sqrt(np.maximum(one.variances, 0.0))
        weights[i, :used] = np.exp(one.weights - top)
    return Mixture(means, deviations, _without_least(weights))


def _without_least(weights: FloatArray) -> npt.NDArray[np.float64]:
    flat = np.sort(weights, axis=None)
    sums = np.cumsum(flat)
    least = flat[min(int(np.searchsorted(sums, DROPPED * sums[-1])), len(flat) - 1)]
    return np.where(weights >= least, weights, 0.0)
