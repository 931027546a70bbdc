"""One-sided ends of a posterior given disagreements."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from qserver.errors import RequirementError
from qserver.inference.engine import InferenceEngine
from qserver.inference.posterior.disagreeing_rows import AnyPosterior
from qserver.query.linear_query import LinearQuery, linear_query
from qserver.query.primitive import primitive
from qserver.query.weights import interval
from tests.inference.histories import measured


def _range(low: int, high: int) -> LinearQuery:
    return linear_query((4,), [(1, {0: interval(4, low, high)})])


def _posteriors(answers: list[float]) -> list[AnyPosterior]:
    """Those of four cells, given each cell twice and their sum."""
    engine = InferenceEngine((4,))
    rows = [_range(i, i + 1) for i in range(4)] * 2 + [_range(0, 4)]
    scales = [Fraction(2)] * 4 + [Fraction(3)] * 4 + [Fraction(2)]
    engine.extend(
        measured(i, row, scale=scale, answer=Fraction(answer).limit_denominator(1 << 20))
        for i, (row, scale, answer) in enumerate(zip(rows, scales, answers, strict=True))
    )
    found = []
    for row in map(primitive, rows[:4]):
        estimate = engine.estimate(row, confidence=0.95)
        assert estimate is not None
        found.append(engine.stated(row, estimate).posterior)
    return found


def _drawn(generator: np.random.Generator) -> list[float]:
    """Answers about four cells that are all 100."""
    scales = np.array([2.0] * 4 + [3.0] * 4 + [2.0])
    truth = np.array([100.0] * 8 + [400.0])
    return [float(v) for v in truth + scales * generator.laplace(size=9)]


@pytest.mark.parametrize("factor", [Fraction(1), Fraction(-3)])
def test_an_end_is_passed_with_the_probability_it_names(factor: Fraction) -> None:
    for known in _posteriors(_drawn(np.random.default_rng(4))):
        posterior = known.scaled(factor)
        for p in (0.4, 0.1, 0.025, 1e-3):
            low, high = posterior.low_at(p), posterior.high_at(p)
            below, above = (
                1.0 - posterior.probability_at_least(low),
                posterior.probability_at_least(high),
            )
            # Ends allow for the numerical error, so less lies beyond them.
            assert p - 0.006 <= below <= p + 1e-9
            assert p - 0.006 <= above <= p + 1e-9


def test_ends_of_no_probability_are_refused() -> None:
    [posterior, *_] = _posteriors(_drawn(np.random.default_rng(5)))
    for p in (0.0, 0.5, math.nan):
        with pytest.raises(RequirementError, match="probability"):
            posterior.low_at(p)
