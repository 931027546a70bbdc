"""Rotation on a real store: what was spent, what stays readable, and a crash at every step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from qserver.errors import (
    BudgetExhaustedError,
    DisclosureGuardError,
    NotFoundError,
    PrivateDataError,
    StaleVersionError,
    StoreCorruptError,
)
from qserver.records.answer import JobStatus
from qserver.records.dataset import DatasetMeta
from qserver.records.history import HistoryRow
from qserver.storage.encoding.digests import meta_text, sealed_fields
from qserver.storage.keys import Keys
from qserver.storage.owner import OwnerOperations
from qserver.storage.server.connection import StoreClient
from qserver.storage.spend import SpendingStore
from tests.deployment import LOG, Deployment, write_people
from tests.sweeps import share
from tests.worker.crashes import Crash, crashing
from worker.journal.journal import Journal
from worker.owner.checks.audit import examine
from worker.owner.rotate import RotateRequest, rotate
from worker.private.registry import Registry
from worker.spending.spend import Spender

pytestmark = [
    pytest.mark.promise(
        "Guard rails",
        "a rotation freezes the old history and carries over what was spent, also where it dies "
        "at any step",
    ),
]

YOUNG = {"age": {"below": 25}}
NEW_ROWS = [(20 + i % 5, "Male") for i in range(900)]


@pytest.fixture
def town(tmp_path: Path, store_url: str) -> Deployment:
    return Deployment.make(tmp_path, store_url)


def turn(town: Deployment, *, disjoint: bool = False, name: str = "new.csv") -> DatasetMeta:
    data = write_people(town.settings.state_dir / name, NEW_ROWS)
    return rotate(
        RotateRequest("people", data, disjoint),
        settings=town.settings,
        registry=Registry(town.settings.state_dir),
        progress=lambda _text: None,
        log=LOG,
        pause=lambda _s: None,
    )


def face(town: Deployment) -> tuple[int, int]:
    """The population's spent budget, and what the dataset may still spend."""
    status = town.service().dataset("people")
    return status.spent_nano, status.remaining_nano


def test_new_data_are_measured_and_the_old_history_stays_readable(town: Deployment) -> None:
    service = town.service()
    first = town.ask(YOUNG, length=40)
    before = service.history.page("people", after=-1, limit=10)
    meta = turn(town)
    status = service.dataset("people")
    assert (status.snapshot, status.version) == (meta.snapshot, 0)
    assert status.earlier_snapshots == (town.meta.snapshot,)
    assert service.history.page("people", after=-1, limit=10).rows == ()
    assert service.history.page("people", after=-1, limit=10, snapshot=town.meta.snapshot) == before
    old_row = service.history.measurement("people", 0, snapshot=town.meta.snapshot)
    assert isinstance(old_row, HistoryRow)
    assert old_row.value == pytest.approx(first.estimate)
    second = town.ask(YOUNG, length=40)
    assert second.source == "measured"
    assert abs(second.estimate - len(NEW_ROWS)) < 200
    with pytest.raises(NotFoundError):
        service.history.page("people", after=-1, limit=10, snapshot="nothing")


def test_what_was_spent_counts_for_every_cell_of_the_new_data(town: Deployment) -> None:
    """Also for cells that the old data never lost anything on: a person may stand there now."""
    first = town.ask(YOUNG, length=20)
    turn(town)
    assert face(town) == (first.charged_nano, 10**9 - first.charged_nano)
    second = town.ask({"age": {"at_least": 25}}, length=20)
    assert second.charged_nano == first.charged_nano
    assert face(town) == (2 * first.charged_nano, 10**9 - 2 * first.charged_nano)
    with pytest.raises(BudgetExhaustedError):
        town.ask(YOUNG, length=8)


@pytest.mark.slow
def test_disjoint_people_start_anew_and_the_population_pays_for_the_dearer(
    town: Deployment,
) -> None:
    first = town.ask(YOUNG, length=20)
    turn(town, disjoint=True)
    assert face(town) == (first.charged_nano, 10**9)
    cheaper = town.ask(YOUNG, length=40)
    assert cheaper.charged_nano == pytest.approx(first.charged_nano / 2, rel=1e-5)
    assert face(town) == (first.charged_nano, 10**9 - cheaper.charged_nano)
    town.ask(YOUNG, length=8)
    spent, remaining = face(town)
    assert spent == 10**9 - remaining > first.charged_nano
    # The third are the second's people again: both of their losses count.
    turn(town)
    assert face(town) == (spent, remaining)
    with pytest.raises(BudgetExhaustedError):
        town.ask(YOUNG, length=20)


def test_the_guard_counts_what_the_same_people_lost_before(tmp_path: Path, store_url: str) -> None:
    town = Deployment.make(tmp_path, store_url, disclosure_cap=0.1)
    town.ask(YOUNG, length=40)
    turn(town)
    with pytest.raises(DisclosureGuardError):
        town.ask({"age": {"at_least": 25}}, length=40)
    turn(town, disjoint=True)
    assert town.ask({"age": {"at_least": 25}}, length=40).source == "measured"


def test_a_question_that_waited_fails_unpaid_and_may_be_asked_again(town: Deployment) -> None:
    spender = town.spender()
    town.ask(YOUNG, length=80)
    waiting = town.submit(YOUNG, length=40)
    assert isinstance(waiting, JobStatus)
    spent = face(town)[0]
    turn(town)
    town.work_off(spender)
    status = town.service().job(waiting.id)
    assert status.problem is not None
    assert (status.state, status.problem["code"]) == ("failed", "snapshot_replaced")
    assert face(town)[0] == spent
    assert town.ask(YOUNG, length=40).source == "measured"


