"""A store that cannot serve: full disk, no memory, no replicas, read-only, slow, clock set back."""

from __future__ import annotations

import resource
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from qserver.errors import FencedError, JournalError, StoreNotDurableError, StoreUnavailableError
from qserver.records.answer import JobStatus
from qserver.storage.keys import Keys
from qserver.storage.server.connection import StoreClient, connect
from qserver.storage.server.embedded_store import EmbeddedServer
from qserver.storage.spend import SpendingStore
from qserver.storage.store import Store
from tests.deployment import LOG, Deployment
from tests.faults.checks import Books, faults
from worker.spending.group import planner
from worker.spending.group.spends import rehearse
from worker.spending.loop import Loop
from worker.spending.spend import Spender

pytestmark = [
    pytest.mark.promise(
        "Faults and races",
        "every accepted job ends, in an answer or a failure with a code",
    ),
    pytest.mark.promise(
        "Faults and races",
        "a worker that was held still until its lease passed on leaves its job to the new holder",
    ),
    pytest.mark.promise(
        "Faults and races",
        "a full disk, no memory, a read-only or slow or emptied store, a journal that cannot "
        "grow, clocks that step: nothing is lost or spent twice",
    ),
    pytest.mark.promise(
        "Faults and races",
        "a worker whose lease passed on throws its draw away",
    ),
]

YOUNG: dict[str, object] = {"age": {"below": 25}}
KEYS = Keys("town")
PATIENCE_S = 120.0


@pytest.fixture
def server(tmp_path: Path) -> Iterator[EmbeddedServer]:
    with EmbeddedServer.start(tmp_path / "store") as server:
        yield server


@pytest.fixture
def town(tmp_path: Path, server: EmbeddedServer) -> Deployment:
    """Its lease is short, so that a loop soon goes on, and outlasts a step of a spend."""
    town = Deployment.make(tmp_path, server.url, limit="100")
    return replace(town, settings=replace(town.settings, lease_ms=5000))


@pytest.fixture
def client(server: EmbeddedServer) -> StoreClient:
    return connect(server.url, role="test")


def submitted(town: Deployment, where: dict[str, object] | None = None) -> str:
    found = town.submit(where or YOUNG)
    assert isinstance(found, JobStatus)
    return found.id


def state(town: Deployment, job: str) -> str:
    return town.service().job(job).state


def is_done(town: Deployment, job: str) -> bool:
    return state(town, job) == "done"


def books_are_right(town: Deployment, client: StoreClient) -> bool:
    journal = town.registry.journal("town", create=False)
    return faults(Books.read(client, "town", journal)) == []


@contextmanager
def looping(town: Deployment) -> Iterator[Loop]:
    """A worker's loop at work, the only one that says it lives."""
    signs = SpendingStore.open(town.settings).queue
    signs.leave(["town"], worker="test")
    loop = Loop(settings=town.settings, trusted=town.trusted(), log=LOG)
    thread = threading.Thread(target=loop.run)
    thread.start()
    try:
        assert comes_true(lambda: Store.open(town.settings).worker_alive("town"))
        yield loop
        assert thread.is_alive()
    finally:
        loop.stop()
        thread.join(timeout=PATIENCE_S)


def comes_true(what: Callable[[], bool]) -> bool:
    """Whether something comes true before anybody would lose patience."""
    waiting = threading.Event()
    return any(what() or waiting.wait(0.02) for _ in range(int(PATIENCE_S / 0.02)))


@pytest.mark.slow
def test_without_memory_nothing_is_charged_and_the_job_is_answered_later(
    town: Deployment, client: StoreClient
) -> None:
    job = submitted(town)
    with looping(town):
        assert comes_true(lambda: state(town, job) == "done")
        second = submitted(town, {"sex": "Male"})
        client.config_set("maxmemory", "1mb")
        with pytest.raises(StoreUnavailableError, match="out of memory"):
            submitted(town, {"age": 20, "sex": "Male"})
        client.config_set("maxmemory", "0")
        assert comes_true(lambda: state(town, second) == "done")
    assert books_are_right(town, client)


