"""Branch and bound over a sum of tables, against every cell of a small domain."""

from __future__ import annotations

import random
from itertools import product

import numpy as np
import pytest

from qserver.ledger.cell_ledger import CellLedger
from qserver.ledger.loss import cell_shapes
from qserver.ledger.loss_tables import SumTable, zero_table
from qserver.ledger.proof import greatest_within
from qserver.planning.planner import Plan, proven
from qserver.query.grid import product_partition
from qserver.query.linear import LinearQuery, linear_query
from qserver.query.primitive import primitive
from qserver.query.weights import from_points
from qserver.records.charge import NANO, Charge, Relation, TableCharge
from qserver.records.paid_question import PaidQuestion
from qserver.records.plan import PlannedRow

SIZES = (4, 3, 5, 3)
WIDE = (40,) * 12


def a_row(generator: random.Random, sizes: tuple[int, ...], n_axes: int) -> LinearQuery:
    axes = {}
    for axis in generator.sample(range(len(sizes)), n_axes):
        chosen = generator.sample(range(sizes[axis]), generator.randint(1, sizes[axis] // 2))
        axes[axis] = from_points(sizes[axis], {i: generator.choice((1, 1, -2)) for i in chosen})
    return primitive(linear_query(sizes, [(1, axes)])).row


def tables_of(rows: list[LinearQuery], units: list[int]) -> list[SumTable]:
    losses = [
        shape.loss(u) for row, u in zip(rows, units, strict=True) for shape in cell_shapes(row)
    ]
    return [SumTable(loss.layout, loss.values) for loss in losses]


def greatest(rows: list[LinearQuery], units: list[int]) -> int:
    cells = product(*map(range, SIZES))
    return max(
        sum(-(-abs(r.value_at(c)) * u // 1) for r, u in zip(rows, units, strict=True))
        for c in cells
    )


@pytest.mark.parametrize("seed", range(25))
def test_a_search_finds_the_greatest_sum_and_no_less(seed: int) -> None:
    generator = random.Random(seed)
    rows = [a_row(generator, SIZES, generator.randint(1, 3)) for _ in range(9)]
    units = [generator.randrange(1, 1 << 20) for _ in rows]
    most = greatest(rows, units)
    tables = tables_of(rows, units)
    assert greatest_within(tables, level=most) == most
    assert greatest_within(tables, level=most - 1) is None
    loose = greatest_within(tables, level=2 * most)
    assert loose is not None
    assert most <= loose <= 2 * most


def test_what_a_search_says_is_a_bound_whatever_steps_it_has() -> None:
    generator = random.Random(7)
    rows = [a_row(generator, SIZES, 3) for _ in range(12)]
    units = [generator.randrange(1, 1 << 20) for _ in rows]
    most, tables = greatest(rows, units), tables_of(rows, units)
    answers = [greatest_within(tables, level=most, max_nodes=n) for n in range(40)]
    assert answers[0] is None
    assert answers[-1] == most
    assert set(answers) == {None, most}


def test_what_every_cell_has_is_counted() -> None:
    everywhere = zero_table()
    everywhere.values += np.int64(5)
    assert greatest_within([everywhere], level=5) == 5
    assert greatest_within([everywhere], level=4) is None
    row = linear_query(SIZES, [(1, {0: from_points(4, {1: 1})})])
    assert greatest_within([everywhere, *tables_of([row], [3])], level=8) == 8


def a_wide_ledger(generator: random.Random, n_rows: int) -> tuple[CellLedger, list[Charge]]:
    ledger = CellLedger(WIDE)
    charges = [
        Charge(a_row(generator, WIDE, generator.randint(2, 3)), generator.randrange(1, NANO), "j")
        for _ in range(n_rows)
    ]
    ledger.extend(charges)
    return ledger, charges


@pytest.mark.slow
def test_a_search_proves_less_than_the_quick_bound_of_a_wide_domain() -> None:
    generator = random.Random(3)
    ledger, charges = a_wide_ledger(generator, 60)
    new = Charge(a_row(generator, WIDE, 3), NANO, "j")
    quick = ledger.spent_after([new])
    assert quick > ledger.spent_nano
    # The quick figure never falls; a ledger that takes all in at once shows what can be proven.
    anew = CellLedger(WIDE)
    anew.extend([*charges, new])
    assert ledger.within([new], quick) == quick
    low = _least_proven(ledger, new, quick)
    assert ledger.spent_nano <= low <= quick
    assert low < quick
    assert low >= _some_loss([*charges, new], generator)


def _least_proven(ledger: CellLedger, new: Charge, quick: int) -> int:
    found = quick
    for part in range(100, 80, -1):
        proven_after = ledger.within([new], quick * part // 100)
        if proven_after is None:
            break
        found = min(found, proven_after)
    return found


def _some_loss(charges: list[Charge], generator: random.Random) -> int:
    """The greatest loss that a search from many cells climbs to: no cell has less than it."""
    best = 0
    for _ in range(5):
        cell = [generator.randrange(s) for s in WIDE]
        for _ in range(3):
            for axis, size in enumerate(WIDE):
                tried = [
                    (_loss(charges, [*cell[:axis], v, *cell[axis + 1 :]]), v) for v in range(size)
                ]
                cell[axis] = max(tried)[1]
        best = max(best, _loss(charges, cell))
    return best


def _loss(charges: list[Charge], cell: list[int]) -> int:
    return int(sum(abs(c.row.value_at(cell)) * c.alpha_nano for c in charges))


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
def test_within_is_spent_after_where_that_is_allowed(relation: Relation) -> None:
    ledger = CellLedger(SIZES, relation=relation)
    generator = random.Random(1)
    ledger.append(Charge(a_row(generator, SIZES, 2), 500, "j"))
    halves = product_partition(SIZES, {0: [0, 0, 1, 1]})
    new = TableCharge(halves, 300, (), "j")
    after = ledger.spent_after([new])
    assert ledger.within([new], after) == after
    assert ledger.within([new], after + 7) == after
    assert ledger.within([new], after - 1) is None


def test_nothing_is_within_less_than_what_is_spent() -> None:
    ledger = CellLedger(SIZES)
    row = a_row(random.Random(1), SIZES, 2)
    ledger.append(Charge(row, 500, "j"))
    assert ledger.within([], 499) is None


@pytest.mark.slow
def test_a_plan_over_the_limit_is_taken_where_the_loss_is_proven_to_fit() -> None:
    generator = random.Random(3)
    ledger, _ = a_wide_ledger(generator, 60)
    row = a_row(generator, WIDE, 3)
    charge = Charge(row, NANO, "plan")
    quick = ledger.spent_after([charge])
    price = quick - ledger.spent_nano
    planned = PlannedRow(row, primitive(row).key, NANO, 1)  # type: ignore[arg-type]
    paid = (PaidQuestion(row, 1.0, 0.9, "fresh", price),)
    plan = Plan("fresh", (planned,), price, quick, None, (), (), paid)
    allowed = _least_proven(ledger, charge, quick)
    assert proven(plan, ledger=ledger, allowed_nano=quick) is plan
    found = proven(plan, ledger=ledger, allowed_nano=allowed)
    assert found.spent_after_nano <= allowed < quick
    assert found.price_nano == found.spent_after_nano - ledger.spent_nano
    assert found.paid[0].price_nano == found.price_nano
    assert proven(plan, ledger=ledger, allowed_nano=ledger.spent_nano - 1) is plan
