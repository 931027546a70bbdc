"""The law of an error as a table of probabilities with bounds on their errors.

*All errors follow from one*: the law is exact, piece by piece.

With u = offset + slope * t the density of t is exp(-sum_i abs(offset_i + slope_i t)): its logarithm
is linear between the zeros of these terms.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from qserver.inference.arrays import FloatArray
from qserver.inference.disagreement.known_sums import Reduced
from qserver.inference.law.evaluator import Tails

_ANCHORS = (0.1, 0.01)
_LEAST = 1e-300
_LEAST_RISE = 1e-9
_N_SPLITS = 200
_N_ROUNDS = 3


@dataclass(frozen=True)
class Span:
    """An interval of the error."""

    low: float
    high: float


@dataclass(frozen=True, eq=False)
class TableOfLaw:
    """A log-concave law by its probabilities at some places, arrays of shape (m,).

    Between places the logarithms of probabilities are linear.

    Args:
        places: rising.
        below: P(W <= place).
        above: P(W > place).
        error: bound on the numerical error of both at the places.
        is_exact_in_tails: whether probabilities below 1/100 are as exact as larger ones. Otherwise
            these bound them: a log-concave law falls ever faster.
        mean: of W.
        is_symmetric: whether W and -W have the same law, so that the shortest interval is centred.
    """

    places: FloatArray
    below: FloatArray
    above: FloatArray
    error: FloatArray
    is_exact_in_tails: bool
    mean: float = 0.0
    is_symmetric: bool = False

    @property
    def largest_error(self) -> float:
        """The largest numerical error of a probability, also between places."""
        return float(self._errors.max())

    @cached_property
    def _errors(self) -> FloatArray:
        """The error of a probability at and around each place."""
        left = np.where(self.below < self.above, self.below, 0.0)
        right = np.where(self.below < self.above, 0.0, self.above)
        between = left * _gaps(self.places, self._log_below)
        between += right * _gaps(self.places, self._log_above)
        return np.asarray(self.error + between)

    @cached_property
    def _most_above(self) -> FloatArray:
        """Logarithms of upper bounds of P(W > place), falling."""
        return self._bound(self.places, self.above, self.error)

    @cached_property
    def _most_below(self) -> FloatArray:
        """Logarithms of upper bounds of P(W <= place), rising."""
        mirrored = self._bound(-self.places[::-1], self.below[::-1], self.error[::-1])
        return mirrored[::-1]

    def _bound(self, places: FloatArray, above: FloatArray, error: FloatArray) -> FloatArray:
        gaps = _gaps(places, np.log(np.maximum(above, _LEAST)))
        most = np.log(np.clip(above * (1.0 + gaps) + error, _LEAST, 1.0))
        if not self.is_exact_in_tails:
            first, second = (int(np.argmax(above < a)) for a in _ANCHORS)
            start = np.log(max(above[first] - error[first], _LEAST))
            slope = (most[second] - start) / (places[second] - places[first])
            most[second:] = most[second] + slope * (places[second:] - places[second])
        return np.minimum.accumulate(most)

    def cdf(self, x: float) -> float:
        """P(W <= x)."""
        if x < self._middle:
            return self._at(x, self._log_below)
        return 1.0 - self._at(x, self._log_above)

    def survival(self, x: float) -> float:
        """P(W > x)."""
        if x < self._middle:
            return 1.0 - self._at(x, self._log_below)
        return self._at(x, self._log_above)

    def between(self, low: float, high: float) -> float:
        """P(low < W <= high) for low <= high, by the nearer tail."""
        if high < self._middle:
            return max(0.0, self.cdf(high) - self.cdf(low))
        return max(0.0, self.survival(low) - self.survival(high))

    def tails(self, places: FloatArray) -> Tails:
        """P(W <= place) and P(W > place) with bounds on their errors."""
        low, high = (
            np.exp(np.interp(places, self.places, logs))
            for logs in (self._log_below, self._log_above)
        )
        is_low = places < self._middle
        below, above = np.where(is_low, low, 1.0 - high), np.where(is_low, 1.0 - low, high)
        error = np.interp(places, self.places, self._errors)
        most_below = np.exp(_on_lines(-places, -self.places[::-1], self._most_below[::-1]))
        most_above = np.exp(_on_lines(places, self.places, self._most_above))
        error[np.isinf(places)] = 0.0
        below[places == -np.inf] = above[places == np.inf] = 0.0
        below[places == np.inf] = above[places == -np.inf] = 1.0
        return Tails(below, above, error, most_below, most_above)

    @cached_property
    def _middle(self) -> float:
        return float(self.places[int(np.searchsorted(self.below, 0.5))])

    @cached_property
    def _log_below(self) -> FloatArray:
        return np.log(np.maximum(self.below, _LEAST))

    @cached_property
    def _log_above(self) -> FloatArray:
        return np.log(np.maximum(self.above, _LEAST))

    def _at(self, x: float, logs: FloatArray) -> float:
        """A tail at x; beyond the table that of the nearest place."""
        return float(np.exp(np.interp(x, self.places, logs)))

    def high(self, log_tail: FloatArray) -> FloatArray:
        """Places that W exceeds with at most these probabilities, given by logarithms."""
        return _inverse(self.places[::-1], self._most_above[::-1], log_tail)

    def low(self, log_tail: FloatArray) -> FloatArray:
        """Places that W falls below with at most these probabilities, given by logarithms."""
        return -_inverse(-self.places, self._most_below, log_tail)

    def shortest(self, confidence: float) -> Span:
        """The shortest interval that holds W with at least this probability."""
        if self.is_symmetric:
            half = float(self.high(np.log([0.5 * (1.0 - confidence)]))[0])
            return Span(-half, half)
        tail, low, high = 1.0 - confidence, 0.0, 1.0
        for _ in range(_N_ROUNDS):
            parts = np.linspace(low, high, _N_SPLITS + 1)[1:-1]
            lows = self.low(np.log(tail * parts))
            highs = self.high(np.log(tail * (1.0 - parts)))
            best = int(np.argmin(highs - lows))
            low, high = parts[max(best - 1, 0)], parts[min(best + 1, len(parts) - 1)]
        return Span(float(lows[best]), float(highs[best]))

    def confidence_of(self, length: float) -> float:
        """A lower bound of the probability of the best interval of this length."""
        starts = self.places
        ends = starts + length
        outside = np.exp(self._most_below) + np.exp(np.interp(ends, starts, self._most_above))
        return max(0.0, 1.0 - float(outside.min()))


def _gaps(places: FloatArray, logs: FloatArray) -> FloatArray:
    """Relative bound on a probability's excess over the line between places, shape (m,).

    Its logarithm is concave. So between two places it lies below the lines through their neighbours
    on either side. These meet at most a quarter of the chord's length times the difference of their
    slopes above it.
    """
    lengths = np.diff(places)
    slopes = np.diff(logs) / lengths
    around = np.concatenate([slopes[:1], slopes, slopes[-1:]])
    heights = lengths * np.maximum(around[:-2] - around[2:], 0.0) / 4.0
    nearest = np.concatenate([[0.0], heights, [0.0]])
    return np.asarray(np.expm1(np.minimum(np.maximum(nearest[:-1], nearest[1:]), 1.0)))


def _on_lines(x: FloatArray, places: FloatArray, logs: FloatArray) -> FloatArray:
    """Falling logarithms at x, linear between places and beyond the last one."""
    slope = (logs[-1] - logs[-2]) / (places[-1] - places[-2])
    beyond = logs[-1] + slope * np.maximum(x - places[-1], 0.0)
    return np.asarray(np.where(x > places[-1], beyond, np.interp(x, places, logs)))


def _inverse(places: FloatArray, logs: FloatArray, wanted: FloatArray) -> FloatArray:
    """Places, falling, at which rising logarithms pass given values; linear beyond the table."""
    slope = (places[1] - places[0]) / max(logs[1] - logs[0], _LEAST_RISE)
    inside = np.interp(wanted, logs, places)
    beyond = places[0] + (wanted - logs[0]) * slope
    return np.asarray(np.where(wanted < logs[0], beyond, inside))


_REACH = 60.0
_N_NODES = 1201
_ROUNDING = 1e-9
_FLAT = 1e-6


def law_on_a_line(known: Reduced) -> TableOfLaw:
    """The law of W minus its shift, if the basis has one error."""
    slope = np.append(1.0, known.mixing[:, 0])
    offset = np.append(0.0, known.values)
    zeros = -offset / slope
    places = np.union1d(_around(zeros, np.abs(slope)), zeros)
    logs = -np.abs(offset[:, None] + slope[:, None] * places).sum(axis=0)
    pieces = _pieces(places, logs - logs.max())
    # Outside both ends the density falls off at the rate of all slopes together.
    ends = np.exp((logs - logs.max())[[0, -1]]) / np.abs(slope).sum()
    total = float(pieces.sum() + ends.sum())
    below = np.append(ends[0], ends[0] + np.cumsum(pieces)) / total
    above = np.append(np.cumsum(pieces[::-1])[::-1] + ends[1], ends[1]) / total
    weight = float(known.weights[0])
    if weight < 0.0:
        places, below, above = -places[::-1], above[::-1], below[::-1]
    errors, places = _ROUNDING * np.minimum(below, above), places * abs(weight)
    # Within a piece the mass is nearly even, as pieces are short where there is much of it.
    mean = float(np.diff(below) @ (0.5 * (places[1:] + places[:-1])))
    return TableOfLaw(places, below, above, errors, is_exact_in_tails=True, mean=mean)


def _around(zeros: FloatArray, slopes: FloatArray) -> FloatArray:
    """Places around the median of the law, dense near it."""
    order = np.argsort(zeros)
    # The density is largest where the slopes' sum changes sign: at their weighted median.
    sums = np.cumsum(slopes[order])
    middle = zeros[order][int(np.searchsorted(sums, 0.5 * sums[-1]))]
    steps = np.sinh(np.linspace(-1.0, 1.0, _N_NODES) * np.arcsinh(_REACH))
    return np.asarray(middle + steps / np.sqrt(np.square(slopes).sum()))


def _pieces(places: FloatArray, logs: FloatArray) -> FloatArray:
    """Integrals between places of a density whose logarithm is linear there."""
    steps, rises = np.diff(places), np.diff(logs)
    tops = np.exp(np.maximum(logs[:-1], logs[1:]))
    sizes = np.abs(rises)
    small = sizes < _FLAT
    means = np.where(small, 1.0 - 0.5 * sizes, -np.expm1(-sizes) / np.where(small, 1.0, sizes))
    return np.asarray(steps * tops * means)
