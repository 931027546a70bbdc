"""The joint law of a few sums' errors, and deterministic draws from it.

Each error is a weighted sum of independent variables with the noise's law. Every variable has its
own draws, by its place: so the draws that predict a length also decide it once the noise is
reduced. Draws are points of a digital net, scrambled at random (Owen, "Randomly permuted
(t,m,s)-nets and (t,s)-sequences", 1995): where few variables make up an error, a quantile of as
many independent draws errs up to four times as much. If released answers disagree, draws are
conditioned on the disagreements. If the dependence of two errors is unknown, they are drawn as far
apart as possible.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from scipy.special import gammaincinv, ndtri

from qserver.inference.arrays import FloatArray, Places
from qserver.inference.disagreement.gibbs_sampler import drawn_errors
from qserver.inference.disagreement.known_sums import Reduced, Together
from qserver.inference.disagreement.normal_law_given_sums import LAPLACE_VARIANCE
from qserver.inference.estimate import Posterior
from qserver.inference.smooth.digital_net import N_COORDINATES, net
from qserver.records.privacy.noise_law import NoiseLaw

_N_BITS = 11
N_PAIRS = 1 << _N_BITS
"""Draws come in pairs, an error and its opposite."""
_N_GAMMA = 1 << 9
"""Points by which the law of a variable is tabled: its quantiles err by less than 1 in 1,000."""
DRAWN_ERROR = 0.01
"""Of a probability from draws given disagreements, which are fewer in effect."""


@dataclass(frozen=True, eq=False)
class PartLaw:
    """The joint law of k sums from history.

    Args:
        means: of the sums, shape (k,).
        half_widths: of their intervals at the asked confidence, shape (k,).
        allowances: bounds on the errors that lattice and floats add, shape (k,).
        errors: draws of the sums' errors, shape (k, n).
        n_disagreements: number that bear on them.
        is_joint: whether the errors' dependence is known; else each row of `errors` holds sizes of
            its own error, of either sign.
        is_posterior: whether it is their law given all answers, if it is joint.
    """

    means: FloatArray
    half_widths: FloatArray
    allowances: FloatArray
    errors: FloatArray
    n_disagreements: int = 0
    is_joint: bool = True
    is_posterior: bool = True

    @property
    def error(self) -> float:
        """Numerical error of a probability."""
        return DRAWN_ERROR if self.n_disagreements else 0.0

    @classmethod
    def together(cls, found: Together, half_widths: FloatArray, *, seed: int) -> PartLaw:
        """The joint law of the estimates of rows."""
        reduced = found.sums.reduced().of_several
        if reduced.n_disagreements:
            errors = drawn_errors(reduced)
        elif found.sums.inside is None:
            errors = _independent(found.sums.weights, found.sums.counts, seed)
        else:
            errors = _of_reduced(reduced, seed)
        # Given what answers disagree about, errors need not be zero on average.
        off = errors.mean(axis=1)
        means, errors = found.estimates - reduced.shift - off, errors - off[:, None]
        n, told = reduced.n_disagreements, found.is_posterior
        return cls(means, half_widths, found.allowances, errors, n, is_posterior=told)

    @classmethod
    def of_scales(
        cls, means: FloatArray, scales: FloatArray, law: NoiseLaw, *, seed: int
    ) -> PartLaw:
        """Independent errors with this noise; their scales are also their half-widths."""
        parts, counts = _parts(scales, law)
        errors = _independent(np.diag(parts), counts, seed)
        return cls(means, scales, np.zeros(len(means)), errors)

    @classmethod
    def apart(cls, posteriors: list[Posterior], half_widths: FloatArray, *, seed: int) -> PartLaw:
        """The laws of the estimates, each alone."""
        sizes = np.zeros((len(posteriors), 2 * N_PAIRS))
        for i, one in enumerate(posteriors):
            errors = _independent(*_parts(one.scales, one.law), seed + i)
            sizes[i] = np.sort(np.abs(errors[0]))
        means = np.array([one.estimate for one in posteriors])
        allowances = np.array([one.allowance for one in posteriors])
        return cls(means, half_widths, allowances, sizes, is_joint=False)

    def some(self, places: list[int], units: FloatArray) -> PartLaw:
        """The law of some of these sums, each times a factor."""
        return PartLaw(
            self.means[places] * units,
            self.half_widths[places] * np.abs(units),
            self.allowances[places] * np.abs(units),
            self.errors[places] * (units if self.is_joint else np.abs(units))[:, None],
            self.n_disagreements,
            self.is_joint,
            self.is_posterior,
        )

    def placed(self, at: list[int], means: FloatArray, half_widths: FloatArray) -> PartLaw:
        """The law of more sums, these included; the others are known exactly.

        Args:
            at: places of these, in order.
            means, half_widths: of all sums; unused for these.
        """
        allowances, errors = np.zeros(len(means)), np.zeros((len(means), self.errors.shape[-1]))
        all_means = means.copy()
        all_means[at], allowances[at], errors[at] = self.means, self.allowances, self.errors
        return replace(
            self, means=all_means, half_widths=half_widths, allowances=allowances, errors=errors
        )


def _parts(scales: FloatArray, law: NoiseLaw) -> tuple[FloatArray, FloatArray]:
    """The weights of an error's independent parts, and their counts: normal ones have infinite."""
    if law.is_additive:
        return scales * LAPLACE_VARIANCE**-0.5, np.full(len(scales), math.inf)
    return scales, np.ones(len(scales))


