"""The interface of all methods that compute the distribution of an error.

An `Evaluator` turns scales into a `Law`, the distribution of W = sum_i Lap(c_i). A law gives
probabilities and half-widths of abs(W), and bounds on their errors.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Protocol

from qserver.errors import EvaluationError, RequirementError
from qserver.inference.law.moments import FloatArray

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
