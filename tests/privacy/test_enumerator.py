"""No worker tells people of small worlds apart better than its ledger charges; by enumeration.

A fresh seed in each run; `QSERVER_SEED`, which a failure prints, repeats it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from qserver.records.charge import NANO
from qserver.records.plan import PlannedRow
from tests.privacy.small_towns import LIMIT, SmallTown
from worker.books.accountant import VERIFIED, Accountant
from worker.spending import measure as measuring
from worker.spending.answers_in_force import Live

pytestmark = [
    pytest.mark.promise(
        "Privacy",
        "what a worker draws tells nobody apart better than the ledger charges, to the last unit "
        "of 1e-9, at each step of random histories: questions, tables, SQL in steps, models, "
        "several datasets, both relations, both kinds of privacy, people with several records, "
        "data that arrive and their units; too little noise, too small charges and people with "
        "more records than declared are found",
    ),
]

SHORT = {
    "questions": (("ask", "at once"), 2),
    "statements": (("sql",), 1),
    "models": (("model",), 1),
}
"""Kinds of steps and how many of them: less than half a second of the processor each."""
ALL = ("ask", "at once", "sql", "workload", "model", "form", "refused")
Begin = Callable[..., SmallTown]
KINDS_OF_PRIVACY = pytest.mark.parametrize(
    "delta", [None, Fraction(1, 10**9)], ids=["pure", "zcdp"]
)


def assert_paid_for(town: SmallTown, kinds: Sequence[str], n_steps: int) -> None:
    """After each step nobody has lost more than the ledger says, nor it more than the limit."""
    for _ in town.play(kinds, n_steps):
        as_drawn, at_worst = town.losses()
        budget = town.budget
        assert as_drawn <= budget.spent_nano
        assert at_worst <= budget.spent_nano
        assert budget.spent_nano <= budget.limit_nano <= LIMIT * NANO


@KINDS_OF_PRIVACY
@pytest.mark.parametrize("kinds", SHORT)
def test_nobody_loses_more_than_is_charged(
    kinds: str, seed: str, tmp_path: Path, store_url: str, delta: Fraction | None
) -> None:
    town = SmallTown.begin(tmp_path, store_url, random.Random(seed), delta=delta)
    assert_paid_for(town, *SHORT[kinds])


@KINDS_OF_PRIVACY
def test_nobody_loses_more_than_is_charged_while_data_arrive(
    seed: str, tmp_path: Path, store_url: str, delta: Fraction | None
) -> None:
    town = SmallTown.growing(tmp_path, store_url, random.Random(seed), delta=delta)
    assert_paid_for(town, ("ask",), 2)


@pytest.mark.slow
@KINDS_OF_PRIVACY
@pytest.mark.parametrize("turn", range(6))
def test_nobody_loses_more_after_long_histories(
    turn: int, seed: str, tmp_path: Path, store_url: str, delta: Fraction | None
) -> None:
    begin = SmallTown.growing if turn % 3 == 0 else SmallTown.begin
    rng = random.Random(f"{seed} {turn}" if delta else seed)
    assert_paid_for(begin(tmp_path, store_url, rng, delta=delta), ALL, 8)


# What must be found.

Fault = Callable[[], AbstractContextManager[Any]]


def noise_too_small() -> AbstractContextManager[Any]:
    """Draws at five fourths of what was paid for."""
    draw = measuring.draw_answers

    def drawn(truths: Any, planned: Any, *origins: Any, **more: Any) -> tuple[int, ...]:
        more_exact = replace(planned, alpha_nano=planned.alpha_nano * 5 // 4)
        return draw(truths, more_exact, *origins, **more)

    return mock.patch.object(measuring, "draw_answers", drawn)


def too_exact(parts: int) -> AbstractContextManager[Any]:
    """Gaussian draws at so many fourths of what was paid for."""
    draw = measuring._Drawing._gaussian

    def drawn(of: Any, truths: Any, planned: Any) -> tuple[int, ...]:
        return draw(of, truths, replace(planned, alpha_nano=planned.alpha_nano * parts // 4))

    return mock.patch.object(measuring._Drawing, "_gaussian", drawn)


def fresh_noise_for_refined() -> AbstractContextManager[Any]:
    """A row is measured anew where it was paid as a refinement."""
    return mock.patch.object(Live, "origin_of_row", return_value=None)


def charges_too_small() -> AbstractContextManager[Any]:
    """Rows that are charged a part less, where the books that would see it are silent."""
    charge = PlannedRow.charge_nano.fget  # type: ignore[attr-defined]
    stack = ExitStack()
    less = property(lambda row: charge(row) - charge(row) // 1000)
    stack.enter_context(mock.patch.object(PlannedRow, "charge_nano", less))
    stack.enter_context(mock.patch.object(Accountant, "judge", return_value=VERIFIED))
    return stack


@pytest.mark.parametrize("fault", [noise_too_small, fresh_noise_for_refined, charges_too_small])
def test_a_fault_is_found(fault: Fault, tmp_path: Path, store_url: str) -> None:
    town = SmallTown.begin(tmp_path, store_url, random.Random("fault"))
    with pytest.raises(AssertionError), fault():
        assert_paid_for(town, ("ask",), 6)


@pytest.mark.parametrize(
    ("begin", "fault"),
    [
        (SmallTown.begin, partial(too_exact, 5)),
        (SmallTown.begin, charges_too_small),
        # Where records may come from any period the ledger has a bound alone.
        (SmallTown.growing, partial(too_exact, 16)),
    ],
)
def test_a_fault_is_found_under_zcdp(
    begin: Begin, fault: Fault, tmp_path: Path, store_url: str
) -> None:
    town = begin(tmp_path, store_url, random.Random("fault"), delta=Fraction(1, 10**9))
    with pytest.raises(AssertionError), fault():
        assert_paid_for(town, ("ask",), 4)


@KINDS_OF_PRIVACY
@pytest.mark.parametrize("begin", [SmallTown.begin, SmallTown.growing])
def test_people_with_more_records_than_was_declared_are_found(
    begin: Begin, tmp_path: Path, store_url: str, delta: Fraction | None
) -> None:
    town = begin(tmp_path, store_url, random.Random("words"), delta=delta)
    for snapshot, people in town.people.items():
        town.people[snapshot] = replace(people, k=people.k and people.k + 1, m=people.m + 1)
    with pytest.raises(AssertionError):
        assert_paid_for(town, ("ask",), 4)
