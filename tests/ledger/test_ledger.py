"""The cell ledger against the definition of loss on small domains."""

from __future__ import annotations

import random
from collections.abc import Sequence
from copy import deepcopy
from fractions import Fraction
from math import ceil

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qserver.errors import DomainError, QueryError, StoreError
from qserver.ledger.cell_ledger import CellLedger
from qserver.ledger.one_person import Neighbours
from qserver.query.linear_query import linear_query, total_query
from qserver.query.weights import indicator, interval
from qserver.records.charge import Charge, OpaqueCharge, Relation
from tests.ledger.losses_by_definition import (
    RELATIONS,
    WAYS,
    Setting,
    cell_losses,
    greatest_loss,
    limits,
    random_charges,
    random_row,
    random_setting,
    restored,
)
from tests.query.small_queries import cells
from tests.sweeps import examples, share

N_SETTINGS = 25


def ledger_of(setting: Setting) -> CellLedger:
    return CellLedger(
        setting.sizes,
        relation=setting.relation,
        records_per_person=setting.records_per_person,
        null_cell=setting.null_cell,
    )


def assert_is_rounded_up(figure: int, exact: Fraction, n_charges: int) -> None:
    """Never below; above by the rounding of single losses only."""
    assert ceil(exact) <= figure <= ceil(exact + Fraction(n_charges, 4096))


def count(sizes: Sequence[int], **chosen: Sequence[int]) -> Charge:
    """A count charged 1000 nano-epsilon; `a0=[...]` names the values allowed on axis 0."""
    weights = {int(k[1:]): indicator(sizes[int(k[1:])], v) for k, v in chosen.items()}
    return Charge(linear_query(sizes, [(1, weights)]), 1000, "job")


@pytest.mark.slow
@pytest.mark.parametrize("way", ["written down", "eliminated"])
@pytest.mark.parametrize("seed", share(range(N_SETTINGS), 12))
def test_an_exact_bound_is_the_greatest_loss_by_definition(seed: int, way: str) -> None:
    """Both relations, with and without null cell, one to three records per person."""
    rng = random.Random(seed)
    setting = random_setting(rng)
    charges = random_charges(rng, setting.sizes, 8)
    with limits(**WAYS[way]):
        ledger = ledger_of(setting)
        for n, charge in enumerate(charges, 1):
            ledger.append(charge)
            assert ledger.bound_nano is not None
            assert_is_rounded_up(ledger.bound_nano, greatest_loss(charges[:n], setting), n)


@pytest.mark.slow
@pytest.mark.parametrize("seed", share(range(N_SETTINGS), 12))
def test_a_shifted_bound_is_never_below_the_greatest_loss(seed: int) -> None:
    rng = random.Random(seed)
    setting = random_setting(rng)
    charges = random_charges(rng, setting.sizes, 8)
    with limits(**WAYS["shifted"]):
        ledger = ledger_of(setting)
        for n, charge in enumerate(charges, 1):
            ledger.append(charge)
            exact = greatest_loss(charges[:n], setting)
            assert ledger.spent_nano >= ceil(exact)
            assert ceil(exact) <= ledger.bound_nano


@pytest.mark.slow
def test_shifted_bounds_are_close_on_average() -> None:
    """A bound that merely added up prices would be 1.7 times the greatest loss here."""
    ratios = []
    for seed in range(20):
        rng = random.Random(seed)
        setting = Setting((4, 4, 4, 4), "add-remove", 1, null_cell=True)
        charges = random_charges(rng, setting.sizes, 12)
        with limits(**WAYS["shifted"]):
            ledger = ledger_of(setting)
            ledger.extend(charges)
            assert ledger.exact is False
            ratios.append(ledger.bound_nano / greatest_loss(charges, setting))
    assert sum(ratios) / len(ratios) < 1.1


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("seed", share(range(N_SETTINGS), 12))
def test_spent_rises_by_at_most_the_price_and_never_falls(seed: int, way: str) -> None:
    """And `spent_after` foretells it, changing nothing, for one charge and for several."""
    rng = random.Random(seed)
    setting = random_setting(rng)
    with limits(**WAYS[way]):
        ledger = ledger_of(setting)
        for _ in range(5):
            charges = random_charges(rng, setting.sizes, rng.randint(1, 2))
            before, after = ledger.spent_nano, ledger.spent_after(charges)
            assert ledger.spent_nano == before
            price = sum(ledger.neighbours.price_nano(c) for c in charges)
            assert before <= after <= before + price
            ledger.extend(charges)
            assert ledger.spent_nano == after


