"""Chains of rows and table cells in the planner's own plans: each continues from the better."""

from __future__ import annotations

import random
from fractions import Fraction

import pytest

from qserver.planning.purchase import Purchase
from qserver.query.requirement import Requirement
from qserver.records.charge import Relation
from tests.benchmarks.synthetic_noise import Snapshot
from tests.planning.test_rent_or_buy import part, small_question
from worker.spending.answers_in_force import Live


def test_a_table_continues_from_the_rows_that_are_its_cells() -> None:
    """The cell that was a row pays the difference only, and says so in the charge."""
    snapshot = Snapshot((12,))
    cell = part(3, 4)
    row = snapshot.ask(cell, Requirement(40.0, 0.95)).rows[0]
    raises: dict[tuple[tuple[int, int], ...], int] = {((0, 1),): 2 * row.alpha_nano}
    (table,) = snapshot.holdings.tables(raises)
    assert [(s.row, s.alpha_nano) for s in table.sources] == [(0, row.alpha_nano)]
    assert table.partition.row(table.sources[0].cell) == cell.row
    assert table.paid == ((table.sources[0].cell, row.alpha_nano),)
    assert table.step == Fraction(1, 2**34)


def test_a_row_that_is_a_cell_of_a_better_table_continues_from_there() -> None:
    snapshot, cell = Snapshot((12,)), part(3, 4)
    first = snapshot.ask(cell, Requirement(40.0, 0.95)).rows[0]
    snapshot.rule = None
    (table,) = snapshot.holdings.tables({((0, 1),): 2 * first.alpha_nano})
    snapshot.buy(Purchase(tables=(table,)))
    plan = snapshot.ask(cell, Requirement(15.0, 0.95))
    (row,) = plan.rows
    assert row.refines == 0
    assert row.cell is not None
    assert row.cell.table == 1
    assert row.old_alpha_nano == 2 * first.alpha_nano
    assert plan.price_nano == row.alpha_nano - 2 * first.alpha_nano
    neighbour = snapshot.ask(part(4, 5), Requirement(15.0, 0.95)).rows[0]
    assert neighbour.refines is None
    assert neighbour.old_alpha_nano == 2 * first.alpha_nano
    (raised,) = snapshot.holdings.tables({((0, 1),): 3 * first.alpha_nano})
    assert [s.row for s in raised.sources] == [0, 2]
    assert raised.refines == 1


def test_a_row_measured_twice_over_is_no_cells_row() -> None:
    """Its two noises are independent, and inference takes them for that: neither is continued."""
    snapshot, cell = Snapshot((12,), rule=None), part(3, 4)
    snapshot.ask(cell, Requirement(40.0, 0.95))
    again = snapshot.holdings.anew(cell).raised(10**8)
    snapshot.buy(Purchase((again,)))
    (table,) = snapshot.holdings.tables({((0, 1),): 10**9})
    assert table.sources == ()
    snapshot.buy(Purchase(tables=(table,)))
    assert all(row.cell is None for row in snapshot.plan(cell, Requirement(2.0, 0.95)).rows)


@pytest.mark.slow
@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
def test_every_plan_passes_the_check_of_the_side_that_draws_it(relation: Relation) -> None:
    """No chain of noises is split: cells asked for beside ranges, rows and tables in turn."""
    generator = random.Random(17)
    snapshot = Snapshot((12,), relation)
    linked = 0
    for _ in range(24):
        low = generator.randrange(12)
        query, requirement = small_question(generator)
        if generator.random() < 0.6:
            query = part(low, low + 1)
            requirement = Requirement(generator.choice((90.0, 40.0, 20.0, 9.0)), 0.95)
        plan = snapshot.plan(query, requirement)
        Live(snapshot.live).check((*plan.rows, *plan.tables))
        linked += sum(row.cell is not None for row in plan.rows)
        linked += sum(len(table.sources) for table in plan.tables)
        snapshot.carry_out(plan, query)
    assert linked > 3
