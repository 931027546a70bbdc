"""Best linear unbiased weights, against exact least squares and dense algebra."""

from __future__ import annotations

import itertools
import random
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from qserver.inference.rows.blue import Combinations
from qserver.query.linear_query import LinearQuery, linear_query, total_query
from qserver.query.primitive import primitive
from qserver.query.weights import indicator
from qserver.records.history import Measurement
from tests.inference.corners.exact import in_span, least_variance
from tests.inference.corners.rows_on_trial import trial
from tests.inference.histories import combination, dense, measured, random_query, random_range
from tests.sweeps import examples

SIZES = (2, 3)
SCALES = (Fraction(1), Fraction(10), Fraction(5, 2), Fraction(40))


def _weights(found: Combinations) -> dict[int, float]:
    return dict(zip(found.noise.ids.tolist(), found.least.tolist(), strict=True))


def _variance(found: Combinations) -> float:
    return 2 * float(np.square(found.least * found.noise.scales).sum())


def _check(rows: list[Measurement], query: LinearQuery, found: Combinations | None) -> None:
    """Unbiased, and of the least variance there is; None just where there is no estimate."""
    matrix = [dense(m.row) for m in rows]
    least = least_variance(matrix, [Fraction(m.scale) for m in rows], dense(query))
    assert (found is None) == (least is None)
    if found is None or least is None:
        return
    weights = _weights(found)
    sums = [sum(w * float(matrix[i][c]) for i, w in weights.items()) for c in range(len(matrix[0]))]
    assert_allclose(sums, [float(v) for v in dense(query)], rtol=0, atol=1e-11)
    assert_allclose(_variance(found), float(least), rtol=1e-9, atol=1e-12)


@given(st.integers(0, 10**9))
@settings(max_examples=examples(80))
def test_weights_are_unbiased_and_of_least_variance_in_exact_fractions(seed):
    rng = random.Random(seed)
    queries = [random_query(rng, SIZES) for _ in range(rng.randint(1, 11))]
    rows = [measured(i, q, scale=rng.choice(SCALES)) for i, q in enumerate(queries)]
    query = rng.choice([combination(rng, queries), random_query(rng, SIZES)])
    if query is not None:
        _check(rows, query, trial(rows).combinations(query))


@given(st.integers(0, 10**9))
@settings(max_examples=examples(80))
def test_public_rows_are_constraints_that_cost_nothing(seed):
    rng = random.Random(seed)
    queries = [random_query(rng, SIZES) for _ in range(rng.randint(2, 9))]
    queries += [q for q in (combination(rng, queries) for _ in range(3)) if q is not None]
    scales = [rng.choice((*SCALES, 0, 0)) for _ in queries]
    rows = [measured(i, q, scale=s) for i, (q, s) in enumerate(zip(queries, scales, strict=True))]
    query = combination(rng, queries)
    if query is not None:
        _check(rows, query, trial(rows).combinations(query))


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_a_public_total_halves_the_variance_of_two_complementary_counts(order):
    ones = linear_query((2,), [(1, {0: indicator(2, [0])})])
    others = linear_query((2,), [(1, {0: indicator(2, [1])})])
    kinds = [(ones, 10), (others, 10), (total_query((2,)), 0)]
    rows = [measured(i, kinds[k][0], scale=kinds[k][1]) for i, k in enumerate(order)]
    found = trial(rows).combinations(ones)
    assert found is not None
    # Measured directly, and as the total minus the other: the mean of two of variance 200.
    assert_allclose(_variance(found), 100.0, rtol=1e-12)


def test_a_public_row_said_twice_changes_nothing():
    ones = linear_query((2,), [(1, {0: indicator(2, [0])})])
    total = total_query((2,))
    rows = [measured(i, q, scale=s) for i, (q, s) in enumerate([(ones, 10), (total, 0)] * 3)]
    found = trial(rows).combinations(linear_query((2,), [(1, {0: indicator(2, [1])})]))
    assert found is not None
    assert_allclose(_variance(found), 200 / 3, rtol=1e-12)