@pytest.mark.slow
def test_a_store_that_misses_its_replicas_is_waited_for(
    town: Deployment, client: StoreClient
) -> None:
    setting, bad, good = "min-replicas-to-write", "1", "0"
    job = submitted(town)
    client.config_set(setting, bad)
    with pytest.raises(StoreNotDurableError, match="too few replicas"):
        submitted(town, {"sex": "Male"})
    with pytest.raises(StoreNotDurableError, match="too few replicas"):
        town.work_off()
    client.config_set(setting, good)
    with looping(town):
        assert comes_true(lambda: state(town, job) == "done")
        # The heartbeat must outlive such an answer, or nobody renews the lease any more.
        client.config_set(setting, bad)
        assert comes_true(lambda: not client.exists(KEYS.alive))
        client.config_set(setting, good)
        assert comes_true(lambda: bool(client.exists(KEYS.alive)))
        second = submitted(town, {"sex": "Male"})
        assert comes_true(lambda: state(town, second) == "done")
    assert books_are_right(town, client)


@pytest.mark.slow
def test_a_store_that_turns_read_only_is_waited_for(town: Deployment, client: StoreClient) -> None:
    with looping(town):
        job = submitted(town)
        assert comes_true(lambda: state(town, job) == "done")
        client.replicaof("127.0.0.1", "1")
        with pytest.raises(StoreNotDurableError, match="is a replica"):
            submitted(town, {"sex": "Male"})
        assert comes_true(lambda: not client.exists(KEYS.alive))
        client.replicaof("NO", "ONE")
        assert comes_true(lambda: bool(client.exists(KEYS.alive)))
        second = submitted(town, {"sex": "Male"})
        assert comes_true(lambda: state(town, second) == "done")
    assert books_are_right(town, client)


def test_a_store_that_pauses_delays_answers_and_changes_nothing(
    town: Deployment, client: StoreClient
) -> None:
    with looping(town):
        for i in range(3):
            job = submitted(town, {"age": 20 + i})
            client.execute_command("CLIENT", "PAUSE", 300, "WRITE" if i else "ALL")
            assert comes_true(partial(is_done, town, job))
    assert books_are_right(town, client)


def test_a_full_disk_ends_the_store_and_loses_nothing(
    tmp_path: Path, server: EmbeddedServer, town: Deployment
) -> None:
    """The file may not grow by more than a few kB: an append fails half-way, in some spend."""
    (path,) = (tmp_path / "store").rglob("*.incr.aof")
    size = path.stat().st_size + 6000
    resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (size, size))
    asked: list[str] = []
    with pytest.raises((StoreUnavailableError, StoreNotDurableError)):
        ask_on(town, asked)
    server.stop()
    with EmbeddedServer.start(tmp_path / "store") as anew:
        after = replace(town, settings=replace(town.settings, redis_url=anew.url))
        client = connect(anew.url, role="test")
        client.delete(KEYS.lease)  # its time is over
        after.work_off()
        known = [job for job in asked if client.exists(KEYS.job(job))]
        assert len(known) >= len(asked) - 1
        assert {state(after, job) for job in known} <= {"done", "failed"}
        assert books_are_right(after, client)


def test_a_journal_that_cannot_grow_stops_the_spend_and_burns_it(
    tmp_path: Path, town: Deployment, client: StoreClient
) -> None:
    """The charge is made, its line in the journal is torn: nothing is drawn, the charge stays."""
    town.ask({"sex": "Male"})
    path = tmp_path / "worker" / "journals" / "town.journal"
    job = submitted(town)
    spender, hard = town.spender(), resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 20, hard))
    try:
        with pytest.raises(JournalError, match="is full"):
            spender_work(town, spender)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    town.work_off()
    assert state(town, job) == "failed"
    assert client.hexists(KEYS.burnt, job)
    assert books_are_right(town, client)
    assert town.ask(YOUNG).source == "measured"


def ask_on(town: Deployment, asked: list[str]) -> None:
    """Ask until it fails; ids of jobs are put into `asked`."""
    for i in range(100):
        asked.append(submitted(town, {"age": 20 + i % 10, "sex": "Male"}))
        town.work_off()


