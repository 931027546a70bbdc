"""Inner products of factored rows, and the measure behind them."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from qserver.inference.rows.axis_vectors import AxisMeasure, AxisVectors
from qserver.inference.rows.factored_rows import FactoredRows
from qserver.query.linear import linear_query, total_query
from qserver.query.weights import Weights, indicator, interval
from tests.inference.histories import dense, random_query
from tests.query.dense_weights import scaled_weights

SIZES = (4, 3, 5)


def _rows(queries):
    rows = FactoredRows(queries[0].sizes)
    for query in queries:
        rows.add(query)
    return rows


def _unscaled(rows, query):
    found = rows.products(query)
    return found.rows * np.exp2(found.query.log_scale + rows.log_scales)


@given(st.integers(0, 10**9))
@settings(max_examples=60)
def test_products_are_the_sums_over_all_cells_that_the_uniform_measure_says(seed):
    rng = random.Random(seed)
    queries = [random_query(rng, SIZES) for _ in range(6)]
    query = random_query(rng, SIZES)
    expected = [
        float(sum(a * b for a, b in zip(dense(query), dense(q), strict=True))) / 60 for q in queries
    ]
    assert_allclose(_unscaled(_rows(queries), query), expected, rtol=1e-12, atol=1e-13)


@given(st.integers(0, 10**9))
@settings(max_examples=30)
def test_the_gram_matrix_of_queries_agrees_with_their_products_one_by_one(seed):
    rng = random.Random(seed)
    queries = [random_query(rng, SIZES) for _ in range(5)]
    rows = _rows(queries)
    gram = rows.gram([rows.scaled(q) for q in queries])
    one_by_one = np.array([rows.products(q).rows for q in queries])
    assert_allclose(gram, one_by_one, rtol=1e-12, atol=1e-13)


def test_a_boundary_that_splits_a_class_leaves_old_products_as_they_were():
    rng = random.Random(3)
    sizes = (1000, 7)
    queries = [
        linear_query(sizes, [(1, {0: interval(1000, a, a + 100)})]) for a in range(0, 900, 150)
    ]
    rows = _rows(queries)
    before = [rows.products(q).rows for q in queries]
    for _ in range(40):
        low, high = sorted(rng.sample(range(1001), 2))
        rows.add(linear_query(sizes, [(1, {0: interval(1000, low, high), 1: indicator(7, [2])})]))
    after = [rows.products(q).rows[: len(queries)] for q in queries]
    assert np.array_equal(before, after)


def test_asking_leaves_nothing_behind():
    rows = _rows([linear_query((1000,), [(1, {0: interval(1000, 0, 500)})])])
    vectors = rows.axes[0]
    before = (len(vectors), vectors.boundaries)
    for low in range(100):
        rows.products(linear_query((1000,), [(1, {0: interval(1000, low, low + 7)})]))
    assert (len(vectors), vectors.boundaries) == before


def test_rebalancing_gives_every_class_the_same_weight():
    vectors = AxisVectors(1000)
    even = vectors.intern(indicator(1000, range(0, 1000, 2)))
    seven = vectors.intern(indicator(1000, [7]))
    vectors.rebalance()
    squares = np.exp2(2 * vectors.log_norms)
    # Three classes: even, seven, the other odd values.
    assert_allclose(squares[[even, seven]], [1 / 3, 1 / 3], rtol=1e-6)


def test_rebalancing_makes_one_cell_of_a_million_million_visible():
    sizes = (1000,) * 4
    cell = linear_query(sizes, [(1, {a: indicator(1000, [17]) for a in range(4)})])
    rows = _rows([total_query(sizes), total_query(sizes) - cell])
    cosine = rows.products(total_query(sizes)).rows[1]
    assert 1 - cosine**2 < 1e-11
    rows.rebalance()
    cosine = rows.products(total_query(sizes)).rows[1]
    assert 1 - cosine**2 > 0.05


@pytest.mark.parametrize("rebalanced", [False, True])
def test_products_of_indicators_are_exact_integers_over_the_total(rebalanced):
    rng = random.Random(5)
    vectors = AxisVectors(4096)
    sets = [sorted(rng.sample(range(4096), rng.randint(1, 4000))) for _ in range(12)]
    for chosen in sets:
        vectors.intern(indicator(4096, chosen))
    if rebalanced:
        vectors.rebalance()
    measure = vectors.measure
    masses = np.diff(measure.below(np.arange(4097.0)))
    gram = measure.gram([indicator(4096, chosen) for chosen in sets])
    for i, a in enumerate(sets):
        for j, b in enumerate(sets):
            assert gram[i, j] == sum(int(masses[v]) for v in set(a) & set(b))


def test_an_attribute_of_a_million_values_costs_its_runs_only():
    size = 1 << 20
    vectors = AxisVectors(size)
    half = vectors.intern(interval(size, 0, size // 2))
    cosines = vectors.cosines(interval(size, size // 4, size))
    assert_allclose(cosines[half], 0.25 / np.sqrt(0.5 * 0.75), rtol=1e-15)
    assert len(vectors.boundaries) == 2


def test_the_integral_of_a_step_function_is_the_sum_of_its_values_below():
    weights = scaled_weights([3, 3, -1, 0, 2]).weights
    measure = AxisMeasure(np.array([0.0, 2.0, 5.0]), np.array([2.0, 5.0]))
    at = measure.below(np.arange(6.0))
    expected = np.concatenate([[0], np.cumsum([6, 6, -5, 0, 10])])
    assert np.array_equal(measure.integral(weights, at), expected)


def test_the_all_ones_vector_is_number_zero_on_every_attribute():
    vectors = AxisVectors(9)
    assert vectors.intern(Weights((9,), (1,))) == 0
    assert vectors.cosines(Weights((9,), (1,)))[0] == pytest.approx(1.0, rel=1e-15)


def test_a_norm_over_two_hundred_attributes_stays_in_the_range_of_floats():
    sizes = (1000,) * 200
    cell = linear_query(sizes, [(1, {a: indicator(1000, [0]) for a in range(200)})])
    rows = _rows([cell])
    found = rows.products(cell)
    assert found.rows[0] == pytest.approx(1.0, rel=1e-12)
    assert rows.log_scale(0) == pytest.approx(-100 * np.log2(1000), rel=1e-12)
