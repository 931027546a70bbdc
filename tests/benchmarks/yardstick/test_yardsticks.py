"""The yardsticks: bound <= best matrix <= mixture <= blocks, and each against brute force."""

from __future__ import annotations

from itertools import combinations, product
from math import log, sqrt

import numpy as np
import pytest

from qserver.inference.law.laplace_sum import LaplaceSum
from qserver.query.linear import linear_query
from qserver.query.primitive import primitive
from qserver.query.requirement import Requirement
from qserver.query.weights import interval
from tests.benchmarks.hindsight import Blocks, Chain, Target, best_price
from tests.benchmarks.streams import Asked
from tests.benchmarks.yardstick import matrix
from tests.benchmarks.yardstick.bound import least_ratio, lower_bound
from tests.benchmarks.yardstick.distances import SmallStream, distances, small_stream
from tests.benchmarks.yardstick.mixture import Hindsight

TWO = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])


def asked(*ranges: tuple[int, int, float], size: int) -> list[Asked]:
    """Ranges from, to, of a length."""
    return [
        Asked(
            primitive(linear_query((size,), [(1, {0: interval(size, a, b)})])), Requirement(x, 0.95)
        )
        for a, b, x in ranges
    ]


def known(queries: np.ndarray, half_width: float = 10.0) -> matrix.Asked:
    n = len(queries)
    return matrix.Asked(queries, np.full(n, half_width), np.full(n, 0.95))


def test_disjoint_cells_cost_what_the_bound_says() -> None:
    """Each cell measured alone has variance 2 / epsilon^2, and no plan has less."""
    assert lower_bound(np.eye(5), np.full(5, 3.0)) == pytest.approx(sqrt(2) / 3.0, rel=1e-6)


def test_any_weights_prove_a_bound_below_every_matrix_of_a_grid() -> None:
    """Three rows on two cells, every entry of five values: the bound by variance is below all."""
    bound = lower_bound(TWO, np.full(3, 1.0))
    least = np.inf
    for entries in product((-1.0, -0.5, 0.0, 0.5, 1.0), repeat=6):
        rows = np.array(entries).reshape(3, 2)
        gram = rows.T @ rows
        if np.linalg.det(gram) < 1e-9:
            continue
        variances = 2 * np.einsum("ij,jk,ik->i", TWO, np.linalg.inv(gram), TWO)
        least = min(least, np.abs(rows).sum(axis=0).max() * sqrt(variances.max()))
    assert bound <= least
    # Two cells: the Gaussian problem is nearly the Laplace one.
    assert least <= 1.25 * bound


@pytest.mark.slow
def test_the_search_finds_no_dearer_matrix_than_the_grid() -> None:
    questions = known(TWO)
    grid = [np.array(e).reshape(3, 2) for e in product((0.0, 0.5, 1.0), repeat=6)]
    least = min(matrix.exact_price(rows, questions) for rows in grid if rows.any())
    assert matrix.best_matrix(questions, matrix.usual_starts(questions)) <= least * (1 + 1e-3)


def test_the_slope_of_the_smooth_problem_is_that_of_finite_differences() -> None:
    queries = np.array([[1.0, 1, 0], [0, 1, 1], [1, 0, 0], [1, 1, 1]])
    problem = matrix._Smooth(queries, power=8.0, corner=0.1, shape=(5, 3))
    at = np.random.default_rng(2).normal(size=15)
    steps = 1e-6 * np.eye(15)
    slopes = [(problem.value(at + s)[0] - problem.value(at - s)[0]) / 2e-6 for s in steps]
    np.testing.assert_allclose(problem.value(at)[1], slopes, rtol=1e-5, atol=1e-7)


@pytest.mark.slow
@pytest.mark.parametrize(
    "stream",
    [
        small_stream("ranges", (8,)),
        small_stream("boxes", (3, 4)),
        small_stream("mixed boxes", (3, 4), is_mixed=True),
    ],
    ids=lambda s: s.name,
)
def test_each_yardstick_is_at_most_the_next(stream: SmallStream) -> None:
    found = distances(stream, 7, 12)
    assert found.bound <= found.matrix <= found.mixture * (1 + 1e-6)
    assert found.mixture <= min(found.blocks, found.rows)
    assert found.mixture <= found.spent * (1 + 1e-6)


@pytest.mark.slow
def test_of_all_choices_of_rented_questions_the_search_finds_the_best() -> None:
    """All 64 choices are priced: a tight question among loose ones is rented."""
    stream = asked((3, 13, 8.0), *((i, i + 8, 40.0) for i in range(2, 7)), size=16)
    hindsight = Hindsight.of((16,), stream, relation="add-remove")
    numbers = range(len(hindsight.needs))
    every = [frozenset(c) for k in range(len(numbers) + 1) for c in combinations(numbers, k)]
    least = min(map(hindsight.price, every))
    best = Hindsight.of((16,), stream, relation="add-remove").best()
    assert best.price == pytest.approx(least, rel=1e-6)
    assert 0 < len(best.rented) < len(numbers)


def test_a_question_that_no_table_can_answer_is_rented() -> None:
    """The yardstick exists for every stream: three attributes of 50 values need too many cells."""
    sizes = (50, 50, 50)
    axes = {a: interval(50, 1, 24) for a in range(3)}
    large = Asked(primitive(linear_query(sizes, [(1, axes)])), Requirement(10.0, 0.95))
    small = Asked(primitive(linear_query(sizes, [(1, {0: axes[0]})])), Requirement(10.0, 0.95))
    hindsight = Hindsight.of(sizes, [large, small], relation="add-remove")
    assert [hindsight.needs[i].question.row for i in hindsight.unanswered] == [large.query]
    assert hindsight.best().price == pytest.approx(2 * log(20) / 5.0, rel=1e-6)


@pytest.mark.parametrize("confidence", [0.95, 0.99, 0.999])
def test_no_sum_of_laplace_variables_tried_has_a_lesser_ratio(confidence: float) -> None:
    """On sums of two sizes of terms, half-width over deviation is never below the bound's."""
    ratio = least_ratio(confidence)
    for n in (1, 2, 3, 5, 20):
        for size in np.geomspace(0.05, 1.0, 9):
            scales = np.array([1.0, *np.full(n, size)])
            deviation = sqrt(2 * float(scales @ scales))
            assert LaplaceSum(scales).half_width(confidence) >= ratio * deviation * (1 - 1e-9)


def test_a_level_of_no_use_is_left_out() -> None:
    """The best blocks on all levels are never dearer than on fewer."""
    generator = np.random.default_rng(13)
    targets = []
    for _ in range(int(generator.integers(2, 30))):
        low, high = sorted(generator.choice(17, 2, replace=False))
        inside = ((np.arange(16) >= low) & (np.arange(16) < high)).astype(float)
        targets.append(Target((inside,), float(generator.choice([20, 40, 80]))))
    every = best_price(Blocks((Chain((1, 4, 16)),)), targets, confidence=0.95)
    fewer = best_price(Blocks((Chain((1, 16)),)), targets, confidence=0.95)
    assert every <= fewer * (1 + 1e-6)
