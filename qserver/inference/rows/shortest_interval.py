"""Weights with the shortest interval at a confidence.

Least variance does not give the shortest interval: a sum of few terms can beat a sum of many terms
with less variance. The half-width is convex in the weights. It is minimised over all unbiased
weights, starting from those of least variance. It includes the allowances for lattice and floats.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
from scipy.special import ndtr

from qserver.inference.arrays import FloatArray
from qserver.inference.law.laplace_sum import LaplaceSum
from qserver.inference.law.normal_sum import sum_of
from qserver.inference.rows.blue import Combinations
from qserver.records.privacy.noise_law import LAPLACE, NoiseLaw

_MAX_STEPS = 200
_GRADIENT = 3e-6
_OUTWARD = 1.0 + 1e-9
_INWARD = 1.0 - 1e-6
_N_NODES, _N_HALVINGS = 48, 60
# Planning, rehearsing and answering ask for the same few sums again and again.
_CACHED = 4096
_CACHED_SCALES = 1024
# A question with more scales asks for its sum at a few probabilities, one after the other.
_CACHED_LATELY = 16
LEAST_BY_CONFIDENCE: Final = 2.0**-20
"""Smaller tails cannot be told from 0 by their confidence."""


def safe_half_width(scales: FloatArray, confidence: float, law: NoiseLaw = LAPLACE) -> float:
    """Half-width of the sum of errors of these scales, rounded up.

    It is raised by a part 1e-9, far more than the evaluator's error. delta is first rounded down to
    32 significant bits, so that the half-width grows with the confidence even if two confidences
    differ by less than the evaluator resolves.
    """
    scales = np.asarray(scales, dtype=float)
    if scales.ndim != 1:
        return _safe_half_width(scales, confidence, law)
    cached = _cached if len(scales) <= _CACHED_SCALES else _cached_lately
    return cached(scales.tobytes(), confidence, law)


def _safe_half_width(scales: FloatArray, confidence: float, law: NoiseLaw) -> float:
    delta = 1.0 - confidence
    mantissa, exponent = np.frexp(delta)
    coarse = float(np.ldexp(np.floor(mantissa * 2.0**32), int(exponent) - 32))
    return sum_of(scales, law).half_width(1.0 - coarse) * _OUTWARD


def safe_half_width_of_tail(scales: FloatArray, tail: float, law: NoiseLaw) -> float:
    """Half-width that the sum exceeds with at most the probability `tail`, rounded up.

    It stays accurate for tails whose confidence rounds to 1.
    """
    if tail >= LEAST_BY_CONFIDENCE:
        return safe_half_width(scales, 1.0 - tail, law)
    array = np.asarray(scales, dtype=float)
    return _cached_of_tail(array.tobytes(), math.log(tail), law)


@lru_cache(maxsize=_CACHED_LATELY)
def _cached_of_tail(scales: bytes, log_tail: float, law: NoiseLaw) -> float:
    return sum_of(np.frombuffer(scales), law).half_width_of_tail(log_tail) * _OUTWARD


@lru_cache(maxsize=_CACHED)
def _cached(scales: bytes, confidence: float, law: NoiseLaw) -> float:
    return _safe_half_width(np.frombuffer(scales), confidence, law)


@lru_cache(maxsize=_CACHED_LATELY)
def _cached_lately(scales: bytes, confidence: float, law: NoiseLaw) -> float:
    return _safe_half_width(np.frombuffer(scales), confidence, law)


def least_half_width(deviation: float, confidence: float) -> float:
    """Lower bound of the half-width of any sum of Laplace variables with this standard deviation.

    The sum is normal given a variance T, a sum of exponential variables. Its rate of failure rises,
    so P(T > t) >= exp(-t / E T) for t < E T (Barlow and Proschan 1965, theorem 4.4). With
    g(t) the normal probability beyond h given t, the tail is then at least
    the integral of exp(-t / E T) g'(t) up to E T.
    """
    return deviation * _least_ratio(confidence)


@lru_cache(maxsize=_CACHED)
def _least_ratio(confidence: float) -> float:
    nodes, weights = np.polynomial.legendre.leggauss(_N_NODES)
    parts = 0.5 * (nodes + 1.0)
    shares = np.append(0.5 * weights * np.exp(-parts), math.exp(-1.0))
    deviations = np.sqrt(np.append(parts, 1.0))

    def is_beyond(h: float) -> bool:
        return float(shares @ (2.0 * ndtr(-h / deviations))) > 1.0 - confidence

    low, high = 0.0, 40.0
    for _ in range(_N_HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if is_beyond(middle) else (low, middle)
    return low * _INWARD


@dataclass(frozen=True)
class Tail:
    """Half-width of weights, with its allowance.

    Args:
        a: steps along each direction from least variance.
        half_width: in records, allowances included.
        allowance: the part of it for lattice and floats.
    """

    a: FloatArray
    half_width: float
    allowance: float


class TailProblem:
    """Half-width at `confidence` as a function of the a of `Combinations`, under Laplace noise.

    Under Gaussian noise least variance has the shortest interval, without a search.
    """

    def __init__(self, combinations: Combinations, confidence: float) -> None:
        self.combinations = combinations
        self.confidence = confidence
        self._scales, self._steps = combinations.noise.scales, combinations.noise.steps

    def at(self, a: FloatArray) -> Tail:
        """The half-width at a, rounded up."""
        weights = np.abs(self.combinations.weights(a))
        allowance = float(weights @ self._steps)
        noise = safe_half_width(weights * self._scales, self.confidence)
        return Tail(a, noise + allowance, allowance)

    def best(self, start: FloatArray | None = None) -> Tail:
        """The shortest interval found from `start`, by default least variance.

        It is never longer than at `start`.
        """
        first = self.at(np.zeros(self.combinations.n_directions) if start is None else start)
        if not len(first.a):
            return first
        found = self.at(self._descend(first))
        return found if found.half_width < first.half_width else first

    def slopes(self, a: FloatArray) -> FloatArray:
        """Derivatives of the half-width by the logarithms of the rows' scales."""
        scales = np.abs(self.combinations.weights(a)) * self._scales
        return np.asarray(LaplaceSum(scales).half_width_gradient(self.confidence).gradient * scales)

    def _descend(self, start: Tail) -> FloatArray:
        unit = start.half_width
        deviation = np.linalg.norm(self.combinations.weights(start.a) * self._scales)
        whitening = self.combinations.whitening * deviation

        def objective(z: FloatArray) -> tuple[float, FloatArray]:
            value = self._value_and_gradient(start.a + z @ whitening)
            return value.value / unit, whitening @ value.gradient / unit

        # In these coordinates the curvature is about 1: the remaining excess is half its square.
        gradient = _GRADIENT / len(start.a) ** 0.5
        from scipy.optimize import minimize  # loads long, and not at a start

        result = minimize(
            objective,
            np.zeros(len(start.a)),
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": _MAX_STEPS, "ftol": 0.0, "gtol": gradient, "maxcor": 30},
        )
        return np.asarray(start.a + result.x @ whitening)

    def _value_and_gradient(self, a: FloatArray) -> _Value:
        weights = self.combinations.weights(a)
        signs = np.sign(weights)
        found = LaplaceSum(np.abs(weights) * self._scales).half_width_gradient(self.confidence)
        by_weight = signs * (found.gradient * self._scales + self._steps)
        gradient = self.combinations.directions @ by_weight
        return _Value(found.half_width + float(np.abs(weights) @ self._steps), gradient)


@dataclass(frozen=True)
class _Value:
    """A value and its gradient."""

    value: float
    gradient: FloatArray
