"""Tables in the cell ledger against the loss of every cell and pair of cells, by definition."""

from __future__ import annotations

import random
from fractions import Fraction
from math import ceil

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qserver.errors import QueryError, StoreError
from qserver.ledger.cell_ledger import CellLedger
from qserver.ledger.one_person import Neighbours
from qserver.query.class_grid import product_partition
from qserver.query.linear_query import linear_query, total_query
from qserver.query.weights import interval
from qserver.records.charge import AnyCharge, Charge, Relation, TableCharge
from tests.ledger.losses_by_definition import WAYS, Setting, limits, restored
from tests.ledger.table_losses_by_definition import greatest_loss, losses_of, opaque, random_dues
from tests.query.small_queries import cells
from tests.sweeps import examples

pytestmark = [
    pytest.mark.promise(
        "Privacy",
        "a cell pays the greater of its row's and its table's alpha, and spent is never less than"
        " any cell or pair loses",
    ),
]

N_SETTINGS = 20
seeds = st.integers(0, 2**32)
ways = st.sampled_from(list(WAYS))
RELATIONS = [("add-remove", True), ("replace-one", True), ("replace-one", False)]


def ledger_of(setting: Setting) -> CellLedger:
    return CellLedger(
        setting.sizes,
        relation=setting.relation,
        records_per_person=setting.records_per_person,
        null_cell=setting.null_cell,
    )


@given(seed=seeds, way=st.sampled_from(["written down", "eliminated"]), at_once=st.booleans())
@settings(max_examples=examples(120))
def test_under_add_remove_the_bound_is_the_greatest_loss(
    seed: int, way: str, at_once: bool
) -> None:
    """The other route adds up alphas: a cell pays the greater of its row's and its table's."""
    setting, charges, stream = random_dues(seed, 10)
    setting = Setting(setting.sizes, "add-remove", setting.records_per_person, null_cell=True)
    k = setting.records_per_person
    greatest = k * max(stream.loss(c) for c in cells(setting.sizes)) + opaque(charges)
    with limits(**WAYS[way]):
        ledger = ledger_of(setting)
        for charge in charges:
            ledger.append(charge)
            assert at_once or ledger.spent_nano > 0
        assert ceil(greatest) <= ledger.bound_nano <= ceil(greatest + Fraction(10, 4096))
        assert ledger.spent_nano >= ceil(greatest)
        assert not at_once or ledger.exact


@pytest.mark.slow
@given(seed=seeds, way=ways)
@settings(max_examples=examples(120))
def test_no_figure_is_below_the_greatest_loss(seed: int, way: str) -> None:
    """Both relations, with and without null cell, one to three records per person."""
    setting, charges, _ = random_dues(seed, 8)
    with limits(**WAYS[way]):
        ledger = ledger_of(setting)
        for n, charge in enumerate(charges, 1):
            ledger.append(charge)
            greatest = ceil(greatest_loss(charges[:n], setting))
            assert ledger.spent_nano >= greatest
            assert ledger.bound_nano >= greatest
            assert not ledger.exact or ledger.spent_nano <= greatest + 1


@given(seed=seeds)
@settings(max_examples=examples(80))
def test_under_replace_one_spent_is_the_less_of_two_bounds(seed: int) -> None:
    """Pairs with every table at 2 alpha, and twice a cell; the total only against the null cell."""
    setting, charges, _ = random_dues(seed, 8)
    setting = Setting(setting.sizes, "replace-one", setting.records_per_person, setting.null_cell)
    k = setting.records_per_person
    rows = [c for c in charges if isinstance(c, Charge)]
    tables = [c for c in charges if isinstance(c, TableCharge) and c.partition.axes]
    once = opaque(charges)
    by_pairs = losses_of(rows, setting).of_pair
    # A table of some periods costs pairs of these alone; the dearest period counts.
    by_period = np.zeros(setting.sizes[0], dtype=np.int64)
    for table in tables:
        is_paid = len(table.paid) == table.partition.n_cells
        rise = table.alpha_nano - (min(nano for _, nano in table.paid) if is_paid else 0)
        some = table.partition.restricted
        by_period += 2 * k * rise * (1 if some is None else some.dense >= 0)
    by_pairs += int(by_period.max())
    twice = 2 * losses_of([*rows, *tables], setting).of_cell
    expected = min(by_pairs, twice) + once
    if setting.null_cell:
        expected = max(expected, losses_of(charges, setting).of_cell + once)
    ledger = ledger_of(setting)
    ledger.extend(charges)
    assert ceil(expected) <= ledger.bound_nano <= ceil(expected + Fraction(20, 4096))