def _independent(
    weights: FloatArray, counts: FloatArray, seed: int, *, place: int = 0
) -> FloatArray:
    """Draws of weighted sums of independent variables, whose places begin at `place`: (k, n)."""
    rows = np.atleast_2d(weights)
    errors = np.zeros((len(rows), 2 * N_PAIRS))
    for i in np.flatnonzero(rows.any(axis=0)).tolist():
        used = np.flatnonzero(rows[:, i])
        errors[used] += np.outer(rows[used, i], _variable(seed, place + i, float(counts[i])))
    return errors


def _of_reduced(known: Reduced, seed: int) -> FloatArray:
    """Draws of a reduced law, whose smallest variables make one normal error."""
    found = _independent(known.weights, known.counts, seed)
    ones, place = np.ones(known.rest.shape[-1]), len(known.counts)
    return found + _independent(known.rest, ones, seed, place=place)


def _variable(seed: int, place: int, count: float) -> FloatArray:
    """Draws of the sum of `count` Laplace variables over the root of `count`, in pairs."""
    random = np.random.default_rng((seed, place))
    # Further variables have draws in an order of their own.
    in_net = place < N_COORDINATES
    order = _scrambled(_net()[place], random) if in_net else random.permutation(N_PAIRS)
    half = _quantiles(count)[order]
    return np.concatenate([half, -half])


@lru_cache(maxsize=256)
def _quantiles(count: float) -> FloatArray:
    """Equally likely values of such a sum, in order, shape (N_PAIRS,).

    An infinite count gives the normal law of the same variance.
    """
    if math.isinf(count):
        normal: FloatArray = LAPLACE_VARIANCE**0.5 * ndtri((np.arange(N_PAIRS) + 0.5) / N_PAIRS)
        return normal
    gamma = gammaincinv(count, (np.arange(_N_GAMMA) + 0.5) / _N_GAMMA) / math.sqrt(count)
    ordered = np.sort(np.subtract.outer(gamma, gamma), axis=None)
    found: FloatArray = ordered.reshape(N_PAIRS, -1).mean(axis=1)
    found.flags.writeable = False
    return found


@lru_cache(maxsize=1)
def _net() -> Places:
    return net(_N_BITS)


def _scrambled(points: Places, random: np.random.Generator) -> Places:
    """A net's coordinate with the halves of each interval of bits swapped at random."""
    found = np.zeros(len(points), dtype=np.intp)
    for bit in reversed(range(_N_BITS)):
        swaps = random.integers(0, 2, 1 << (_N_BITS - 1 - bit))
        found |= (((points >> bit) & 1) ^ swaps[points >> (bit + 1)]) << bit
    return found