@pytest.mark.parametrize("way", ["written down", "eliminated"])
@pytest.mark.parametrize("seed", share(range(N_SETTINGS), 12))
def test_purchases_are_priced_as_if_each_was_the_first(seed: int, way: str) -> None:
    """Greatest sums over some axes are kept for all rows on these, until a charge is added."""
    rng = random.Random(seed)
    setting = random_setting(rng)
    with limits(**WAYS[way]):
        ledger, charges = ledger_of(setting), random_charges(rng, setting.sizes, 8)
        for _ in range(3):
            # From the second time on, these split no class.
            ledger.extend(charges[-2:])
            spent = ledger.spent_nano
            for some in (charges[:3], charges[3:], charges, charges[1:4], charges[:1], charges[:1]):
                added = deepcopy(ledger)
                added.extend(some)
                assert added.bound_nano is not None
                most = spent + sum(map(ledger.neighbours.price_nano, some))
                assert ledger.spent_after(some) == max(spent, min(most, added.bound_nano))


@pytest.mark.slow
@pytest.mark.parametrize("eliminated", [1 << 6, 1 << 8])
@pytest.mark.parametrize("seed", share(range(60), 12))
def test_several_rows_are_foretold_as_they_are_added_where_bounds_begin(
    seed: int, eliminated: int
) -> None:
    """Pairs of rows on many cells are only bounded, and a sum stops being eliminated whole."""
    rng = random.Random(seed)
    sizes = tuple(rng.randint(2, 4) for _ in range(rng.randint(2, 4)))
    with limits(dense=0, eliminated=eliminated, row_grid=16):
        ledger = CellLedger(sizes, relation=rng.choice(RELATIONS), null_cell=rng.random() < 0.5)
        charges = random_charges(rng, sizes, 9)
        for i in range(0, 9, 3):
            some = charges[i : i + rng.randint(1, 3)]
            added, after = deepcopy(ledger), ledger.spent_after(some)
            added.extend(some)
            assert added.spent_nano == after
            ledger.extend(some)
            assert ledger.spent_nano == after


@given(seed=st.integers(0, 2**32), data=st.data())
@settings(max_examples=examples(40))
def test_charges_of_one_row_add_up_in_any_order(seed: int, data: st.DataObject) -> None:
    """Refinement: 1/b_old and then 1/b_new - 1/b_old cost what 1/b_new costs at once."""
    rng = random.Random(seed)
    setting = random_setting(rng)
    row = random_row(rng, setting.sizes)
    parts = data.draw(st.lists(st.integers(1, 10**9), min_size=1, max_size=4))
    others = random_charges(rng, setting.sizes, 3)
    at_once, refined = ledger_of(setting), ledger_of(setting)
    at_once.extend([*others, Charge(row, sum(parts), "job")])
    split = [*others, *(Charge(row, part, "job") for part in parts)]
    refined.extend(data.draw(st.permutations(split)))
    assert refined.bound_nano == at_once.bound_nano


@pytest.mark.parametrize(("relation", "times"), [("add-remove", 1), ("replace-one", 2)])
def test_disjoint_rows_cost_one_alpha_or_two(relation: Relation, times: int) -> None:
    """Parallel composition: a histogram costs one alpha per cell, two per replaced record."""
    ledger = CellLedger((50, 3), relation=relation)
    ledger.extend(count((50, 3), a0=[i]) for i in range(50))
    assert ledger.spent_nano == times * 1000
    assert ledger.exact


