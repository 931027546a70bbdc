"""The error of an estimate: W = sum_i Lap(c_i), independent, with c_i = abs(weight_i) * b_i."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

from qserver.errors import EvaluationError, RequirementError
from qserver.inference.arrays import FloatArray
from qserver.inference.law.contour import Contour
from qserver.inference.law.evaluator import (
    CertifiedProbability,
    Evaluator,
    Law,
    NoNoise,
    as_finite,
    as_log_probability,
    as_probability,
)

_MARGIN: Final = 1e-12


class Verdict(enum.Enum):
    """Whether P(abs(W) <= h) reaches a confidence, by a bound; may be unknown."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


def quick_verdict(scales: FloatArray, *, half_width: float, confidence: float) -> Verdict:
    """Verdict from the variance above and the largest scale below; O(n), never wrong.

    Args:
        scales: c_i >= 0, shape (n,).
        half_width: h >= 0.
        confidence: 1 - delta, in (0, 1).

    References:
        Vysochanskij and Petunin (1980): P(abs(W) > h) <= 4 Var / (9 h^2) for unimodal W with
        h^2 >= 8 Var / 3; Anderson (1955): independent symmetric unimodal noise only spreads a
        symmetric unimodal variable, so P(abs(W) > h) >= exp(-h / max c).
    """
    largest = float(scales.max(initial=0.0))
    if largest == 0.0:
        return Verdict.YES
    delta = 1.0 - confidence
    h = half_width / largest
    if math.exp(-h) > delta * (1.0 + _MARGIN):
        return Verdict.NO
    variance = 2.0 * float(np.square(scales / largest).sum())
    if h * h < 8.0 / 3.0 * variance:
        return Verdict.UNKNOWN
    upper = 0.0 if math.isinf(h) else 4.0 * variance / (9.0 * h * h)
    return Verdict.YES if upper < delta * (1.0 - _MARGIN) else Verdict.UNKNOWN


_CONTOUR: Final = Contour()
_LARGEST: Final = 1e150
_NEGLIGIBLE: Final = 2.0**-60
"""Scales whose sum is below this part of the largest are left out: see `LaplaceSum`."""


class _SmoothLaw(Law, Protocol):
    def density(self, half_width: float, /) -> float: ...

    def half_width_gradient(self, half_width: float, scales: FloatArray, /) -> FloatArray: ...


@dataclass(frozen=True, slots=True, eq=False)
class HalfWidthGradient:
    """A half-width and how it moves with the scales.

    Attributes:
        half_width: h with P(abs(W) <= h) = confidence, in the unit of the scales.
        gradient: dh / dc_i, shape (n,), >= 0, in the order of the scales. It is set to 0 for
            c_i = 0 and for scales that are left out, whose value is below 1e-17.
            sum_i c_i dh / dc_i = h.
    """

    half_width: float
    gradient: FloatArray


