"""The posterior of a quotient, given what released answers disagree about."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from qserver.answering import quotient_posterior as searched
from qserver.answering.quotient_posterior import (
    QuotientAsked,
    QuotientPosterior,
    parts_given,
    quotient_posterior,
)
from qserver.inference.engine import InferenceEngine
from qserver.query.linear import LinearQuery, linear_query
from qserver.query.question import Question
from qserver.query.requirement import Requirement
from qserver.query.weights import interval
from tests.inference.histories import measured

ANSWERS, SCALES = (120.0, 100.0, 235.0), (4, 4, 5)


def _rows(low: int, high: int) -> LinearQuery:
    return linear_query((20,), [(1, {0: interval(20, low, high)})])


QUERIES = (_rows(0, 10), _rows(10, 20), _rows(0, 20))
PARTS = tuple(Question(query, Requirement(100.0, 0.95)) for query in QUERIES)


def _engine(answers: tuple[float, ...] = ANSWERS) -> InferenceEngine:
    """Two parts and the whole, as far as there are answers."""
    found = InferenceEngine((20,))
    found.extend(
        measured(i, row, scale=Fraction(scale), answer=Fraction(answer))
        for i, (row, scale, answer) in enumerate(zip(QUERIES, SCALES, answers, strict=False))
    )
    return found


def found_by(engine: InferenceEngine, asked: QuotientAsked) -> QuotientPosterior | None:
    given = parts_given(engine, asked)
    return None if given is None else quotient_posterior(given, asked)


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
    found = found_by(_engine(), QuotientAsked(PARTS[0], PARTS[2], start, confidence))
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
    there = found_by(_engine(), QuotientAsked(PARTS[0], PARTS[2], (0.5, 0.6), 0.9))
    minus = replace(PARTS[0], query=QUERIES[0].scaled(-1))
    back = found_by(_engine(), QuotientAsked(minus, PARTS[2], (-0.6, -0.5), 0.9))
    assert there is not None
    assert back is not None
    assert [back.low, back.high] == pytest.approx([-there.high, -there.low], abs=3e-4)


@pytest.mark.slow
def test_where_nothing_disagrees_it_is_that_of_the_errors() -> None:
    """Against a grid of both parts' counts."""
    asked = QuotientAsked(PARTS[0], PARTS[1], (1.0, 1.4), 0.9)
    found = found_by(_engine(ANSWERS[:2]), asked)
    assert found is not None
    assert (found.statement.law, found.statement.disagreements) == ("posterior", 0)
    assert found.statement.error < 1e-8
    a, b = np.linspace(20, 220, 4001)[:, None], np.linspace(0.1, 200, 4001)[None, :]
    shares = np.exp(-np.abs(a - 120) / 4 - np.abs(b - 100) / 4)
    shares /= shares.sum()
    assert float(shares[a / b < found.low].sum()) == pytest.approx(0.05, abs=2e-3)
    assert float(shares[a / b > found.high].sum()) == pytest.approx(0.05, abs=2e-3)


@pytest.mark.parametrize("n_more", [0, 1])
def test_a_share_of_a_public_total_is_its_posterior(n_more: int) -> None:
    """Its denominator has no error; against the law of the numerator alone."""
    rows = ((QUERIES[0], 4, 120), (QUERIES[1], 4, 100), (QUERIES[2], 0, 230), (_rows(5, 10), 3, 55))
    engine = InferenceEngine((20,))
    engine.extend(
        measured(i, row, scale=Fraction(scale), answer=Fraction(answer))
        for i, (row, scale, answer) in enumerate((*rows, (_rows(0, 5), 3, 70))[: 3 + 2 * n_more])
    )
    found = found_by(engine, QuotientAsked(PARTS[0], PARTS[2], (0.5, 0.6), 0.9))
    assert found is not None
    assert (found.statement.law, found.statement.disagreements) == ("posterior", 1 + n_more)
    row = PARTS[0].row
    estimate = engine.estimate(row, confidence=0.9)
    assert estimate is not None
    count = engine.stated(row, estimate).posterior
    ends = [count.low_at(0.05) / 230.0, count.high_at(0.05) / 230.0]
    assert [found.low, found.high] == pytest.approx(ends, abs=2e-3)


def test_where_floats_fail_it_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: object, **__: object) -> None:
        raise np.linalg.LinAlgError

    given = parts_given(_engine(), QuotientAsked(PARTS[0], PARTS[2], (0.5, 0.6), 0.95))
    assert given is not None
    monkeypatch.setattr("qserver.inference.given.law_of_two.mixture", failing)
    assert quotient_posterior(given, QuotientAsked(PARTS[0], PARTS[2], (0.5, 0.6), 0.95)) is None


def test_it_is_not_told_where_it_is_not_known() -> None:
    asked = QuotientAsked(PARTS[0], PARTS[2], (0.5, 0.6), 0.95)
    assert found_by(_engine(ANSWERS[:1]), asked) is None  # the whole is not known
    small = _engine((3.0, -8.0, 1.0))  # the whole may well be 0
    assert found_by(small, QuotientAsked(PARTS[0], PARTS[2], (-9.0, 9.0), 0.95)) is None


def test_a_search_that_does_not_end_tells_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searched, "_MOST_OUTWARD", 1)
    far = QuotientAsked(PARTS[0], PARTS[2], (0.1, 0.2), 0.95)
    assert found_by(_engine(), far) is None