def test_a_complement_is_free_where_records_are_replaced() -> None:
    """|h_c - h_c'| of a count and of its complement agree; add-remove pays for either."""
    inside, outside = count((6,), a0=[0, 1]), count((6,), a0=[2, 3, 4, 5])
    pairs = CellLedger((6,), relation="replace-one", null_cell=False)
    cells_only = CellLedger((6,))
    for ledger in (pairs, cells_only):
        ledger.append(inside)
    assert pairs.spent_after([outside]) == 2000
    assert cells_only.spent_after([outside]) == 1000


@pytest.mark.parametrize(("null_cell", "nano"), [(True, 1000), (False, 0)])
def test_the_total_is_free_just_where_no_record_can_be_outside(null_cell: bool, nano: int) -> None:
    ledger = CellLedger((6,), relation="replace-one", null_cell=null_cell)
    ledger.append(Charge(total_query((6,)), 1000, "job"))
    assert ledger.spent_nano == nano


@pytest.mark.slow
def test_counts_are_charged_exactly_to_the_nano() -> None:
    """A thousand random ranges at odd alphas: not one nano-epsilon is lost or won."""
    rng = random.Random(5)
    losses = [0] * 300
    ledger = CellLedger((300,), records_per_person=3)
    for _ in range(1000):
        start, stop = sorted(rng.sample(range(300), 2))
        alpha = rng.randrange(1, 10**6, 2)
        ledger.append(
            Charge(linear_query((300,), [(1, {0: interval(300, start, stop)})]), alpha, "j")
        )
        for i in range(start, stop):
            losses[i] += 3 * alpha
    assert ledger.spent_nano == max(losses)
    assert ledger.loss_by_value(0) == losses


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
def test_an_opaque_charge_adds_its_epsilon_to_every_cell_and_pair(relation: Relation) -> None:
    """Not times the records per person: it holds for the population's own relation."""
    ledger = CellLedger((4,), relation=relation, records_per_person=5)
    ledger.append(count((4,), a0=[1]))
    ledger.append(OpaqueCharge(77, "model"))
    assert ledger.spent_nano == 5077
    assert ledger.spent_after([OpaqueCharge(3, "model")]) == 5080
    assert ledger.loss_by_value(0) == [77, 5077, 77, 77]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("seed", share(range(N_SETTINGS), 12))
def test_losses_of_chosen_cells_hold_by_definition(seed: int, way: str) -> None:
    rng = random.Random(seed)
    setting = random_setting(rng)
    charges = random_charges(rng, setting.sizes, 6)
    where = {
        axis: rng.sample(range(size), rng.randint(1, size))
        for axis, size in enumerate(setting.sizes)
        if rng.random() < 0.6
    }
    losses = cell_losses(charges, setting)
    exact = max(v for c, v in losses.items() if all(c[a] in w for a, w in where.items()))
    with limits(**WAYS[way]):
        ledger = ledger_of(setting)
        ledger.extend(charges)
        found = ledger.loss_nano(where)
        by_value = [ledger.loss_by_value(axis) for axis in range(len(setting.sizes))]
    assert found >= ceil(exact)
    if way != "shifted":
        assert_is_rounded_up(found, exact, len(charges))
    for cell in cells(setting.sizes):
        assert all(by_value[a][v] >= ceil(losses[cell]) for a, v in enumerate(cell))
    if way != "shifted":
        assert max(by_value[0]) <= ceil(max(losses.values()) + 1)


def test_the_recorded_figure_is_the_authority() -> None:
    """A looser record stays until the bound has caught up; then only the excess is charged."""
    charges = [count((6,), a0=[0, 1]), count((6,), a0=[4])]
    ledger = restored((6,), neighbours=Neighbours(), charges=charges, spent_nano=1500)
    assert (ledger.spent_nano, ledger.bound_nano, ledger.exact) == (1500, 1000, False)
    assert ledger.spent_after([count((6,), a0=[5])]) == 1500
    assert ledger.spent_after([count((6,), a0=[0])]) == 2000


