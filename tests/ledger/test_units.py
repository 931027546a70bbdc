"""What each unit of privacy is charged, against every person of a small domain."""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction
from itertools import product
from math import ceil

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qserver.errors import DomainError
from qserver.ledger.cell_ledger import CellLedger
from qserver.ledger.one_person import ByPeriod
from qserver.query.class_grid import product_partition
from qserver.query.linear_query import linear_query
from qserver.query.weights import indicator
from qserver.records.charge import AnyCharge, Charge, OpaqueCharge, TableCharge
from tests.ledger.losses_by_definition import WAYS, limits
from tests.ledger.people_by_definition import People, told
from tests.ledger.table_losses_by_definition import Stream
from tests.sweeps import examples, n_of

SIZES = (3, 2)
ROUNDING = 2
"""Nano-epsilon that the rounding of eight charges' rows to 2^-12 can make of three records."""

UNITS = {
    "person-period": People(SIZES, 0, 2, 2, one_period=True, same_period=True),
    "person, 2 in all": People(SIZES, 0, 2, 2),
    "person, 1 a period and 2 in all": People(SIZES, 0, 2, 1),
    "person, 2 a period and 3 in all": People(SIZES, 0, 3, 2),
    "person, 1 a period, unbounded": People(SIZES, 0, None, 1),
}
SAME = {
    name: replace(UNITS[name], relation="replace-one", same_period=True)
    for name in UNITS
    if name != "person, 2 in all"
}
ANY = {
    name: replace(UNITS[name], relation="replace-one") for name in UNITS if name != "person-period"
}
seeds = st.integers(0, 2**32)


def ledger_of(people: People) -> CellLedger:
    return CellLedger.like(people.sizes, people.neighbours)


def spends(seed: int, n: int, sizes: tuple[int, ...] = SIZES) -> list[AnyCharge]:
    stream = Stream.random(random.Random(seed), sizes)
    return [c for c in (stream.spend() for _ in range(n)) if not isinstance(c, OpaqueCharge)]


def greatest(charges: list[AnyCharge], people: People, *, one_by_one: bool = False) -> Fraction:
    return max(told(charges, people, one_by_one=one_by_one), default=Fraction(0))


@pytest.mark.parametrize("name", UNITS)
@given(seed=seeds)
@settings(max_examples=examples(60))
def test_under_add_remove_every_unit_is_charged_exactly(name: str, seed: int) -> None:
    """Rows, tables and refunds: the greatest sum of the losses of a person's records."""
    people, charges = UNITS[name], spends(seed, 8)
    ledger = ledger_of(people)
    ledger.extend(charges)
    exact = ceil(greatest(charges, people, one_by_one=True))
    assert exact >= greatest(charges, people)
    assert exact <= ledger.bound_nano <= exact + ROUNDING
    assert ledger.exact or not charges


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("people", [*UNITS.values(), *SAME.values(), *ANY.values()])
def test_no_unit_is_ever_charged_less_than_a_person_loses(people: People, way: str) -> None:
    """Charge by charge, as foretold, on every way to a maximum."""
    for seed in range(n_of(8, share=3)):
        charges = spends(seed, 6)
        with limits(**WAYS[way]):
            ledger, settled = ledger_of(people), ledger_of(people)
            for n, charge in enumerate(charges, 1):
                before, after = ledger.spent_nano, ledger.spent_after([charge])
                price = ledger.neighbours.price_nano(charge)
                assert greatest([charge], people) <= price
                ledger.append(charge)
                assert before <= ledger.spent_nano == after <= before + price
                assert ledger.spent_nano >= greatest(charges[:n], people)
                least, most = settled.settled_after([charge]), settled.spent_after([charge])
                assert settled.spent_nano <= least <= most
                settled.append(charge)
                settled.cap(least)
                assert least >= greatest(charges[:n], people)


@pytest.mark.parametrize("people", [*UNITS.values(), *SAME.values(), *ANY.values()])
@pytest.mark.parametrize("alpha_nano", [10**15, 3 * 10**15, 10**25])
def test_a_price_that_64_bits_do_not_hold_is_no_less_than_a_person_loses(
    people: People, alpha_nano: int
) -> None:
    """Such a question is refused for its price; it must not fail, nor seem cheap."""
    row = next(c.row for c in spends(1, 9) if isinstance(c, Charge))
    charge = Charge(row, alpha_nano, "job")
    assert greatest([charge], people) <= ledger_of(people).spent_after([charge])


@pytest.mark.parametrize("people", [*SAME.values(), *ANY.values()])
def test_under_replace_one_the_charge_of_every_unit_is_attained(people: People) -> None:
    """By some rows; a bound that nobody can attain would be no charge of this unit."""
    attained = 0
    for seed in range(n_of(40, share=15)):
        charges: list[AnyCharge]
        charges = [c for c in spends(seed, 4) if isinstance(c, Charge)]
        ledger = ledger_of(people)
        ledger.extend(charges)
        exact = ceil(greatest(charges, people))
        assert exact <= ledger.bound_nano
        attained += bool(charges) and ledger.bound_nano <= exact + ROUNDING
    assert attained >= 1


