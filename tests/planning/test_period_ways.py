"""Ways period by period beside tables: their weights are on rows that are there once it is bought.

A period whose cell of a table has less noise than the common level once got a weight and no row.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from qserver.inference.engine import InferenceEngine
from qserver.ledger.cell_ledger import CellLedger
from qserver.ledger.noise_step import lattice_step
from qserver.planning.by_period import PeriodWays
from qserver.planning.holdings import Holdings
from qserver.planning.planner import Plan
from qserver.planning.row_candidates import Candidate
from qserver.query.class_grid import product_partition
from qserver.query.linear_query import LinearQuery, linear_query
from qserver.query.primitive import primitive
from qserver.query.question import Question
from qserver.query.requirement import Requirement
from qserver.query.weights import Weights, from_points, interval
from qserver.records.charge import NANO, Charge, TableCharge
from qserver.records.history import Measurement, TableMeasurement
from qserver.records.paid_question import PaidQuestion
from qserver.records.plan import PlannedRow

SIZES = (6, 2)
SEALED = 5
LIMIT = 1000 * NANO
STEP = lattice_step(
    primitive(linear_query(SIZES, [(1, {})])).unit, limit_nano=LIMIT, records_per_person=1
)


def weeks(low: int, high: int) -> LinearQuery:
    return linear_query(SIZES, [(1, {0: interval(6, low, high)})])


def history(table: float, *, n_weeks: int, own: dict[int, float]) -> Holdings:
    """Counts of the first weeks as a table, and rows of single weeks, at these alphas."""
    engine, ledger = InferenceEngine(SIZES, apart=0), CellLedger(SIZES)
    part = product_partition(SIZES, {0: [*range(n_weeks), *[-1] * (6 - n_weeks)]})
    nano = round(table * NANO)
    engine.extend([TableMeasurement(0, part, nano, STEP, (0,) * part.n_cells)])
    ledger.append(TableCharge(part, nano, (), "job"))
    for week, alpha in own.items():
        row, nano = primitive(weeks(week, week + 1)), round(alpha * NANO)
        engine.extend([Measurement(engine.n_measurements, row.row, row.key, nano, STEP, 0)])
        ledger.append(Charge(row.row, nano, "job"))
    return Holdings(engine, ledger, LIMIT, period_axis=0, kept=range(SEALED))


def released(holdings: Holdings, rows: tuple[PlannedRow, ...]) -> InferenceEngine:
    """History once these rows are measured, whatever comes out."""
    engine = holdings.engine.tried()
    for row in rows:
        number = engine.n_measurements if row.refines is None else row.refines
        engine.extend([Measurement(number, row.row, row.key, row.alpha_nano, row.step, 0)])
    return engine


def is_met(question: Question, holdings: Holdings, found: Candidate | Plan) -> bool:
    """Whether the weights of a way give the question, exactly enough, on what is then released."""
    engine = released(holdings, found.rows)
    rows = [engine.measurement(i) for i, _ in found.weights]
    for cell in product(*map(range, SIZES)):
        total = sum(w * r.row.value_at(cell) for r, (_, w) in zip(rows, found.weights, strict=True))
        assert total == question.row.row.value_at(cell)
    estimate = engine.estimate_with(question.row, found.weights, confidence=question.confidence)
    assert estimate is not None
    return estimate.half_width <= question.row_half_width


LAYOUTS = {
    "cells less noisy than the level": history(4.0, n_weeks=4, own={4: 0.02}),
    "a row with a better cell": history(4.0, n_weeks=4, own={1: 0.001, 4: 0.02}),
    "a row better than its cell": history(0.01, n_weeks=4, own={1: 4.0, 4: 0.02}),
    "cells and no rows": history(4.0, n_weeks=3, own={}),
    "noisy cells": history(0.001, n_weeks=4, own={4: 3.0}),
}


@pytest.mark.parametrize("name", LAYOUTS)
@pytest.mark.parametrize("length", [20.0, 200.0])
def test_a_way_period_by_period_is_met_by_the_rows_that_it_buys(name: str, length: float) -> None:
    holdings = LAYOUTS[name]
    n_ways = 0
    for low, high in ((0, SEALED), (1, SEALED), (0, 3)):
        question = Question(weeks(low, high), Requirement(length, 0.95))
        for found in PeriodWays(question, holdings, 0).candidates():
            n_ways += 1
            new = [row for row in found.rows if row.refines is None]
            assert all(i < holdings.engine.n_measurements + len(new) for i, _ in found.weights)
            assert is_met(question, holdings, found)
    assert n_ways


def looser(found: Candidate, part: float) -> Candidate:
    """The same way with this part of each alpha."""
    rows = [replace(row, alpha_nano=round(part * row.alpha_nano)) for row in found.rows]
    return replace(found, rows=tuple(rows))


@pytest.mark.parametrize("step", range(6))
def test_a_way_period_by_period_is_no_more_exact_than_it_needs_to_be(step: int) -> None:
    """At lengths a quarter apart, so that no start of a search helps all of them."""
    holdings = history(0.0001, n_weeks=1, own={})
    question = Question(weeks(0, SEALED), Requirement(20.0 * 1.25**step, 0.95))
    [found] = PeriodWays(question, holdings, 0).candidates()
    assert is_met(question, holdings, found)
    assert not is_met(question, holdings, looser(found, 0.99))


def test_a_way_that_refines_a_row_is_called_so_also_with_new_rows() -> None:
    holdings = history(0.0001, n_weeks=1, own={2: 0.01})
    kinds = []
    for low in (2, 3):
        question = Question(weeks(low, SEALED), Requirement(20.0, 0.95))
        [found] = PeriodWays(question, holdings, 0).candidates()
        is_old = [row.refines is not None for row in found.rows]
        assert is_old == [week == 2 for week in range(low, SEALED)]
        kinds.append(found.kind)
    assert kinds == ["refined", "combined"]


IN_0, IN_1 = {1: interval(2, 0, 1)}, {1: interval(2, 1, 2)}
RISING = {0: from_points(6, {2: 1, 3: 2, 4: 3})}


@pytest.mark.parametrize(
    ("paid", "expected"),
    [
        ([(1, {0: interval(6, 0, 3), **IN_0})], True),
        ([(2, {0: interval(6, 3, 6), **IN_0})], True),
        ([(1, {**RISING, **IN_0})], True),
        ([(1, {0: interval(6, 0, 3), **IN_1})], False),
        ([(1, {0: interval(6, 0, 2), **IN_0})], False),
        ([(1, {0: interval(6, 0, 3)})], False),
        # Only the first common period counts: both halves are counted there, then one.
        ([(1, {0: interval(6, 2, 6), **IN_0}), (1, {0: interval(6, 2, 3), **IN_1})], False),
        ([(1, {0: interval(6, 2, 6), **IN_0}), (1, {0: interval(6, 3, 6), **IN_1})], True),
    ],
)
def test_a_question_returns_if_a_paid_one_counts_the_same_in_a_common_period(
    paid: list[tuple[int, dict[int, Weights]]], expected: bool
) -> None:
    asked = linear_query(SIZES, [(1, {0: interval(6, 2, 5), **IN_0})])
    ways = PeriodWays(Question(asked, Requirement(50, 0.95)), history(1e-3, n_weeks=5, own={}), 0)
    row = primitive(linear_query(SIZES, paid)).row
    assert ways.returns([PaidQuestion(row, 50.0, 0.95, "refine", 1)]) is expected
