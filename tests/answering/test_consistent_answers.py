"""Consistent answers: of one non-negative table, at no cost, refused where too large."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import nnls

from qserver.answering import consistency as consistent_answers
from qserver.answering.answer import PUBLIC_CONFIDENCE, public_total
from qserver.answering.consistency import MAX_CELLS, ConsistentWorkload
from qserver.errors import CapacityError
from qserver.models.marginals.fit.nearest_table import NearestTable, nearest_table
from qserver.query.linear_query import LinearQuery, linear_query, total_query
from qserver.query.question import Question, Workload
from qserver.query.requirement import Requirement
from qserver.records.answer import Answer, JobStatus, Offer
from qserver.records.privacy.noise_law import GAUSSIAN, LAPLACE
from qserver.service.statement_answers import StatementAnswer
from qserver.service.statements import Statements
from tests.deployment import ROWS, Deployment
from tests.query.dense_weights import scaled_weights
from tests.query.small_queries import DenseQuery, cells, dense_queries

SIZES = (3, 2, 4)


def answer(estimate: float, *, half_width: float, confidence: float = 0.95) -> Answer:
    return Answer(
        estimate=estimate,
        low=estimate - half_width,
        high=estimate + half_width,
        confidence=confidence,
        confidence_attained=confidence,
        source="history",
        charged_nano=0,
        remaining_nano=0,
        evidence=(),
        weights="blue",
        version=0,
    )


def marginal(sizes: tuple[int, ...], axis: int) -> list[LinearQuery]:
    rows = np.eye(sizes[axis], dtype=int).tolist()
    return [linear_query(sizes, [(1, {axis: scaled_weights(row)})]) for row in rows]


@given(st.lists(dense_queries(SIZES), min_size=1, max_size=8), st.integers(0, 2**32 - 1))
def test_any_linear_queries_get_what_least_squares_over_all_cells_gives(
    queries: list[DenseQuery], seed: int
) -> None:
    """Several terms, fractions, negative weights, zero queries: by their definition, with nnls."""
    generator = np.random.default_rng(seed)
    given_answers = [
        answer(float(e), half_width=float(w), confidence=float(c))
        for e, w, c in zip(
            generator.normal(0, 40, len(queries)),
            generator.uniform(1, 20, len(queries)),
            generator.uniform(0.5, 0.99, len(queries)),
            strict=True,
        )
    ]
    found = ConsistentWorkload([q.query() for q in queries]).answers(
        given_answers, total=None, law=LAPLACE
    )
    dense = np.array([[float(q.vector()[c]) for c in cells(SIZES)] for q in queries])
    scales = np.array(
        [(a.high - a.low) / 2 / math.log(1 / (1 - a.confidence)) for a in given_answers]
    )
    aim = np.array([a.estimate for a in given_answers])
    x, _ = nnls(dense / scales[:, None], aim / scales)
    best = 0.5 * np.square((dense @ x - aim) / scales).sum()
    np.testing.assert_allclose(found.distance, best, rtol=1e-5, atol=1e-5 * len(queries))
    moved = (np.array(found.estimates) - dense @ x) / scales
    assert np.abs(moved).max() <= 0.02


def test_parts_add_up_and_nothing_is_below_zero() -> None:
    """By hand: -4 is the nearest to 0; its 4 is shared by the total and three other cells."""
    queries = [*marginal(SIZES, 2), total_query(SIZES)]
    given_answers = [answer(e, half_width=3.0) for e in (-4.0, 10.0, 10.0, 20.0, 36.0)]
    found = ConsistentWorkload(queries).answers(given_answers, total=None, law=LAPLACE)
    np.testing.assert_allclose(found.estimates, [0.0, 9.0, 9.0, 19.0, 37.0], atol=1e-3)
    assert found.total is None


def test_a_public_total_is_respected() -> None:
    """Two cells that claim 30 and 10 of 36: both give way alike."""
    queries = [*marginal((2,), 0), total_query((2,))]
    given_answers = [answer(30.0, half_width=3.0), answer(10.0, half_width=3.0)]
    exact = answer(36.0, half_width=0.0)
    found = ConsistentWorkload(queries).answers([*given_answers, exact], total=36, law=LAPLACE)
    np.testing.assert_allclose(found.estimates, [28.0, 8.0, 36.0], atol=1e-3)
    assert found.total == 36


def test_answers_of_several_confidences_give_way_by_their_noise() -> None:
    """Two cells and their sum, whose intervals are as long: the surer one has less noise.

    The nearest by squares moves each by its variance, which is that of its own law.
    """
    queries = [*marginal((2,), 0), total_query((2,))]
    given_answers = [answer(30.0, half_width=3.0), answer(10.0, half_width=3.0)]
    given_answers[1] = replace(given_answers[1], confidence=0.999)
    for law, halves in (
        (LAPLACE, (-math.log(0.05), -math.log(0.001))),
        (GAUSSIAN, (1.959963985, 3.290526731)),
    ):
        exact = answer(36.0, half_width=0.0)
        found = ConsistentWorkload(queries).answers([*given_answers, exact], total=36, law=law)
        first, second = (1.0 / one**2 for one in halves)
        moved = 4.0 * first / (first + second)
        np.testing.assert_allclose(found.estimates[0], 30.0 - moved, atol=2e-3)


def test_the_same_answers_are_looked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any change of a question, an answer, its scale or the total is another search."""
    searches = []

    def counted(*args: Any, **keywords: Any) -> NearestTable:
        searches.append(keywords["total"])
        return nearest_table(*args, **keywords)

    monkeypatch.setattr(consistent_answers, "nearest_table", counted)
    monkeypatch.setattr(consistent_answers, "_kept", consistent_answers._Kept())
    queries = marginal(SIZES, 0)
    numbers = [answer(e, half_width=4.0) for e in (-3.0, 5.0, 9.0)]
    first = ConsistentWorkload(queries).answers(numbers, total=12, law=LAPLACE)
    assert ConsistentWorkload(queries).answers(numbers, total=12, law=LAPLACE) == first
    assert len(searches) == 1
    moved = [numbers[0], answer(5.5, half_width=4.0), numbers[2]]
    surer = [numbers[0], answer(5.0, half_width=2.0), numbers[2]]
    others = marginal(SIZES, 2)[:3]
    found = [
        ConsistentWorkload(queries).answers(moved, total=12, law=LAPLACE),
        ConsistentWorkload(queries).answers(surer, total=12, law=LAPLACE),
        ConsistentWorkload(queries).answers(numbers, total=13, law=LAPLACE),
        ConsistentWorkload(queries).answers(numbers, total=None, law=LAPLACE),
        ConsistentWorkload(others).answers(numbers, total=12, law=LAPLACE),
    ]
    assert len(searches) == 6
    assert sum(found[2].estimates) == pytest.approx(13.0)
    assert len({f.estimates for f in found}) == 5


