"""A server and its worker as their users run them, started and ended again and again."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from qserver.client.errors import ServerProblemError, ServerUnreachableError
from qserver.client.http import HttpClient
from tests.benchmarks.load import ROOT
from tests.cli.local.running_program import (
    Program,
    running,
    started,
    wait_until_gone,
    worker_command,
)

_PAUSE_S = 0.02
_REFUSED_PAUSE_S = 1.0
_PATIENCE_S = 120.0
_ENVIRON = {"OPENBLAS_NUM_THREADS": "1"}
PARTS = {"worker": "-m worker run", "http": "gunicorn", "store": "valkey"}


@dataclass
class Site:
    """One state folder, and the processes that serve it while it is open."""

    folder: Path
    _stack: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    _programs: list[Program] = field(default_factory=list)
    n_refused: int = 0

    @property
    def state(self) -> Path:
        """The state folder."""
        return self.folder / "state"

    def start(self) -> None:
        """Start a server and a worker; returns when the server listens."""
        state = str(self.state)
        worker = started(self.state, worker_command("run", "--state", state), **_ENVIRON)
        call = ("serve", "--port", "0", "--open", "--state", state)
        serve = running(self.state, *call, **_ENVIRON)
        self._programs = [self._stack.enter_context(program) for program in (worker, serve)]
        self.client = HttpClient(self._programs[1].url, timeout_s=60.0)

    def end(self, number: signal.Signals) -> None:
        """End all of it by this signal, and wait until it is gone."""
        found = [program.processes() for program in self._programs]
        pids = set[int]().union(*found)
        first = {program.process.pid for program in self._programs}
        for pid in pids if number is signal.SIGKILL else first:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        for program in self._programs:
            program.process.wait(timeout=_PATIENCE_S)
        wait_until_gone(pids)
        self._stack.close()

    def owner(self, *arguments: str) -> float:
        """Seconds that a command of the worker takes."""
        return self._run(worker_command(*arguments, "--state", str(self.state)))

    def backup(self, to: Path) -> float:
        """Seconds that a backup takes."""
        return self.owner("backup", str(to))

    def _run(self, call: Sequence[str]) -> float:
        begun = time.monotonic()
        done = subprocess.run(call, cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.stderr.write(done.stdout + done.stderr)
            raise RuntimeError(f"`{' '.join(call[3:5])}` ended with {done.returncode}")
        return time.monotonic() - begun

    def ask(self, dataset: str, question: Mapping[str, Any]) -> Mapping[str, Any]:
        """The answer, also where the question became a job; what is refused is asked again."""
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            try:
                return self._ask(dataset, question)
            except ServerProblemError as exc:
                self._check_worker()
                if exc.status != 503 or time.monotonic() > deadline:
                    raise
                self.n_refused += 1
                time.sleep(_REFUSED_PAUSE_S)

    def _check_worker(self) -> None:
        status = self._programs[0].process.poll()
        if status is not None:
            log = (self.state / "worker" / "worker.log").read_text(encoding="utf-8")
            raise RuntimeError(f"the worker ended with status {status}: {log[-4000:]}")

    def _ask(self, dataset: str, question: Mapping[str, Any]) -> Mapping[str, Any]:
        reply = self.client.post("v1", "datasets", dataset, "query", document=question)
        document = reply.document
        while reply.status == 202 or document.get("state") in ("queued", "running"):
            reply = self.client.get("v1", "jobs", document["id"], headers={"Prefer": "wait=10"})
            document = reply.document
        if "result" in document:
            return dict(document["result"])
        if "state" in document:
            raise RuntimeError(f"a question failed: {document['problem']}")
        return document

    def memory_mb(self) -> dict[str, float]:
        """For each part the most that one of its processes has, shared pages by their share."""
        found = dict.fromkeys(PARTS, 0.0)
        for program in self._programs:
            for pid, called in program.processes().items():
                for part in (part for part, text in PARTS.items() if text in called):
                    found[part] = max(found[part], _proportional_mb(pid))
        return found

    def disk_mb(self) -> dict[str, float]:
        """What the store's files, the journals and both kinds of checkpoints take."""
        state = self.state
        return {
            "store": _size_mb(state / "redis"),
            "journals": _size_mb(state / "worker" / "journals"),
            "checkpoints": _size_mb(state / "checkpoints")
            + _size_mb(state / "worker" / "checkpoints"),
        }

    def close(self) -> None:
        """End whatever still runs."""
        self._stack.close()


def seconds_until(met: Callable[[], bool], *, since: float) -> float:
    """Seconds from `since` until the server does this; what it refuses meanwhile is asked again."""
    fault: Exception | None = None
    while time.monotonic() < since + _PATIENCE_S:
        try:
            if met():
                return time.monotonic() - since
        except (ServerProblemError, ServerUnreachableError) as exc:
            fault = exc
        time.sleep(_PAUSE_S)
    raise TimeoutError("the server did not come back") from fault


def _proportional_mb(pid: int) -> float:
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="utf-8").splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) / 1000
    return 0.0


def _size_mb(folder: Path) -> float:
    paths = [path for path in folder.rglob("*") if path.is_file()]
    return sum(path.stat().st_size for path in paths) / 1e6