def test_records_in_their_own_periods_are_charged_the_greatest_pair_of_each() -> None:
    """Rows on single cells of each period, where pairs within the periods decide."""
    people = SAME["person, 1 a period and 2 in all"]
    weights = [7, 5, 11]
    charges: list[AnyCharge] = [
        Charge(count(t, a), weights[t], "job") for t, a in product(range(3), range(2))
    ]
    ledger = ledger_of(people)
    ledger.extend(charges)
    assert ledger.spent_nano == 2 * (11 + 7) == greatest(charges, people)
    assert ledger.exact


def count(period: int, value: int | None = None):
    chosen = {0: indicator(3, [period])}
    if value is not None:
        chosen[1] = indicator(2, [value])
    return linear_query(SIZES, [(1, chosen)])


def test_a_count_of_every_period_costs_by_the_unit() -> None:
    """One count in each of three periods at 1000: the table of the guarantee, by hand."""
    charges = [Charge(count(t), 1000, "job") for t in range(3)]
    expected = {
        "person-period": 2000,
        "person, 2 in all": 2000,
        "person, 1 a period and 2 in all": 2000,
        "person, 2 a period and 3 in all": 3000,
        "person, 1 a period, unbounded": 3000,
    }
    for name, nano in expected.items():
        ledger = ledger_of(UNITS[name])
        ledger.extend(charges)
        assert ledger.spent_nano == nano
    # Where records keep their periods, the number of each period is known: only absence costs.
    same = ledger_of(SAME["person, 1 a period, unbounded"])
    same.append(TableCharge(product_partition(SIZES, {0: [0, 1, 2]}), 1000, (), "job"))
    assert same.spent_nano == 3000


def test_one_week_costs_a_person_of_many_weeks_one_record_only() -> None:
    """A row on one period costs m, whatever k is; opaque charges count once for a person."""
    ledger = ledger_of(UNITS["person, 1 a period, unbounded"])
    ledger.append(Charge(count(1), 1000, "job"))
    assert ledger.spent_nano == 1000
    ledger.append(OpaqueCharge(50, "model"))
    assert ledger.spent_nano == 1050
    assert ledger.loss_by_value(0) == [50, 1050, 50]
    assert ledger.loss_by_value(1) == [1050, 1050]
    assert ledger.loss_nano({0: [0, 2]}) == 50
    assert ledger.loss_nano({1: [1]}) == 1050


@given(seed=seeds)
@settings(max_examples=examples(30))
def test_a_saved_ledger_goes_on_with_the_same_figures(seed: int) -> None:
    for people in (UNITS["person, 2 a period and 3 in all"], SAME["person-period"]):
        charges = spends(seed, 6)
        ledger = ledger_of(people)
        ledger.extend(charges[:4])
        found = CellLedger.from_state(ledger.state(), sizes=SIZES, neighbours=people.neighbours)
        for one in (ledger, found):
            one.extend(charges[4:])
        assert found.spent_nano == ledger.spent_nano
        assert found.bound_nano == ledger.bound_nano


def test_losses_by_value_are_those_of_people_with_that_value() -> None:
    """Each against every person whose records all have the value."""
    people = UNITS["person, 2 a period and 3 in all"]
    for seed in range(10):
        charges = spends(seed, 6)
        if not charges:
            continue
        ledger = ledger_of(people)
        ledger.extend(charges)
        losses = dict(
            zip(
                (a for a, _ in people.exchanges()),
                told(charges, people, one_by_one=True),
                strict=True,
            )
        )
        for axis in range(len(SIZES)):
            for value, loss in enumerate(ledger.loss_by_value(axis)):
                mine = [n for who, n in losses.items() if all(c[axis] == value for c in who)]
                exact = ceil(max(mine))
                assert exact <= loss <= exact + ROUNDING
                assert loss == ledger.loss_nano({axis: [value]})


def test_a_ledger_that_charges_one_unit_for_another_is_below_what_people_lose() -> None:
    """The control: the same streams charged by a unit with fewer records come out too low."""
    people, less = UNITS["person, 1 a period, unbounded"], UNITS["person-period"]
    low = 0
    for seed in range(20):
        charges = spends(seed, 6)
        ledger = ledger_of(replace(less, k=1, m=1))
        ledger.extend(charges)
        low += ledger.spent_nano < greatest(charges, people)
    assert low >= 15


def test_spreads_that_are_none_are_refused() -> None:
    with pytest.raises(DomainError, match="records_per_period"):
        ByPeriod(0, 3, 0)
    with pytest.raises(DomainError, match="by_period"):
        ByPeriod(-1, 3, 1)