def test_only_the_last_workloads_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = consistent_answers._Kept()
    monkeypatch.setattr(consistent_answers, "_kept", kept)
    queries = marginal(SIZES, 0)
    for total in range(1, consistent_answers.MAX_KEPT + 10):
        ConsistentWorkload(queries).answers(
            [answer(4.0, half_width=4.0)] * 3, total=total, law=LAPLACE
        )
    assert len(kept._found) == consistent_answers.MAX_KEPT
    assert max(a.total or 0 for a in kept._found) == consistent_answers.MAX_KEPT + 9


def test_answers_without_noise_are_left_as_they_are() -> None:
    found = ConsistentWorkload([total_query((2,))]).answers(
        [answer(7, half_width=0)], total=7, law=LAPLACE
    )
    assert (found.estimates, found.distance, found.gap) == ((7.0,), 0.0, 0.0)


def test_only_what_is_known_exactly_is_a_public_total() -> None:
    assert public_total(Offer(499.9999999999, 500.0000000001, PUBLIC_CONFIDENCE)) == 500
    assert public_total(Offer(499.9, 500.1, PUBLIC_CONFIDENCE)) is None
    assert public_total(None) is None


def test_questions_that_join_too_many_values_are_refused_by_name() -> None:
    sizes = (50, 50, 50)
    joined = [
        linear_query(sizes, [(1, {a: scaled_weights(row) for a in (0, 1, 2)})])
        for row in np.eye(50, dtype=int).tolist()
    ]
    with pytest.raises(CapacityError, match=rf"`consistent` needs tables .* {MAX_CELLS:,}"):
        ConsistentWorkload(joined)
    # Each attribute by itself is small, however many there are.
    ConsistentWorkload([q for axis in range(3) for q in marginal(sizes, axis)])


