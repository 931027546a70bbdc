"""The supervisor: restarts with growing pauses, a clean stop in order, and signals."""

from __future__ import annotations

import errno
import os
import signal
import threading
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from qserver.cli.processes import (
    Backoff,
    Child,
    ChildSpec,
    StopSignals,
    Supervisor,
    python_command,
    run_to_end,
)
from qserver.errors import (
    ChildFailedError,
    StateInUseError,
    StoreCorruptError,
    StoreKilledError,
    StoreUnavailableError,
)


def spec(name: str, code: str = "", *, log: Path | None = None) -> ChildSpec:
    command = python_command("-c", code)
    return ChildSpec(name=name, command=command, environment=dict(os.environ), log=log)


@dataclass
class FakeChild:
    """A child that ends when the test says so."""

    spec: ChildSpec
    stopped: list[str]
    status: int | None = None
    pid: int = 0

    def stop(self) -> None:
        self.stopped.append(self.spec.name)


@dataclass
class FakeStore:
    """A store that ends and starts when the test says so."""

    status: int | None = None
    advice: str = "/state/server.log says why."
    refusals: list[Exception] = field(default_factory=list)
    n_starts: int = 0
    n_tended: int = 0

    def restart(self) -> None:
        self.n_starts += 1
        if self.refusals:
            raise self.refusals.pop(0)
        self.status = None

    def tend(self) -> str:
        self.n_tended += 1
        return ""


@dataclass
class World:
    """A clock that stands still, a store that can end, and what was started and reported."""

    now: float = 0.0
    store: FakeStore | None = None
    children: list[FakeChild] = field(default_factory=list)
    stopped: list[str] = field(default_factory=list)
    reports: list[str] = field(default_factory=list)

    def supervisor(self) -> Supervisor:
        return Supervisor(
            store=self.store,
            report=self.reports.append,
            backoff=Backoff(first_s=1.0, most_s=8.0, calm_s=60.0),
            clock=lambda: self.now,
            start_child=self.start,
        )

    def start(self, wanted: ChildSpec) -> Child:
        child = FakeChild(wanted, self.stopped)
        self.children.append(child)
        return child  # type: ignore[return-value]


def test_children_are_stopped_in_the_reverse_order_of_their_start() -> None:
    world = World()
    with world.supervisor() as supervisor:
        supervisor.start(spec("worker"))
        supervisor.start(spec("HTTP server"))
    assert world.stopped == ["HTTP server", "worker"]


def test_a_child_that_ended_is_started_again_after_a_pause_and_reported() -> None:
    world = World()
    supervisor = world.supervisor()
    supervisor.start(spec("worker", log=Path("/state/worker.log")))
    world.children[0].status = -9
    assert supervisor.check() == 1.0
    assert len(world.children) == 1
    world.now = 1.0
    supervisor.check()
    assert len(world.children) == 2
    assert world.reports == [
        "The worker ended with status -9; it starts again in 1 s. /state/worker.log says why."
    ]


def test_pauses_double_up_to_a_bound_and_start_over_after_a_calm_time() -> None:
    world = World()
    supervisor = world.supervisor()
    supervisor.start(spec("worker"))
    pauses = []
    for ran_s in (0, 0, 0, 0, 0, 60):
        world.now += ran_s
        world.children[-1].status = 1
        began = world.now
        n_children = len(world.children)
        while len(world.children) == n_children:
            world.now += 0.5
            supervisor.check()
        pauses.append(world.now - began - 0.5)
    assert pauses == [1, 2, 4, 8, 8, 1]


def test_a_store_that_ended_is_started_again_before_the_children() -> None:
    world = World(store=FakeStore())
    store, supervisor = world.store, world.supervisor()
    assert store is not None
    supervisor.start(spec("worker"))
    store.status = world.children[0].status = -9
    supervisor.check()
    assert (store.n_starts, len(world.children)) == (0, 1)
    world.now, store.refusals = 1.0, [StoreUnavailableError("It is not ready.")]
    supervisor.check()
    assert (store.n_starts, store.status, len(world.children)) == (1, -9, 2)
    world.now, n_tended = 3.0, store.n_tended
    supervisor.check()
    assert (store.n_starts, store.status, store.n_tended) == (2, None, n_tended + 1)
    ends = [text for text in world.reports if text.startswith("The store")]
    advice = "/state/server.log says why."
    assert ends == [
        f"The store ended with status -9; it starts again in 1 s. {advice}",
        f"The store did not start (It is not ready.); it starts again in 2 s. {advice}",
    ]


def test_a_store_that_does_not_start_is_tried_again_after_ever_longer_pauses() -> None:
    refusals: list[Exception] = [StoreUnavailableError("It is not ready.") for _ in range(4)]
    world = World(store=FakeStore(status=-9, refusals=refusals))
    store, supervisor = world.store, world.supervisor()
    assert store is not None
    starts = []
    while store.status is not None:
        n_starts = store.n_starts
        supervisor.check()
        if store.n_starts > n_starts:
            starts.append(world.now)
        world.now += 0.5
    assert starts == [1, 3, 7, 15, 23]


