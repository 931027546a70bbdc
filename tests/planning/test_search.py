"""Branch and bound over a sum of tables, against every cell of a small domain."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from qserver.ledger import branch_and_bound
from qserver.ledger.branch_and_bound import greatest, outside
from qserver.ledger.cell_ledger import CellLedger
from qserver.ledger.constants import LIMITS
from qserver.ledger.loss import cell_shapes
from qserver.ledger.loss_tables import SumTable, zero_table
from qserver.planning.planner import Plan, proven
from qserver.query.linear_query import LinearQuery, linear_query
from qserver.query.primitive import primitive
from qserver.query.weights import from_points
from qserver.records.charge import NANO, Charge
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


def by_hand(
    rows: list[LinearQuery], units: list[int], where: dict[int, list[int]] | None = None
) -> int:
    cells = product(*((where or {}).get(axis, range(size)) for axis, size in enumerate(SIZES)))
    return max(
        sum(-(-abs(r.value_at(c)) * u // 1) for r, u in zip(rows, units, strict=True))
        for c in cells
    )


@pytest.mark.parametrize("seed", range(25))
def test_a_search_finds_the_greatest_sum_and_no_less(seed: int) -> None:
    generator = random.Random(seed)
    rows = [a_row(generator, SIZES, generator.randint(1, 3)) for _ in range(9)]
    units = [generator.randrange(1, 1 << 20) for _ in rows]
    most, tables = by_hand(rows, units), tables_of(rows, units)
    assert greatest(tables, enough=-1) == greatest(tables, enough=most - 1) == most
    assert greatest(tables, enough=most) == most
    assert greatest(tables, enough=2 * most) == 2 * most
    assert greatest(tables, enough=-1, most=most) == most
    assert greatest(tables, enough=-1, most=most - 1) is None


@pytest.mark.parametrize("seed", range(25))
def test_a_search_of_some_cells_finds_the_greatest_sum_of_those(seed: int) -> None:
    generator = random.Random(seed)
    rows = [a_row(generator, SIZES, generator.randint(1, 3)) for _ in range(9)]
    units = [generator.randrange(1, 1 << 20) for _ in rows]
    where = {
        axis: sorted(generator.sample(range(SIZES[axis]), generator.randint(1, SIZES[axis])))
        for axis in generator.sample(range(4), 2)
    }
    some = {axis: np.array(values) for axis, values in where.items()}
    tables = [outside(table, some) for table in tables_of(rows, units)]
    assert greatest(tables, enough=-1) == by_hand(rows, units, where)


def test_what_a_search_says_is_a_bound_whatever_steps_it_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    generator = random.Random(7)
    rows = [a_row(generator, SIZES, 3) for _ in range(12)]
    units = [generator.randrange(1, 1 << 20) for _ in rows]
    most, tables = by_hand(rows, units), tables_of(rows, units)
    found = []
    for n in range(0, 2_000, 100):
        few = replace(LIMITS, proof_group=8, proof_looks=n)
        monkeypatch.setattr(branch_and_bound, "LIMITS", few)
        found.append(greatest(tables, enough=-1) or 0)
    assert found == sorted(found, reverse=True)
    assert found[0] > found[-1] == most


def test_tables_that_were_not_tried_together_still_count(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = random.Random(8)
    rows = [a_row(generator, SIZES, 3) for _ in range(12)]
    units = [generator.randrange(1, 1 << 20) for _ in rows]
    most, tables, found = by_hand(rows, units), tables_of(rows, units), []
    for n in (0, 1, 3, 1000):
        few = replace(LIMITS, proof_looks=0, proof_joins=n)
        monkeypatch.setattr(branch_and_bound, "LIMITS", few)
        found.append(greatest(tables, enough=-1) or 0)
    assert min(found) >= most
    assert found[0] > found[-1]


def test_what_every_cell_has_is_counted() -> None:
    everywhere = zero_table()
    everywhere.values += np.int64(5)
    assert greatest([everywhere], enough=4) == greatest([everywhere], enough=5) == 5
    row = linear_query(SIZES, [(1, {0: from_points(4, {1: 1})})])
    assert greatest([everywhere, *tables_of([row], [3])], enough=0) == 8


def a_wide_ledger(generator: random.Random, n_rows: int) -> tuple[CellLedger, list[Charge]]:
    ledger = CellLedger(WIDE)
    charges = [
        Charge(a_row(generator, WIDE, generator.randint(2, 3)), generator.randrange(1, NANO), "j")
        for _ in range(n_rows)
    ]
    ledger.extend(charges)
    return ledger, charges


@pytest.mark.slow
def test_a_search_finds_the_spending_of_a_wide_domain_charge_by_charge() -> None:
    """Step by step they cost what they cost in one go."""
    generator = random.Random(3)
    charges = [
        Charge(a_row(generator, WIDE, generator.randint(1, 2)), generator.randrange(1, NANO), "j")
        for _ in range(24)
    ]
    ledger, quick = CellLedger(WIDE), CellLedger(WIDE)
    for charge in charges:
        quick.append(charge)
        before, at_most = ledger.spent_nano, ledger.spent_after([charge])
        after = ledger.settled_after([charge])
        assert before <= after <= at_most
        ledger.append(charge)
        ledger.cap(after)
        assert after <= quick.spent_nano
    assert CellLedger(WIDE).settled_after(charges) == ledger.spent_nano
    assert ledger.spent_nano >= _some_loss(charges, generator)


@pytest.mark.slow
def test_a_plan_that_passes_the_limit_keeps_the_quick_bound_and_no_other_one_does() -> None:
    generator = random.Random(5)
    ledger, _ = a_wide_ledger(generator, 40)
    charge = Charge(a_row(generator, WIDE, 3), NANO, "plan")
    quick, least = ledger.spent_after([charge]), ledger.settled_after([charge])
    assert least < quick
    assert ledger.settled_after([charge], allowed_nano=least) == least
    assert ledger.settled_after([charge], allowed_nano=least - 1) == quick


@pytest.mark.slow
def test_the_order_and_batches_of_earlier_charges_do_not_change_what_is_charged() -> None:
    generator = random.Random(4)
    _, charges = a_wide_ledger(generator, 30)
    new = [Charge(a_row(generator, WIDE, 2), NANO, "j")]
    afters = set()
    for n in (1, 7, 30):
        ledger, mixed = CellLedger(WIDE), charges[:]
        generator.shuffle(mixed)
        for i in range(0, 30, n):
            ledger.extend(mixed[i : i + n])
            ledger.cap(40 * NANO)
        ledger.cap(NANO * 9 // 2)
        afters.add(ledger.settled_after(new))
    assert len(afters) == 1


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


@pytest.mark.slow
def test_a_plan_is_charged_what_a_search_finds_and_not_the_quick_bound() -> None:
    generator = random.Random(3)
    ledger, _ = a_wide_ledger(generator, 60)
    row = a_row(generator, WIDE, 3)
    quick = ledger.spent_after([Charge(row, NANO, "plan")])
    price = quick - ledger.spent_nano
    planned = PlannedRow(row, primitive(row).key, NANO, 1)  # type: ignore[arg-type]
    paid = (PaidQuestion(row, 1.0, 0.9, "fresh", price),)
    plan = Plan("fresh", (planned,), price, quick, None, (), (), paid)
    found = proven(plan, ledger=ledger)
    assert found.spent_after_nano == ledger.settled_after(plan.purchase.charges) < quick
    assert found.price_nano == found.spent_after_nano - ledger.spent_nano
    assert found.paid[0].price_nano == found.price_nano
    free = Plan("free", (), 0, ledger.spent_nano, None)
    assert proven(free, ledger=ledger) is free
