"""The cheapest way by rows alone, and how much of the ledger is evaluated to find it."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from qserver.ledger.cell_ledger import CellLedger
from qserver.planning.blocks.rent_or_buy import RentOrBuy
from qserver.planning.candidates import RowCandidates
from qserver.planning.constants import PLANNER
from qserver.planning.holdings import Holdings
from qserver.query.linear import linear_query
from qserver.query.primitive import Primitive, primitive
from qserver.query.requirement import Requirement
from qserver.query.weights import interval
from qserver.records.charge import AnyCharge
from tests.benchmarks.synthetic_noise import Snapshot, question_of

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
        low, high = sorted(generator.sample(range(0, SIZE + 1, 4), 2))
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
