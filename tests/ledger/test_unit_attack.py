"""No transcript tells people of any unit apart better than the ledger charges; by enumeration."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from tests.ledger.people_by_definition import People
from tests.ledger.unit_attack import SIZES, charged, log_ratio, sequences
from tests.worker.noise.test_mechanism import pmf_of

pytestmark = [
    pytest.mark.promise(
        "Guard rails",
        "no transcript tells people of any unit of privacy apart better than the ledger charges, "
        "and some tell as much; five faults are found out",
    ),
]

N_SEQUENCES = 60
ADDED = {
    "person-period, 2": People(SIZES, 0, 2, 2, one_period=True, same_period=True),
    "person, 2": People(SIZES, 0, 2, 2),
    "person, 1 a period and 2 in all": People(SIZES, 0, 2, 1),
    "person-unbounded, 1": People(SIZES, 0, None, 1),
}
UNITS = {
    **{f"{name}, added": people for name, people in ADDED.items()},
    **{
        f"{name}, replaced in its period": replace(people, relation="replace-one", same_period=True)
        for name, people in ADDED.items()
    },
    **{
        f"{name}, replaced anywhere": replace(people, relation="replace-one")
        for name, people in ADDED.items()
        if not people.one_period
    },
}
ROOM = 1e-8


@pytest.mark.slow
@pytest.mark.parametrize("name", UNITS)
def test_no_transcript_tells_more_than_is_charged_and_some_tell_as_much(name: str) -> None:
    people, greatest = UNITS[name], 0.0
    for found in sequences(N_SEQUENCES):
        ratio, paid = log_ratio(found.draws, people), charged(found.charges, people)
        assert ratio <= paid + ROOM
        greatest = max(greatest, ratio / paid)
    assert greatest >= 1 - 1e-6


def above(people: People, other: People, *, n: int = N_SEQUENCES) -> int:
    """How many sequences tell more of `people` than a ledger for `other` charges."""
    return sum(
        log_ratio(found.draws, people) > charged(found.charges, other) + ROOM
        for found in sequences(n)
    )


@pytest.mark.slow
def test_a_ledger_that_forgets_other_periods_is_caught() -> None:
    one = replace(ADDED["person-period, 2"], k=1, m=1)
    assert above(ADDED["person-unbounded, 1"], one) > N_SEQUENCES // 4
    assert above(ADDED["person, 1 a period and 2 in all"], one) > N_SEQUENCES // 4


@pytest.mark.slow
def test_pairs_of_one_period_for_records_of_any_are_caught() -> None:
    """Records that move between periods, charged as if they kept theirs."""
    people = UNITS["person, 1 a period and 2 in all, replaced anywhere"]
    assert above(people, replace(people, same_period=True), n=4 * N_SEQUENCES) > 0


def test_a_table_whose_later_cells_are_not_charged_is_caught() -> None:
    """The piece of a table for a period that came later."""
    people, caught = ADDED["person, 2"], 0
    for found in sequences(N_SEQUENCES):
        left = [charge for charge in found.charges if charge not in found.extended]
        paid = charged(left, people) if left else 0.0
        caught += log_ratio(found.draws, people) > paid + ROOM
    assert caught > 0


def test_a_row_that_is_refined_across_an_append_without_a_stamp_is_caught() -> None:
    """Its old answer left the new period out, its new one does not: no chain, and it costs more."""
    people = ADDED["person, 1 a period and 2 in all"]
    assert any(
        log_ratio(found.draws, people) > charged(found.charges, people) + ROOM
        for found in sequences(4 * N_SEQUENCES, stamps=False)
    )


def test_a_refinement_by_fresh_noise_is_caught() -> None:
    def fresh(_old: int, new: int, _old_rate: Fraction, rate: Fraction) -> Fraction:
        return pmf_of(new, rate)

    people = ADDED["person, 2"]
    assert any(
        log_ratio(found.draws, people, fresh) > charged(found.charges, people) + ROOM
        for found in sequences(N_SEQUENCES)
    )
