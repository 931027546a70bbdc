"""Refined rows in inference: what stays, what gets shorter, and how little noise is enough."""

from __future__ import annotations

import itertools
import math
import random
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize

from qserver.inference.engine import InferenceEngine
from qserver.inference.law.laplace_sum import LaplaceSum
from qserver.inference.rows.blue import NEW
from qserver.inference.rows.refinement import WaterFill
from qserver.query.linear_query import LinearQuery, linear_query
from qserver.query.primitive import primitive
from qserver.query.weights import indicator
from qserver.records.history import Estimator, Measurement
from tests.inference.histories import NANO, STEP, combined_alpha, engine, measured, random_range

SIZES = (24,)
SOLVER = 1e-6


def _box(*values: int) -> LinearQuery:
    return linear_query(SIZES, [(1, {0: indicator(24, values)})])


def _part(rng: random.Random) -> LinearQuery:
    """A range that is not everything."""
    while True:
        query = random_range(rng, 24, 6)
        if query != _box(*range(24)):
            return query


def _history(rng: random.Random, n: int) -> list[Measurement]:
    """Ranges on few cuts, so that many depend on others, and a public row."""
    rows = [measured(0, _box(*range(24)), scale=0, answer=900)]
    for i in range(1, n):
        query, scale = _part(rng), Fraction(rng.randint(2, 30))
        rows.append(measured(i, query, scale=scale, answer=rng.randint(0, 900)))
    return rows


def _refined(old: Measurement, factor: Fraction | int, answer: int = 77) -> Measurement:
    alpha = math.ceil(old.alpha_nano * factor)
    return replace(old, alpha_nano=alpha, index=round(Fraction(answer) / STEP))


@pytest.mark.parametrize("seed", range(12))
def test_a_refined_history_answers_as_one_that_was_so_from_the_start(seed: int) -> None:
    """The same rows in the same order, read afresh: the other route builds everything anew."""
    rng = random.Random(seed)
    rows = _history(rng, 14)
    found = engine(SIZES, rows[:9])
    asked = [primitive(random_range(rng, 24, 6)) for _ in range(6)]
    for query in asked:
        found.estimate(query, confidence=0.9)
    final = list(rows)
    for i in rng.sample(range(1, 9), 4) + rng.sample(range(1, 9), 2):
        final[i] = _refined(final[i], Fraction(rng.randint(5, 40), 4), rng.randint(0, 900))
        found.extend([final[i]])
    found.extend(rows[9:])
    expected = engine(SIZES, final)
    for query in asked:
        one = found.estimate(query, confidence=0.9)
        other = expected.estimate(query, confidence=0.9)
        assert (one is None) == (other is None)
        if one is not None and other is not None:
            assert_allclose(one.half_width, other.half_width, rtol=SOLVER)
            assert_allclose(one.posterior.estimate, other.posterior.estimate, atol=0.02)


def test_a_refinement_of_a_row_that_was_not_used_yet_counts() -> None:
    row = measured(0, _box(1), scale=10, answer=5)
    found = engine(SIZES, [row, _refined(row, 4, answer=9)])
    estimate = found.estimate(primitive(_box(1)), confidence=0.95)
    assert estimate is not None
    assert estimate.posterior.estimate == 9.0
    assert_allclose(estimate.half_width, 2.5 * math.log(20) + float(STEP), rtol=1e-8)
    assert found.version == 2
    assert found.n_measurements == 1


def test_a_refinement_of_a_row_beyond_the_cap_still_answers_for_that_row() -> None:
    rows = [measured(i, _box(i), scale=10 + i) for i in range(4)]
    found = InferenceEngine(SIZES, max_rows=2)
    found.extend(rows)
    found.estimate(primitive(_box(0)), confidence=0.9)
    found.extend([_refined(rows[3], 13)])
    estimate = found.estimate(primitive(_box(3)), confidence=0.9)
    assert estimate is not None
    assert_allclose(estimate.half_width, math.log(10) + float(STEP), rtol=1e-8)


@pytest.mark.parametrize("seed", range(6))
def test_stored_weights_stay_valid_and_only_get_shorter(seed: int) -> None:
    rng = random.Random(seed)
    rows = _history(rng, 10)
    query = primitive(random_range(rng, 24, 6))
    found = engine(SIZES, rows)
    before = found.estimate(query, confidence=0.95)
    if before is None:
        pytest.fail("a seed without an estimable question tests nothing")
    found.extend([Estimator(query.key, before.weights)])
    for row in rows[1:]:
        found.extend([_refined(row, 2)])
        after = found.estimate(query, confidence=0.95)
        assert after is not None
        assert after.half_width <= before.half_width
        before = after


def _half_width_with(rows: list[Measurement], row: int, alpha: float, query: LinearQuery) -> float:
    """What a history read afresh says when one row has this alpha."""
    raised = replace(rows[row], alpha_nano=round(alpha * NANO))
    fresh = engine(SIZES, [raised if m.id == row else m for m in rows])
    estimate = fresh.estimate(primitive(query), confidence=0.95)
    assert estimate is not None
    return estimate.half_width


@pytest.mark.parametrize("seed", range(10))
def test_the_refined_row_is_raised_just_as_far_as_is_needed(seed: int) -> None:
    """At its alpha a history read afresh meets the target; a thousandth of the rise less, not."""
    rng = random.Random(100 + seed)
    rows = _history(rng, 12)
    row = rng.randrange(1, 12)
    query = rows[row].row
    found = engine(SIZES, rows)
    now = found.estimate(primitive(query), confidence=0.95)
    assert now is not None
    target = rng.uniform(0.2, 0.9) * now.half_width
    refined = found.refined_row(primitive(query), half_width=target, confidence=0.95)
    assert refined is not None
    ((number, alpha),) = refined.alphas
    assert primitive(rows[number].row).key == primitive(query).key
    rise = alpha - rows[number].alpha_nano / NANO
    assert rise > 0
    enough = _half_width_with(rows, number, alpha, query)
    assert enough <= target * (1 + SOLVER)
    assert _half_width_with(rows, number, alpha - 1e-3 * rise, query) > target


