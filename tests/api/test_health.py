"""Health tells the truth: a store that hangs, forgets or is gone, a worker that hangs or leaves."""

from __future__ import annotations

import functools
import os
import resource
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from qserver.cli.processes import (
    Child,
    ChildSpec,
    child_environment,
    http_spec,
    listen,
    python_command,
)
from qserver.storage.server.connection import connect
from qserver.storage.server.embedded_store import EmbeddedServer
from qserver.storage.store import Store
from tests.api.calls import Caller, Reply, assert_problem
from tests.deployment import Deployment
from worker.spending.loop import Heartbeat

pytestmark = [
    pytest.mark.promise(
        "Operations",
        "a worker that is asked to stop ends its job first, hands back what it took, and is not "
        "said to live any more",
    ),
    pytest.mark.promise(
        "Operations",
        "readiness tells of a store that hangs, is gone, may forget, or has a full disk, and of "
        "workers that are gone or hang",
    ),
]

DEADLINE_S = 120.0


@pytest.fixture
def store(tmp_path: Path) -> Iterator[EmbeddedServer]:
    with EmbeddedServer.start(tmp_path / "state") as server:
        yield server


@pytest.fixture
def full_disk_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[EmbeddedServer]:
    """A store that gets an error, rather than a signal, where a file may not grow."""
    # Python itself ignores the signal; without restoring it, so does what it starts.
    starting = functools.partial(subprocess.Popen, restore_signals=False)
    monkeypatch.setattr("qserver.storage.server.embedded_store.subprocess.Popen", starting)
    with EmbeddedServer.start(tmp_path / "state") as server:
        monkeypatch.undo()
        yield server


@pytest.fixture
def caller(store: EmbeddedServer, tmp_path: Path) -> Iterator[Caller]:
    with serving(store, tmp_path) as found:
        yield found


@contextmanager
def serving(store: EmbeddedServer, tmp_path: Path) -> Iterator[Caller]:
    """HTTP on a store, with a dataset."""
    settings = Deployment.make(tmp_path / "state", store.url).settings
    settings = replace(settings, http_workers=1, http_threads=2)
    listener = listen("127.0.0.1", 0)
    spec = http_spec(settings, listener=listener, log=tmp_path / "web.log", environ=os.environ)
    web = Child(spec)
    try:
        found = Caller("127.0.0.1", listener.getsockname()[1])
        assert found.get("/readyz").status == 200
        yield found
    finally:
        web.stop()
        listener.close()


@pytest.mark.slow
def test_a_store_that_hangs_is_reported_and_forgotten_when_it_wakes(
    store: EmbeddedServer, caller: Caller
) -> None:
    os.kill(store.pid, signal.SIGSTOP)
    try:
        assert_problem(caller.get("/readyz"), 503, "store_unavailable")
        assert caller.get("/healthz").status == 200
    finally:
        os.kill(store.pid, signal.SIGCONT)
    assert caller.get("/readyz").status == 200


@pytest.mark.slow
@pytest.mark.parametrize(
    ("setting", "value"), [("appendonly", "no"), ("maxmemory-policy", "allkeys-lru")]
)
def test_a_store_that_may_forget_is_not_ready(
    store: EmbeddedServer, caller: Caller, setting: str, value: str
) -> None:
    connect(store.url, role="test").config_set(setting, value)
    assert_problem(caller.get("/readyz"), 503, "store_not_durable")


@pytest.mark.slow
def test_a_store_that_is_gone_is_not_ready(store: EmbeddedServer, caller: Caller) -> None:
    os.kill(store.pid, signal.SIGKILL)
    assert_problem(caller.get("/readyz"), 503, "store_unavailable")
    assert caller.get("/healthz").status == 200


def test_a_worker_whose_loop_hangs_is_not_said_to_live(tmp_path: Path, store_url: str) -> None:
    town = Deployment.make(tmp_path, store_url)
    now = 0.0
    heartbeat = Heartbeat(town.settings, ["town"], clock=lambda: now)
    alive = connect(store_url, role="test")
    writer = town.writer()
    for at, lives in ((0.0, True), (299.0, True), (301.0, False)):
        now = at
        alive.delete("qs:{town}:alive")
        heartbeat.beat(writer)
        assert bool(alive.exists("qs:{town}:alive")) is lives
    heartbeat.turn()
    heartbeat.beat(writer)
    assert alive.exists("qs:{town}:alive")


@pytest.mark.slow
def test_a_worker_that_is_asked_to_stop_ends_its_job_first(tmp_path: Path, store_url: str) -> None:
    """It is asked while the job is charged and its answer waits for the slot."""
    town = Deployment.make(tmp_path, store_url)
    settings = replace(town.settings, slot_ms=1500)
    spec = ChildSpec(
        name="worker",
        command=python_command("-m", "worker", "run"),
        environment=child_environment(settings, os.environ),
        log=tmp_path / "worker.log",
    )
    worker = Child(spec)
    try:
        job = town.submit({"age": 20})
        store, deadline = Store.open(settings), time.monotonic() + DEADLINE_S
        while store.stamp(town.meta).budget.spent_nano == 0:
            assert time.monotonic() < deadline
            time.sleep(0.002)
        # On a machine that stands still for a while the slot may be over.
        assert store.job_state(job.id) in ("running", "done")
    finally:
        worker.stop()
    assert worker.status == 0
    assert store.job_state(job.id) == "done"


@pytest.mark.slow
def test_a_store_with_a_full_disk_is_not_ready_until_there_is_room(
    full_disk_store: EmbeddedServer, tmp_path: Path
) -> None:
    """With `everysec` the server stays up and says so; with `always` it ends, and is gone."""
    store, client = full_disk_store, connect(full_disk_store.url, role="test")
    client.config_set("appendfsync", "everysec")
    with serving(store, tmp_path) as caller:
        resource.prlimit(store.pid, resource.RLIMIT_FSIZE, (1, resource.RLIM_INFINITY))
        client.set("more", "than there is room for")
        assert_problem(await_other(caller, 200), 503, "store_not_durable")
        assert caller.get("/healthz").status == 200
        no_limit = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
        resource.prlimit(store.pid, resource.RLIMIT_FSIZE, no_limit)
        assert await_other(caller, 503).status == 200


def await_other(caller: Caller, status: int) -> Reply:
    """What `/readyz` tells once it is something else; the server tries its disk every second."""
    deadline = time.monotonic() + DEADLINE_S
    while (found := caller.get("/readyz")).status == status:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return found
