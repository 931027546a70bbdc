"""The posterior of a quotient N / D, given what released answers disagree about.

Where D > 0, N / D > t is the same as N - t D > 0. So the probability of the one is that of the
other, but for the probability that D <= 0, which is bounded and counted as missed. What may be
missed is shared evenly, so both ends are quantiles. They are rounded outward to a thousandth of the
interval that the search starts from. All values t are tried on one joint posterior of N and D.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from qserver.inference.arrays import FloatArray
from qserver.inference.engine import InferenceEngine
from qserver.inference.given.law_given import ENOUGH
from qserver.inference.given.law_of_two import Below, LawOfTwo
from qserver.inference.given.points import SIZES
from qserver.inference.joint.two_given import TwoGiven
from qserver.inference.posterior.posteriors import FAULTS_OF_FLOATS
from qserver.planning.holdings import estimate_of
from qserver.query.question import Question
from qserver.records.statement import Statement

_NOT_POSITIVE = 0.5
"""Most that a denominator of 0 or less may take of what may be missed."""
_RESOLUTION = 2.0**-10
_ROUGHEST = 0.05
_MOST_OUTWARD = 8
_NUMERATOR, _DENOMINATOR = np.array([1.0, 0.0]), np.array([0.0, 1.0])


@dataclass(frozen=True)
class QuotientPosterior:
    """The quotient of both posterior means, and the ends of an interval.

    Args:
        at_once: ends of the interval that holds for any choice; None where they are not known.
    """

    estimate: float
    low: float
    high: float
    at_once: tuple[float, float] | None
    statement: Statement


@dataclass(frozen=True)
class QuotientAsked:
    """A quotient over / under, and how sure an interval of it must be.

    Args:
        over, under: as they were answered.
        start: an interval near the one that is sought, finite, its ends apart.
        confidence: of the interval, in (0, 1).
        among: how many numbers a choice is made from.
    """

    over: Question
    under: Question
    start: tuple[float, float]
    confidence: float
    among: int = 1


def quotient_posterior(given: TwoGiven, asked: QuotientAsked) -> QuotientPosterior | None:
    """The posterior of a quotient, given both its parts.

    Returns:
        None where the denominator may well be 0 or less, or where the search or floats fail.
    """
    found, towards = None, np.array([*map(_less, asked.start), _DENOMINATOR])
    with contextlib.suppress(*FAULTS_OF_FLOATS):
        for size in SIZES[:-1]:
            law = given.law(towards, size=size)
            found = _Search(given, law, asked).found()
            if found is None or found.statement.error <= ENOUGH:
                break
    return found


def parts_given(engine: InferenceEngine, asked: QuotientAsked) -> TwoGiven | None:
    """What the engine's history tells of both parts of a quotient.

    Returns:
        None where history does not give a part, or not what disagrees about it, or floats fail.
    """
    over, under = asked.over.row, asked.under.row
    if over.is_zero or under.is_zero:
        return None
    estimates = estimate_of(engine, asked.over), estimate_of(engine, asked.under)
    if estimates[0] is None or estimates[1] is None:
        return None
    found = engine.together((over.row, under.row), (estimates[0], estimates[1]))
    if found is not None:
        with contextlib.suppress(*FAULTS_OF_FLOATS):
            return TwoGiven.of(found, (over.multiplier, under.multiplier))
    return None


def _less(t: float) -> FloatArray:
    """N - t D."""
    return _NUMERATOR - t * _DENOMINATOR


@dataclass
class _Search:
    """The ends of one quotient's interval.

    Args:
        error: the largest numerical error of a probability that an end depends on.
    """

    given: TwoGiven
    law: LawOfTwo
    asked: QuotientAsked
    error: float = field(default=0.0, init=False)

    def found(self) -> QuotientPosterior | None:
        missed = 1.0 - self.asked.confidence
        ends = self._ends(missed)
        if ends is None or not self.error <= _ROUGHEST:
            return None
        low, high = ends
        at_once = ends if self.asked.among == 1 else self._ends(missed / self.asked.among)
        over, under = (self.given.mean(c, self.law) for c in (_NUMERATOR, _DENOMINATOR))
        told = Statement("posterior", self.error, self.given.known.n_disagreements)
        return QuotientPosterior(min(max(over / under, low), high), low, high, at_once, told)

    def _ends(self, missed: float) -> tuple[float, float] | None:
        """Ends that the quotient lies outside with at most this probability."""
        not_positive = self.given.above_zero(-_DENOMINATOR, self.law).most
        if not_positive > missed * _NOT_POSITIVE:
            return None
        low, high = (self._end(side, (missed - not_positive) / 2.0) for side in (-1.0, 1.0))
        return None if low is None or high is None else (low, high)

    def _end(self, side: float, tail: float) -> float | None:
        """A value that the quotient is beyond with at most this probability.

        Args:
            side: 1 for the upper end, -1 for the lower one.
        """
        start = self.asked.start
        step = side * _RESOLUTION * (start[1] - start[0])

        def value_at(n: int) -> float:
            return float(start[side > 0.0] + n * step)

        def beyond(n: int) -> Below:
            return self.given.above_zero(side * _less(value_at(n)), self.law)

        n = _least(lambda n: beyond(n).most <= tail, around=round(0.25 / _RESOLUTION))
        if n is None:
            return None
        self.error = max(self.error, beyond(n).error)
        return value_at(n)


def _least(is_outside: Callable[[int], bool], *, around: int) -> int | None:
    """The least whole number that is outside, near 0; None where it is far from there."""
    inside, outside = (None, 0) if is_outside(0) else (0, None)
    for _ in range(_MOST_OUTWARD):
        if inside is not None and outside is not None:
            break
        n = around if outside is None else -around
        around *= 2
        if is_outside(n):
            outside = n
        else:
            inside = n
    if inside is None or outside is None:
        return None
    while outside - inside > 1:
        middle = (inside + outside) // 2
        if is_outside(middle):
            outside = middle
        else:
            inside = middle
    return outside
