"""Weights of the shortest interval, and the least alpha of a new row together with history."""

from __future__ import annotations

import math
import random
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.optimize import brentq, minimize, minimize_scalar

from qserver.inference.corners.bias import Bias
from qserver.inference.law.laplace_sum import LaplaceSum
from qserver.inference.rows.shortest_interval import TailProblem, least_half_width, safe_half_width
from qserver.query.linear_query import LinearQuery, linear_query, total_query
from qserver.query.primitive import primitive
from qserver.query.weights import indicator
from qserver.records.history import Estimator
from tests.inference.corners.rows_on_trial import trial
from tests.inference.histories import (
    STEP,
    combination,
    combined_alpha,
    engine,
    measured,
    random_range,
)
from tests.sweeps import examples, n_of

PRICE_TOLERANCE = 1e-6
SIZE = 24


def _half(n: int = 2) -> LinearQuery:
    return linear_query((n,), [(1, {0: indicator(n, [0])})])


def _rest(n: int = 2) -> LinearQuery:
    return linear_query((n,), [(1, {0: indicator(n, range(1, n))})])


def _problem(rows, query, confidence):
    found = trial(rows).combinations(query)
    assert found is not None
    return TailProblem(found, confidence)


@pytest.mark.parametrize("confidence", [0.5, 0.8, 0.95, 0.999])
@pytest.mark.parametrize("scales", [(3, 10, 10), (10, 3, 30), (1, 1, 1)])
def test_one_direction_is_minimised_like_a_search_over_all_weights(confidence, scales):
    queries = (total_query((2,)), _half(), _rest())
    rows = [measured(i, q, scale=s) for i, (q, s) in enumerate(zip(queries, scales, strict=True))]
    problem = _problem(rows, total_query((2,)), confidence)

    def half_width(w: float) -> float:
        weights = np.array([w, 1 - w, 1 - w])
        noise = LaplaceSum(np.abs(weights) * np.array(scales, dtype=float)).half_width(confidence)
        return noise + float(np.abs(weights).sum()) * (float(STEP) + Bias().room)

    grid = min(np.linspace(-0.2, 1.2, 57), key=half_width)
    best = minimize_scalar(half_width, bounds=(grid - 0.03, grid + 0.03), options={"xatol": 1e-9})
    assert_allclose(problem.best().half_width, best.fun, rtol=3e-9)


def test_least_variance_is_not_the_shortest_interval_and_the_difference_is_found():
    queries = (total_query((2,)), _half(), _rest())
    rows = [
        measured(i, q, scale=s) for i, (q, s) in enumerate(zip(queries, (3, 10, 10), strict=True))
    ]
    problem = _problem(rows, total_query((2,)), 0.9999)
    blue = problem.at(np.zeros(problem.combinations.n_directions))
    best = problem.best()
    assert best.half_width < 0.995 * blue.half_width


@pytest.mark.slow
@given(st.integers(0, 10**9))
@settings(max_examples=n_of(15, share=5))
def test_several_directions_are_minimised_like_by_a_general_method(seed):
    rng = random.Random(seed)
    queries = [random_range(rng, SIZE, 4) for _ in range(9)]
    queries.append(queries[0])
    rows = [measured(i, q, scale=rng.choice((3, 10, 30))) for i, q in enumerate(queries)]
    problem = _problem(rows, queries[0], 0.98)
    start = np.zeros(problem.combinations.n_directions)

    def half_width(a):
        return problem.at(np.asarray(a)).half_width

    simplex = minimize(
        half_width,
        start,
        method="Nelder-Mead",
        options={"xatol": 1e-7, "fatol": 1e-9, "maxiter": 250 * len(start), "adaptive": True},
    )
    best = problem.best().half_width
    assert best <= half_width(start)
    # The simplex may stall above the optimum, never below it.
    assert best <= simplex.fun * (1 + 1e-8)


def test_the_half_width_is_that_of_the_laplace_sum_and_the_lattice():
    rows = [measured(0, _half(), scale=10), measured(1, _rest(), scale=7)]
    tail = _problem(rows, total_query((2,)), 0.9).best()
    scales = np.array([m.scale for m in rows])
    expected = LaplaceSum(scales).half_width(0.9) + 2 * float(STEP)
    assert_allclose(tail.half_width, expected, rtol=2e-9)
    assert tail.half_width >= expected


@given(st.floats(1e-6, 1 - 1e-9), st.integers(1, 1000))
@settings(max_examples=examples(100))
def test_a_looser_confidence_never_needs_a_longer_interval_even_by_rounding(confidence, ulps):
    scales = np.array([1.0, 0.3, 0.7])
    looser = confidence
    for _ in range(ulps % 7 + 1):
        looser = math.nextafter(looser, 0.0)
    assert safe_half_width(scales, looser) <= safe_half_width(scales, confidence)