def test_terms_that_hold_too_many_weights_are_refused_by_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("qserver.answering.consistency.MAX_WEIGHTS", 3)
    ConsistentWorkload(marginal(SIZES, 0))
    with pytest.raises(CapacityError, match=r"`consistent` needs the weights"):
        ConsistentWorkload(marginal(SIZES, 2))


@pytest.fixture
def town(tmp_path: Path, store_url: str) -> Deployment:
    return Deployment.make(tmp_path, store_url, limit="10", relation="replace-one")


def statement(town: Deployment, text: str) -> StatementAnswer:
    for _ in range(2):
        found = Statements(town.service()).run("people", text, wait_s=0)
        if isinstance(found, StatementAnswer):
            return found
        assert isinstance(found, JobStatus)
        town.work_off()
    raise AssertionError("A statement whose questions were answered must be free.")


@pytest.mark.slow
def test_on_a_real_deployment_they_cost_nothing_and_add_up_to_the_public_total(
    town: Deployment,
) -> None:
    """Under replace-one with every value clamped or labelled the number of records is public."""
    text = "SELECT age, COUNT(*) FROM people GROUP BY age WITHIN 60"
    plain = statement(town, text)
    spent = town.service().dataset("people").spent_nano
    found = statement(town, f"{text} CONSISTENT")
    assert town.service().dataset("people").spent_nano == spent > 0
    assert [row[0].value for row in found.cells] == [row[0].value for row in plain.cells]
    assert all(row[0].consistent is None for row in plain.cells)
    values = [row[0].consistent for row in found.cells]
    assert town.service().insight.total("people") == len(ROWS)
    np.testing.assert_allclose(sum(v for v in values if v is not None), len(ROWS), rtol=1e-9)
    assert min(v for v in values if v is not None) >= 0.0


def test_a_quotient_of_one_table_lies_between_its_public_bounds(town: Deployment) -> None:
    women = "COUNT_IF(sex = 'Female') / COUNT(*) WITHIN 0.2"
    text = f"SELECT {women}, COUNT(*) FROM people WITHIN 0.2 CONSISTENT"
    found = statement(town, f"{text} ASSUMING AT LEAST 200")
    share, count = (cell.consistent for cell in found.cells[0])
    assert share is not None
    assert count is not None
    assert 0.0 <= share <= 1.0
    np.testing.assert_allclose(count, len(ROWS))


def test_under_add_remove_the_total_is_not_public(tmp_path: Path, store_url: str) -> None:
    town = Deployment.make(tmp_path, store_url, limit="10")
    queries = [town.service().parse("people", {"where": {"age": a}}) for a in range(20, 30)]
    workload = Workload(tuple(Question(q, Requirement(40, 0.95)) for q in queries))
    given_answers = town.ask_workload(workload).answers
    assert town.service().insight.total("people") is None
    found = ConsistentWorkload(queries).answers(given_answers, total=None, law=LAPLACE)
    # Ages apart are consistent as they are, but for what is below zero.
    np.testing.assert_allclose(
        found.estimates, [max(0.0, a.estimate) for a in given_answers], atol=1e-2
    )
