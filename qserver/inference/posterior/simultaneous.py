"""Intervals of several numbers that all hold at once, by the law of all of them together.

Given the disagreements, the numbers have a joint posterior, sampled by a chain; under Gaussian
noise they are jointly normal. In each draw one number is farthest from its mean, in units of its
asked half-width. All asked intervals are multiplied by one factor: the quantile of this distance at
the confidence plus the draws' error.
"""

from __future__ import annotations

import contextlib
import math
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np
from scipy.special import chdtri

from qserver.inference.arrays import FloatArray
from qserver.inference.disagreement.gibbs_sampler import N_CHAINS, farthest_off
from qserver.inference.disagreement.known_sums import Together
from qserver.inference.disagreement.normal_law_given_sums import LAPLACE_VARIANCE
from qserver.inference.estimate import trim
from qserver.inference.posterior.row_posterior import FAULTS_OF_FLOATS

_STANDARD_ERRORS = 2.0
_LEAST_BEYOND = 20
"""Draws that must lie beyond the intervals: fewer do not say where the intervals end."""
_MOST_PRODUCTS, _MOST_NUMBERS = 1e8, 1e7
_MOST_NORMAL = 1 << 16
"""Draws of normal numbers, of products for them and of numbers drawn: about a tenth of a second."""
_APART = 0.1
"""Correlations below which the union bound is as good as the joint law."""
_ZERO, _SEED = 1e-9, 18


def normal_factor(
    found: Together, reaches: FloatArray, *, missed: float, one_sided: bool = False
) -> float:
    """The factor, at most 1, on the intervals of normal numbers so that all hold at once.

    The smaller of two bounds. One is a quantile of drawn greatest errors, in reaches, with twice
    the draws' standard error. For the other, errors over their deviations are unit combinations of
    r independent normal variables: none exceeds the root of the sum of squares, which is
    chi-square.

    Args:
        found: its errors are normal, and disagreements do not bear on them.
        reaches: half-widths less allowances, in records, > 0, shape (m,).
        missed: chance that some interval misses; on one side with `one_sided`.
    """
    deviations = np.linalg.norm(found.sums.weights, axis=1)
    units = found.sums.weights / deviations[:, None]
    if (m := len(units)) * units.shape[1] * min(units.shape) > _MOST_PRODUCTS:
        return 1.0
    basis, sizes, _ = np.linalg.svd(units, full_matrices=False)
    rank = int((sizes > _ZERO * sizes[0]).sum())
    shares = deviations * LAPLACE_VARIANCE**0.5 / reaches
    by_squares = math.sqrt(float(chdtri(rank, missed))) * float(shares.max()) * (1.0 + _ZERO)
    n = int(min(_MOST_NORMAL, _MOST_PRODUCTS / (m * rank), _MOST_NUMBERS / m)) // N_CHAINS
    alike = np.abs(units @ units.T - np.eye(m)).max()
    if alike < _APART or n * N_CHAINS * missed < _LEAST_BEYOND:
        return min(1.0, by_squares)
    normal = np.random.default_rng(_SEED).standard_normal((N_CHAINS * n, rank))
    errors = normal @ (basis[:, :rank] * sizes[:rank]).T
    farthest = ((errors if one_sided else np.abs(errors)) * shares).max(axis=1)
    drawn = farthest.reshape(N_CHAINS, n)
    by_draws = _least_factor(drawn, 1.0 - missed)
    return min(1.0, by_squares, 1.0 if by_draws is None else by_draws[0])


@dataclass(frozen=True)
class HeldAtOnce:
    """Intervals that hold at once.

    Args:
        half_widths: of the numbers, in records.
        error: of the confidence, allowed for in the half-widths.
        attained: the confidence that the asked intervals hold at once, without its error.
        disagreements: number that bear on the numbers.
    """

    half_widths: tuple[float, ...]
    error: float
    attained: float
    disagreements: int


# Whoever asks again gets the same draws, and need not wait for them, as long as the history stays.
_known: WeakKeyDictionary[Together, OrderedDict[tuple[float, ...], HeldAtOnce | None]] = (
    WeakKeyDictionary()
)
_MOST_KNOWN = 16


def held_at_once(
    found: Together, means: Sequence[float], half_widths: Sequence[float], confidence: float
) -> HeldAtOnce | None:
    """The asked intervals times one factor, so that all hold at once with the confidence.

    Args:
        means: of the numbers' posteriors, in records.
        half_widths: as asked, in records.
        confidence: that all hold at once.

    Returns:
        None without disagreements, with too many for a chain, with too few draws for the
        confidence, or if floats fail.
    """
    known, asked = _known.setdefault(found, OrderedDict()), (*means, *half_widths, confidence)
    if asked not in known:
        held = None
        with contextlib.suppress(*FAULTS_OF_FLOATS):
            held = _held(found, np.array(means), np.array(half_widths), confidence)
        trim(known, _MOST_KNOWN)
        known[asked] = held
    return known[asked]


def _held(
    found: Together, means: FloatArray, half_widths: FloatArray, confidence: float
) -> HeldAtOnce | None:
    known = found.sums.reduced(most_free=np.iinfo(np.intp).max).of_several
    reaches = half_widths - found.allowances
    if not known.n_disagreements or not (reaches > 0.0).all():
        return None
    drawn = farthest_off(known, found.estimates - known.shift - means, reaches)
    if drawn is None:
        return None
    least = _least_factor(drawn, confidence)
    if least is None:
        return None
    within, error_within = _share_within(drawn, 1.0)
    return HeldAtOnce(
        tuple((least[0] * reaches + found.allowances).tolist()),
        least[1],
        max(0.0, within - error_within),
        known.n_disagreements,
    )


def _least_factor(drawn: FloatArray, confidence: float) -> tuple[float, float] | None:
    """The least factor within the quantile of the draws, and the confidence's error."""
    ordered = np.sort(drawn, axis=None)
    _, error = _share_within(drawn, float(ordered[math.ceil(confidence * len(ordered)) - 1]))
    n_within = math.ceil((confidence + error) * len(ordered))
    if n_within > len(ordered) - _LEAST_BEYOND:
        return None
    return float(ordered[n_within - 1]), error


def _share_within(drawn: FloatArray, factor: float) -> tuple[float, float]:
    """The share of draws within a factor, and its standard error."""
    shares = (drawn <= factor).mean(axis=1)
    share = float(shares.mean())
    by_chains = float(shares.std(ddof=1)) / math.sqrt(N_CHAINS)
    by_chance = math.sqrt(share * (1.0 - share) / drawn.size)
    return share, _STANDARD_ERRORS * max(by_chains, by_chance)