def spender_work(town: Deployment, spender: Spender) -> None:
    """Work off with errors of the journal let through, as the loop does."""
    writer = town.writer()
    taken = writer.queue.take(["town"], consumer="test", block_ms=None)
    lease = writer.acquire("town")
    assert taken is not None
    assert lease is not None
    try:
        spender.settle(lease)
        spender.work(lease, [taken])
    finally:
        writer.release(lease)


@pytest.mark.parametrize("step_s", [-(10**6), 10**6])
def test_a_clock_that_steps_between_spends_changes_no_charge(
    town: Deployment, client: StoreClient, step_s: int
) -> None:
    town.ask(YOUNG, length=40)
    spender = town.spender()
    spender._wall_clock = lambda: 1.8e9 + step_s
    town.submit(YOUNG, length=20)
    town.work_off(spender)
    again = town.ask(YOUNG, length=20)
    assert (again.source, again.version) == ("history", 2)
    assert books_are_right(town, client)


def test_a_lease_that_a_clock_set_back_lengthened_is_cut(
    town: Deployment, client: StoreClient
) -> None:
    """A dead holder's lease would end in an hour; the next worker waits a whole lease at most."""
    client.set(KEYS.lease, "of a dead worker", px=3_600_000)
    assert town.writer().acquire("town") is None
    left_ms = client.pttl(KEYS.lease)
    assert 0 < int(left_ms) <= town.settings.lease_ms


def test_a_store_that_was_emptied_while_a_worker_runs_is_refused(
    town: Deployment, client: StoreClient, server: EmbeddedServer
) -> None:
    job = submitted(town)
    loop = Loop(settings=town.settings, trusted=town.trusted(), log=LOG)
    found: list[BaseException] = []

    def run() -> None:
        try:
            loop.run()
        except Exception as exc:  # noqa: BLE001 - it is looked at below
            found.append(exc)

    thread = threading.Thread(target=run)
    thread.start()
    assert comes_true(lambda: state(town, job) == "done")
    client.flushall()
    thread.join(timeout=PATIENCE_S)
    assert [getattr(exc, "code", exc) for exc in found] == ["store_behind"]


def test_a_worker_whose_reservation_was_burnt_before_it_was_journalled_draws_nothing(
    town: Deployment, client: StoreClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = submitted(town)
    slow = town.spender()
    reserve, drawn = slow._writer.reserve, []

    def reserving(*args: object, **kwargs: object) -> int:
        version = reserve(*args, **kwargs)  # type: ignore[arg-type]
        client.delete(KEYS.lease)
        town.work_off()  # another worker takes over, and burns the reservation
        return version

    monkeypatch.setattr(slow._writer, "reserve", reserving)
    monkeypatch.setattr(slow._spends, "draw", lambda *args: drawn.append(args))
    with pytest.raises(FencedError):
        spender_work(town, slow)
    assert drawn == []
    assert state(town, job) == "failed"
    assert books_are_right(town, client)


def test_a_worker_whose_lease_passed_on_while_it_planned_leaves_the_job_to_the_holder(
    town: Deployment, client: StoreClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its plan is older than what the journal has by then: that is no fault of the books."""
    job = submitted(town)
    slow = town.spender()

    def rehearsing(*args: object) -> object:
        found = rehearse(*args)  # type: ignore[arg-type]
        if first:
            first.clear()
            client.delete(KEYS.lease)
            town.ask({"sex": "Male"})  # another worker works this job off, and the one asked here
        return found

    first = [True]
    monkeypatch.setattr(planner, "rehearse", rehearsing)
    with pytest.raises(FencedError):
        spender_work(town, slow)
    assert state(town, job) == "done"
    assert books_are_right(town, client)


def test_a_worker_whose_lease_passed_on_while_it_measured_throws_its_draw_away(
    town: Deployment, client: StoreClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = submitted(town)
    slow = town.spender()
    draw = slow._spends.draw

    def drawing(*args: object) -> object:
        drawn = draw(*args)  # type: ignore[arg-type]
        client.delete(KEYS.lease)
        town.work_off()  # another worker takes over, and burns the reservation
        return drawn

    monkeypatch.setattr(slow._spends, "draw", drawing)
    spender_work(town, slow)
    assert state(town, job) == "failed"
    assert client.hexists(KEYS.burnt, job)
    assert books_are_right(town, client)
