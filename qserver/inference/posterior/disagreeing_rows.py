"""The posterior of a query whose rows disagree in public.

With a flat prior the posterior of q is a linear estimate minus its error W, given all known sums of
errors. Its law is log-concave, but not centred. Its mean is the same whatever the weights of the
linear estimate, has no bias given the known sums, and has the least variance of all estimates that
move with the truth.

Neither the known sums nor the law of W given them depends on the truth. So the interval of a
question fixed in advance covers as stated for every truth and any disagreements.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from threading import Lock

import numpy as np

from qserver.errors import RequirementError
from qserver.inference.arrays import FloatArray
from qserver.inference.disagreement.table_of_law import TableOfLaw
from qserver.inference.estimate import CredibleInterval, Posterior
from qserver.inference.law.evaluator import Tails
from qserver.records.statement import Statement

_ULP = 2.0**-52


@dataclass(frozen=True)
class GivenPosterior:
    """Posterior of a query given the public disagreements.

    Args:
        linear: an unbiased linear estimate, in the query's units.
        error: law of W less `shift`, in units of `unit` times the query's.
        shift: the known part of W, in the query's units.
        unit: size of the query's unit in the error's; negative if it mirrors the law.
        allowance: bound on the error that lattice and floats add, >= 0.
    """

    linear: float
    error: TableOfLaw
    shift: float
    unit: float
    allowance: float

    @property
    def estimate(self) -> float:
        """The posterior's mean."""
        return self._value(self.error.mean)

    def interval(self, confidence: float) -> CredibleInterval:
        """The shortest interval at `confidence`; numerical errors and the allowance widen it."""
        ends = self.error.shortest(confidence)
        one, other = self._value(ends.high), self._value(ends.low)
        return CredibleInterval(
            low=math.nextafter(min(one, other) - self.allowance, -math.inf),
            high=math.nextafter(max(one, other) + self.allowance, math.inf),
        )

    def low_at(self, probability: float) -> float:
        """Lower end: P(q < end) is at most this probability, in (0, 1/2); rounded outward."""
        tail = _log(probability)
        error = self.error.high(tail) if self.unit > 0.0 else self.error.low(tail)
        return math.nextafter(self._value(float(error[0])) - self.allowance, -math.inf)

    def high_at(self, probability: float) -> float:
        """Upper end: P(q > end) is at most this probability, in (0, 1/2); rounded outward."""
        tail = _log(probability)
        error = self.error.low(tail) if self.unit > 0.0 else self.error.high(tail)
        return math.nextafter(self._value(float(error[0])) + self.allowance, math.inf)

    def confidence_of(self, half_width: float) -> float:
        """Confidence of the best interval twice as long as this, rounded down."""
        room = half_width - self.allowance
        return 0.0 if room <= 0.0 else self.error.confidence_of(2.0 * room / abs(self.unit))

    def probability_at_least(self, threshold: float) -> float:
        """P(q >= threshold), for the continuous law of the error."""
        place = self._place(threshold)
        return self.error.cdf(place) if self.unit > 0.0 else self.error.survival(place)

    def probability_between(self, low: float, high: float) -> float:
        """P(low <= q <= high), for the continuous law of the error; 0 if high < low."""
        if high < low:
            return 0.0
        ends = sorted((self._place(low), self._place(high)))
        return self.error.between(*ends)

    def tails(self, values: FloatArray) -> Tails:
        """P(q <= value) and P(q > value), for the continuous law of the error."""
        found = self.error.tails((self.linear - self.shift - values) / self.unit)
        return found.mirrored if self.unit > 0.0 else found

    def span(self, probability: float) -> CredibleInterval:
        """Ends outside which q lies with about this probability, without the allowance."""
        log_tail = np.log([0.5 * probability])
        one, other = float(self.error.low(log_tail)[0]), float(self.error.high(log_tail)[0])
        ends = sorted((self._value(one), self._value(other)))
        return CredibleInterval(*ends)

    def scaled(self, multiplier: Fraction) -> GivenPosterior:
        """Posterior of `multiplier` times the query."""
        factor = float(multiplier)
        size = abs(factor)
        rounding = 2.0 * _ULP * size * (abs(self.linear) + self.allowance)
        return replace(
            self,
            linear=self.linear * factor,
            shift=self.shift * factor,
            unit=self.unit * factor,
            allowance=self.allowance * size + rounding,
        )

    def _value(self, error: float) -> float:
        """The query's value at an error."""
        return self.linear - self.shift - self.unit * error

    def _place(self, value: float) -> float:
        """The error at a value of the query."""
        return (self.linear - self.shift - value) / self.unit


def _log(probability: float) -> FloatArray:
    if not 0.0 < probability < 0.5:
        raise RequirementError("probability", "lie in (0, 1/2)", probability)
    return np.asarray(np.log([probability]))


AnyPosterior = Posterior | GivenPosterior


@dataclass(frozen=True)
class Stated:
    """A posterior with its statement."""

    posterior: AnyPosterior
    statement: Statement

    def scaled(self, multiplier: Fraction) -> Stated:
        """The stated posterior of `multiplier` times the query."""
        return Stated(self.posterior.scaled(multiplier), self.statement)


_OF_ALIKE = 0.3
"""Of 304 numbers of three tables a law takes 2 to 3 ms, by itself 8 to 12."""


class ToState:
    """A posterior that is computed at its first use. Thread-safe.

    It holds everything it needs of the history. So it is made quickly under the history's lock, and
    computed, which takes far longer, after the lock is released.

    Args:
        found: the posterior, or a function that finds it, called once unless it raises.
        is_alike: whether it is found together with similar ones.
    """

    def __init__(self, found: Stated | Callable[[], Stated], *, is_alike: bool = False) -> None:
        self._lock = Lock()
        self._found, self._is_alike = found, is_alike

    @property
    def work(self) -> float:
        """Work to compute it, in laws of single numbers; 0 if already found."""
        if isinstance(self._found, Stated):
            return 0.0
        return _OF_ALIKE if self._is_alike else 1.0

    def stated(self) -> Stated:
        """The posterior; other threads wait for it."""
        with self._lock:
            if not isinstance(self._found, Stated):
                # What it is made from is large, and is dropped here.
                self._found = self._found()
            return self._found