def test_a_half_width_asked_for_again_is_that_of_its_own_scales_and_confidence():
    """What was asked for before is kept; other scales, their order and confidences stay apart."""
    rng = np.random.default_rng(5)
    asked = [
        (rng.uniform(0.5, 9.0, n), confidence)
        for n in (1, 1, 2, 2, 7, 128, 129)
        for confidence in (0.9, 0.95, math.nextafter(0.95, 1.0))
    ]
    asked += [(scales[::-1], confidence) for scales, confidence in asked]
    first = [safe_half_width(scales, confidence) for scales, confidence in asked]
    again = [safe_half_width(scales.copy(), confidence) for scales, confidence in asked]
    assert first == again
    own = [LaplaceSum(scales).half_width(confidence) for scales, confidence in asked]
    assert_allclose(first, own, rtol=1e-8)
    assert all(kept >= found for kept, found in zip(first, own, strict=True))


def test_the_safe_half_width_is_certified_to_hold_its_confidence():
    rng = np.random.default_rng(1)
    for n in (1, 2, 5, 40):
        for confidence in (0.3, 0.8, 0.95, 0.999, 1 - 1e-9):
            scales = rng.random(n)
            half_width = safe_half_width(scales, confidence)
            assert LaplaceSum(scales).certify(half_width).probability >= confidence


# Combined with a new row.


def _two_row_alpha(scale: float, target: float, confidence: float) -> float:
    """Least alpha for one old measurement of the row itself, by nested scalar searches."""

    def best(log_alpha: float) -> float:
        b = math.exp(-log_alpha)

        def half_width(w: float) -> float:
            noise = LaplaceSum([abs(1 - w) * scale, abs(w) * b]).half_width(confidence)
            return noise + (abs(1 - w) + abs(w)) * float(STEP)

        found = minimize_scalar(
            half_width, bounds=(0, 1), method="bounded", options={"xatol": 1e-10}
        )
        return min(float(found.fun), half_width(0.0), half_width(1.0))

    return math.exp(brentq(lambda x: best(x) - target, -12, 3, xtol=1e-10))


@pytest.mark.parametrize("confidence", [0.8, 0.95, 0.999])
@pytest.mark.parametrize("share", [0.3, 0.7, 0.95])
def test_the_least_alpha_is_that_of_a_nested_search(confidence, share):
    inference = engine((2,), [measured(0, _half(), scale=10)])
    now = inference.estimate(primitive(_half()), confidence=confidence)
    assert now is not None
    target = share * now.half_width
    alpha = combined_alpha(
        inference, primitive(_half()), half_width=target, confidence=confidence, step=STEP
    )
    assert alpha is not None
    assert_allclose(alpha, _two_row_alpha(10.0, target, confidence), rtol=1e-6)


def _history(rng: random.Random, n: int):
    queries = [random_range(rng, SIZE, 6) for _ in range(n)]
    rows = [measured(i, q, scale=rng.choice((4, 10, 25))) for i, q in enumerate(queries)]
    return queries, rows


@pytest.mark.slow
@given(st.integers(0, 10**9), st.sampled_from([0.8, 0.95, 0.999]), st.floats(0.2, 0.98))
@settings(max_examples=examples(20))
def test_a_quote_stays_good_once_the_row_is_measured_as_quoted(seed, confidence, share):
    rng = random.Random(seed)
    queries, rows = _history(rng, 8)
    query = combination(rng, queries)
    if query is None:
        return
    inference, row = engine((SIZE,), rows), primitive(query)
    now = inference.estimate(row, confidence=confidence)
    assert now is not None
    target = share * now.half_width
    quote = inference.combined(row, half_width=target, confidence=confidence, step=STEP)
    if quote is None:
        return
    alpha_nano = math.ceil(quote.alpha * 10**9)
    new = measured(len(rows), query, scale=Fraction(10**9, alpha_nano))
    weights = (*quote.weights, (len(rows), quote.new_weight))
    inference.extend([new, Estimator(row.key, weights)])
    after = inference.estimate(row, confidence=confidence)
    assert after is not None
    assert after.half_width <= target


@pytest.mark.slow
@given(st.integers(0, 10**9), st.sampled_from([0.8, 0.95, 0.999]), st.floats(0.3, 0.95))
@settings(max_examples=examples(15))
def test_a_new_row_never_raises_a_price(seed, confidence, share):
    rng = random.Random(seed)
    queries, rows = _history(rng, 7)
    query = combination(rng, queries)
    if query is None:
        return
    row = primitive(query)
    before, after = engine((SIZE,), rows), engine((SIZE,), rows)
    after.extend([measured(len(rows), random_range(rng, SIZE, 6), scale=rng.choice((4, 10, 25)))])
    now = before.estimate(row, confidence=confidence)
    assert now is not None
    prices = [
        combined_alpha(e, row, half_width=share * now.half_width, confidence=confidence, step=STEP)
        for e in (before, after)
    ]
    assert prices[0] is not None
    assert prices[1] is not None
    assert prices[1] <= prices[0] * (1 + PRICE_TOLERANCE)


