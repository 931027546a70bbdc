"""The demo: asked over HTTP, stopped by signals, robbed of its parts."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from qserver.cli.runtime import ExitCode
from qserver.client.errors import ServerProblemError, ServerUnreachableError
from tests.cli.local.running_program import (
    READER,
    TIMEOUT_S,
    Program,
    command,
    running,
    started,
    wait_until_gone,
)
from tests.postgres.client import message, startup
from tests.sweeps import share

# Programs that are killed are not waited for, so that their time is not counted.
pytestmark = pytest.mark.slow

_BACK_S = 300
_QUESTION = {
    "query": {"where": {"age": {"between": [30, 39]}, "sex": "Female"}},
    "length": 100,
    "confidence": 0.95,
}


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A state folder that the tests of this module share, as the starts of one demo would."""
    return tmp_path_factory.mktemp("demo") / "state"


def demo(state: Path, *more: str) -> contextlib.AbstractContextManager[Program]:
    return running(state, *arguments(state), *more)


def arguments(state: Path) -> list[str]:
    return ["demo", "--port", "0", "--state", str(state)]


def test_clients_of_postgresql_are_answered_and_the_port_ends_with_the_demo(state: Path) -> None:
    with demo(state, "--postgres", "0") as program:
        program.read_until("WITHIN 50")
        found = re.search(r"psql -h (\S+) -p (\d+) -U qserver qserver -c 'SET", program.printed)
        assert found
        with socket.create_connection((found[1], int(found[2])), timeout=TIMEOUT_S) as client:
            client.sendall(startup() + message(b"Q", b"SHOW TABLES\0"))
            said = b""
            while b"SHOW\0" not in said:
                part = client.recv(4096)
                assert part, said
                said += part
            assert b"adult" in said
            assert program.stop(signal.SIGTERM) == 0
            while part:
                part = client.recv(4096)
                said += part
        assert b"57P01" in said
        assert program.processes() == {}


def ask(program: Program, question: dict[str, Any]) -> dict[str, Any]:
    path = ("v1", "datasets", "adult", "query")
    return dict(program.client.post(*path, document=question).document)


def question_on(age: int) -> dict[str, Any]:
    return {"query": {"where": {"age": {"between": [age, age]}}}, "length": 900, "confidence": 0.9}


def asked_until_answered(program: Program, question: dict[str, Any]) -> dict[str, Any]:
    """The answer of a server whose parts are on their way back."""
    deadline = time.monotonic() + _BACK_S
    while time.monotonic() < deadline:
        with contextlib.suppress(ServerUnreachableError, ServerProblemError):
            path = ("v1", "datasets", "adult", "query")
            found = program.client.post(*path, document=question)
            if found.status == 200:
                return dict(found.document)
        with contextlib.suppress(subprocess.TimeoutExpired):
            pytest.fail(f"the demo ended with {program.process.wait(timeout=0.05)}")
    pytest.fail("the demo did not come back")


