"""Top-up: journal first, then store; a crash between the two is finished by the next call."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from qserver.errors import BudgetExhaustedError, ConfigError, JournalError, StoreBehindError
from qserver.ledger.noise_step import lattice_step
from qserver.query.linear_query import total_query
from qserver.query.primitive import primitive
from qserver.storage.owner import OwnerOperations
from qserver.storage.server.connection import StoreClient
from tests.deployment import PEOPLE, Deployment
from tests.worker.by_hand import live
from tests.worker.crashes import Crash
from tests.worker.forge import forge_ledger
from worker.owner.attach import AttachRequest, attach
from worker.owner.changes import top_up
from worker.owner.checks.audit import examine

pytestmark = [
    pytest.mark.promise(
        "Guard rails",
        "a limit is raised by the owner alone, never lowered, and never paid from before the "
        "journal allows it",
    ),
]

YOUNG = {"age": {"below": 25}}


@pytest.fixture
def town(tmp_path: Path, store_url: str) -> Deployment:
    return Deployment.make(tmp_path, store_url, limit="0.2")


def raise_to(town: Deployment, limit: str) -> None:
    top_up("town", Fraction(limit), settings=town.settings, registry=town.registry)


def limits(town: Deployment) -> tuple[int, int | None]:
    """The store's limit and the journal's."""
    store = town.service().dataset("people").limit_nano
    return store, town.registry.journal("town", create=False).state.limit_nano


def test_a_raised_limit_pays_what_was_refused_before(town: Deployment) -> None:
    spender = town.spender()
    town.ask(YOUNG, length=60)
    with pytest.raises(BudgetExhaustedError):
        town.ask(YOUNG, length=10)
    raise_to(town, "2")
    assert limits(town) == (2 * 10**9, 2 * 10**9)
    # A worker that was there before the raise needs no restart.
    job = town.submit(YOUNG, length=10)
    town.work_off(spender)
    assert town.service().job(job.id).state == "done"
    assert town.service().dataset("people").spent_nano > 2 * 10**8


@pytest.mark.parametrize("limit", ["0.1", "0.2", "0", "-1", "1000001"])
def test_a_limit_is_never_lowered_or_left(town: Deployment, limit: str) -> None:
    with pytest.raises(ConfigError, match="`limit`"):
        raise_to(town, limit)
    assert limits(town) == (2 * 10**8, 2 * 10**8)


@pytest.mark.parametrize("after", [False, True])
def test_a_crash_between_journal_and_store_is_finished_by_the_same_call(
    town: Deployment, monkeypatch: pytest.MonkeyPatch, after: bool
) -> None:
    original = OwnerOperations.raise_limit

    def die(self: OwnerOperations, population: str, *, limit_nano: int) -> bool:
        if after:
            original(self, population, limit_nano=limit_nano)
        raise Crash

    monkeypatch.setattr(OwnerOperations, "raise_limit", die)
    with pytest.raises(Crash):
        raise_to(town, "2")
    monkeypatch.undo()
    found = [f.ok for f in examine(town.registry, town.settings) if "journal" in f.check]
    assert found == [after]
    # Never may the store allow what the journal does not.
    store, journal = limits(town)
    assert journal == 2 * 10**9
    assert store == (journal if after else 2 * 10**8)
    town.ask(YOUNG, length=60)
    if after:
        with pytest.raises(ConfigError, match="be more than"):
            raise_to(town, "2")
    else:
        raise_to(town, "2")
    assert limits(town) == (2 * 10**9, 2 * 10**9)


def test_nothing_is_raised_without_a_journal_or_on_a_store_that_forgot(
    town: Deployment, redis_client: StoreClient
) -> None:
    with pytest.raises(JournalError):
        top_up("city", Fraction(3), settings=town.settings, registry=town.registry)
    with pytest.raises(ConfigError, match="`population`"):
        top_up("../town", Fraction(3), settings=town.settings, registry=town.registry)
    town.ask(YOUNG, length=60)
    forge_ledger(redis_client, {"version": "0"})
    with pytest.raises(StoreBehindError):
        raise_to(town, "3")
    assert limits(town) == (2 * 10**8, 2 * 10**8)


def test_a_row_keeps_its_lattice_step_and_new_rows_get_a_finer_one(town: Deployment) -> None:
    """A step that changed would reveal residues; the wider allowance is in the interval."""
    before = town.ask(YOUNG, length=60)
    old_step = live(town)[0].step
    raise_to(town, "200")
    refined = town.ask(YOUNG, length=2)
    other = town.ask({"sex": "Male"}, length=60)
    assert refined.source == "refined"
    assert refined.evidence == before.evidence == (0,)
    steps = {m.id: m.step for m in live(town)}
    assert steps[0] == old_step
    assert steps[other.evidence[-1]] < old_step
    unit = primitive(total_query(PEOPLE.sizes)).unit
    assert old_step == lattice_step(unit, limit_nano=2 * 10**8, records_per_person=1)
    # Room for the lattice: alpha makes b = (L / 2 - g) / ln 20, up to rounding to nano-epsilon.
    alpha = next(m.alpha_nano for m in live(town) if m.id == 0) / 1e9
    from math import log

    assert alpha == pytest.approx(log(20) / (1 - float(old_step)), rel=1e-7)


def test_a_dataset_that_joins_later_names_the_raised_limit(town: Deployment) -> None:
    raise_to(town, "2")
    for limit, fits in (("0.2", False), ("2", True)):
        request = AttachRequest("more", town.data, PEOPLE, Fraction(limit), "add-remove", "town", 1)
        if fits:
            attach(
                request,
                settings=town.settings,
                registry=town.registry,
                progress=lambda _text: None,
            )
        else:
            with pytest.raises(ConfigError, match="`limit`"):
                attach(
                    request,
                    settings=town.settings,
                    registry=town.registry,
                    progress=lambda _text: None,
                )
    assert town.service().dataset("more").limit_nano == 2 * 10**9
