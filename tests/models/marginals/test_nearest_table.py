"""The nearest answers of a non-negative table, against general methods on all cells."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from scipy.optimize import minimize, nnls

from qserver.models.marginals.fit.nearest_table import CheapestCells, NearestTable, nearest_table

SIZES = (3, 2, 4)
SCOPES = ((0,), (0, 1), (1, 2), (0, 2))
seeds = st.integers(0, 2**32 - 1)


@dataclass(frozen=True)
class Case:
    """Questions on some scopes, true counts, and noisy answers.

    Args:
        dense: the weight of each cell of the domain in each question, shape (questions, cells).
        truth: count of each cell.
    """

    cheapest: CheapestCells
    weights: sparse.csr_array
    dense: np.ndarray
    truth: np.ndarray
    answers: np.ndarray
    scales: np.ndarray

    def found(self, *, total: float | None = None, max_steps: int = 10_000) -> NearestTable:
        return nearest_table(
            self.cheapest,
            self.weights,
            self.answers,
            self.scales,
            total=total,
            max_steps=max_steps,
        )

    def distance(self, answers: np.ndarray) -> float:
        return 0.5 * float(np.square((answers - self.answers) / self.scales).sum())


def case(seed: int, *, n_questions: int = 30, signed: bool = False) -> Case:
    generator = np.random.default_rng(seed)
    cheapest = CheapestCells(SIZES, SCOPES, max_cells=1000)
    layout = cheapest.layout
    # Every question has weights on the cells of one scope.
    weights = np.zeros((layout.n_cells, n_questions))
    for i in range(n_questions):
        k = int(generator.integers(len(layout.scopes)))
        n = int(layout.counts[k])
        low = -1 if signed else 0
        drawn = generator.integers(low, 2, n).astype(float)
        weights[layout.offsets[k] : layout.offsets[k] + n, i] = drawn
    cells = list(product(*(range(n) for n in SIZES)))
    dense = np.zeros((n_questions, len(cells)))
    for j, cell in enumerate(cells):
        for k, scope in enumerate(layout.scopes):
            at = np.ravel_multi_index(tuple(cell[a] for a in scope), layout.shape(k))
            dense[:, j] += weights[layout.offsets[k] + at]
    truth = generator.integers(0, 2, len(cells)) * generator.integers(0, 30, len(cells))
    scales = generator.uniform(0.5, 8.0, n_questions)
    answers = dense @ truth + generator.laplace(0.0, scales)
    return Case(cheapest, sparse.csr_array(weights), dense, truth, answers, scales)


@given(seeds, st.booleans())
def test_the_answers_are_those_of_least_squares_over_all_cells(seed: int, signed: bool) -> None:
    """scipy's nnls on every cell of the domain; negative weights are as good."""
    given_case = case(seed, signed=signed)
    found = given_case.found()
    dense = given_case.dense / given_case.scales[:, None]
    x, _ = nnls(dense, given_case.answers / given_case.scales)
    np.testing.assert_allclose(found.distance, given_case.distance(given_case.dense @ x), rtol=1e-6)
    np.testing.assert_allclose(found.answers, given_case.dense @ x, rtol=0, atol=1e-2)
    np.testing.assert_allclose(found.distance, given_case.distance(found.answers), rtol=1e-9)


@pytest.mark.parametrize("seed", range(6))
def test_with_a_known_total_the_answers_are_those_of_a_table_that_has_it(seed: int) -> None:
    """A general method for constraints (SLSQP), which knows neither cells nor columns."""
    given_case = case(seed, signed=seed % 2 == 0)
    total = float(given_case.truth.sum())
    found = given_case.found(total=total)

    def distance(x: np.ndarray) -> tuple[float, np.ndarray]:
        rest = (given_case.dense @ x - given_case.answers) / given_case.scales
        return 0.5 * float(rest @ rest), given_case.dense.T @ (rest / given_case.scales)

    n = given_case.dense.shape[1]
    best = minimize(  # type: ignore[call-overload]
        distance,
        np.full(n, total / n),
        jac=True,
        method="SLSQP",
        bounds=[(0.0, None)] * n,
        constraints={"type": "eq", "fun": lambda x: x.sum() - total, "jac": np.ones_like},
        options={"maxiter": 2000, "ftol": 1e-13},
    )
    np.testing.assert_allclose(found.counts.sum(), total, rtol=1e-12)
    np.testing.assert_allclose(found.distance, best.fun, rtol=1e-5)
    np.testing.assert_allclose(found.answers, given_case.dense @ best.x, rtol=0, atol=1e-2)


@given(seeds, st.booleans())
def test_the_answers_are_those_of_the_table_that_comes_with_them(
    seed: int, has_total: bool
) -> None:
    given_case = case(seed)
    total = float(given_case.truth.sum()) if has_total else None
    found = given_case.found(total=total)
    assert (found.counts > 0).all()
    places = np.ravel_multi_index(tuple(found.cells.T), SIZES)
    x = np.zeros(given_case.dense.shape[1])
    x[places] = found.counts
    np.testing.assert_allclose(found.answers, given_case.dense @ x, rtol=1e-9, atol=1e-9)
    assert len(found.counts) <= len(given_case.answers) + 1
    assert found.gap <= 1e-5 * len(given_case.answers)


@given(seeds, st.booleans(), st.booleans())
def test_the_error_in_scales_is_never_larger_than_that_of_what_was_given(
    seed: int, signed: bool, has_total: bool
) -> None:
    """The truth is a non-negative table too, and projections bring nothing further from it."""
    given_case = case(seed, signed=signed)
    total = float(given_case.truth.sum()) if has_total else None
    found = given_case.found(total=total)
    true = given_case.dense @ given_case.truth
    before = np.square((given_case.answers - true) / given_case.scales).sum()
    after = np.square((found.answers - true) / given_case.scales).sum()
    assert after <= before + 2 * found.gap + 1e-9


@given(seeds)
def test_answers_that_are_consistent_stay(seed: int) -> None:
    given_case = case(seed)
    exact = given_case.dense @ given_case.truth
    found = nearest_table(
        given_case.cheapest,
        given_case.weights,
        exact,
        given_case.scales,
        total=None,
        max_steps=10_000,
    )
    # A gap of 1e-5 per answer is sqrt(2e-5 n) scales.
    np.testing.assert_allclose(found.answers, exact, rtol=0, atol=0.025 * 8.0)
    assert found.distance <= found.gap + 1e-12


@pytest.mark.parametrize("total", [None, 200.0])
def test_a_search_that_ends_early_says_what_is_left(total: float | None) -> None:
    """The gap is never less than the distance to the best table of a total that it is about."""
    n_bounded, gaps = 0, []
    for seed in range(20):
        given_case = case(seed)
        best = given_case.found(total=total)
        early = given_case.found(total=total, max_steps=1)
        gaps.append(early.gap)
        if total is not None or best.counts.sum() <= 1 + 2 * early.counts.sum():
            n_bounded += 1
            assert early.gap >= early.distance - best.distance - 1e-4
    assert n_bounded > 10
    assert max(gaps) > 1.0


def test_nothing_but_negative_answers_is_an_empty_table() -> None:
    given_case = case(0)
    found = nearest_table(
        given_case.cheapest,
        given_case.weights,
        -np.ones(30),
        given_case.scales,
        total=None,
        max_steps=100,
    )
    assert found.counts.tolist() == []
    assert found.answers.tolist() == [0.0] * 30
    assert str(found.gap) == "0.0"