@dataclass(frozen=True, slots=True, eq=False, init=False)
class LaplaceSum:
    """Distribution of W = sum_i Lap(c_i), independent, Lap(c) of density exp(-abs(x)/c) / 2c.

    W is symmetric and log-concave, so its shortest interval is centred. Half-widths are in the
    unit of the scales; an infinite one is allowed and always holds.

    Scales may be any number of decades apart. The smallest ones are left out as long as they sum to
    at most 2^-60 of the largest scale c. Let Y be their part of W, and f the density of the rest:
    abs(d log f / dx) <= 1/c. So adding Y multiplies every density, and every probability, by a
    factor from E exp(-abs(Y)/c) >= 1 - 2^-60 to E exp(abs(Y)/c) <= 1 / (1 - 2^-60). Certificates
    include this factor.

    Args:
        scales: c_i, shape (n,), in [0, 1e150]; zeros change nothing; n = 0 means W = 0.
        evaluator: how probabilities are computed. Density and gradient use the contour
            integral whatever the evaluator.

    Raises:
        RequirementError: `scales` is not such an array. Every method raises EvaluationError instead
            of returning a nan.

    References:
        The contour integral is derived in hyperbola.py, its error bound in contour.py.
    """

    scales: FloatArray
    evaluator: Evaluator
    _law: Law = field(repr=False)
    _kept: npt.NDArray[np.bool_] = field(repr=False)

    def __init__(self, scales: npt.ArrayLike, *, evaluator: Evaluator = _CONTOUR) -> None:
        array = _checked(scales)
        kept = _not_negligible(array)
        law = evaluator.prepare(array[kept]) if kept.any() else NoNoise()
        object.__setattr__(self, "_kept", kept)
        object.__setattr__(self, "scales", array)
        object.__setattr__(self, "evaluator", evaluator)
        object.__setattr__(self, "_law", law)

    @property
    def is_exact(self) -> bool:
        """Whether there is no noise at all: W = 0."""
        return not bool((self.scales > 0.0).any())

    @property
    def variance(self) -> float:
        """2 sum c_i^2."""
        return 2.0 * float(np.square(self.scales).sum())

    def within(self, half_width: float) -> float:
        """P(abs(W) <= h) for h >= 0."""
        return as_probability(self._law.within(_half_width(half_width)))

    def tail(self, half_width: float) -> float:
        """P(abs(W) > h) for h >= 0, to relative accuracy where the evaluator has it."""
        return math.exp(self.log_tail(half_width))

    def log_tail(self, half_width: float) -> float:
        """log P(abs(W) > h) for h >= 0; finite far beyond where `tail` is 0."""
        return as_log_probability(self._law.log_tail(_half_width(half_width)))

    def cdf(self, x: float) -> float:
        """P(W <= x) for any x but NaN."""
        if math.isnan(x):
            raise RequirementError("x", "be a number", x)
        if x < 0.0:
            return 0.5 * self.tail(-x)
        return 0.5 + 0.5 * self.within(x)

    def density(self, x: float) -> float:
        """Density of W at x; without noise it is infinite at 0 and 0 elsewhere."""
        density = self._smooth().density(_half_width(abs(x)))
        return density if self.is_exact else as_finite(density)

    def certify(self, half_width: float) -> CertifiedProbability:
        """P(abs(W) <= h) for h >= 0 with a bound on its error."""
        found = self._law.certify(_half_width(half_width))
        if int(np.count_nonzero(self.scales)) == int(np.count_nonzero(self._kept)):
            return found
        return replace(found, error=found.error + 2.0 * _NEGLIGIBLE)

    def certainly_within(self, half_width: float, *, confidence: float) -> Verdict:
        """Whether P(abs(W) <= h) >= confidence, by quick bounds alone; may be UNKNOWN."""
        return quick_verdict(
            self.scales, half_width=_half_width(half_width), confidence=_confidence(confidence)
        )

    def half_width(self, confidence: float) -> float:
        """h with P(abs(W) <= h) = confidence, in (0, 1), by the uncertified evaluator."""
        return as_finite(self._law.half_width(_confidence(confidence)))

    def half_width_of_tail(self, log_tail: float) -> float:
        """h with log P(abs(W) > h) = log_tail, finite and < 0; for confidences very near 1."""
        if not -math.inf < log_tail < 0.0:
            raise RequirementError("log_tail", "be finite and < 0", log_tail)
        return as_finite(self._law.half_width_of_tail(log_tail))

    def half_width_gradient(self, confidence: float) -> HalfWidthGradient:
        """Half-width at `confidence`, in (0, 1), and its derivatives by the scales."""
        law = self._smooth()
        half_width = as_finite(law.half_width(_confidence(confidence)))
        gradient = np.zeros(len(self.scales))
        gradient[self._kept] = law.half_width_gradient(half_width, self.scales[self._kept])
        if not np.isfinite(gradient).all():
            raise EvaluationError
        return HalfWidthGradient(half_width=half_width, gradient=gradient)

    def _smooth(self) -> _SmoothLaw:
        return _CONTOUR.prepare(self.scales[self._kept]) if self._kept.any() else NoNoise()


def _not_negligible(scales: FloatArray) -> npt.NDArray[np.bool_]:
    """Which scales count, shape (n,): all but zeros and negligible ones."""
    least = _NEGLIGIBLE * float(scales.max(initial=0.0))
    kept = scales > 0.0
    if bool((scales[kept] > least).all()):
        return kept
    order = np.argsort(scales, kind="stable")
    kept[order[np.cumsum(scales[order]) <= least]] = False
    return kept


def _checked(scales: npt.ArrayLike) -> FloatArray:
    try:
        given = np.array(scales)
    except ValueError as exc:
        raise RequirementError("scales", "be real numbers") from exc
    if given.size and given.dtype.kind not in "fiu":
        raise RequirementError("scales", "be real numbers")
    array = given.astype(np.float64)
    if array.ndim != 1:
        raise RequirementError("scales", "have one axis", array.shape)
    # NaN fails both comparisons; the bound keeps variances finite.
    if not ((array >= 0.0) & (array <= _LARGEST)).all():
        raise RequirementError("scales", "lie in [0, 1e150]")
    array.flags.writeable = False
    return array


def _half_width(value: float) -> float:
    if not value >= 0.0:
        raise RequirementError("half_width", "be >= 0", value)
    return float(value)


def _confidence(value: float) -> float:
    if not 0.0 < value < 1.0:
        raise RequirementError("confidence", "lie in (0, 1)", value)
    return float(value)