def children(pid: int) -> list[int]:
    """The processes that this one forked."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return [int(p) for t in tasks for p in (t / "children").read_text().split()]


def test_the_demo_answers_the_question_it_prints_and_finds_all_again_after_a_stop(
    tmp_path: Path,
) -> None:
    # Its own folder: the first start on one decides the limit.
    state = tmp_path / "state"
    with running(state, *arguments(state), "--limit", "0.5", **READER) as first:
        first.read_until("qserver query")
        printed = first.printed.split("-d '", 1)[1].split("'\n", 1)[0]
        assert json.loads(printed) == _QUESTION
        answer = ask(first, _QUESTION)
        assert answer["source"] == "measured"
        low, high = answer["interval"]
        assert 0 < high - low <= 100
        assert 0 < answer["epsilon_charged"] < 0.1
        first.read_until("--url")
        hint = re.search(r"(?m)^  (\S*qserver query .*) --url", first.printed)
        assert hint
        pasted = f"{hint[1]} --url {first.url}"
        shown = subprocess.run(["sh", "-c", pasted], env=READER, capture_output=True, text=True)
        assert shown.stdout.startswith("between "), shown.stderr
        assert first.stop(signal.SIGINT) == ExitCode.OK
        assert first.processes() == {}
    with demo(state, "--limit", "7") as second:
        dataset = second.client.get("v1", "datasets", "adult").document
        assert dataset["limit"] == 0.5
        assert dataset["spent"] == answer["epsilon_charged"]
        again = ask(second, _QUESTION)
        assert (again["source"], again["epsilon_charged"]) == ("history", 0)
        assert again["estimate"] == answer["estimate"]
        assert second.stop(signal.SIGTERM) == ExitCode.OK
        assert second.processes() == {}


def test_a_second_demo_is_refused_and_the_first_goes_on(state: Path) -> None:
    with demo(state) as first:
        before = first.processes()
        port = first.url.rsplit(":", 1)[1]
        other = state.with_name("other")
        refused = subprocess.run(
            command(*arguments(state)), capture_output=True, text=True, check=False
        )
        assert refused.returncode == ExitCode.IN_USE
        assert "state_in_use: Another server uses the state folder" in refused.stderr
        with started(other, command(*arguments(other), "--port", port)) as waiting:
            waiting.read_until(f"Port {port} of 127.0.0.1 is taken")
            assert waiting.stop(signal.SIGTERM) == ExitCode.IN_USE
            waiting.read_until("port_in_use: ")
        assert not other.exists()
        # gunicorn may have forked its last process only after the first one answered.
        assert before.items() <= first.processes().items()
        assert first.client.get("healthz").document == {"status": "ok"}


def test_a_worker_that_was_killed_is_started_again_and_measures(state: Path) -> None:
    with demo(state) as program:
        worker = program.process_id("worker run")
        os.kill(worker, signal.SIGKILL)
        program.read_until("The worker ended with status -9")
        # The question waits in the queue for the new worker.
        question = {"query": {"where": {"sex": "Male"}}, "length": 1000, "confidence": 0.9}
        assert ask(program, question)["source"] == "measured"
        assert program.process_id("worker run") != worker


@pytest.mark.parametrize(
    ("also", "age"), share([(("worker run", "gunicorn"), 50), ((), 30), (("worker run",), 40)], 1)
)
def test_a_store_that_was_killed_is_started_again_and_all_goes_on(
    state: Path, also: tuple[str, ...], age: int
) -> None:
    """Also where it dies together with others; what it had acknowledged is there again."""
    paid = question_on(age)
    fresh = question_on(age + 1)
    with demo(state) as program:
        assert ask(program, paid)["source"] == "measured"
        killed = [program.process_id(part) for part in ("valkey", *also)]
        for pid in killed:
            os.kill(pid, signal.SIGKILL)
        program.read_until("The store ended with status -9")
        assert asked_until_answered(program, paid)["source"] == "history"
        assert asked_until_answered(program, fresh)["source"] == "measured"
        assert not set(killed) & set(program.processes())
        assert program.stop(signal.SIGINT) == ExitCode.OK


@pytest.mark.slow
def test_an_http_process_that_was_killed_while_the_store_was_away_is_there_again(
    state: Path,
) -> None:
    with demo(state) as program:
        server = program.process_id("gunicorn")
        for pid in (program.process_id("valkey"), *children(server)):
            os.kill(pid, signal.SIGKILL)
        assert asked_until_answered(program, question_on(60))["source"] == "measured"
        assert program.process_id("gunicorn") == server


def test_a_demo_that_is_killed_leaves_nothing_running(state: Path) -> None:
    with demo(state) as program:
        children = set(program.processes()) - {program.process.pid}
        assert len(children) >= 4  # store, worker, gunicorn and its processes
        program.process.kill()
        program.process.wait()
        wait_until_gone(children)
        assert program.processes() == {}


def test_any_host_but_loopback_is_refused_before_anything_is_started(tmp_path: Path) -> None:
    state = tmp_path / "state"
    refused = subprocess.run(
        command(*arguments(state), "--host", "0.0.0.0"), capture_output=True, text=True, check=False
    )
    assert refused.returncode == ExitCode.USAGE
    assert "`host` must be 127.0.0.1 or ::1 where access is open" in refused.stderr
    assert not state.exists()