def test_a_record_below_what_the_charges_cost_is_refused() -> None:
    """A store that lost charges must not lower what was spent."""
    charges = [count((6,), a0=[0, 1]), count((6,), a0=[1])]
    with pytest.raises(StoreError, match="less than what its charges cost"):
        restored((6,), neighbours=Neighbours(), charges=charges, spent_nano=1500)


def test_a_record_is_known_at_once_and_refused_at_every_sum() -> None:
    """Who answers from history adds up no charges; who plans cannot pass by a contradiction."""
    ledger = CellLedger((6,))
    ledger.extend([count((6,), a0=[0, 1]), count((6,), a0=[1])])
    ledger.record(1500)
    assert ledger.spent_nano == 1500
    for _ in range(2):
        with pytest.raises(StoreError, match="less than what its charges cost"):
            ledger.spent_after([count((6,), a0=[5])])
    with pytest.raises(StoreError, match="less than what its charges cost"):
        ledger.state()
    with pytest.raises(StoreError, match="less than what its charges cost"):
        assert ledger.spent_nano


def test_charges_after_a_record_are_added_to_it() -> None:
    ledger = CellLedger((6,))
    ledger.append(count((6,), a0=[0]))
    ledger.record(1400)
    ledger.append(count((6,), a0=[0]))
    assert deepcopy(ledger).spent_nano == ledger.spent_nano == 2000
    ledger.record(2300)
    assert (ledger.spent_nano, ledger.bound_nano) == (2300, 2000)


def test_sums_past_64_bits_fall_back_to_prices() -> None:
    """Nothing wraps around: the figures stay upper bounds in Python integers."""
    ledger = CellLedger((6,))
    huge = Charge(total_query((6,)), 10**15, "job")
    assert ledger.spent_after([huge]) == 10**15
    ledger.append(huge)
    ledger.append(count((6,), a0=[1]))
    assert ledger.spent_nano == 10**15 + 1000
    assert ledger.bound_nano is None
    assert not ledger.exact
    assert ledger.loss_nano({0: [2]}) >= 10**15
    assert min(ledger.loss_by_value(0)) >= 10**15


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
@pytest.mark.parametrize("seed", share(range(N_SETTINGS), 12))
def test_a_row_too_large_to_tabulate_makes_the_figure_a_bound(
    seed: int, relation: Relation
) -> None:
    """Then nothing but the price rule may claim to be exact, and nothing is undercharged."""
    rng = random.Random(seed)
    setting = Setting((3, 4, 3), relation, 1, null_cell=True)
    charges = random_charges(rng, setting.sizes, 4)
    exact = greatest_loss(charges, setting)
    with limits(row_grid=5):
        ledger = ledger_of(setting)
        ledger.extend(charges)
        assert ceil(exact) <= ledger.bound_nano
        assert ceil(exact) <= ledger.spent_nano
        assert not ledger.exact or ledger.spent_nano <= ceil(exact + Fraction(1, 1000))


def test_an_empty_ledger_has_spent_nothing() -> None:
    ledger = CellLedger((6, 2))
    assert (ledger.spent_nano, ledger.spent_after([]), ledger.exact) == (0, 0, True)
    assert ledger.loss_by_value(1) == [0, 0]


def test_what_does_not_fit_the_domain_is_refused() -> None:
    ledger = CellLedger((6, 2))
    with pytest.raises(QueryError, match="ledger's domain"):
        ledger.spent_after([count((6,), a0=[1])])
    with pytest.raises(QueryError, match="`axis` must be 0 to 1"):
        ledger.loss_by_value(2)
    for values in ([], [6], [-1]):
        with pytest.raises(QueryError, match="`values` must be indices 0 to 5"):
            ledger.loss_nano({0: values})
    with pytest.raises(DomainError, match="`records_per_person` must be a whole number >= 1"):
        CellLedger((6,), records_per_person=0)
    with pytest.raises(DomainError, match="`relation` must be"):
        CellLedger((6,), relation="swap")  # type: ignore[arg-type]
