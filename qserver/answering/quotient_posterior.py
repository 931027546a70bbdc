"""The posterior of a quotient N / D where released answers disagree.

Where D > 0, N / D <= t is the same as N - t D <= 0. So the posterior of the query N - t D at 0 is
that of the quotient at t, but for the probability that D <= 0, which is bounded and counted as
missed. What may be missed is shared evenly, so both ends are quantiles. They are rounded outward to
a thousandth of the interval that the search starts from.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from qserver.inference.engine import InferenceEngine
from qserver.inference.posterior.stated import Stated
from qserver.query.linear import LinearQuery
from qserver.query.primitive import primitive
from qserver.records.statement import Statement

_NOT_POSITIVE = 0.01
"""Share of what may be missed that is left to a denominator of 0 or less."""
_RESOLUTION = 2.0**-10
_MOST_STEPS, _MOST_OUTWARD = 24, 8


@dataclass(frozen=True)
class QuotientPosterior:
    """The quotient of both posterior means, and the ends of an interval."""

    estimate: float
    low: float
    high: float
    statement: Statement


@dataclass(frozen=True)
class QuotientAsked:
    """A quotient over / under, and how sure an interval of it must be.

    Args:
        start: an interval near the one that is sought, finite, its ends apart.
        confidence: of the interval, in (0, 1).
    """

    over: LinearQuery
    under: LinearQuery
    start: tuple[float, float]
    confidence: float


def quotient_posterior(engine: InferenceEngine, asked: QuotientAsked) -> QuotientPosterior | None:
    """The posterior of a quotient on the engine's history.

    Returns:
        None where no disagreement bears on it, where history does not give a part, where the
        denominator may well be 0 or less, or where the search fails.
    """
    search, missed = _Search(engine, asked), 1.0 - asked.confidence
    numerator, denominator = search.stated(asked.over), search.stated(asked.under)
    if numerator is None or denominator is None:
        return None
    if denominator.posterior.low_at(missed * _NOT_POSITIVE) <= 0.0:
        return None
    low, high = search.end(upper=False), search.end(upper=True)
    if low is None or high is None or not search.disagreements:
        return None
    quotient = numerator.posterior.estimate / denominator.posterior.estimate
    told = Statement("posterior", search.error, search.disagreements)
    return QuotientPosterior(min(max(quotient, low), high), low, high, told)


class _Search:
    """The ends of one quotient's interval, on a grid of its values."""

    def __init__(self, engine: InferenceEngine, asked: QuotientAsked) -> None:
        self._engine, self._asked = engine, asked
        self._tail = (1.0 - asked.confidence) * (1.0 - _NOT_POSITIVE) / 2.0
        low, high = asked.start
        # A power of two, so that every value of the grid is an exact fraction.
        self._step = Fraction(2) ** math.floor(math.log2((high - low) * _RESOLUTION))
        self.error, self.disagreements = 0.0, 0

    def stated(self, query: LinearQuery) -> Stated | None:
        """The posterior of a query; None where history does not give one."""
        row = primitive(query)
        if row.is_zero:
            return None
        estimate = self._engine.estimate(row, confidence=1.0 - 2.0 * self._tail)
        if estimate is None:
            return None
        found = self._engine.stated(row, estimate)
        if found.statement.law == "estimator":
            return None
        self.error = max(self.error, found.statement.error)
        self.disagreements = max(self.disagreements, found.statement.disagreements)
        return found.scaled(row.multiplier)

    def end(self, *, upper: bool) -> float | None:
        """A value that the quotient passes with at most the probability of a tail."""
        sign = 1 if upper else -1
        at = round(Fraction(self._asked.start[1 if upper else 0]) / self._step)

        def passed(n: int) -> float | None:
            """Above 0 where the value n steps outward may be passed more often."""
            return self._passed(at + sign * n, upper=upper)

        found = _least(passed, around=round(0.25 / _RESOLUTION))
        return None if found is None else float((at + sign * found) * self._step)

    def _passed(self, place: int, *, upper: bool) -> float | None:
        at = self._asked.under.scaled(place * self._step)
        found = self.stated(self._asked.over - at)
        if found is None:
            return None
        posterior = found.posterior
        return posterior.high_at(self._tail) if upper else -posterior.low_at(self._tail)


def _least(passed: Callable[[int], float | None], *, around: int) -> int | None:
    """The least whole number at which a falling function is at most 0, near 0; None if unknown."""
    near, far = 0, 0
    above = passed(near)
    below = above
    for _ in range(_MOST_OUTWARD):
        if above is None or below is None:
            return None
        if above > 0.0 >= below:
            return _between(passed, (near, above), (far, below))
        if above <= 0.0:
            far, below, near = near, above, near - around
            above = passed(near)
        else:
            near, above, far = far, below, far + around
            below = passed(far)
        around *= 2
    return None


def _between(
    passed: Callable[[int], float | None], near: tuple[int, float], far: tuple[int, float]
) -> int | None:
    """As `_least`, between two numbers: by false position, halving where it does not move."""
    for i in range(_MOST_STEPS):
        (a, above), (b, below) = near, far
        if b - a <= 1:
            return b
        middle = a + round((b - a) * above / (above - below)) if i % 3 < 2 else (a + b) // 2
        middle = min(max(middle, a + 1), b - 1)
        value = passed(middle)
        if value is None:
            return None
        if value > 0.0:
            near = middle, value
        else:
            far = middle, value
    return far[0]
