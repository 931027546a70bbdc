"""The posterior where hundreds of rows disagree: all of their disagreements count."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy.sparse import csr_array

from qserver.inference.arrays import FloatArray
from qserver.inference.disagreement.known_sums import ManyRows
from qserver.inference.disagreement.law_by_cheapest_method import law_given
from qserver.inference.disagreement.normal_law_given_sums import (
    ByBasis,
    BySums,
    NormalLaw,
    Sites,
    WithFree,
)
from qserver.inference.engine import InferenceEngine
from qserver.inference.posterior.disagreeing_rows import Stated
from qserver.query.linear_query import LinearQuery, linear_query
from qserver.query.primitive import primitive
from qserver.query.weights import interval
from qserver.records.history import Measurement
from tests.inference.disagreement.references import Design
from tests.inference.histories import STEP, measured

SIZE = 24


def _range(low: int, high: int) -> LinearQuery:
    return linear_query((SIZE,), [(1, {0: interval(SIZE, low, high)})])


def _row(low: int, high: int) -> FloatArray:
    places = np.arange(SIZE)
    return ((low <= places) & (places < high)).astype(float)


class _History:
    """All ranges of a size; every second one refined, in an engine that was asked between."""

    def __init__(self, seed: int, *, public: bool, wrong_by: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self.ends = [(i, k) for i in range(SIZE) for k in range(i + 1, SIZE + 1)]
        if public:
            self.ends.remove((0, SIZE))
        rng.shuffle(self.ends)
        scales = [int(rng.choice([5, 10, 20])) for _ in self.ends]
        truth = rng.integers(0, 2000, SIZE).astype(float)
        rows = np.array([_row(*ends) for ends in self.ends])
        answers = rows @ truth + rng.laplace(size=len(rows)) * scales
        self.answers = np.round(answers / float(STEP)) * float(STEP)
        self.rows, self.scales, self.total = rows, np.array(scales, float), float(truth.sum())
        self.engine, self.n_public = InferenceEngine((SIZE,)), int(public)
        if public:
            declared = Fraction(self.total) + wrong_by
            whole = measured(0, _range(0, SIZE), scale=0, answer=declared)
            self.engine.extend([whole])
        first = [self._measured(i, 2 * s if i % 2 else s) for i, s in enumerate(scales)]
        self.engine.extend(first[:250])
        self.stated(0, 3)
        self.engine.extend(first[250:])
        self.stated(0, 3)
        self.engine.extend([self._measured(i, s) for i, s in enumerate(scales) if i % 2])

    def _measured(self, number: int, scale: int) -> Measurement:
        answer = Fraction(self.answers[number])
        ends = self.ends[number]
        return measured(self.n_public + number, _range(*ends), scale=scale, answer=answer)

    def stated(self, low: int, high: int) -> Stated:
        row = primitive(_range(low, high))
        estimate = self.engine.estimate(row, confidence=0.95)
        assert estimate is not None
        return self.engine.stated(row, estimate)


@pytest.mark.slow
@pytest.mark.parametrize("public", [False, True])
def test_all_that_three_hundred_rows_disagree_about_counts(public: bool) -> None:
    """As by the null space of all rows, of which the engine knows nothing here."""
    history = _History(17, public=public)
    rows, answers, scales = history.rows, history.answers, history.scales
    if public:
        # Modulo the public total a row is one on the other values.
        answers = answers - rows[:, 0] * history.total
        rows = (rows - rows[:, :1])[:, 1:]
    for low, high in ((3, 9), (7, 8), (0, 24 - public)):
        query = _row(low, high)
        design = Design(rows, scales, (query - query[0] if public else query)[public:])
        given = design.known(answers).reduced()
        found = history.stated(low, high)
        assert found.statement.law == "posterior"
        assert found.statement.disagreements == given.n_disagreements == len(rows) - rows.shape[1]
        law = law_given(given)
        middle = float(design.weights @ answers) + (query[0] * history.total if public else 0.0)
        for off in np.linspace(-12.0, 12.0, 7):
            place = middle - float(given.shift) - off
            expected = law.cdf(off)
            room = law.largest_error + found.statement.error
            assert abs(found.posterior.probability_at_least(place) - expected) < room


@pytest.mark.slow
@pytest.mark.parametrize(("wrong_by", "law"), [(0, "posterior"), (100_000, "estimator")])
def test_a_public_total_that_is_wrong_leaves_the_law_of_the_estimate(
    wrong_by: int, law: str
) -> None:
    """The answers then contradict it: a law given all of them would be far off."""
    found = _History(17, public=True, wrong_by=wrong_by).stated(3, 9)
    assert found.statement.law == law


def test_a_row_that_public_rows_give_has_a_known_error() -> None:
    """It bears on nothing; the two others are one count, measured twice."""
    matrix = csr_array(np.array([[1.0, 1.0], [0.0, 0.0], [1.0, 1.0]]))
    scales = np.array([2.0, 5.0, 4.0])
    answers = np.array([30.0, 10.0, 34.0])
    rows = ManyRows(np.arange(3), matrix, answers, scales, np.ones(3), np.ones(3))
    found = rows.along([{0: 0.8, 2: 0.2}])
    # u_2 = u_0 / 2 + 1, and the error is 1.6 u_0 + 0.8 u_2.
    assert found.values.tolist() == pytest.approx([1.0])
    assert found.weights[0] == pytest.approx(2.0)
    assert float(found.shift) == pytest.approx(0.8)


def _as_given(seed: int) -> tuple[NormalLaw, NormalLaw, int]:
    rng = np.random.default_rng(seed)
    k, r = 9, 4
    mixing, values = rng.normal(size=(k, r)), rng.normal(size=k)
    sites = Sites(rng.normal(size=k + r), rng.uniform(0.1, 3.0, k + r))
    sums = np.hstack([-mixing, np.eye(k)])
    counts = np.ones(k + r)
    return BySums(sums, values, sites, counts), ByBasis(mixing, values, sites, counts), k + r


@pytest.mark.parametrize("seed", range(3))
def test_normal_errors_by_their_sums_are_those_by_a_basis(seed: int) -> None:
    one, other, n = _as_given(seed)
    weights, places = np.random.default_rng(seed).normal(size=(n, 2)), np.array([7, 1, 12, 0])
    whole = one.times(np.eye(n))
    assert other.mean == pytest.approx(one.mean)
    assert other.diagonal == pytest.approx(np.diag(whole))
    assert other.times(weights) == pytest.approx(whole @ weights)
    for law in (one, other):
        assert law.among(places) == pytest.approx(whole[np.ix_(places, places)])


def test_free_errors_stand_beside_the_others() -> None:
    """As if they were errors of a basis that no sum has."""
    _, other, n = _as_given(5)
    free = WithFree(other, 4, np.ones(2))
    whole = free.times(np.eye(n + 2))
    assert whole[4:6, 4:6] == pytest.approx(2.0 * np.eye(2))
    assert not whole[4:6, [0, 3, 6, n + 1]].any()
    old = np.delete(np.arange(n + 2), [4, 5])
    assert whole[np.ix_(old, old)] == pytest.approx(other.times(np.eye(n)))
    places = np.array([n + 1, 5, 2])
    assert free.among(places) == pytest.approx(whole[np.ix_(places, places)])
    assert free.diagonal == pytest.approx(np.diag(whole))
    assert free.times(np.ones(n + 2)) == pytest.approx(whole.sum(axis=1))
