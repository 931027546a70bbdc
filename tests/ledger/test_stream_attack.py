"""No transcript over records that come late, are left out or retire tells more than is charged."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.ledger.people_by_definition import People
from tests.ledger.stream_attack import (
    Handling,
    StreamAttack,
    cached_neighbours,
    log_ratio,
    sequences,
    whole_sequences,
)
from tests.ledger.unit_attack import SIZES, charged
from tests.sweeps import n_of
from worker.private.truncation import PeriodRule

N_SEQUENCES = n_of(60, share=15)
N_WRONG = n_of(120, share=50)
"""In a share of them each wrong handling shows."""
ROOM = 1e-8
ADDED = {
    "person-period, 2": (People(SIZES, 0, 2, 2, one_period=True, same_period=True), None),
    "person, 2": (People(SIZES, 0, 2, 2), 2),
    "person, 1 a period and 2 in all": (People(SIZES, 0, 2, 1), 2),
    "person-unbounded, 1": (People(SIZES, 0, None, 1), None),
}
KINDS = ("added", "replaced in its period", "replaced anywhere")
UNITS = {
    f"{name}, {kind}": (
        people
        if kind == "added"
        else replace(people, relation="replace-one", same_period=kind == "replaced in its period"),
        Handling(PeriodRule(0, people.m, in_all)),
        kind,
    )
    for name, (people, in_all) in ADDED.items()
    for kind in KINDS
    if not (people.one_period and kind == "replaced anywhere")
}


def told(found: StreamAttack, name: str, handling: Handling) -> float:
    people, _, kind = UNITS[name]
    at = tuple(found.retired_at) if handling.forgets else (0, 0, 0)
    return log_ratio(found, cached_neighbours(handling, at, kind, people.one_period))


@pytest.mark.slow
@pytest.mark.parametrize("late", ["drop", "move"])
@pytest.mark.parametrize("name", UNITS)
def test_no_transcript_tells_more_than_is_charged_and_some_tell_as_much(
    name: str, late: str
) -> None:
    people, handling, _ = UNITS[name]
    handling, greatest = replace(handling, late=late), 0.0  # type: ignore[arg-type]
    for found in sequences(N_SEQUENCES):
        ratio, paid = told(found, name, handling), charged(found.charges, people)
        assert ratio <= paid + ROOM
        greatest = max(greatest, ratio / paid)
    assert greatest >= 1 - 1e-6


def above(*, erased: bool = False, **wrong: bool) -> int:
    """How many sequences tell more than is charged where something is done wrongly."""
    name = "person, 1 a period and 2 in all, added"
    people, handling, _ = UNITS[name]
    return sum(
        told(found, name, replace(handling, **wrong)) > charged(found.charges, people) + ROOM  # type: ignore[arg-type]
        for found in whole_sequences(N_WRONG, erased=erased)
    )


@pytest.mark.slow
def test_sequences_in_which_nothing_is_done_wrongly_tell_no_more() -> None:
    assert above() == 0


@pytest.mark.slow
def test_a_retirement_that_forgets_how_many_records_a_person_had_is_caught() -> None:
    """Whoever had two that are erased begins anew, and has three."""
    assert above(forgets=True) > 0


@pytest.mark.slow
def test_late_records_that_are_put_into_a_sealed_period_are_caught() -> None:
    """An answer was drawn without them and is refined with them."""
    assert above(unseal=True) > 0


@pytest.mark.slow
def test_a_row_that_is_refined_on_erased_records_is_caught() -> None:
    """Its old answer counted them, its new one does not."""
    assert above(erased=True) > 0