@pytest.mark.parametrize(
    ("step", "after", "state"),
    [
        ("_writer.reserve", True, "failed"),
        ("_spends.draw", True, "failed"),
        ("_spends.release", True, "done"),
        ("_writer.publish", True, "done"),
        ("_writer.acknowledge", False, "done"),
    ],
)
def test_what_a_dead_worker_began_is_settled_before_the_snapshot_changes(
    town: Deployment, step: str, after: bool, state: str
) -> None:
    job = town.submit(YOUNG, length=40)
    assert isinstance(job, JobStatus)
    spender: Spender = town.spender()
    crashing(spender, step, after=after)
    writer = town.writer()
    taken = writer.queue.take(["town"], consumer="dies", block_ms=None)
    lease = writer.acquire("town")
    assert taken is not None
    assert lease is not None
    with pytest.raises(Crash):
        spender.work(lease, [taken])
    writer.release(lease)
    meta = turn(town)
    found = town.service().job(job.id)
    assert found.state == state
    spent = face(town)[0]
    assert spent > 0
    town.work_off()
    page = town.service().history.page("people", after=-1, limit=10, snapshot=town.meta.snapshot)
    assert len(page.rows) == (1 if state == "done" else 0)
    assert (town.service().dataset("people").snapshot, face(town)[0]) == (meta.snapshot, spent)


CRASHES: list[tuple[type[Any], str, bool]] = [
    (SpendingStore, "acquire", True),
    (Journal, "append", False),
    (Journal, "append", True),
    (Registry, "put_next", False),
    (Registry, "put_next", True),
    (OwnerOperations, "rotate", False),
    (OwnerOperations, "rotate", True),
    (SpendingStore, "await_durable", True),
    (Registry, "settle", True),
]


@pytest.mark.slow
@pytest.mark.parametrize(("owner", "method", "after"), share(CRASHES, 6))
def test_a_rotation_that_dies_at_any_step_leaves_one_whole_snapshot_or_the_other(
    town: Deployment,
    monkeypatch: pytest.MonkeyPatch,
    redis_client: StoreClient,
    owner: type[Any],
    method: str,
    after: bool,
) -> None:
    """Whichever it is, a worker that starts then can measure it, and the next rotation works."""
    first = town.ask(YOUNG, length=40)
    original: Callable[..., Any] = getattr(owner, method)

    def step(*args: Any, **kwargs: Any) -> Any:
        if after:
            original(*args, **kwargs)
        raise Crash

    monkeypatch.setattr(owner, method, step)
    with pytest.raises(Crash):
        turn(town)
    monkeypatch.undo()
    # What time does to the lease of a process that died.
    redis_client.delete(Keys("town").lease)
    status = town.service().dataset("people")
    is_new = status.snapshot != town.meta.snapshot
    assert status.spent_nano == first.charged_nano
    answer = town.ask(YOUNG, length=30)
    assert abs(answer.estimate - (len(NEW_ROWS) if is_new else 250)) < 200
    assert all(f.ok for f in examine(town.registry, town.settings) if "BLAS" not in f.check)
    again = turn(town, name="newer.csv")
    names = [e.snapshot for e in town.registry.entries().values()]
    assert names == [again.snapshot]
    assert town.ask(YOUNG, length=60).source == "measured"
    assert len(town.service().dataset("people").earlier_snapshots) == 1 + is_new


def test_of_two_rotations_at_once_one_holds_and_the_other_is_refused(
    town: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second reads its file, and meanwhile the first is done from end to end."""
    done: list[DatasetMeta] = []

    def first(*args: Any, **kwargs: Any) -> Any:
        monkeypatch.undo()
        done.append(turn(town, name="first.csv"))
        return town.writer().acquire("town")

    monkeypatch.setattr(SpendingStore, "acquire", first)
    with pytest.raises(StaleVersionError):
        turn(town, name="second.csv")
    assert [e.snapshot for e in town.registry.entries().values()] == [done[0].snapshot]
    assert town.ask(YOUNG, length=40).source == "measured"


def test_a_rotation_of_nothing_or_by_nothing_changes_nothing(town: Deployment) -> None:
    request = RotateRequest("people", town.data.parent / "absent.csv")
    for wrong, error in (
        (request, PrivateDataError),
        (RotateRequest("x", town.data), NotFoundError),
    ):
        with pytest.raises(error):
            rotate(
                wrong,
                settings=town.settings,
                registry=town.registry,
                progress=lambda _text: None,
                log=LOG,
            )
    assert town.service().dataset("people").snapshot == town.meta.snapshot


def test_facts_that_are_not_the_journals_are_not_taken_over(
    town: Deployment, redis_client: StoreClient
) -> None:
    """A guard that was taken away in the store would be gone from the new data for good."""
    journal = Registry(town.settings.state_dir).journal("town", create=False)
    before = journal.path.read_bytes()
    changed = replace(town.meta, phi=town.meta.phi / 2)
    redis_client.hset(Keys("town").dataset("people"), "meta", meta_text(changed))
    with pytest.raises(StoreCorruptError, match="`phi` of dataset people is not what was attached"):
        turn(town)
    assert journal.path.read_bytes() == before
    assert town.service().dataset("people").snapshot == town.meta.snapshot
    redis_client.hset(Keys("town").dataset("people"), "meta", meta_text(town.meta))
    assert turn(town).phi == town.meta.phi


def test_a_limit_that_the_journal_has_not_stops_a_rotation(
    town: Deployment, redis_client: StoreClient
) -> None:
    """Sealed as whoever writes to the store on purpose seals it."""
    redis_client.hset(
        Keys("town").ledger, mapping=dict[Any, Any](sealed_fields({"limit": str(2 * 10**9)}))
    )
    with pytest.raises(StoreCorruptError, match="the limit is more than the journal's"):
        turn(town)