@given(seed=seeds, way=ways)
@settings(max_examples=examples(100))
def test_spent_rises_by_at_most_the_price_as_foretold(seed: int, way: str) -> None:
    setting, charges, _ = random_dues(seed, 9)
    rng = random.Random(seed)
    with limits(**WAYS[way]):
        ledger = ledger_of(setting)
        while charges:
            some = [charges.pop(0) for _ in range(min(len(charges), rng.randint(1, 3)))]
            before, after = ledger.spent_nano, ledger.spent_after(some)
            assert ledger.spent_nano == before
            price = sum(map(ledger.neighbours.price_nano, some))
            assert before <= after <= before + price
            ledger.extend(some)
            if way == "shifted":
                # Shifts in another order can end at another bound: what was foretold is recorded.
                ledger.cap(after)
            assert ledger.spent_nano == after


@given(seed=seeds, way=ways)
@settings(max_examples=examples(80))
def test_a_replayed_record_raises_no_false_alarm(seed: int, way: str) -> None:
    """What another process spent by its own path is taken over, after every charge."""
    setting, charges, _ = random_dues(seed, 7)
    with limits(**WAYS[way]):
        ledger = ledger_of(setting)
        for n, charge in enumerate(charges, 1):
            ledger.append(charge)
            again = restored(
                setting.sizes,
                neighbours=ledger.neighbours,
                charges=charges[:n],
                spent_nano=ledger.spent_nano,
            )
            assert again.spent_nano == ledger.spent_nano


@pytest.mark.parametrize(("relation", "null_cell"), RELATIONS)
def test_a_record_below_what_rows_cost_for_certain_is_refused(
    relation: Relation, null_cell: bool
) -> None:
    """Also beside a table, of which under replace-one only a bound is known."""
    neighbours = Neighbours(relation, 1, null_cell)
    row = Charge(linear_query((6,), [(1, {0: interval(6, 2, 4)})]), 5000, "job")
    table = TableCharge(product_partition((6,), {0: range(6)}), 100, (), "job")
    with pytest.raises(StoreError, match="less than what its charges cost"):
        restored((6,), neighbours=neighbours, charges=[row, table], spent_nano=4900)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("seed", range(N_SETTINGS))
def test_losses_of_chosen_cells_include_tables(seed: int, way: str) -> None:
    setting, charges, _ = random_dues(seed, 8)
    rng = random.Random(seed)
    where = {a: rng.sample(range(s), rng.randint(1, s)) for a, s in enumerate(setting.sizes)}
    every, by_cell = list(cells(setting.sizes)), losses_of(charges, setting)
    amounts = [Fraction(int(x), by_cell.denominator) + opaque(charges) for x in by_cell.cells]
    losses = dict(zip(every, amounts, strict=True))
    chosen = max(x for c, x in losses.items() if all(c[a] in v for a, v in where.items()))
    with limits(**WAYS[way]):
        ledger = ledger_of(setting)
        ledger.extend(charges)
        found = ledger.loss_nano(where)
        by_value = ledger.loss_by_value(0)
    assert found >= ceil(chosen)
    for value, nano in enumerate(by_value):
        exact = max(x for c, x in losses.items() if c[0] == value)
        assert nano >= ceil(exact)
        assert way == "shifted" or nano <= ceil(exact + 1)
    assert way == "shifted" or found <= ceil(chosen + 1)


def test_a_row_that_a_table_takes_over_is_paid_once() -> None:
    """Raised past the table, the row pays the difference; then the table, its own difference."""
    table = product_partition((4, 5), {0: range(4)})
    ledger = CellLedger((4, 5))
    spent = []
    for charge in (
        Charge(table.row(2), 700, "a"),
        TableCharge(table, 500, ((2, 500),), "b"),
        Charge(table.row(2), 100, "c"),
        TableCharge(table, 1000, ((2, 300),), "d"),
        Charge(table.row(3), 40, "e"),
    ):
        ledger.append(charge)
        spent.append(ledger.spent_nano)
    assert spent == [700, 700, 800, 1500, 1540]
    assert ledger.loss_by_value(0) == [1500, 1500, 1500, 1540]
    assert ledger.exact


@pytest.mark.parametrize(
    ("relation", "null_cell", "spent"),
    [("add-remove", True, 800), ("replace-one", True, 800), ("replace-one", False, 0)],
)
def test_the_total_as_a_table_costs_what_its_row_would(
    relation: Relation, null_cell: bool, spent: int
) -> None:
    total = product_partition((3, 2), {})
    ledger = CellLedger((3, 2), relation=relation, null_cell=null_cell)
    raised = TableCharge(total, 500, ((0, 200),), "b")
    ledger.append(Charge(total_query((3, 2)), 500, "a"))
    assert ledger.neighbours.price_nano(raised) == (spent and 300)
    ledger.append(raised)
    assert ledger.spent_nano == spent


@pytest.mark.parametrize(("relation", "spent"), [("add-remove", 1000), ("replace-one", 2000)])
def test_a_table_costs_one_alpha_or_two_like_its_rows_together(
    relation: Relation, spent: int
) -> None:
    partition = product_partition((6, 7), {0: range(6), 1: range(7)})
    ledger = CellLedger((6, 7), relation=relation)
    assert ledger.spent_after([TableCharge(partition, 1000, (), "job")]) == spent


