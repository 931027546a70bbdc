"""The law of a Laplace sum by convolution on a lattice: an evaluator, as the source paper has it.

The server convolves for one half-width at a time (`qserver.inference.posterior.method_and_prior`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.optimize import brentq

from qserver.errors import RequirementError
from qserver.inference.arrays import FloatArray
from qserver.inference.law.evaluator import (
    CertifiedProbability,
    EqualScales,
    Law,
    as_probability,
    as_upper_bound,
)
from qserver.inference.law.paper_methods import LatticeMasses, lattice_error

_COARSEST: Final = 1.0 / 16.0
_FINEST: Final = 1.0 / 4096.0


@dataclass(frozen=True, slots=True, eq=False)
class LatticeLaw:
    """abs(W) through a lattice.

    Attributes:
        descending: scales from the widest down, shape (n,), n >= 2.
        points_per_length: lattice points per interval length 2h, at least.
    """

    descending: FloatArray
    points_per_length: int

    def within(self, half_width: float) -> float:
        """P(abs(W) <= h)."""
        return as_probability(1.0 - self._tail(half_width))

    def log_tail(self, half_width: float) -> float:
        """log P(abs(W) > h); absolute, not relative, accuracy of the tail."""
        tail = self._tail(half_width)
        return math.log(tail) if tail > 0.0 else -math.inf

    def certify(self, half_width: float) -> CertifiedProbability:
        """P(abs(W) <= h) with the error of rounding to the lattice, of cutting and of floats."""
        if math.isinf(half_width):
            return CertifiedProbability(probability=1.0, error=0.0)
        lattice = self._lattice(half_width)
        error = lattice_error(self.descending, lattice.step) + lattice.loss + lattice.rounding
        tail = lattice.tail(half_width, float(self.descending[0]))
        return CertifiedProbability(
            probability=1.0 - as_upper_bound(tail), error=as_upper_bound(error)
        )

    def half_width(self, confidence: float) -> float:
        """h with P(abs(W) <= h) = confidence."""
        return self.half_width_of_tail(math.log1p(-confidence))

    def half_width_of_tail(self, log_tail: float) -> float:
        """h with log P(abs(W) > h) = log_tail."""
        widest = float(self.descending[0])
        # The widest law alone has a shorter half-width, so its lattice is fine enough for h.
        shortest = -log_tail * widest
        lattice = self._lattice(shortest)
        target = math.exp(log_tail)

        def excess(half_width: float) -> float:
            return lattice.tail(half_width, widest) - target

        longest = shortest + widest
        while excess(longest) > 0.0:
            longest *= 2.0
        return float(brentq(excess, 0.0, longest, xtol=1e-14 * longest, rtol=1e-14))

    def _tail(self, half_width: float) -> float:
        if math.isinf(half_width):
            return 0.0
        lattice = self._lattice(half_width)
        return as_upper_bound(lattice.tail(half_width, float(self.descending[0])))

    def _lattice(self, half_width: float) -> LatticeMasses:
        widest = float(self.descending[0])
        step = min(2.0 * half_width / self.points_per_length, _COARSEST * widest)
        # A finer step gains little: the sum is smooth on the scale of its standard deviation.
        deviation = widest * math.sqrt(2.0 * float(np.square(self.descending / widest).sum()))
        return LatticeMasses.of(self.descending[1:], step=max(step, _FINEST * deviation))


@dataclass(frozen=True, slots=True)
class Convolution:
    """Evaluator by lattice masses; exact for one scale.

    Attributes:
        points_per_length: lattice points per interval length, so the step is at most
            L / `points_per_length` (but never below a 4096th of the standard deviation).

    A law raises CapacityError if the lattice would have more than 2^23 points: for thousands of
    wide scales at a low confidence.
    """

    points_per_length: int = 200

    def __post_init__(self) -> None:
        if self.points_per_length < 1:
            raise RequirementError("points_per_length", "be >= 1", self.points_per_length)

    def prepare(self, scales: FloatArray) -> Law:
        """Law of positive `scales`, shape (n,)."""
        descending = np.sort(scales)[::-1]
        if len(descending) == 1:
            return EqualScales.of(scale=float(descending[0]), count=1)
        return LatticeLaw(descending=descending, points_per_length=self.points_per_length)
