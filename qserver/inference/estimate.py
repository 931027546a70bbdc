"""The estimate of a row: its value, the law of its error, and an allowance.

Without disagreements that is the posterior of the row's answer.

With a flat prior the posterior of q is `estimate` minus the error W. It is symmetric and
log-concave, so the shortest credible interval is centred. W has the continuous law; `allowance`
bounds the error that the noise's lattice and float rounding can add. Intervals are widened by it.
Probabilities of events are those of W without it: it moves their thresholds by at most its size.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import TypeVar

import numpy as np

from qserver.errors import RequirementError
from qserver.inference.arrays import FloatArray
from qserver.inference.law.evaluator import Tails
from qserver.inference.law.laplace_sum import LaplaceSum
from qserver.inference.law.normal_sum import NormalSum, sum_of
from qserver.inference.rows.shortest_interval import (
    LEAST_BY_CONFIDENCE,
    safe_half_width,
    safe_half_width_of_tail,
)
from qserver.records.history import Estimator
from qserver.records.privacy.noise_law import LAPLACE, NoiseLaw


@dataclass(frozen=True, slots=True)
class CredibleInterval:
    """A closed interval.

    Attributes:
        low: lower end.
        high: upper end, >= low.
    """

    low: float
    high: float


_ULP = 2.0**-52
_MOST_SUMS, _BITS = 16, 36


@dataclass(frozen=True)
class Posterior:
    """Posterior of a query.

    Args:
        estimate: unbiased estimate, in the query's units.
        scales: scales of the error's independent parts, in the same units, shape (n,).
        allowance: bound on the error that lattice and floats add, >= 0.
        like: a posterior of which this is a multiple, and the size of the factor, rounded up.
        law: of the noise in the error.
    """

    estimate: float
    scales: FloatArray
    allowance: float
    like: tuple[Posterior, float] | None = field(default=None, repr=False, compare=False)
    law: NoiseLaw = LAPLACE

    def __post_init__(self) -> None:
        if not math.isfinite(self.estimate):
            raise RequirementError("estimate", "be finite")
        if not (math.isfinite(self.allowance) and self.allowance >= 0.0):
            raise RequirementError("allowance", "be finite and >= 0")

    @property
    def error(self) -> LaplaceSum | NormalSum:
        """Law of the estimate's error W."""
        return _sum_of(self._scale_bytes, self.law)

    @property
    def laplace_scales(self) -> FloatArray:
        """The Laplace scales; RequirementError under other noise."""
        if self.law.is_additive:
            raise RequirementError("answer", "have Laplace noise: no other is served here")
        return self.scales

    @property
    def _scale_bytes(self) -> bytes:
        return np.asarray(self.scales, dtype=np.float64).tobytes()

    @property
    def is_exact(self) -> bool:
        """Whether the error is zero: only public values are used."""
        return not bool((self.scales > 0.0).any())

    def half_width(self, confidence: float) -> float:
        """Half-width of the centred interval that holds `confidence`, allowance included."""
        return self._half_width(confidence) + self.allowance

    def _half_width(self, confidence: float) -> float:
        """Half-width of the error without the allowance."""
        if self.like is not None:
            of, size = self.like
            return of._half_width(confidence) * size
        if confidence not in self._half_widths:
            self._half_widths[confidence] = safe_half_width(self.scales, confidence, self.law)
        return self._half_widths[confidence]

    @cached_property
    def _half_widths(self) -> dict[float, float]:
        """Half-widths by confidence, cached: ends are read many times."""
        return {}

    def interval(self, confidence: float) -> CredibleInterval:
        """The centred interval at `confidence`, its ends rounded outward."""
        half_width = self.half_width(confidence)
        return CredibleInterval(
            low=math.nextafter(self.estimate - half_width, -math.inf),
            high=math.nextafter(self.estimate + half_width, math.inf),
        )

    def low_at(self, probability: float) -> float:
        """Lower end: P(q < end) is at most this probability, in (0, 1/2); rounded outward."""
        return math.nextafter(self.estimate - self._beyond(probability), -math.inf)

    def high_at(self, probability: float) -> float:
        """Upper end: P(q > end) is at most this probability, in (0, 1/2); rounded outward."""
        return math.nextafter(self.estimate + self._beyond(probability), math.inf)

    def _beyond(self, probability: float) -> float:
        if not 0.0 < probability < 0.5:
            raise RequirementError("probability", "lie in (0, 1/2)", probability)
        tail = 2.0 * probability
        if tail >= LEAST_BY_CONFIDENCE:
            return self.half_width(1.0 - tail)
        return safe_half_width_of_tail(self.scales, tail, self.law) + self.allowance

    def confidence_of(self, half_width: float) -> float:
        """Confidence of the centred interval of this half-width: certified, rounded down.

        It is 1 for a public value, and 0 if the allowance is larger than the half-width.
        """
        room = half_width - self.allowance
        if room < 0.0 or (room == 0.0 and not self.is_exact):
            return 0.0
        return _certified(self._scale_bytes, _coarse(room), self.law)

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
        """Ends outside which q lies with about this probability, without the allowance."""
        half = self.error.half_width_of_tail(math.log(probability))
        return CredibleInterval(self.estimate - half, self.estimate + half)

    def scaled(self, multiplier: Fraction) -> Posterior:
        """Posterior of `multiplier` times the query."""
        factor = float(multiplier)
        size = abs(factor)
        rounding = 2.0 * _ULP * size * (abs(self.estimate) + self.allowance)
        # Scales are rounded up, or an interval could end up an ulp short.
        up = size * (1.0 + 2.0 * _ULP)
        scales, allowance = self.scales * up, self.allowance * size + rounding
        of, before = self.like or (self, 1.0)
        like = (of, before * up * (1.0 + 4.0 * _ULP))
        return Posterior(self.estimate * factor, scales, allowance, like, self.law)


