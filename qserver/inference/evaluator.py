"""What every way of computing the error distribution offers.

An `Evaluator` turns scales into a `Law`, the distribution of W = sum_i Lap(c_i); a law answers
questions about abs(W) and says how far off its answers may be.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

from qserver.errors import RequirementError
from qserver.inference.moments import FloatArray


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
        """log P(abs(W) > h), -inf when no mass is left."""

    def certify(self, half_width: float, /) -> CertifiedProbability:
        """P(abs(W) <= h) and a bound on its error."""

    def half_width(self, confidence: float, /) -> float:
        """Least h with P(abs(W) <= h) >= confidence, confidence in (0, 1)."""

    def half_width_of_tail(self, log_tail: float, /) -> float:
        """h with log P(abs(W) > h) = log_tail, log_tail < 0 finite."""


class Evaluator(Protocol):
    """A way to compute the law of W."""

    def prepare(self, scales: FloatArray, /) -> Law:
        """Law for positive finite `scales`, shape (n,), n >= 1, in any order."""


def log_one_minus_exp(value: float) -> float:
    """log(1 - exp(value)) for value <= 0, without cancellation; -inf at 0."""
    if value >= 0.0:
        return -math.inf
    if value > -math.log(2.0):
        return math.log(-math.expm1(value))
    return math.log1p(-math.exp(value))
