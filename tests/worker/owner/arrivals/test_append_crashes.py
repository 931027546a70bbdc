"""An append that dies at any of its steps: nothing is half sealed, and the next one finishes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from qserver.errors import JournalError, PrivateDataError, StoreCorruptError
from qserver.storage.keys import Keys
from qserver.storage.owner import OwnerOperations
from qserver.storage.server.connection import StoreClient
from qserver.storage.spend import SpendingStore
from tests.deployment import LOG
from tests.growing import Growing, rows_of, week
from tests.sweeps import share
from tests.worker.owner.arrivals.crashes import DELTAS, Step, die_at, faults, folder_of
from worker.journal.journal import Journal
from worker.owner.arrivals import sealing
from worker.owner.restore import restore
from worker.private import parts
from worker.private.parts import PartFolder
from worker.private.registry import Registry
from worker.spending.group.replicas import Seals

WHERE = {"week": week(3)}


@pytest.fixture(params=DELTAS)
def town(tmp_path: Path, store_url: str, request: pytest.FixtureRequest) -> Growing:
    return Growing.begin(tmp_path, store_url, delta=request.param)


STEPS = [
    Step(PartFolder, "sweep", True, 0, False),
    Step(parts, "write_all", False, 0, False),
    Step(parts, "write_all", True, 0, False),
    Step(Path, "replace", False, 0, False),
    Step(Path, "replace", True, 0, False),
    Step(parts, "sync_folder", True, 0, False),
    Step(sealing.Sealing, "wait_for_minute", False, 0, False),
    Step(SpendingStore, "acquire", True, 0, False),
    Step(Seals, "follow", True, 0, False),
    Step(Journal, "append", False, 0, False),
    Step(Journal, "append", True, 0, True),
    Step(OwnerOperations, "seal", False, 0, True),
    Step(OwnerOperations, "seal", True, 0, True),
    Step(SpendingStore, "await_durable", True, 0, True),
    Step(SpendingStore, "release", False, 0, True),
]


@pytest.mark.slow
@pytest.mark.parametrize("step", share(STEPS, 5))
def test_an_append_that_dies_is_whole_or_was_never_there(
    town: Growing,
    monkeypatch: pytest.MonkeyPatch,
    redis_client: StoreClient,
    step: Step,
) -> None:
    """The journal's line decides. A worker that starts then shows the week, or deletes its file."""
    before = town.ask({}, length=30)
    die_at(step, lambda: town.append(3), monkeypatch, redis_client)
    assert town.ask({}, length=30).estimate == before.estimate or step.decided
    town.work_off()
    assert town.n_shown == (4 if step.decided else 3)
    names = {path.name for path in folder_of(town).iterdir()} - {"lock"}
    assert len(names) == (2 if step.decided else 1)
    assert not faults(town)
    done = town.append(3)
    assert (done.again, town.n_shown) == (step.decided, 4)
    assert abs(town.ask(WHERE, length=8).estimate - 200) < 30


def test_a_torn_line_of_the_journal_seals_nothing(town: Growing) -> None:
    path = town.registry.journal("town", create=False).path
    n_bytes = path.stat().st_size
    town.append(3)
    whole = path.read_bytes()
    for cut in (n_bytes + 1, len(whole) - 1):
        path.write_bytes(whole[:cut])
        state = Registry(town.settings.state_dir).journal("town", create=False).state
        assert state.n_sealed(town.meta.snapshot) == 3


def test_a_store_ahead_of_the_journal_is_refused(town: Growing) -> None:
    """Someone sealed a week in the store alone: nothing is drawn, and the journal's word holds."""
    path = town.registry.journal("town", create=False).path
    before = path.read_bytes()
    town.append(3)
    path.write_bytes(before)
    with pytest.raises(StoreCorruptError, match="sealed that its journal lacks"):
        town.work_off()
    assert faults(town)


def test_a_store_that_was_lost_gets_its_weeks_back(
    town: Growing, redis_client: StoreClient
) -> None:
    town.append(3)
    answer = town.ask(WHERE, length=20)
    redis_client.flushall()
    restore(
        town.settings,
        registry=Registry(town.settings.state_dir),
        accept_loss=[],
        log=LOG,
        say=lambda _text: None,
    )
    assert town.n_shown == 4
    assert town.ask(WHERE, length=20).estimate == answer.estimate


def test_no_new_journal_is_begun_for_a_dataset_that_grows(town: Growing) -> None:
    """The journal alone says which parts are sealed."""
    town.registry.journal("town", create=False).path.unlink()
    with pytest.raises(JournalError, match="data that arrive over time"):
        restore(
            town.settings,
            registry=Registry(town.settings.state_dir),
            accept_loss=["town"],
            log=LOG,
            say=lambda _text: None,
        )


def test_a_full_disk_seals_nothing(town: Growing, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_args: Any) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(parts, "write_all", full)
    with pytest.raises(PrivateDataError, match="No space left"):
        town.append(3)
    monkeypatch.undo()
    assert town.n_shown == 3
    assert not town.append(3).again


def test_a_worker_that_lost_a_part_draws_nothing_from_the_others(town: Growing) -> None:
    """A line without its file: questions end before anything is charged."""
    spender = town.spender()
    town.append(3)
    (folder_of(town) / "0000003-0000004.part").unlink()
    job = town.submit(WHERE, length=20)
    town.work_off(spender)
    status = town.service().job(job.id)
    assert status.problem is not None
    assert status.problem["code"] == "measurement_failed"
    assert town.service().dataset("people").spent_nano == 0


def test_nothing_of_a_part_tells_how_many_records_it_has(
    tmp_path: Path, store_url: str, redis_client: StoreClient
) -> None:
    """All that the store has of an arrival is the same for 1 record and for 400."""
    seen = []
    for n in (1, 400):
        redis_client.flushall()
        (tmp_path / str(n)).mkdir()
        town = Growing.begin(tmp_path / str(n), store_url)
        town.append(3, rows_of(3, n))
        names = sorted(redis_client.keys("*"))
        ledger = redis_client.hgetall(Keys("town").ledger)
        fields = {k: len(v) for k, v in ledger.items()}
        seen.append(
            ([str(k).replace(town.meta.snapshot, "") for k in names], sorted(fields.values()))
        )
    assert seen[0] == seen[1]