@pytest.mark.slow
@given(st.integers(0, 10**9), st.floats(0.5, 0.999))
@settings(max_examples=examples(15))
def test_an_answered_key_stays_free_at_every_looser_requirement(seed, confidence):
    rng = random.Random(seed)
    queries, rows = _history(rng, 7)
    query = combination(rng, queries)
    if query is None:
        return
    row, inference = primitive(query), engine((SIZE,), rows)
    now = inference.estimate(row, confidence=confidence)
    assert now is not None
    more = [measured(len(rows) + i, random_range(rng, SIZE, 6), scale=40) for i in range(3)]
    inference.extend([Estimator(row.key, now.weights), *more])
    for looser in (confidence, math.nextafter(confidence, 0), 0.9 * confidence):
        again = inference.estimate(row, confidence=looser)
        assert again is not None
        assert again.half_width <= now.half_width


def test_the_price_is_never_above_that_of_a_fresh_row():
    inference = engine((2,), [measured(0, _half(), scale=10**6)])
    target, confidence = 30.0, 0.95
    alpha = combined_alpha(
        inference, primitive(_half()), half_width=target, confidence=confidence, step=STEP
    )
    fresh = -math.log1p(-confidence) / (target - float(STEP))
    assert alpha is not None
    assert alpha <= fresh * (1 + 1e-8)


def test_a_target_that_history_meets_has_the_price_zero_and_an_unknown_row_none():
    inference = engine((2,), [measured(0, _half(), scale=10)])
    now = inference.estimate(primitive(_half()), confidence=0.9)
    assert now is not None
    price = inference.combined(
        primitive(_half()), half_width=now.half_width, confidence=0.9, step=STEP
    )
    assert price is not None
    assert price.alpha == 0.0
    assert price.weights == now.weights
    other = combined_alpha(
        inference, primitive(total_query((2,))), half_width=5.0, confidence=0.9, step=STEP
    )
    assert other is None


def test_a_lattice_coarser_than_the_target_has_no_price():
    inference = engine((2,), [measured(0, _half(), scale=10)])
    found = inference.combined(primitive(_half()), half_width=1.0, confidence=0.9, step=Fraction(2))
    assert found is None


@given(
    scales=st.lists(st.floats(0.01, 100.0), min_size=1, max_size=12),
    tail=st.sampled_from([0.5, 0.3, 0.1, 0.05, 1e-3, 1e-7]),
)
@settings(max_examples=examples(60))
def test_no_sum_is_shorter_than_the_least_half_width_of_its_deviation(
    scales: list[float], tail: float
) -> None:
    deviation = math.sqrt(2.0 * sum(c * c for c in scales))
    least = least_half_width(deviation, 1.0 - tail)
    assert 0.0 < least < safe_half_width(np.array(scales), 1.0 - tail)


@pytest.mark.parametrize(("tail", "ratio"), [(0.5, 0.449288), (0.05, 1.656095)])
def test_the_least_half_width_is_where_the_integral_is_the_tail(tail: float, ratio: float) -> None:
    """By another route: numerical integration of exp(-t) dg(t) on a fine grid."""
    found = least_half_width(1.0, 1.0 - tail)
    assert found == pytest.approx(ratio, rel=1e-5)
    t = np.linspace(1e-9, 1.0, 400_001)
    beyond = np.array([math.erfc(found / math.sqrt(2.0 * one)) for one in t[::100]])
    total = float((np.exp(-t[::100])[:-1] * np.diff(beyond)).sum())
    assert total == pytest.approx(tail, rel=1e-3)


@pytest.mark.slow
def test_an_estimate_that_meets_a_length_is_found_whenever_there_is_one() -> None:
    """As without leaving out searches in vain; asked again, and after another row."""
    rng, met = random.Random(5), 0
    for _ in range(30):
        rows = [random_range(rng, SIZE, 4) for _ in range(8)]
        events = [measured(i, row, scale=rng.randint(4, 30)) for i, row in enumerate(rows)]
        asked = primitive(random_range(rng, SIZE, 4))
        for known in (events[:-1], events):
            one, other = engine((SIZE,), known), engine((SIZE,), known)
            for enough in (5.0, 20.0, 45.0, 60.0, 90.0, 200.0):
                expected = other.estimate(asked, confidence=0.95, enough=enough)
                is_met = expected is not None and expected.half_width <= enough
                for _ in range(2):
                    found = one.meeting(asked, confidence=0.95, enough=enough)
                    assert (found is not None) == is_met
                    assert found is None or found.half_width <= enough
                met += is_met
    assert met
