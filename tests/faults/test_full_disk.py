"""A disk that is full: nothing is charged, history is answered, and it goes on when there is room.

The disk is a limit on the size of files, which a process can be given while it runs: a write past
it fails as on a full disk.
"""

from __future__ import annotations

import contextlib
import resource
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from qserver.client.errors import ServerProblemError
from qserver.config import Settings
from qserver.storage.server.aof import last_increment
from qserver.storage.server.connection import connect
from tests.cli.local.running_program import Program, running, started, worker_command
from tests.cli.local.test_restart import SERVE, attach_and_stop

_BACK_S = 300
_BOUNDLESS = resource.RLIM_INFINITY


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A state folder at rest, with `people`."""
    attach_and_stop(tmp_path, tmp_path / "state")
    return tmp_path / "state"


@pytest.fixture
def server(state: Path) -> Iterator[Program]:
    with running(state, *SERVE, str(state)) as program:
        yield program


@pytest.fixture
def worker(state: Path, server: Program) -> Iterator[Program]:
    with started(state, worker_command("run", "--state", str(state))) as program:
        program.read_until("worker ready")
        yield program


def let_files_grow_to(n_bytes: int, *pids: int) -> None:
    for pid in pids:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (n_bytes, _BOUNDLESS))


def ask(server: Program, age: int) -> dict[str, Any]:
    question = {"query": {"where": {"age": age}}, "length": 40, "confidence": 0.95}
    return dict(server.client.post("v1", "datasets", "people", "query", document=question).document)


def asked_until_measured(server: Program, age: int) -> None:
    deadline = time.monotonic() + _BACK_S
    while time.monotonic() < deadline:
        with contextlib.suppress(ServerProblemError):
            if ask(server, age).get("source") == "measured":
                return
        with contextlib.suppress(subprocess.TimeoutExpired):
            pytest.fail(f"the server ended with {server.process.wait(timeout=0.05)}")
    pytest.fail("nothing was measured")


def spent(server: Program) -> float:
    return float(server.client.get("v1", "datasets", "people").document["spent"])


@pytest.mark.slow
def test_a_store_without_room_answers_from_history_charges_nothing_and_goes_on(
    state: Path, server: Program, worker: Program
) -> None:
    assert ask(server, 20)["source"] == "measured"
    spent_before, increment = spent(server), last_increment(state / "redis")
    assert increment is not None
    store = server.process_id("valkey")
    let_files_grow_to(increment.stat().st_size + 1, server.process.pid, store)
    with pytest.raises(ServerProblemError):
        ask(server, 21)
    server.read_until("The disk of the store is full")
    assert ask(server, 20)["source"] == "history"
    for refused in (lambda: ask(server, 22), lambda: server.client.get("readyz")):
        with pytest.raises(ServerProblemError) as caught:
            refused()
        assert (caught.value.status, caught.value.code) == (503, "store_not_durable")
    assert spent(server) == spent_before
    let_files_grow_to(_BOUNDLESS, server.process.pid, server.process_id("valkey"))
    server.read_until("The disk of the store has room again")
    asked_until_measured(server, 23)
    assert server.client.get("readyz").status == 200
    client = connect(Settings(state_dir=state).store_url, role="test")
    assert client.config_get("appendfsync") == {"appendfsync": "always"}
    client.close()
    assert worker.stop(signal.SIGTERM) == 0


@pytest.mark.slow
def test_a_journal_without_room_stops_the_worker_alone_until_there_is_room(
    state: Path, server: Program, worker: Program
) -> None:
    assert ask(server, 20)["source"] == "measured"
    journal = state / "worker" / "journals" / "people.journal"
    let_files_grow_to(journal.stat().st_size + 1, worker.process.pid)
    question = {"query": {"where": {"age": 21}}, "length": 40, "confidence": 0.95}
    path = ("v1", "datasets", "people", "query")
    asynchronous = {"Prefer": "respond-async"}
    job = server.client.post(*path, document=question, headers=asynchronous).document["id"]
    worker.read_until(f"waiting for room on the disk of {journal.parent}")
    assert ask(server, 20)["source"] == "history"
    assert server.client.get("v1", "jobs", job).document["state"] in ("queued", "running")
    let_files_grow_to(_BOUNDLESS, worker.process.pid)
    worker.read_until("found room again")
    asked_until_measured(server, 22)
    # The charge was made, its line was not: whether anything was drawn is unknown, so it is burnt.
    assert server.client.get("v1", "jobs", job).document["state"] == "failed"
    assert worker.stop(signal.SIGTERM) == 0
