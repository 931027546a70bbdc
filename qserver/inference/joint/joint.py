"""The chance that all errors of a workload stay within their half-widths at once.

The errors share sources: W_i = sum_k A_ik L_k with L_k = b_k Lap(1), independent. Two lower bounds
of P(abs(W_i) <= h_i for all i) hold for every A; the union bound is never better than the first.

Product rule. P(all) >= prod_i P(abs(W_i) <= h_i).

    Lap(b) = sqrt(V) G with V exponential of mean 2 b^2 and G standard normal. Given V_1..V_m the
    errors are centred and jointly normal, so by Sidak's inequality P(all | V) >= prod_i f_i(V),
    f_i(V) = P(abs(W_i) <= h_i | V) = erf(h_i / sqrt(2 sum_k A_ik^2 V_k)). Every f_i falls in every
    V_k and the V_k are independent, so E prod f_i >= prod E f_i (Harris), and E f_i is the
    marginal. It is sharp for independent errors, and no better than the union bound for equal ones.

Sampled bound. For strongly dependent errors; see joint_draws.py.

Smaller scales than stated keep both bounds: Lap(b) is Lap(b') plus independent noise for b' < b,
and noise added to a symmetric log-concave vector only takes mass out of a symmetric convex set
(Anderson).

References:
    Sidak (1967); Harris (1960); Anderson (1955).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from qserver.errors import RequirementError
from qserver.inference.joint.joint_draws import MOST_DRAWS, WORK_OF_DRAW, Sampling
from qserver.inference.law.evaluator import as_probability, as_upper_bound
from qserver.inference.law.laplace_sum import LaplaceSum
from qserver.inference.law.moments import FloatArray

Method = Literal["exact", "product", "sampled"]

FAILURE: Final = 1e-10
"""Largest eta: chance, over the draws, that a sampled bound is false. It is part of the bound."""
_FAILURE_PART: Final = 1e-4
DEFAULT_WORK: Final = 2_000_000_000
"""Most multiplications for one set of draws: about a second on one core."""
_OUTWARD: Final = 1.0 + 1e-9
_FACTOR_TOLERANCE: Final = 1e-6
_BELOW_GUESS: Final = 0.98
_WORTH: Final = 0.97
_NEGLIGIBLE: Final = 1e-200


@dataclass(frozen=True, slots=True)
class JointBound:
    """A certified bound on the chance that any error of a workload is too large.

    Attributes:
        outside: upper bound of P(some abs(W_i) > h_i), in [0, 1].
        method: `exact` for at most one error, else the name of the bound used.
        failure: chance, over the draws, that the bound is false; `outside` includes it.
    """

    outside: float
    method: Method
    failure: float = 0.0

    def __post_init__(self) -> None:
        if not 0.0 <= self.failure <= self.outside <= 1.0:
            raise RequirementError("outside", "lie in [failure, 1]", self.outside)

    @property
    def lower(self) -> float:
        """Lower bound of P(abs(W_i) <= h_i for all i)."""
        return 1.0 - self.outside


@dataclass(frozen=True, slots=True)
class LeastFactor:
    """A common factor on the half-widths, or on every 1 / b, with which a joint statement holds.

    Attributes:
        factor: f with P(abs(W_i) <= f h_i for all i) >= the confidence asked.
        method: see `JointBound`.
    """

    factor: float
    method: Method


@dataclass(frozen=True, eq=False, init=False)
class JointErrors:
    """Errors W_i = sum_k coefficients[i, k] scales[k] Lap(1) and their allowed half-widths.

    Args:
        coefficients: A, shape (n, m), finite.
        scales: b_k of the sources, shape (m,), finite, >= 0.
        half_widths: h_i, shape (n,), > 0, in the same unit, less the allowances for lattice and
            floats. An infinite one always holds.

    Attributes:
        ratios: A_ik b_k / h_i, shape (n', m'), without zero columns, zero rows, and rows that
            repeat another row or its negative.

    Raises:
        RequirementError: the arrays are not of this kind.
    """

    ratios: FloatArray
    _laws: tuple[LaplaceSum, ...]

    def __init__(
        self, coefficients: npt.ArrayLike, scales: npt.ArrayLike, half_widths: npt.ArrayLike
    ) -> None:
        matrix = np.asarray(coefficients, dtype=np.float64)
        sizes = np.asarray(scales, dtype=np.float64)
        widths = np.asarray(half_widths, dtype=np.float64)
        if matrix.shape != widths.shape + sizes.shape or matrix.ndim != 2:
            raise RequirementError("coefficients", "have shape (n, m)", matrix.shape)
        if not (np.isfinite(matrix).all() and np.isfinite(sizes).all() and (sizes >= 0.0).all()):
            raise RequirementError("scales", "be finite and >= 0, as the coefficients be finite")
        if not (widths > 0.0).all():
            raise RequirementError("half_widths", "be > 0")
        # An overflow is refused later, as no law has such a scale.
        with np.errstate(over="ignore"):
            ratios = _distinct(matrix * sizes / widths[:, None])
        ratios.flags.writeable = False
        object.__setattr__(self, "ratios", ratios)
        object.__setattr__(self, "_laws", tuple(LaplaceSum(row) for row in np.abs(ratios)))

    def tails(self, factor: float = 1.0) -> FloatArray:
        """P(abs(W_i) > factor h_i) of each error that has noise, shape (n',), rounded upwards."""
        found = np.exp([law.log_tail(factor) for law in self._laws]) * _OUTWARD
        return np.asarray(np.minimum(found, 1.0))

    def least_alone(self, confidence: float) -> float:
        """The factor that the worst error needs alone; no joint statement holds below it."""
        return max((law.half_width(confidence) for law in self._laws), default=0.0)

    def product_bound(self, factor: float = 1.0) -> JointBound:
        """The product rule, at half-widths factor * h_i."""
        tails = self.tails(factor)
        outside = 1.0 if (tails >= 1.0).any() else -math.expm1(float(np.log1p(-tails).sum()))
        return JointBound(as_probability(outside), "exact" if len(tails) < 2 else "product")


def _distinct(ratios: FloatArray) -> FloatArray:
    """The rows in lexical order, without zero rows and repeated rows."""
    used = ratios != 0.0
    ratios = ratios[used.any(axis=1)][:, used.any(axis=0)]
    if not len(ratios):
        return ratios
    leading = np.take_along_axis(ratios, (ratios != 0.0).argmax(axis=1)[:, None], axis=1)
    return np.unique(ratios * np.sign(leading), axis=0)


def most_work(n_errors: int, n_sources: int, work: int) -> int:
    """Most multiplications that a bound takes for so many errors, if `work` are allowed."""
    return min(work, MOST_DRAWS * n_sources * (n_errors + WORK_OF_DRAW))


def joint_confidence(
    errors: JointErrors, *, wanted: float | None = None, work: int = DEFAULT_WORK
) -> JointBound:
    """The best certified bound of P(abs(W_i) <= h_i for all i) within the work.

    Args:
        wanted: the confidence of interest, in (0, 1). Nothing is drawn if the product rule reaches
            it or a single error rules it out. Drawing stops early if it is out of reach.
        work: most multiplications for draws; 0 for the product rule alone.
    """
    product = errors.product_bound()
    if product.method == "exact" or not _NEGLIGIBLE < product.outside < 1.0:
        return product
    largest = float(errors.tails().max())
    if wanted is not None:
        _check_confidence(wanted)
        delta = 1.0 - wanted
        if product.outside <= delta or largest > delta * _OUTWARD**2:
            return product
    failure = min(FAILURE, _FAILURE_PART * largest)
    sampling = Sampling(errors.ratios, reference=1.0, failure=failure)
    n_draws = sampling.n_draws(work)
    if not n_draws:
        return product
    pilot = sampling.pilot(n_draws)
    hopeless = product.outside if wanted is None else 1.0 - wanted
    if pilot.estimate(1.0) >= _WORTH * hopeless:
        return product
    outside = sampling.bet(pilot, n_draws, factor=1.0).outside(1.0)
    sampled = JointBound(as_upper_bound(outside), "sampled", sampling.failure)
    return min(sampled, product, key=lambda b: b.outside)


def least_factor(
    errors: JointErrors, *, confidence: float, work: int = DEFAULT_WORK
) -> LeastFactor:
    """The least certified f with P(abs(W_i) <= f h_i for all i) >= confidence, within the work.

    Multiplying every 1 / b by f has the same effect as multiplying the half-widths by f. So a
    purchase whose weights stay the same meets the joint statement when scaled by f.

    Args:
        confidence: 1 - delta, in (0, 1).
        work: as for `joint_confidence`.
    """
    _check_confidence(confidence)
    delta = 1.0 - confidence
    alone = errors.least_alone(confidence) * _OUTWARD
    if len(errors.ratios) < 2:
        return LeastFactor(alone, "exact")
    product = _product_factor(errors, delta, alone)
    failure = min(FAILURE, _FAILURE_PART * delta)
    sampling = Sampling(errors.ratios, reference=alone, failure=failure)
    n_draws = sampling.n_draws(work)
    if not n_draws:
        return LeastFactor(product, "product")
    first = sampling.pilot(n_draws)
    if first.estimate(product) >= _WORTH * delta:
        return LeastFactor(product, "product")
    guess = _root(lambda factor: first.estimate(factor) - delta, alone, product)
    # The tilts are best near the factor that is sought.
    low = max(alone, guess * _BELOW_GUESS)
    sampling = Sampling(errors.ratios, reference=low, failure=failure)
    bet = sampling.bet(sampling.pilot(n_draws), n_draws, factor=guess)
    sampled = bet.least_factor(delta, low=low, high=product)
    if sampled < product:
        return LeastFactor(sampled, "sampled")
    return LeastFactor(product, "product")


def _product_factor(errors: JointErrors, delta: float, alone: float) -> float:
    """The least factor by the product rule, approached from above."""
    high = errors.least_alone(1.0 - delta / len(errors.ratios)) * _OUTWARD
    return _root(lambda factor: errors.product_bound(factor).outside - delta, alone, high)


def _root(falling: Callable[[float], float], low: float, high: float) -> float:
    """A root of a function that falls from `low` to `high`, approached from above."""
    if falling(low) <= 0.0:
        return low
    if falling(high) >= 0.0:
        return high
    tolerance = _FACTOR_TOLERANCE * low
    from scipy.optimize import brentq  # loads long, and not at a start

    return min(high, float(brentq(falling, low, high, xtol=tolerance)) + 2.0 * tolerance)


def _check_confidence(value: float) -> None:
    if not 0.0 < value < 1.0:
        raise RequirementError("confidence", "lie in (0, 1)", value)
