"""The posterior of a quotient, given what released answers disagree about."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from qserver.answering import quotient_posterior as searched
from qserver.answering.quotient_posterior import QuotientAsked, quotient_posterior
from qserver.inference.engine import InferenceEngine
from qserver.query.linear import LinearQuery, linear_query
from qserver.query.weights import interval
from tests.inference.histories import measured

ANSWERS, SCALES = (120.0, 100.0, 235.0), (4, 4, 5)


def _rows(low: int, high: int) -> LinearQuery:
    return linear_query((20,), [(1, {0: interval(20, low, high)})])


PARTS = (_rows(0, 10), _rows(10, 20), _rows(0, 20))


def _engine(answers: tuple[float, ...] = ANSWERS) -> InferenceEngine:
    """Two parts and the whole, as far as there are answers."""
    found = InferenceEngine((20,))
    found.extend(
        measured(i, row, scale=Fraction(scale), answer=Fraction(answer))
        for i, (row, scale, answer) in enumerate(zip(PARTS, SCALES, answers, strict=False))
    )
    return found


def _quantiles(*probabilities: float) -> list[float]:
    """Of the share of the first part, by a grid over both parts' counts."""
    a = np.linspace(120 - 80, 120 + 80, 1601)[:, None]
    b = np.linspace(100 - 80, 100 + 80, 1601)[None, :]
    logs = -np.abs(a - 120) / 4 - np.abs(b - 100) / 4 - np.abs(a + b - 235) / 5
    weights, shares = np.exp(logs - logs.max()).ravel(), (a / (a + b)).ravel()
    order = np.argsort(shares)
    sums = np.cumsum(weights[order]) / weights.sum()
    return [float(shares[order][np.searchsorted(sums, p)]) for p in probabilities]


@pytest.mark.parametrize("confidence", [0.8, 0.95])
@pytest.mark.parametrize("start", [(0.5, 0.6), (0.2, 0.3), (0.54, 0.542)])
def test_the_ends_are_quantiles_of_the_posterior(
    confidence: float, start: tuple[float, float]
) -> None:
    """Against a grid; wherever the search starts, and rounded outward by its errors alone."""
    found = quotient_posterior(_engine(), QuotientAsked(PARTS[0], PARTS[2], start, confidence))
    assert found is not None
    tail = (1.0 - confidence) / 2.0
    assert found.statement.law == "posterior"
    assert found.statement.disagreements == 1
    room = found.statement.error + 0.01 * tail
    low, inner_low, inner_high, high = _quantiles(
        tail - 2 * room, tail + 1e-3, 1 - tail - 1e-3, 1 - tail + 2 * room
    )
    step = (start[1] - start[0]) / 500
    assert low - step <= found.low <= inner_low
    assert inner_high <= found.high <= high + step
    assert found.low < found.estimate < found.high


def test_a_quotient_of_minus_a_count_is_mirrored() -> None:
    there = quotient_posterior(_engine(), QuotientAsked(PARTS[0], PARTS[2], (0.5, 0.6), 0.9))
    minus = PARTS[0].scaled(-1)
    back = quotient_posterior(_engine(), QuotientAsked(minus, PARTS[2], (-0.6, -0.5), 0.9))
    assert there is not None
    assert back is not None
    assert [back.low, back.high] == pytest.approx([-there.high, -there.low], abs=3e-4)


def test_it_is_not_told_where_it_would_be_no_other_or_is_not_known() -> None:
    asked = QuotientAsked(PARTS[0], PARTS[2], (0.5, 0.6), 0.95)
    assert quotient_posterior(_engine(ANSWERS[:2]), asked) is None  # nothing disagrees
    assert quotient_posterior(_engine(ANSWERS[:1]), asked) is None  # the whole is not known
    small = _engine((3.0, -8.0, 1.0))  # the whole may well be 0
    assert quotient_posterior(small, QuotientAsked(PARTS[0], PARTS[2], (-9.0, 9.0), 0.95)) is None


def test_a_search_that_does_not_end_tells_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searched, "_MOST_OUTWARD", 1)
    far = QuotientAsked(PARTS[0], PARTS[2], (0.1, 0.2), 0.95)
    assert quotient_posterior(_engine(), far) is None
