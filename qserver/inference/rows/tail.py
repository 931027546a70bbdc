"""Weights with the shortest interval at a confidence.

Least variance does not give the shortest interval: a sum of few terms can beat a sum of many terms
with less variance. The half-width is convex in the weights. It is minimised over a in
A = (lambda - T'a, a), starting from the weights of least variance. It includes the allowances for
lattice and floats.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize

from qserver.inference.law.laplace_sum import LaplaceSum
from qserver.inference.rows.axis_vectors import FloatArray
from qserver.inference.rows.blue import Combinations

_MAX_STEPS = 200
_GRADIENT = 3e-6
_OUTWARD = 1.0 + 1e-9


def safe_half_width(scales: FloatArray, confidence: float) -> float:
    """Half-width of the sum of Laplace variables, rounded up.

    It is raised by a part 1e-9, far more than the evaluator's error. delta is first rounded down to
    32 significant bits, so that the half-width grows with the confidence even if two confidences
    differ by less than the evaluator resolves.
    """
    delta = 1.0 - confidence
    mantissa, exponent = np.frexp(delta)
    coarse = float(np.ldexp(np.floor(mantissa * 2.0**32), int(exponent) - 32))
    return LaplaceSum(scales).half_width(1.0 - coarse) * _OUTWARD


@dataclass(frozen=True)
class Tail:
    """Half-width of a choice of weights, with its allowance.

    Args:
        a: weights of the dependent rows.
        half_width: in records, allowances included.
        allowance: the part of it for lattice and floats.
    """

    a: FloatArray
    half_width: float
    allowance: float


class TailProblem:
    """Half-width at `confidence` as a function of the weights a of the dependent rows."""

    def __init__(self, combinations: Combinations, confidence: float) -> None:
        self.combinations = combinations
        self.confidence = confidence
        basis, dependent = combinations.basis, combinations.dependent
        self._scales = np.concatenate([basis.scales, dependent.scales])
        self._steps = np.concatenate([basis.steps, dependent.steps])

    def at(self, a: FloatArray) -> Tail:
        """The half-width at a, rounded up."""
        weights = np.abs(self.combinations.weights(a))
        allowance = float(weights @ self._steps) + self.combinations.float_error(a)
        noise = safe_half_width(weights * self._scales, self.confidence)
        return Tail(a, noise + allowance, allowance)

    def best(self, start: FloatArray | None = None) -> Tail:
        """The shortest interval found from `start`; never longer than at `start`.

        The default start is least variance or the basis alone, whichever is shorter. The basis
        alone gives the weights from before the dependent rows came, so no row makes it longer.
        """
        if start is None:
            least = self.combinations.start
            first = min(self.at(least), self.at(0.0 * least), key=lambda t: t.half_width)
        else:
            first = self.at(start)
        if not len(first.a):
            return first
        found = self.at(self._descend(first))
        return found if found.half_width < first.half_width else first

    def slopes(self, a: FloatArray) -> FloatArray:
        """Derivatives of the half-width by the logarithms of the rows' scales, basis first."""
        scales = np.abs(self.combinations.weights(a)) * self._scales
        return np.asarray(LaplaceSum(scales).half_width_gradient(self.confidence).gradient * scales)

    def _descend(self, start: Tail) -> FloatArray:
        unit = start.half_width
        deviation = np.linalg.norm(self.combinations.weights(start.a) * self._scales)
        whitening, inward = self.combinations.whitening, deviation / self.combinations.deviations

        def objective(z: FloatArray) -> tuple[float, FloatArray]:
            value = self._value_and_gradient(start.a + inward * (z @ whitening))
            return value.value / unit, whitening @ (value.gradient * inward) / unit

        # In these coordinates the curvature is about 1: the remaining excess is half its square.
        gradient = _GRADIENT / len(start.a) ** 0.5
        result = minimize(
            objective,
            np.zeros(len(start.a)),
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": _MAX_STEPS, "ftol": 0.0, "gtol": gradient, "maxcor": 30},
        )
        return np.asarray(start.a + inward * (result.x @ whitening))

    def _value_and_gradient(self, a: FloatArray) -> _Value:
        weights = self.combinations.weights(a)
        signs = np.sign(weights)
        found = LaplaceSum(np.abs(weights) * self._scales).half_width_gradient(self.confidence)
        by_weight = signs * (found.gradient * self._scales + self._steps)
        n = len(self.combinations.coefficients)
        gradient = by_weight[n:] - self.combinations.directions @ by_weight[:n]
        return _Value(found.half_width + float(np.abs(weights) @ self._steps), gradient)


@dataclass(frozen=True)
class _Value:
    """A value and its gradient."""

    value: float
    gradient: FloatArray
