"""A retirement that dies at any of its steps: nothing is half erased, and the next one finishes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from qserver.errors import PrivateDataError, StoreCorruptError
from qserver.storage.keys import Keys
from qserver.storage.owner import OwnerOperations
from qserver.storage.server.connection import StoreClient
from qserver.storage.spend import SpendingStore
from tests.deployment import LOG
from tests.growing import Growing, rows_of, week
from tests.sweeps import share
from tests.worker.owner.arrivals.crashes import DELTAS, Step, die_at, faults, folder_of
from tests.worker.owner.arrivals.test_retire import known, refused
from worker.journal.journal import Journal
from worker.owner.arrivals import sealing
from worker.owner.restore import restore
from worker.private import parts
from worker.private.parts import PartFolder
from worker.private.registry import Registry
from worker.spending.group.replicas import Seals

FIRST = 2


@pytest.fixture(params=DELTAS)
def town(tmp_path: Path, store_url: str, request: pytest.FixtureRequest) -> Growing:
    """Weeks 0 to 2 in one part, and week 3 in another one."""
    town = Growing.begin(tmp_path, store_url, delta=request.param)
    town.append(3)
    return town


STEPS = [
    Step(PartFolder, "sweep", True, 0, False),
    Step(PartFolder, "read", True, 0, False),
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
    Step(OwnerOperations, "retire", False, 0, True),
    Step(OwnerOperations, "retire", True, 0, True),
    Step(SpendingStore, "await_durable", True, 0, True),
    Step(SpendingStore, "release", False, 0, True),
    Step(PartFolder, "sweep", False, 1, True),
    Step(Path, "unlink", False, 0, True),
    Step(Path, "unlink", True, 0, True),
    Step(Registry, "put", False, 0, True),
    Step(Registry, "put", True, 0, True),
]


@pytest.mark.slow
@pytest.mark.parametrize("step", share(STEPS, 5))
def test_a_retirement_that_dies_is_whole_or_was_never_there(
    town: Growing,
    monkeypatch: pytest.MonkeyPatch,
    redis_client: StoreClient,
    step: Step,
) -> None:
    """The journal's line decides. A worker that starts then measures all weeks or the kept ones."""
    before = town.ask({}, length=30)
    die_at(step, lambda: town.retire(FIRST), monkeypatch, redis_client)
    assert known(town, {}, 30).estimate == before.estimate
    job = town.submit({"week": week(0)}, length=8)
    if step.decided:
        assert refused(town, job).first_kept == week(FIRST)
    else:
        town.work_off()
        result = town.service().job(job.id).result
        assert abs(result.estimate - 200) < 30
    assert town.service().state("people").n_retired == (FIRST if step.decided else 0)
    names = {path.name for path in folder_of(town).iterdir()} - {"lock"}
    first = "0000002-0000003.part" if step.decided else "0000000-0000003.part"
    assert names == {first, "0000003-0000004.part"}
    assert not faults(town)
    done = town.retire(FIRST)
    assert (done.again, done.retired) == (step.decided, FIRST)
    assert abs(town.ask({"week": {"at_least": week(FIRST)}}, length=8).estimate - 400) < 30
    assert town.append(4).sealed == 5


def test_a_worker_that_runs_forgets_the_records_at_its_next_question(town: Growing) -> None:
    spender = town.spender()
    town.work_off(spender)
    town.retire(FIRST)
    found = town.submit({"week": week(3)}, length=20)
    town.work_off(spender)
    assert town.service().job(found.id).result is not None
    table = spender._seals._tables[town.meta.snapshot]
    assert table.n_sealed == 4  # type: ignore[attr-defined]
    assert {len(codes) for codes in table._table.codes} == {2 * 500}  # type: ignore[attr-defined]


def test_a_torn_line_of_the_journal_retires_nothing(town: Growing) -> None:
    path = town.registry.journal("town", create=False).path
    n_bytes = path.stat().st_size
    town.retire(FIRST)
    whole = path.read_bytes()
    for cut in (n_bytes + 1, len(whole) - 1):
        path.write_bytes(whole[:cut])
        state = Registry(town.settings.state_dir).journal("town", create=False).state
        assert state.n_retired(town.meta.snapshot) == 0


def test_a_store_ahead_of_the_journal_is_refused(town: Growing, redis_client: StoreClient) -> None:
    """Someone marked weeks as retired in the store alone: nothing is drawn, and doctor tells."""
    path = town.registry.journal("town", create=False).path
    before = path.read_bytes()
    folder = {p: p.read_bytes() for p in folder_of(town).iterdir()}
    town.retire(FIRST)
    path.write_bytes(before)
    for part, text in folder.items():
        part.write_bytes(text)
    with pytest.raises(StoreCorruptError, match="retired that its journal has not"):
        town.work_off()
    assert faults(town)


def test_a_store_that_was_lost_gets_the_mark_back(town: Growing, redis_client: StoreClient) -> None:
    answer = town.ask({"week": week(0)}, length=20)
    town.retire(FIRST)
    redis_client.flushall()
    restore(
        town.settings,
        registry=Registry(town.settings.state_dir),
        accept_loss=[],
        log=LOG,
        say=lambda _text: None,
    )
    assert town.service().state("people").n_retired == FIRST
    assert known(town, {"week": week(0)}, 20).estimate == answer.estimate


def test_a_full_disk_erases_nothing(town: Growing, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_args: Any) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(parts, "write_all", full)
    with pytest.raises(PrivateDataError, match="No space left"):
        town.retire(FIRST)
    monkeypatch.undo()
    assert abs(town.ask({"week": week(0)}, length=20).estimate - 200) < 30
    assert not town.retire(FIRST).again


@pytest.mark.parametrize("where", ["0000002-0000003.part", "0000003-0000004.part"])
def test_a_changed_rest_is_not_served(town: Growing, where: str) -> None:
    """What stays of a part has a fingerprint of its own, chained with what it stands for."""
    town.retire(FIRST)
    path, other = folder_of(town) / where, town.settings.state_dir / "other"
    text = path.read_bytes()
    other.write_bytes(text)
    path.write_bytes(text[:-40] + bytes(40))
    assert any("missing or cannot be read" in text for text in faults(town))


@pytest.mark.slow
def test_nothing_tells_how_many_records_an_arrival_or_a_retirement_has(
    tmp_path: Path, store_url: str, redis_client: StoreClient
) -> None:
    """Late ones too: all that the store has is the same for 1 record and for 400, and the minute
    is waited for."""
    seen = []
    for n in (1, 400):
        redis_client.flushall()
        (tmp_path / str(n)).mkdir()
        town = Growing.begin(tmp_path / str(n), store_url)
        late = [(week(0), "Male", f"late{i}") for i in range(n // 8)]
        town.append(3, [*rows_of(3, n), *late], late="move")
        town.retire(2)
        assert town.waits == [30.0, 30.0]
        log = redis_client.lrange("qs:audit", 0, -1)
        lengths = {k: len(v) for k, v in redis_client.hgetall(Keys("town").ledger).items()}
        names = sorted(str(k).replace(town.meta.snapshot, "") for k in redis_client.keys("*"))
        seen.append((names, sorted(lengths.values()), list(map(len, log))))
    assert seen[0] == seen[1]
