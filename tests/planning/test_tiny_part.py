"""A question with a part far below rounding that no table reaches is not answered from tables."""

from __future__ import annotations

from fractions import Fraction

import pytest

from qserver.inference.engine import InferenceEngine
from qserver.ledger.cell_ledger import CellLedger
from qserver.planning.holdings import Holdings
from qserver.planning.planner import Plan, plan_answer
from qserver.query.linear import LinearQuery, linear_query
from qserver.query.primitive import primitive
from qserver.query.requirement import Requirement
from qserver.records.charge import NANO
from qserver.records.history import TableMeasurement
from tests.benchmarks.synthetic_noise import question_of
from tests.query.dense_weights import scaled_weights

SIZES = (16,)
LARGE = 1 << 40
STEP = Fraction(1, 1 << 10)


def holdings() -> Holdings:
    """The four fours of sixteen values are measured; the single values are not."""
    engine = InferenceEngine(SIZES)
    partition = engine.tables.partition_of(((0, 1),))
    engine.extend([TableMeasurement(0, partition, NANO, STEP, (0, 0, 0, 0))])
    return Holdings(engine, CellLedger(SIZES), 20 * NANO)


def large_with(tiny: dict[int, int]) -> LinearQuery:
    """The first four values with large weights, and the `tiny` weights by value."""
    weights = [LARGE if i < 4 else tiny.get(i, 0) for i in range(16)]
    return linear_query(SIZES, [(1, {0: scaled_weights(weights)})])


def plan_of(query: LinearQuery) -> Plan:
    return plan_answer(question_of(primitive(query), Requirement(1e14, 0.95)), holdings())


def test_without_the_part_tables_answer() -> None:
    assert plan_of(large_with({})).kind == "free"


@pytest.mark.parametrize("tiny", [{4: 1}, {4: 1, 5: -1}, {15: -1}])
def test_a_row_is_bought_for_the_part_that_tables_do_not_reach(tiny: dict[int, int]) -> None:
    """Floats see none of it: it is 2^-40 of the rest."""
    plan = plan_of(large_with(tiny))
    assert plan.kind == "fresh"
    assert len(plan.rows) == 1


def test_a_tiny_part_that_tables_reach_is_free() -> None:
    """All four values of a part alike."""
    assert plan_of(large_with(dict.fromkeys(range(8, 12), 1))).kind == "free"
