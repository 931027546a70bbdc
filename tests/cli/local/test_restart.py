"""A worker that is given its state folder alone finds the embedded store, and finds it again."""

from __future__ import annotations

import json
import signal
import socket
import threading
from pathlib import Path

import pytest

from qserver.cli.main import main
from qserver.cli.runtime import ExitCode
from qserver.client import Client
from qserver.config import Settings
from qserver.query.domain_file import domain_to_document
from qserver.storage.server.embedded_store import EmbeddedServer
from qserver.storage.server.state_folder import StateFolder
from qserver.storage.spend import SpendingStore
from tests.cli.local.running_program import (
    Program,
    command,
    running,
    started,
    wait_until_gone,
    worker_command,
)
from tests.deployment import PEOPLE, write_people
from tests.sweeps import share
from worker.cli import main as worker_main

SERVE = ("serve", "--open", "--port", "0", "--state")


def attach(folder: Path, state: Path) -> None:
    """Attach `people` to the store that runs on the state folder, which is all that is named."""
    data, domain = write_people(folder / "people.csv"), folder / "domain.json"
    domain.write_text(json.dumps(domain_to_document(PEOPLE)))
    files = ("--data", str(data), "--domain", str(domain), "--limit", "9")
    assert worker_main(["attach", "people", *files, "--state", str(state)]) == 0


def attach_and_stop(folder: Path, state: Path) -> None:
    """Leave a store at rest behind that has `people`."""
    with EmbeddedServer.start(state):
        attach(folder, state)


def end(server: Program, number: signal.Signals) -> None:
    """Send the signal and wait until nothing of the server is left."""
    pids = set(server.processes())
    server.stop(number)
    wait_until_gone(pids)


def source_of_an_answer(server: Program, age: int) -> str:
    return Client(server.url).query("people", {"where": {"age": age}}, length=40).source


@pytest.mark.slow
@pytest.mark.parametrize("number", share([signal.SIGKILL, signal.SIGTERM], 1))
def test_a_worker_started_first_waits_and_follows_the_store_across_restarts(
    tmp_path: Path, number: signal.Signals
) -> None:
    """In a folder so deep that no socket could lie in it."""
    state = tmp_path / ("deep " * 20) / ("deeper " * 20)
    at = str(state)
    attach_and_stop(tmp_path, state)
    with started(state, worker_command("run", "--state", at)) as worker:
        worker.read_until(f"waiting for the store of {state}: No store runs")
        for age, said in ((20, "worker ready: people"), (21, "found the store again")):
            with running(state, *SERVE, at) as server:
                worker.read_until(said)
                assert source_of_an_answer(server, age) == "measured"
                assert source_of_an_answer(server, 20) == "history"
                end(server, number)
        assert worker.stop(signal.SIGTERM) == 0
    assert worker.printed.count("waiting for the store") in (2, 3)
    assert "--redis-url" not in server.printed


@pytest.mark.slow
def test_a_worker_that_waits_for_its_store_stops_when_asked(tmp_path: Path) -> None:
    state = tmp_path / "state"
    attach_and_stop(tmp_path, state)
    with started(state, worker_command("run", "--state", str(state))) as worker:
        worker.read_until("waiting for the store")
        assert worker.stop(signal.SIGTERM) == 0


@pytest.mark.slow
def test_a_worker_refuses_another_store_that_runs_on_its_folder(tmp_path: Path) -> None:
    """As ever: a store that knows less than the journal is not drawn for."""
    state = tmp_path / "state"
    attach_and_stop(tmp_path, state)
    (state / "redis").rename(tmp_path / "the journal's own")
    with started(state, worker_command("run", "--state", str(state))) as worker:
        worker.read_until("waiting for the store")
        with EmbeddedServer.start(state):
            worker.read_until("store_behind: ")
            assert worker.process.wait(timeout=60) == 1