# Many numbers of a table have the same scales, and they are asked one after the other. There may be
# tens of thousands of scales.
@lru_cache(maxsize=_MOST_SUMS)
def _sum_of(scales: bytes, law: NoiseLaw) -> LaplaceSum | NormalSum:
    return sum_of(np.frombuffer(scales), law)


@lru_cache(maxsize=_MOST_SUMS)
def _certified(scales: bytes, half_width: float, law: NoiseLaw) -> float:
    return _sum_of(scales, law).certify(half_width).lower


def _coarse(half_width: float) -> float:
    """A half-width rounded down to 36 bits, so that roundings of one law share it."""
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
    """Sum of exact weights times exact values; values may be nearest floats."""
    products = weights * np.array([float(v) for v in values])
    total = math.fsum(products)
    error = 2.0 * _ULP * float(np.abs(products).sum()) + _ULP * abs(total)
    return WeightedSum(total, error)


@dataclass(frozen=True)
class RowEstimate:
    """The estimate of a primitive row from history, at one confidence.

    Args:
        weights: pairs of a measured row's id and its non-zero weight. For `blocks`: rows that the
            tables complete, if any.
        posterior: posterior of the row's answer, in records.
        confidence: the confidence that the weights were chosen for.
        half_width: half-width of the posterior at that confidence, allowances included.
        method: `direct` (one measurement of exactly this row), `stored` (weights of an earlier
            answer), `planned` (weights that a plan chose before it measured), `blue` (least
            variance), `tail` (shortest interval at this confidence) or `blocks` (measured tables,
            perhaps with a measurement of the row, or with rows that the tables complete).
        float_error: the part of the allowance for floats in the weights, in records.
        tables: ids of the measured tables used, in rising order; only for `blocks`.
        beside: for `blocks`, pairs of id and weight of rows added to the tables: a measurement of
            the row, and a public total.
        at: for `blocks`, the number of releases and refinements after which its weights were
            those of least variance; None for other methods.
        is_kept: for `blocks`, whether these weights are tried after every later event.
        unforeseen: the part of the allowance that weights alone did not predict, in records. It is
            0 except for answers too large for exact floats.
    """

    weights: tuple[tuple[int, float], ...]
    posterior: Posterior
    confidence: float
    half_width: float
    method: str
    float_error: float = 0.0
    tables: tuple[int, ...] = ()
    beside: tuple[tuple[int, float], ...] = ()
    at: int | None = None
    is_kept: bool = False
    unforeseen: float = 0.0

    @property
    def ids(self) -> tuple[int, ...]:
        """Ids of the measured rows used."""
        return tuple(i for i, _ in (*self.weights, *self.beside))

    @property
    def evidence(self) -> tuple[int, ...]:
        """Ids of the measured rows and tables used, sorted."""
        return tuple(sorted({*self.ids, *self.tables}))

    @property
    def needs_storing(self) -> bool:
        """Whether the weights must be stored as an `Estimator` so that the answer stays free.

        They need not if every later event finds them again.
        """
        return not (self.is_kept or self.method in ("direct", "stored"))

    def estimator(self, key: str) -> Estimator:
        """The stored weights that keep the answer of this key free."""
        return Estimator(key, self.weights, self.float_error, self.at)


_CACHE_SIZE = 4096

K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True)
class Sought:
    """The shortest estimate of a search that found none to meet `enough`."""

    found: RowEstimate | None
    enough: float

    def settles(self, enough: float) -> bool:
        """Whether a new search with this `enough` would find nothing better."""
        is_met = self.found is not None and self.found.half_width <= enough
        return is_met or enough <= self.enough


def trim(cache: OrderedDict[K, V], most: int = _CACHE_SIZE) -> None:
    """Drop the oldest entry if the store is full."""
    while len(cache) >= most:
        cache.popitem(last=False)


def copied(store: Mapping[str, Sequence[V]]) -> dict[str, list[V]]:
    """A copy of the store with its own lists."""
    return {key: list(found) for key, found in store.items()}