@pytest.mark.parametrize(
    "refusal",
    [StateInUseError("Another server has it."), OSError(errno.ENOSPC, "No space left on device")],
    ids=["in use", "full disk"],
)
def test_a_store_whose_folder_cannot_be_used_yet_is_tried_again(refusal: Exception) -> None:
    """What the dead server had forked may hold the folder for a while, and a disk gets room."""
    world = World(store=FakeStore(status=-9, refusals=[refusal]))
    store, supervisor = world.store, world.supervisor()
    assert store is not None
    while store.status is not None:
        supervisor.check()
        world.now += 0.5
    assert store.n_starts == 2


def test_a_store_whose_data_are_damaged_is_not_tried_again() -> None:
    world = World(store=FakeStore(status=1, refusals=[StoreCorruptError("A byte changed.")]))
    supervisor = world.supervisor()
    supervisor.check()
    world.now = 1.0
    with pytest.raises(StoreCorruptError, match="A byte changed"):
        supervisor.check()


def test_what_is_killed_again_and_again_is_away_for_a_moment_each_time() -> None:
    """It had not failed to start; half a minute away each time would leave it no time to work."""
    world = World(store=FakeStore())
    store, supervisor = world.store, world.supervisor()
    assert store is not None
    supervisor.start(spec("worker"))
    for n_kills in range(1, 9):
        store.status = world.children[-1].status = -9
        supervisor.check()
        world.now += 1.0
        supervisor.check()
        assert (store.n_starts, len(world.children)) == (n_kills, n_kills + 1)
        world.now += 3.6


def test_a_store_that_is_killed_while_it_starts_is_tried_again_after_a_moment() -> None:
    refusals: list[Exception] = [StoreKilledError("It ended with status -9.") for _ in range(5)]
    world = World(store=FakeStore(status=-9, refusals=refusals))
    store, supervisor = world.store, world.supervisor()
    assert store is not None
    for n_starts in range(7):
        supervisor.check()
        assert store.n_starts == min(n_starts, 6)
        world.now += 1.0
    assert store.status is None


def test_before_readiness_a_child_that_ended_is_a_failure_that_names_its_log() -> None:
    world = World()
    supervisor = world.supervisor()
    supervisor.start(spec("worker", log=Path("/state/worker.log")))
    supervisor.check_start()
    world.children[0].status = 3
    with pytest.raises(ChildFailedError, match=r"worker ended with status 3.*worker\.log says why"):
        supervisor.check_start()


def test_before_readiness_what_was_killed_is_started_again() -> None:
    world = World(store=FakeStore())
    store, supervisor = world.store, world.supervisor()
    assert store is not None
    supervisor.start(spec("worker"))
    store.status = world.children[0].status = -9
    supervisor.check_start()
    world.now += 1.0
    supervisor.check_start()
    assert (store.status, len(world.children)) == (None, 2)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_is_a_request_to_stop_and_ends_a_wait(
    number: signal.Signals, request: pytest.FixtureRequest
) -> None:
    # Whoever started the tests may have had hangups ignored.
    inherited = signal.signal(number, signal.SIG_DFL)
    request.addfinalizer(lambda: signal.signal(number, inherited))
    before = signal.getsignal(number)
    with StopSignals() as signals:
        sender = threading.Timer(0.05, os.kill, (os.getpid(), number))
        sender.start()
        signals.wait(30)
        signals.wait(30)
        assert signals.stop_requested
        sender.join()
    assert signal.getsignal(number) is before


def test_a_hangup_that_was_ignored_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with StopSignals() as signals:
            os.kill(os.getpid(), signal.SIGHUP)
            assert not signals.stop_requested
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_child_s_end_wakes_the_supervisor(tmp_path: Path) -> None:
    with StopSignals() as signals:
        child = Child(spec("short", "pass", log=tmp_path / "log"))
        while child.status is None:
            signals.wait(30)
        assert child.status == 0
        assert not signals.stop_requested


def test_a_run_to_the_end_returns_on_success_and_names_the_log_on_failure(tmp_path: Path) -> None:
    log = tmp_path / "made" / "worker.log"
    with StopSignals() as signals:
        run_to_end(spec("worker", "print('done', flush=True)", log=log), signals=signals)
        with pytest.raises(ChildFailedError, match="worker failed with status 7") as caught:
            run_to_end(spec("worker", "print('a row'); exit(7)", log=log), signals=signals)
    assert str(log) in str(caught.value)
    assert "a row" not in str(caught.value)
    assert log.read_text(encoding="utf-8") == "done\na row\n"
    assert log.stat().st_mode & 0o777 == 0o600


def test_a_request_to_stop_ends_a_run_to_the_end_early(tmp_path: Path) -> None:
    # The child asks its parent to stop, then would wait for ever.
    code = "import os, signal; os.kill(os.getppid(), signal.SIGTERM); signal.pause()"
    with StopSignals() as signals:
        run_to_end(spec("worker", code, log=tmp_path / "log"), signals=signals)
        assert signals.stop_requested
