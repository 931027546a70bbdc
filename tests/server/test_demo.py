"""The demo as its users run it: a process of its own, asked over HTTP, stopped by signals.

Each process of a demo inherits a mark in its environment, so that none can be left behind unseen.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from qserver.commands.runtime import ExitCode
from qserver.http_client import HttpClient

_MARK = "QSERVER_TEST_RUN"
_TIMEOUT_S = 60
_QUESTION = {
    "query": {"where": {"age": {"between": [30, 39]}, "sex": "Female"}},
    "length": 100,
    "confidence": 0.95,
}


@dataclass
class Demo:
    """A running demo, and what it printed."""

    process: subprocess.Popen[bytes]
    state: Path
    mark: str
    printed: str = ""

    def read_until(self, text: str) -> None:
        """Read on until `text` was printed; fail when the output ends or nothing more comes."""
        assert self.process.stdout is not None
        output = self.process.stdout.fileno()
        while text not in self.printed:
            ready, _, _ = select.select([output], [], [], _TIMEOUT_S)
            more = os.read(output, 4096) if ready else b""
            assert more, f"`{text}` must be printed, got {self.printed}"
            self.printed += more.decode()

    @property
    def client(self) -> HttpClient:
        address = self.printed.split("answers at ", 1)[1].split()[0]
        return HttpClient(address, timeout_s=_TIMEOUT_S)

    def ask(self) -> dict[str, Any]:
        return dict(
            self.client.post("v1", "datasets", "adult", "query", document=_QUESTION).document
        )

    def stop(self, number: signal.Signals) -> int:
        self.process.send_signal(number)
        return self.process.wait(timeout=_TIMEOUT_S)

    def processes(self) -> dict[int, str]:
        """Every process that bears the mark or works in the state folder: id -> command."""
        found = {}
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                marked = f"{_MARK}={self.mark}".encode() in (folder / "environ").read_bytes()
                # The store writes its title over its environment.
                if marked or (folder / "cwd").readlink().is_relative_to(self.state):
                    command = (folder / "cmdline").read_bytes().replace(b"\0", b" ")
                    found[int(folder.name)] = command.decode()
        return found

    def process_id(self, part: str) -> int:
        """The first process whose command holds `part`."""
        return min(pid for pid, command in self.processes().items() if part in command)


def command(state: Path, *more: str) -> list[str]:
    return [
        sys.executable,
        "-m",
        "qserver.cli",
        "demo",
        "--port",
        "0",
        "--state",
        str(state),
        *more,
    ]


@contextlib.contextmanager
def running(state: Path, *more: str) -> Iterator[Demo]:
    """A demo that is ready; killed at the end if it still runs."""
    mark = secrets.token_hex(8)
    process = subprocess.Popen(
        command(state, *more),
        env={**os.environ, _MARK: mark},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        bufsize=0,
    )
    demo = Demo(process, state, mark)
    try:
        demo.read_until("qserver query")
        yield demo
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A state folder that the tests of this module share, as the starts of one demo would."""
    return tmp_path_factory.mktemp("demo") / "state"


def wait_until_gone(demo: Demo, pids: set[int]) -> None:
    """Return when these processes have ended; the kernel says when, nobody sleeps."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            fd = os.pidfd_open(pid)
            ready, _, _ = select.select([fd], [], [], _TIMEOUT_S)
            os.close(fd)
            assert ready, demo.processes()


def test_the_demo_answers_the_question_it_prints_and_finds_all_again_after_a_stop(
    state: Path,
) -> None:
    with running(state, "--limit", "0.5") as first:
        printed = first.printed.split("curl ", 1)[1]
        question = json.loads(printed.split("-d '", 1)[1].split("'\n", 1)[0])
        assert question == _QUESTION
        answer = first.ask()
        assert answer["source"] == "measured"
        low, high = answer["interval"]
        assert 0 < high - low <= 100
        assert 0 < answer["epsilon_charged"] < 0.1
        assert first.stop(signal.SIGINT) == ExitCode.OK
        assert first.processes() == {}
    with running(state, "--limit", "7") as second:
        dataset = second.client.get("v1", "datasets", "adult").document
        assert dataset["limit"] == 0.5
        assert dataset["spent"] == answer["epsilon_charged"]
        again = second.ask()
        assert (again["source"], again["epsilon_charged"]) == ("history", 0)
        assert again["estimate"] == answer["estimate"]
        assert second.stop(signal.SIGTERM) == ExitCode.OK
        assert second.processes() == {}


def test_a_second_demo_is_refused_and_the_first_goes_on(state: Path) -> None:
    with running(state) as demo:
        port = demo.client.url.rsplit(":", 1)[1]
        before = demo.processes()
        for state_dir, number, complaint in (
            (state, "0", "state_in_use: Another server uses the state folder"),
            (state.with_name("other"), port, f"port_in_use: Port {port} of 127.0.0.1 is taken"),
        ):
            refused = subprocess.run(
                command(state_dir, "--port", number), capture_output=True, text=True, check=False
            )
            assert refused.returncode == ExitCode.IN_USE
            assert complaint in refused.stderr
            assert refused.stdout == ""
        assert not state.with_name("other").exists()
        assert demo.processes() == before
        assert demo.ask()["confidence"] == 0.95
        assert demo.stop(signal.SIGTERM) == ExitCode.OK


def test_a_worker_that_was_killed_is_started_again_and_measures(state: Path) -> None:
    with running(state) as demo:
        worker = demo.process_id("worker run")
        os.kill(worker, signal.SIGKILL)
        demo.read_until("The worker ended with status -9")
        # The question waits in the queue for the new worker.
        question = {"query": {"where": {"sex": "Male"}}, "length": 1000, "confidence": 0.9}
        answer = demo.client.post("v1", "datasets", "adult", "query", document=question).document
        assert answer["source"] == "measured"
        assert demo.process_id("worker run") != worker
        assert demo.stop(signal.SIGTERM) == ExitCode.OK


def test_the_end_of_the_store_stops_everything_with_a_message(state: Path) -> None:
    with running(state) as demo:
        os.kill(demo.process_id("valkey"), signal.SIGKILL)
        assert demo.process.wait(timeout=_TIMEOUT_S) == ExitCode.NOT_NOW
        demo.read_until("The store ended unexpectedly")
        assert demo.processes() == {}


def test_a_demo_that_is_killed_leaves_nothing_running(state: Path) -> None:
    with running(state) as demo:
        children = set(demo.processes()) - {demo.process.pid}
        assert len(children) == 5  # store, worker, gunicorn and its two processes
        demo.process.kill()
        demo.process.wait()
        wait_until_gone(demo, children)
        assert demo.processes() == {}


def test_any_host_but_loopback_is_refused_before_anything_is_started(tmp_path: Path) -> None:
    refused = subprocess.run(
        command(tmp_path / "state", "--host", "0.0.0.0"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert refused.returncode == ExitCode.USAGE
    assert "no accounts yet" in refused.stderr
    assert not (tmp_path / "state").exists()
