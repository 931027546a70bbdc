"""The interface of all methods that compute the distribution of an error.

An `Evaluator` turns scales into a `Law`, the distribution of W = sum_i Lap(c_i). A law gives
probabilities and half-widths of abs(W), and bounds on their errors.

Closed forms: no noise, and the sum of n Laplace variables of one scale, n = 1 included.

For x > 0 the density of W / c is a mixture of Gamma densities with positive weights, so nothing
cancels: P(abs(W) > h) = sum_j p_j Q(j, h / c), p_j = C(2n-j-1, n-1) 2^-(2n-j-1), j = 1..n.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
from scipy.special import gammainc, gammaincc, gammaln, logsumexp

from qserver.errors import EvaluationError, RequirementError
from qserver.inference.arrays import FloatArray

_ROUNDING: Final = 1e-9
"""A value this far outside the possible range is taken for rounding."""


@dataclass(frozen=True, slots=True)
class CertifiedProbability:
    """A probability with a bound on its error.

    Attributes:
        probability: P(abs(W) <= h), in [0, 1].
        error: bound on abs(probability - exact), rounding included.
        confidence: probability that the bound itself holds; below 1 for random methods only.
    """

    probability: float
    error: float
    confidence: float = 1.0

    def __post_init__(self) -> None:
        if not 0.0 <= self.probability <= 1.0:
            raise RequirementError("probability", "lie in [0, 1]", self.probability)
        if not self.error >= 0.0:
            raise RequirementError("error", "be >= 0", self.error)
        if not 0.0 < self.confidence <= 1.0:
            raise RequirementError("confidence", "lie in (0, 1]", self.confidence)

    @property
    def lower(self) -> float:
        """Least probability consistent with the error."""
        return max(0.0, self.probability - self.error)


class Law(Protocol):
    """Distribution of abs(W); half-widths are finite and >= 0, in the unit of the scales."""

    def within(self, half_width: float, /) -> float:
        """P(abs(W) <= h)."""

    def log_tail(self, half_width: float, /) -> float:
        """log P(abs(W) > h), -inf if no mass is beyond h."""

    def certify(self, half_width: float, /) -> CertifiedProbability:
        """P(abs(W) <= h) and a bound on its error."""

    def half_width(self, confidence: float, /) -> float:
        """Least h with P(abs(W) <= h) >= confidence, confidence in (0, 1)."""

    def half_width_of_tail(self, log_tail: float, /) -> float:
        """h with log P(abs(W) > h) = log_tail, log_tail < 0 finite."""


class Evaluator(Protocol):
    """A way to compute the law of W."""

    def prepare(self, scales: FloatArray, /) -> Law:
        """Law for positive finite `scales`, shape (n,), n >= 1, in any order.

        `LaplaceSum` leaves out negligible scales, so their ratio is at most n * 2^60.
        """


def as_probability(value: float, *, error: float = 0.0) -> float:
    """`value` cut to [0, 1]; EvaluationError if it lies outside by more than `error` and rounding.

    Unlike with min and max, a nan raises an error and is not taken for 0 or 1.
    """
    room = error + _ROUNDING
    if not -room <= value <= 1.0 + room:
        raise EvaluationError
    return min(1.0, max(0.0, value))


def as_upper_bound(value: float) -> float:
    """An upper bound of a probability, cut to at most 1; EvaluationError if it is no number."""
    if not value >= 0.0:
        raise EvaluationError
    return min(1.0, value)


def as_log_probability(value: float) -> float:
    """`value` cut to at most 0; EvaluationError if it is no number or above 0 beyond rounding."""
    if not value <= _ROUNDING:
        raise EvaluationError
    return min(0.0, value)


def as_finite(value: float) -> float:
    """`value`, which is finite and >= 0; else EvaluationError."""
    if not 0.0 <= value < math.inf:
        raise EvaluationError
    return value


def log_one_minus_exp(value: float) -> float:
    """log(1 - exp(value)) for value <= 0, without cancellation; -inf at 0."""
    if value >= 0.0:
        return -math.inf
    if value > -math.log(2.0):
        return math.log(-math.expm1(value))
    return math.log1p(-math.exp(value))


_ULPS_OF_GAMMA: Final = 64
_TOLERANCE: Final = 1e-15
_DEEP: Final = 1e-280
_LOW_CONFIDENCE: Final = 0.2


@dataclass(frozen=True, slots=True)
class NoNoise:
    """W = 0."""

    def within(self, _: float, /) -> float:
        """1."""
        return 1.0

    def log_tail(self, _: float, /) -> float:
        """log 0."""
        return -math.inf

    def certify(self, _: float, /) -> CertifiedProbability:
        """1, exactly."""
        return CertifiedProbability(probability=1.0, error=0.0)

    def half_width(self, _: float, /) -> float:
        """0."""
        return 0.0

    def half_width_of_tail(self, _: float, /) -> float:
        """0."""
        return 0.0

    def density(self, half_width: float, /) -> float:
        """All mass at 0."""
        return math.inf if half_width == 0.0 else 0.0

    def half_width_gradient(self, _: float, scales: FloatArray, /) -> FloatArray:
        """0; the planner does not need the one-sided derivative at no noise."""
        return np.zeros(len(scales))


@dataclass(frozen=True, slots=True, eq=False)
class EqualScales:
    """abs(W) for W a sum of `len(weights)` variables Lap(scale).

    Attributes:
        scale: c > 0.
        weights: mixture weights p_1..p_n, shape (n,), sum 1.
    """

    scale: float
    weights: FloatArray

    @classmethod
    def of(cls, *, scale: float, count: int) -> EqualScales:
        """Law of `count` >= 1 equal scales."""
        j = np.arange(1, count, dtype=np.float64)
        # p_(j+1) / p_j = 2 (n - j) / (2n - j - 1); normalised instead of computing p_1.
        weights = np.cumprod(np.concatenate([[1.0], 2.0 * (count - j) / (2.0 * count - j - 1.0)]))
        return cls(scale=scale, weights=weights / math.fsum(weights))

    def within(self, half_width: float) -> float:
        """P(abs(W) <= h), small values to relative accuracy."""
        h = half_width / self.scale
        if len(self.weights) == 1:
            return -math.expm1(-h)
        if self._is_central(h):
            return float(self.weights @ gammainc(np.arange(1, len(self.weights) + 1), h))
        return -math.expm1(as_log_probability(self.log_tail(half_width)))

    def log_tail(self, half_width: float) -> float:
        """log P(abs(W) > h)."""
        h = half_width / self.scale
        if len(self.weights) == 1 or math.isinf(h):
            return -h
        if self._is_central(h):
            return math.log1p(-self.within(half_width))
        tail = float(self.weights @ gammaincc(np.arange(1, len(self.weights) + 1), h))
        return math.log(tail) if tail > _DEEP else self._deep_log_tail(h)

    def density(self, half_width: float) -> float:
        """Density of W at h >= 0."""
        return 0.5 * math.exp(self._log_density(half_width / self.scale)) / self.scale

    def certify(self, half_width: float) -> CertifiedProbability:
        """P(abs(W) <= h); the error is an estimate of rounding in the Gamma functions."""
        n = len(self.weights)
        ulps = 2 if n == 1 else _ULPS_OF_GAMMA + 4 * n
        return CertifiedProbability(probability=self.within(half_width), error=ulps * 2.0**-53)

    def half_width(self, confidence: float) -> float:
        """h with P(abs(W) <= h) = confidence."""
        if len(self.weights) == 1 or confidence >= _LOW_CONFIDENCE:
            return self.half_width_of_tail(math.log1p(-confidence))
        return self._climb(confidence)

    def half_width_of_tail(self, log_tail: float) -> float:
        """h with log P(abs(W) > h) = log_tail."""
        if len(self.weights) == 1:
            return -log_tail * self.scale
        if log_tail > math.log1p(-_LOW_CONFIDENCE):
            return self._climb(math.exp(log_one_minus_exp(log_tail)))
        h = 0.0
        for _ in range(200):
            current = self.log_tail(h * self.scale)
            slope = math.exp(self._log_density(h) - current)
            # The log tail is concave: Newton overshoots once, then descends to the root.
            move = (current - log_tail) / slope
            h = max(h + move, 0.5 * h)
            if abs(move) <= _TOLERANCE * h:
                break
        return h * self.scale

    def half_width_gradient(self, half_width: float, scales: FloatArray) -> FloatArray:
        """Derivatives of h by each scale: equal by symmetry, and h = sum c_i dh/dc_i."""
        share = half_width / (len(self.weights) * self.scale)
        return np.where(scales > 0.0, share, 0.0)

    def _is_central(self, h: float) -> bool:
        return h * h < 0.1 * len(self.weights)

    def _climb(self, confidence: float) -> float:
        h = 0.0
        for _ in range(50):
            # P(abs(W) <= h) is concave in h: the steps never overshoot.
            move = (confidence - self.within(h * self.scale)) / math.exp(self._log_density(h))
            h += move
            if abs(move) <= _TOLERANCE * h:
                break
        return h * self.scale

    def _log_density(self, h: float) -> float:
        """log of the density of abs(W) / c at h >= 0."""
        if math.isinf(h):
            return -math.inf
        if h == 0.0:
            return math.log(self.weights[0])
        orders = np.arange(len(self.weights))
        logs = orders * math.log(h) - gammaln(orders + 1)
        return float(logsumexp(logs, b=self.weights)) - h

    def _deep_log_tail(self, h: float) -> float:
        # Q(j, h) = e^-h sum_(k<j) h^k / k!, so h^k / k! meets the weights of all j > k.
        reach = np.cumsum(self.weights[::-1])[::-1]
        orders = np.arange(len(self.weights))
        logs = orders * math.log(h) - gammaln(orders + 1)
        return float(logsumexp(logs, b=reach)) - h


_ROUNDING_OF_TAILS = 1e-9
"""Bound on the relative error of the nearer tail, far above that of the evaluator."""


@dataclass(frozen=True, eq=False)
class Tails:
    """P(X <= x) and P(X > x) at some places, arrays of shape (m,).

    Args:
        below, above: the probabilities, the smaller of the two with all its digits.
        error: bound on the numerical error of both.
        most_below, most_above: upper bounds, which may be closer than `error` says.
    """

    below: FloatArray
    above: FloatArray
    error: FloatArray
    most_below: FloatArray
    most_above: FloatArray

    @classmethod
    def by_nearer(cls, nearer: FloatArray, *, is_low: np.ndarray) -> Tails:
        """The tails of an exact law.

        Args:
            nearer: the smaller tail at each place.
            is_low: whether that is the lower one, shape (m,).
        """
        error = _ROUNDING_OF_TAILS * nearer
        below, above = (
            np.where(is_low, nearer, 1.0 - nearer),
            np.where(is_low, 1.0 - nearer, nearer),
        )
        return cls(below, above, error, below + error, above + error)

    @property
    def mirrored(self) -> Tails:
        """The tails of -X at the same places with the other sign."""
        return Tails(self.above, self.below, self.error, self.most_above, self.most_below)


def mass_between(low: Tails, high: Tails) -> FloatArray:
    """P(low < X <= high), by the nearer tail; broadcasts."""
    upper, lower = low.above - high.above, high.below - low.below
    middle = 1.0 - low.below - high.above
    found = np.where(low.above < 0.5, upper, np.where(high.below < 0.5, lower, middle))
    return np.asarray(np.maximum(found, 0.0))
