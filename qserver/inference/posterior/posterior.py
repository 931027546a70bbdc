"""The posterior of a query: an estimate, the law of its error, and an allowance.

With a flat prior the posterior of q is `estimate` minus the error W. It is symmetric and
log-concave, so the shortest credible interval is centred. W has the continuous law; `allowance`
bounds the error that the noise's lattice and float rounding can add. Intervals are widened by it.
Probabilities of events are those of W without it: it moves their thresholds by at most its size.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np

from qserver.errors import RequirementError
from qserver.inference.arrays import FloatArray
from qserver.inference.law.laplace_sum import LaplaceSum
from qserver.inference.law.tails import Tails
from qserver.inference.posterior.interval import CredibleInterval
from qserver.inference.rows.tail import safe_half_width, safe_half_width_of_tail

_ULP = 2.0**-52
_MOST_SUMS, _BITS = 16, 36


@dataclass(frozen=True)
class Posterior:
    """Posterior of a query.

    Args:
        estimate: unbiased estimate, in the query's units.
        scales: scales of the error's Laplace parts, in the same units, shape (n,).
        allowance: bound on the error that lattice and floats add, >= 0.
    """

    estimate: float
    scales: FloatArray
    allowance: float

    def __post_init__(self) -> None:
        if not math.isfinite(self.estimate):
            raise RequirementError("estimate", "be finite")
        if not (math.isfinite(self.allowance) and self.allowance >= 0.0):
            raise RequirementError("allowance", "be finite and >= 0")

    @property
    def error(self) -> LaplaceSum:
        """Law of the estimate's error W."""
        return _sum_of(self._scale_bytes)

    @property
    def _scale_bytes(self) -> bytes:
        return np.asarray(self.scales, dtype=np.float64).tobytes()

    @property
    def is_exact(self) -> bool:
        """Whether its error is zero: it is of public values alone."""
        return not bool((self.scales > 0.0).any())

    def half_width(self, confidence: float) -> float:
        """Half-width of the centred interval that holds `confidence`, allowance included."""
        return safe_half_width(self.scales, confidence) + self.allowance

    def interval(self, confidence: float) -> CredibleInterval:
        """The centred interval at `confidence`, its ends rounded outward."""
        half_width = self.half_width(confidence)
        return CredibleInterval(
            low=math.nextafter(self.estimate - half_width, -math.inf),
            high=math.nextafter(self.estimate + half_width, math.inf),
        )

    def low_at(self, probability: float) -> float:
        """An end that q is below with at most this probability, in (0, 1/2); rounded outward."""
        return math.nextafter(self.estimate - self._beyond(probability), -math.inf)

    def high_at(self, probability: float) -> float:
        """An end that q is above with at most this probability, in (0, 1/2); rounded outward."""
        return math.nextafter(self.estimate + self._beyond(probability), math.inf)

    def _beyond(self, probability: float) -> float:
        if not 0.0 < probability < 0.5:
            raise RequirementError("probability", "lie in (0, 1/2)", probability)
        return safe_half_width_of_tail(self.scales, 2.0 * probability) + self.allowance

    def confidence_of(self, half_width: float) -> float:
        """Confidence of the centred interval of this half-width: certified, rounded down.

        It is 1 for a public value, and 0 if the allowance is larger than the half-width.
        """
        room = half_width - self.allowance
        if room < 0.0 or (room == 0.0 and not self.is_exact):
            return 0.0
        return _certified(self._scale_bytes, _coarse(room))

    def probability_at_least(self, threshold: float) -> float:
        """P(q >= threshold), for the continuous law of the error."""
        return self.error.cdf(self.estimate - threshold)

    def probability_between(self, low: float, high: float) -> float:
        """P(low <= q <= high), for the continuous law of the error; 0 if high < low."""
        if high < low:
            return 0.0
        near, far = self.estimate - high, self.estimate - low
        if near > 0.0 or far < 0.0:
            # If both ends are on one side, a difference of tails keeps small values accurate.
            inner, outer = sorted((abs(near), abs(far)))
            return max(0.0, 0.5 * (self.error.tail(inner) - self.error.tail(outer)))
        return 0.5 * (self.error.within(-near) + self.error.within(far))

    def tails(self, values: FloatArray) -> Tails:
        """P(q <= value) and P(q > value), for the continuous law of the error."""
        error, off = self.error, values - self.estimate
        nearer = np.array([0.5 * error.tail(x) for x in np.abs(off).tolist()])
        return Tails.by_nearer(nearer, is_low=off < 0.0)

    def span(self, probability: float) -> CredibleInterval:
        """Ends that q lies outside with about this probability, without the allowance."""
        half = self.error.half_width_of_tail(math.log(probability))
        return CredibleInterval(self.estimate - half, self.estimate + half)

    def scaled(self, multiplier: Fraction) -> Posterior:
        """Posterior of `multiplier` times the query."""
        factor = float(multiplier)
        size = abs(factor)
        rounding = 2.0 * _ULP * size * (abs(self.estimate) + self.allowance)
        # Scales are rounded up, or an interval could end up an ulp short.
        scales = self.scales * (size * (1.0 + 2.0 * _ULP))
        return Posterior(self.estimate * factor, scales, self.allowance * size + rounding)


# Many numbers of a table have the same scales, and they are asked one after the other. There may be
# tens of thousands of scales.
@lru_cache(maxsize=_MOST_SUMS)
def _sum_of(scales: bytes) -> LaplaceSum:
    return LaplaceSum(np.frombuffer(scales))


@lru_cache(maxsize=_MOST_SUMS)
def _certified(scales: bytes, half_width: float) -> float:
    return _sum_of(scales).certify(half_width).lower


def _coarse(half_width: float) -> float:
    """A half-width rounded down to 36 bits: numbers of one law differ by their rounding alone."""
    if math.isinf(half_width):
        return half_width
    mantissa, exponent = math.frexp(half_width)
    return math.ldexp(math.floor(math.ldexp(mantissa, _BITS)), exponent - _BITS)


@dataclass(frozen=True)
class WeightedSum:
    """A float sum and a bound on its distance from the exact one."""

    value: float
    error: float


def weighted_sum(weights: FloatArray, values: Sequence[Fraction | float]) -> WeightedSum:
    """Sum of exact weights times exact values; a value may be given as its nearest float."""
    products = weights * np.array([float(v) for v in values])
    total = math.fsum(products)
    error = 2.0 * _ULP * float(np.abs(products).sum()) + _ULP * abs(total)
    return WeightedSum(total, error)