def test_every_command_of_the_owner_finds_the_store_by_its_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = tmp_path / "state"
    at = ("--state", str(state))
    with EmbeddedServer.start(state):
        attach(tmp_path, state)
        assert worker_main(["doctor", *at]) in (0, 1)
        assert "ok   store: reachable and durable" in capsys.readouterr().out
        data = str(tmp_path / "people.csv")
        for call in (
            ["rotate", "people", "--data", data],
            ["top-up", "people", "--to", "10"],
            ["restore"],
            ["detach", "people"],
        ):
            assert worker_main([*call, *at]) == 0
        for call in (["account", "list"], ["audit", "verify"], ["doctor"]):
            assert main([*call, *at], environ={}) == ExitCode.OK
        assert f"the store of {state} answers" in capsys.readouterr().out
    assert worker_main(["doctor", *at]) == 1
    told = f"No store runs on the state folder {state}. Start one with `qserver serve --state"
    assert f"FAIL store: {told}" in capsys.readouterr().out
    assert worker_main(["top-up", "people", "--to", "11", *at]) == 1
    assert told in capsys.readouterr().err


@pytest.mark.slow
def test_an_address_that_is_given_wins_over_the_store_of_the_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = tmp_path / "state"
    with EmbeddedServer.start(state):
        attach(tmp_path, state)
        elsewhere = ["--state", str(state), "--redis-url", f"unix://{tmp_path}/none"]
        told = f"Redis at unix://{tmp_path}/none cannot be used"
        assert worker_main(["top-up", "people", "--to", "10", *elsewhere]) == 1
        assert told in capsys.readouterr().err
        with started(state, worker_command("run", *elsewhere)) as worker:
            worker.read_until(f"waiting for the store at unix://{tmp_path}/none: {told}")


@pytest.mark.slow
def test_a_server_that_is_stopping_says_so_to_the_next_one(tmp_path: Path) -> None:
    """It finishes the question at hand, for which a worker comes late."""
    state = tmp_path / "state"
    at = str(state)
    with running(state, *SERVE, at, QSERVER_WAIT_S="60") as server:
        attach(tmp_path, state)
        queue = SpendingStore.open(Settings(state_dir=state)).queue
        queue.beat(["people"], worker="late", ttl_ms=600_000)
        answers: list[str] = []
        asking = threading.Thread(target=lambda: answers.append(source_of_an_answer(server, 20)))
        asking.start()
        while not queue.waiting("people"):
            assert asking.is_alive()
            asking.join(timeout=0.01)
        server.process.send_signal(signal.SIGTERM)
        server.read_until("Stopping: the questions at hand finish first.")
        port = server.url.rsplit(":", 1)[1]
        with started(state, command("serve", "--open", "--port", port, "--state", at)) as second:
            second.read_until("is stopping: it finishes the questions at hand first")
            second.read_until("Waiting for that, 30 s at most.")
            assert second.stop(signal.SIGTERM) == ExitCode.IN_USE
        with started(state, worker_command("run", "--state", at)) as worker:
            assert server.process.wait(timeout=60) == ExitCode.OK
            asking.join(timeout=60)
            assert worker.stop(signal.SIGTERM) == 0
    assert answers == ["measured"]
    assert not StateFolder(state).is_stopping


@pytest.mark.slow
def test_a_port_that_another_program_has_is_not_called_stopping(tmp_path: Path) -> None:
    state = tmp_path / "state"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        with started(
            state, command("serve", "--open", "--port", port, "--state", str(state))
        ) as it:
            it.read_until("is taken by another program, or by a server that is still stopping")
            assert it.stop(signal.SIGTERM) == ExitCode.IN_USE


@pytest.mark.slow
def test_a_start_takes_a_port_that_becomes_free_while_it_waits(tmp_path: Path) -> None:
    """As what a killed server leaves behind lets go of it."""
    state = tmp_path / "state"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        call = command("serve", "--open", "--port", port, "--state", str(state))
        with started(state, call) as program:
            program.read_until("Waiting for that, 30 s at most.")
            taken.close()
            program.read_until("answers at ")
            assert program.stop(signal.SIGTERM) == ExitCode.OK