def test_a_row_that_stands_alone_is_raised_to_the_closed_form() -> None:
    found = engine(SIZES, [measured(0, _box(1, 2), scale=10)])
    refined = found.refined_row(primitive(_box(1, 2)), half_width=6.0, confidence=0.95)
    assert refined is not None
    assert_allclose(refined.alphas[0][1], math.log(20) / (6.0 - float(STEP)), rtol=1e-8)
    assert refined.weights == ((0, 1.0),)


@pytest.mark.parametrize("seed", range(8))
def test_refining_never_costs_more_than_a_second_measurement(seed: int) -> None:
    rng = random.Random(seed)
    rows = _history(rng, 8)
    query = primitive(rows[rng.randrange(1, 8)].row)
    found = engine(SIZES, rows)
    now = found.estimate(query, confidence=0.95)
    assert now is not None
    for share in (0.95, 0.6, 0.2):
        target = share * now.half_width
        refined = found.refined_row(query, half_width=target, confidence=0.95)
        second = combined_alpha(found, query, half_width=target, confidence=0.95, step=STEP)
        assert refined is not None
        assert second is not None
        number, alpha = refined.alphas[0]
        assert alpha - rows[number].alpha_nano / NANO <= second * (1 + SOLVER)


@pytest.mark.parametrize("seed", range(8))
def test_a_new_row_never_raises_the_least_alpha_of_a_refinement(seed: int) -> None:
    rng = random.Random(seed)
    rows = _history(rng, 12)
    query = primitive(rows[1].row)
    found = engine(SIZES, rows[:3])
    target = 0.3 * 2.0 * math.log(20)
    alphas = []
    for row in rows[3:]:
        refined = found.refined_row(query, half_width=target, confidence=0.95)
        alphas.append(math.inf if refined is None else refined.alphas[0][1])
        if query.key != primitive(row.row).key:
            found.extend([replace(row, id=found.n_measurements)])
    assert all(b <= a * (1 + SOLVER) for a, b in itertools.pairwise(alphas))


FILL = WaterFill(
    ids=np.array([0, 1, 2, NEW]),
    weights=np.array([1.0, -1.0, 0.5, 0.25]),
    scales=np.array([10.0, 3.0, 1.0, np.inf]),
    allowance=0.125,
)


def test_water_fill_raises_only_the_rows_that_dominate_and_just_meets_the_target() -> None:
    found = FILL.solve(np.ones(4), confidence=0.95, target=20.0)
    assert found is not None
    alphas = dict(found.alphas)
    sizes = np.abs(FILL.weights)
    scales = np.array(
        [1 / alphas.get(i, 1 / b) for i, b in zip(FILL.ids, FILL.scales, strict=True)]
    )
    raised = [sizes[i] * scales[i] for i in range(4) if FILL.ids[i] in alphas]
    assert NEW in alphas
    assert_allclose(raised, raised[0], rtol=1e-12)
    assert all(sizes[i] * scales[i] <= raised[0] for i in range(4))
    reached = LaplaceSum(sizes * scales).half_width(0.95) + 0.125
    assert 20.0 * (1 - 1e-7) < reached <= 20.0


def test_weights_that_are_zero_or_rest_on_public_rows_alone_raise_nothing() -> None:
    rows = [measured(0, _box(1), scale=10), measured(1, _box(2), scale=0)]
    found = engine(SIZES, rows)

    def raised(weights: tuple[tuple[int, float], ...]) -> list[tuple[int, ...]]:
        refined = found.refined_rows(
            weights, half_width=6.0, confidence=0.9, step=STEP, price=lambda _: 1.0
        )
        return [tuple(i for i, _ in r.alphas) for r in refined]

    assert raised(((0, 1.0), (1, 1.0), (NEW, 0.0))) == [(0,), (0,)]
    assert raised(((1, 1.0),)) == []


def test_the_priced_shape_is_cheapest_for_the_variance_that_it_leaves() -> None:
    """Against a general solver that knows only prices and variance."""
    fill = replace(FILL, scales=np.array([10.0, 9.0, 8.0, np.inf]))
    prices = np.array([0.2, 1.0, 0.5, 1.5])
    found = fill.solve(fill.shapes(prices)[1], confidence=0.95, target=6.0)
    assert found is not None
    assert len(found.alphas) == 4
    alphas = np.array([dict(found.alphas)[i] for i in fill.ids])
    variance = float(np.square(fill.weights / alphas).sum())
    best = minimize(  # type: ignore[call-overload]
        lambda x: float(prices @ np.exp(x)),
        np.zeros(4),
        constraints={
            "type": "ineq",
            "fun": lambda x: -math.log(float(np.square(fill.weights / np.exp(x)).sum()) / variance),
        },
        options={"ftol": 1e-12, "maxiter": 500},
    )
    assert_allclose(prices @ alphas, best.fun, rtol=1e-6)


def test_a_target_within_the_lattice_has_no_refinement() -> None:
    found = engine(SIZES, [measured(0, _box(1))])
    half_width = float(STEP) / 2
    assert found.refined_row(primitive(_box(1)), half_width=half_width, confidence=0.9) is None
    assert FILL.solve(np.ones(4), confidence=0.9, target=0.125) is None
