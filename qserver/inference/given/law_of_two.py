"""The law of two errors together, given what is known of sums of errors.

What is drawn for one of their combinations serves all: given the variances of the errors that
matter, both W are normal together. So a probability of any combination is a sum over the same
points.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, reduce

import numpy as np
import numpy.typing as npt

from qserver.inference.arrays import FloatArray
from qserver.inference.given.known_sums import Reduced
from qserver.inference.given.line import law_on_a_line
from qserver.inference.given.matter import Parts
from qserver.inference.given.mixture import JointMixture, mixture
from qserver.inference.given.normal import NormalLaw
from qserver.inference.given.sites import normal_law
from qserver.inference.law.laplace_sum import LaplaceSum

_LEFT_OUT = 5e-4
_ANCHORS = np.array([-1.3, -2.35])
"""Places in deviations from the mean, where a normal law has a tenth and a hundredth below."""
_LEAST = 1e-300
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Below:
    """P(W <= place): an upper bound, and the numerical error that it allows for."""

    most: float
    error: float


class LawOfTwo:
    """The law of W = (W_1, W_2) less its shift.

    Args:
        known: of both errors.
        towards: the combinations that the errors that matter are chosen for, shape (any, 2).
        size: points per shift.
    """

    def __init__(self, known: Reduced, towards: FloatArray, size: int) -> None:
        self.known, self._towards, self._size = known, towards, size

    def mean(self, direction: FloatArray) -> float:
        """The mean of direction @ W."""
        along = self.known.along(direction)
        if along.is_known or along.is_independent:
            return 0.0
        if along.is_on_a_line:
            return law_on_a_line(along).mean
        return self._drawn.along(direction).moments()[0]

    def below(self, direction: FloatArray, place: float) -> Below:
        """P(direction @ W <= place), bounded from above.

        The law is log-concave, so its tail falls off at least as fast as between two places
        further in.
        """
        along = self.known.along(direction)
        if along.is_known:
            return Below(float(place >= 0.0), 0.0)
        if along.is_independent:
            return _independent(along, place)
        if along.is_on_a_line:
            found = law_on_a_line(along).tails(np.array([place]))
            return Below(float(found.most_below[0]), float(found.error[0]))
        drawn = self._drawn.along(direction)
        mean, deviation = drawn.moments()
        near, far = mean + deviation * _ANCHORS
        values, errors = drawn.below(np.array([place, near, far]))
        errors += Parts.of(along, self._normal).without(self._numbers)
        most = min(1.0, float(values[0] + errors[0]))
        if place < far:
            start, end = np.log(np.maximum(_LEAST, (values[1] - errors[1], values[2] + errors[2])))
            slope = (start - end) / (near - far)
            most = min(most, float(np.exp(end + slope * (place - far))))
        return Below(most, float(errors[0]))

    @cached_property
    def _normal(self) -> NormalLaw:
        return normal_law(self.known)

    @cached_property
    def _numbers(self) -> npt.NDArray[np.intp]:
        laws = [self.known.along(c) for c in self._towards]
        parts = [Parts.of(one, self._normal) for one in laws if not one.is_known]
        return reduce(Parts.or_more, parts).that_matter(_LEFT_OUT)[0]

    @cached_property
    def _drawn(self) -> JointMixture:
        return mixture(self.known, self._normal, self._numbers, size=self._size)


def _independent(known: Reduced, place: float) -> Below:
    found = LaplaceSum(np.abs(np.append(known.weights, known.rest))).cdf(place)
    error = _ROUNDING * min(found, 1.0 - found)
    return Below(min(1.0, found + error), error)