@pytest.mark.parametrize("n_cuts", [12, 60])
def test_many_ranges_agree_with_dense_least_squares(n_cuts):
    rng = random.Random(n_cuts)
    queries = [random_range(rng, 240, n_cuts) for _ in range(70)]
    rows = [measured(i, q, scale=rng.choice(SCALES)) for i, q in enumerate(queries)]
    space = trial(rows)
    matrix = np.array([[float(v) for v in dense(m.row)] for m in rows])
    scaled = matrix / np.array([m.scale for m in rows])[:, None]
    for _ in range(20):
        query = random_range(rng, 240, n_cuts)
        q = np.array([float(v) for v in dense(query)])
        y, *_ = np.linalg.lstsq(scaled.T, q, rcond=1e-10)
        found = space.combinations(query)
        assert (found is not None) == bool(np.abs(scaled.T @ y - q).max() < 1e-9)
        if found is not None:
            assert_allclose(_variance(found), 2 * float(y @ y), rtol=1e-9)


def test_rows_taken_in_one_by_one_give_what_they_give_together():
    rng = random.Random(4)
    queries = [random_range(rng, 100, 20) for _ in range(60)]
    rows = [measured(i, q, scale=rng.choice(SCALES)) for i, q in enumerate(queries)]
    together, single = trial(rows), trial(rows[:1])
    for row in rows[1:]:
        single.extend([row])
    for query in queries:
        a, b = together.combinations(query), single.combinations(query)
        assert a is not None
        assert b is not None
        assert_allclose(_variance(a), _variance(b), rtol=1e-10)


def test_every_step_along_the_directions_is_unbiased():
    rng = random.Random(8)
    queries = [random_query(rng, SIZES) for _ in range(12)]
    rows = [measured(i, q) for i, q in enumerate(queries)]
    found = trial(rows).combinations(queries[3])
    assert found is not None
    assert found.n_directions >= 4
    matrix = np.array([[float(v) for v in dense(rows[i].row)] for i in found.noise.ids])
    for _ in range(5):
        a = np.array([rng.uniform(-2, 2) for _ in found.directions])
        assert_allclose(
            found.weights(a) @ matrix, [float(v) for v in dense(queries[3])], atol=1e-12
        )


def test_simple_weights_are_exact_floats():
    sizes = (1000,) * 4
    box = linear_query(sizes, [(1, {0: indicator(1000, range(7)), 2: indicator(1000, [3])})])
    rows = [measured(0, total_query(sizes)), measured(1, box)]
    found = trial(rows).combinations(total_query(sizes).scaled(3) - box.scaled(Fraction(1, 2)))
    assert found is not None
    assert _weights(found) == {0: 3.0, 1: -0.5}
    assert found.error < 1e-14


def _skewed(rng: random.Random, n: int) -> list[LinearQuery]:
    """Dense random sets: their inverse has no simple fractions and is far from orthogonal."""
    return [
        linear_query((n,), [(1, {0: indicator(n, [0, *rng.sample(range(n), n // 2)])})])
        for _ in range(n + 5)
    ]


@pytest.mark.parametrize("seed", range(4))
def test_the_bound_on_float_errors_holds_where_weights_are_no_simple_fractions(seed):
    """Estimates from exact answers are off by no more than the bound, against the truth."""
    rng = random.Random(seed)
    n = 40
    queries = _skewed(rng, n)
    truth = [rng.randrange(10**6) for _ in range(n)]
    vectors = [dense(primitive(q).row) for q in queries]
    answers = [sum(a * b for a, b in zip(v, truth, strict=True)) for v in vectors]
    rows = [measured(i, q, answer=y) for i, (q, y) in enumerate(zip(queries, answers, strict=True))]
    space = trial(rows)
    errors = []
    for cell in range(8):
        found = space.combinations(linear_query((n,), [(1, {0: indicator(n, [cell])})]))
        assert found is not None
        weights = _weights(found)
        exact = sum(Fraction(w) * rows[i].value for i, w in weights.items())
        bound = found.error
        assert abs(exact - truth[cell]) <= bound
        assert bound < 1e-8 * sum(truth)
        errors.append(float(abs(exact - truth[cell])))
    assert max(errors) > 0


def test_what_is_in_the_span_is_said_to_be_by_both_oracles():
    """The exact oracle of this file agrees with rank on a case worked by hand."""
    rows = [[Fraction(1), Fraction(1)], [Fraction(1), Fraction(0)]]
    assert in_span(rows, [Fraction(0), Fraction(1)])
    # y = h1 - h2 has variance 2 (b1^2 + b2^2).
    assert least_variance(rows, [Fraction(1), Fraction(2)], [Fraction(0), Fraction(1)]) == 10