def test_five_hundred_refunds_are_exact_in_a_price_and_in_the_ledger() -> None:
    """500 cells of 2,000 paid various amounts first, and rows lie across them."""
    sizes = (50, 40)
    rng = np.random.default_rng(7)
    table = product_partition(sizes, {0: range(50), 1: range(40)})
    paid = np.zeros(2000, dtype=np.int64)
    paid[rng.choice(2000, 500, replace=False)] = rng.integers(1, 900, 500)
    losses, charges = paid.copy(), []
    charges += [Charge(table.row(int(c)), int(paid[c]), "j") for c in np.flatnonzero(paid)]
    for _ in range(30):
        start, stop = sorted(rng.choice(51, 2, replace=False).tolist())
        charges.append(Charge(linear_query(sizes, [(1, {0: interval(50, start, stop)})]), 111, "j"))
        losses.reshape(sizes)[start:stop] += 111
    ledger = CellLedger(sizes)
    ledger.extend(charges)
    refunds = tuple((int(c), min(int(paid[c]), 600)) for c in np.flatnonzero(paid))
    raised = TableCharge(table, 600, refunds, "t")
    after = losses + 600 - np.minimum(paid, 600)
    assert ledger.spent_nano == losses.max()
    assert ledger.spent_after([raised]) == after.max()
    # Dearer rows first, then the refunds, in one purchase.
    more = Charge(table.row(77), 5000, "j")
    with_more = after.copy()
    with_more[77] += 5000
    assert ledger.spent_after([more, raised]) == with_more.max()
    ledger.append(raised)
    assert ledger.spent_nano == after.max()
    by_value = after.reshape(sizes)
    assert ledger.loss_by_value(0) == by_value.max(axis=1).tolist()
    assert ledger.loss_by_value(1) == by_value.max(axis=0).tolist()


WIDE = (74, 9, 100, 16, 16, 7, 15, 6, 5, 2, 100, 100, 99, 42)


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
def test_no_cell_or_pair_of_a_wide_domain_passes_spent(relation: Relation) -> None:
    """10^12 cells and more; the cells tried are random, half of them inside refunded rows."""
    rng = random.Random(12)
    tables = [
        product_partition(WIDE, {a: range(WIDE[a]) for a in rng.sample(range(14), 2)})
        for _ in range(6)
    ]
    cells_tried = np.stack(
        [np.random.default_rng(a).integers(0, s, 1000) for a, s in enumerate(WIDE)], axis=1
    )
    charges: list[AnyCharge] = []
    losses, pair_losses = np.zeros(1000, dtype=np.int64), np.zeros(500, dtype=np.int64)
    ledger = CellLedger(WIDE, relation=relation)
    for table in tables:
        places = [a.axis for a in table.axes]
        inside = cells_tried[:, places[0]] * WIDE[places[1]] + cells_tried[:, places[1]]
        paid = np.zeros(table.n_cells, dtype=np.int64)
        paid[inside[:40]] = 10**6
        due: list[AnyCharge] = [Charge(table.row(int(c)), 10**6, "r") for c in np.flatnonzero(paid)]
        named = tuple((int(c), 10**6) for c in np.flatnonzero(paid))
        due.append(TableCharge(table, 3 * 10**6, named, "t"))
        before = ledger.spent_nano
        foretold = ledger.spent_after(due)
        ledger.extend(due)
        assert ledger.spent_nano <= foretold <= before + 2 * 43 * 10**6
        charges += due
        losses += 3 * 10**6
        pair_losses += 6 * 10**6 * (inside[:500] != inside[500:])
    assert ledger.bound_nano >= (losses if relation == "add-remove" else pair_losses).max()
    assert not ledger.exact or ledger.spent_nano == losses.max()


def test_a_refund_of_a_row_that_is_only_bounded_is_left_out() -> None:
    """The bound covers other cells as well, which pay in full: to take it back is too much."""
    sizes = (2, 3, 2)
    table = product_partition(sizes, {0: range(2), 1: range(3)})
    for row_grid, exact in ((3, False), (4, True)):
        with limits(row_grid=row_grid):
            ledger = CellLedger(sizes)
            ledger.append(TableCharge(table, 1000, ((4, 1000),), "b"))
            assert ledger.loss_nano({0: [1]}) == 1000
            assert ledger.exact is exact


def test_sums_past_64_bits_still_count_tables() -> None:
    table = product_partition((6,), {0: range(6)})
    ledger = CellLedger((6,))
    ledger.append(Charge(total_query((6,)), 10**15, "job"))
    ledger.append(TableCharge(table, 10**15, ((1, 7),), "job"))
    assert ledger.spent_nano == 2 * 10**15
    assert min(ledger.loss_by_value(0)) >= 2 * 10**15


def test_a_table_on_another_domain_is_refused() -> None:
    table = TableCharge(product_partition((6,), {0: range(6)}), 10, (), "job")
    with pytest.raises(QueryError, match="ledger's domain"):
        CellLedger((6, 2)).spent_after([table])
