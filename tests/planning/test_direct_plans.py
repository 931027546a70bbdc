"""The cheapest way by rows alone, and how much of the ledger is evaluated to find it."""

from __future__ import annotations

import random
from collections.abc import Sequence
from fractions import Fraction

import pytest

from qserver.inference.engine import InferenceEngine
from qserver.ledger.cell_ledger import CellLedger
from qserver.planning.blocks.rent_or_buy import RentOrBuy
from qserver.planning.constants import PLANNER
from qserver.planning.holdings import Holdings
from qserver.planning.planner import Plan, plan_answer
from qserver.planning.row_candidates import RowCandidates
from qserver.query.linear_query import LinearQuery, linear_query
from qserver.query.primitive import Primitive, primitive
from qserver.query.requirement import Requirement
from qserver.query.weights import interval
from qserver.records.charge import NANO, AnyCharge
from qserver.records.history import TableMeasurement
from tests.benchmarks.synthetic_noise import Snapshot, question_of
from tests.query.dense_weights import scaled_weights

SIZE = 40
N_CELLS = 30


def part(low: int, high: int) -> Primitive:
    return primitive(linear_query((SIZE,), [(1, {0: interval(SIZE, low, high)})]))


@pytest.mark.slow
@pytest.mark.parametrize("phi", [0.7, float("inf")])
def test_of_all_ways_the_one_that_every_price_speaks_for_is_taken(phi: float) -> None:
    """Against pricing them all; phi brings tables, or none."""
    generator, snapshot = random.Random(8), Snapshot((SIZE,), rule=RentOrBuy(phi))
    n_compared = 0
    for _ in range(40):
        low, high = sorted(generator.sample(range(0, SIZE + 1, 3), 2))
        query = part(low, high)
        requirement = Requirement(generator.choice((20.0, 60.0, 200.0)), 0.95)
        plan = snapshot.plan_by_rows(query, requirement)
        if plan.kind != "free":
            holdings = Holdings(snapshot.engine, snapshot.ledger, snapshot.limit_nano)
            found = RowCandidates(question_of(query, requirement), holdings, plan.estimate)
            ways = [*found.own_rows(), *found.by_history()]
            best = min(
                ways,
                key=lambda c: (
                    holdings.priced(c.purchase).price_nano,
                    sum(row.charge_nano for row in c.rows),
                    len(c.rows),
                ),
            )
            assert (plan.rows, plan.weights) == (best.rows, best.weights)
            assert plan.price_nano == holdings.priced(best.purchase).price_nano
            n_compared += len(ways) > 1
        snapshot.ask(query, requirement)
    assert n_compared > 5


def test_where_the_own_row_costs_nothing_no_raise_of_many_rows_is_priced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """30 cells were measured, and one beside them so well that their sum is free of charge."""
    snapshot = Snapshot((SIZE,), rule=None)
    snapshot.ask(part(SIZE - 1, SIZE), Requirement(10.0, 0.95))
    for cell in range(N_CELLS):
        snapshot.ask(part(cell, cell + 1), Requirement(200.0, 0.95))
    assert snapshot.ledger.spent_nano > 0
    sizes: list[int] = []
    evaluate = CellLedger.spent_after

    def counted(ledger: CellLedger, charges: Sequence[AnyCharge]) -> int:
        sizes.append(len(charges))
        return evaluate(ledger, charges)

    monkeypatch.setattr(CellLedger, "spent_after", counted)
    question, requirement = part(0, N_CELLS), Requirement(200.0, 0.95)
    plan = snapshot.plan_by_rows(question, requirement)
    assert (plan.price_nano, len(plan.rows)) == (0, 1)
    assert PLANNER.most_priced_rows < N_CELLS
    assert sizes == [1]
    # Of few rows history is asked, but what charges more in all is not priced either.
    few, sizes[:] = part(0, PLANNER.most_priced_rows // 2), []
    plan = snapshot.plan_by_rows(few, requirement)
    assert (plan.price_nano, max(sizes)) == (0, 1)


SIXTEEN = (16,)
LARGE = 1 << 40
FINE = Fraction(1, 1 << 10)


def fours() -> Holdings:
    """The four fours of sixteen values are measured; the single values are not."""
    engine = InferenceEngine(SIXTEEN)
    partition = engine.tables.partition_of(((0, 1),))
    engine.extend([TableMeasurement(0, partition, NANO, FINE, (0, 0, 0, 0))])
    return Holdings(engine, CellLedger(SIXTEEN), 20 * NANO)


def large_with(tiny: dict[int, int]) -> LinearQuery:
    """The first four values with large weights, and the `tiny` weights by value."""
    weights = [LARGE if i < 4 else tiny.get(i, 0) for i in range(16)]
    return linear_query(SIXTEEN, [(1, {0: scaled_weights(weights)})])


def plan_by_fours(query: LinearQuery) -> Plan:
    return plan_answer(question_of(primitive(query), Requirement(1e14, 0.95)), fours())


def test_without_the_part_tables_answer() -> None:
    assert plan_by_fours(large_with({})).kind == "free"


@pytest.mark.parametrize("tiny", [{4: 1}, {4: 1, 5: -1}, {15: -1}])
def test_a_row_is_bought_for_the_part_that_tables_do_not_reach(tiny: dict[int, int]) -> None:
    """Floats see none of it: it is 2^-40 of the rest."""
    plan = plan_by_fours(large_with(tiny))
    assert plan.kind == "fresh"
    assert len(plan.rows) == 1


def test_a_tiny_part_that_tables_reach_is_free() -> None:
    """All four values of a part alike."""
    assert plan_by_fours(large_with(dict.fromkeys(range(8, 12), 1))).kind == "free"
