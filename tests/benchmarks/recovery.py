"""How soon a killed part of a server is back: `python -m tests.benchmarks.recovery`.

A demo runs as its users run it. Each round kills some of its processes with SIGKILL and asks a
question that nobody has asked before, again and again, until it has an answer.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from qserver.cli.processes import Backoff
from qserver.client.errors import ServerProblemError, ServerUnreachableError
from tests.cli.local.running_program import Program, running
from tests.cli.local.test_demo import children

_PAUSE_S = 0.02
_ROUNDS = 5
# What dies again sooner is started again after a longer pause.
_CALM_S = Backoff().calm_s + 1.0
KILLED = {
    "HTTP process": ("http",),
    "gunicorn": ("gunicorn",),
    "worker": ("worker run",),
    "store": ("valkey",),
    "store and worker": ("valkey", "worker run"),
    "store, worker, HTTP processes": ("valkey", "worker run", "http"),
    "store, worker, gunicorn": ("valkey", "worker run", "gunicorn"),
}


def main() -> int:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.recovery")
    parser.add_argument("--rounds", type=int, default=_ROUNDS)
    n_rounds = parser.parse_args().rounds
    sys.stdout.write(f"load {os.getloadavg()[0]:.1f}; seconds until {', '.join(_COLUMNS)}\n")
    with tempfile.TemporaryDirectory() as folder:
        state = Path(folder) / "state"
        with running(state, "demo", "--port", "0", "--limit", "50", "--state", str(state)) as demo:
            fresh = _questions()
            _until(lambda: _answer(demo, next(fresh)) == "measured")
            for name, parts in KILLED.items():
                rounds = []
                for _ in range(n_rounds):
                    time.sleep(_CALM_S)
                    rounds.append(_round(demo, parts, fresh))
                sys.stdout.write(_line(name, rounds))
                sys.stdout.flush()
    return 0


_COLUMNS = ("health", "history", "a fresh answer")


def _round(demo: Program, parts: Sequence[str], fresh: Iterator[dict[str, Any]]) -> list[float]:
    """Seconds from the kill to each of the columns."""
    question, again = next(fresh), next(fresh)
    _until(lambda: _answer(demo, again) is not None)
    begun = time.monotonic()
    for pid in [pid for part in parts for pid in _pids(demo, part)]:
        os.kill(pid, signal.SIGKILL)
    seen = []
    for met in (
        lambda: demo.client.get("healthz").status == 200,
        lambda: _answer(demo, again) == "history",
        lambda: _answer(demo, question) == "measured",
    ):
        _until(met)
        seen.append(time.monotonic() - begun)
    return seen


def _pids(demo: Program, part: str) -> list[int]:
    if part == "http":
        return children(demo.process_id("gunicorn"))
    return [demo.process_id(part)]


def _questions() -> Iterator[dict[str, Any]]:
    """Questions of one person's records each, none of them asked before."""
    for age, hours in itertools.product(range(17, 91), range(1, 99)):
        where = {"age": {"between": [age, age]}, "hours-per-week": {"between": [hours, hours]}}
        yield {"query": {"where": where}, "length": 2000, "confidence": 0.9}


def _answer(demo: Program, question: dict[str, Any]) -> str | None:
    reply = demo.client.post("v1", "datasets", "adult", "query", document=question)
    return reply.document["source"] if reply.status == 200 else None


def _until(met: Any) -> None:
    while True:
        with contextlib.suppress(ServerProblemError, ServerUnreachableError):
            if met():
                return
        time.sleep(_PAUSE_S)


def _line(name: str, rounds: Sequence[Sequence[float]]) -> str:
    told = [
        f"{statistics.median(column):.2f} ({max(column):.2f})"
        for column in zip(*rounds, strict=True)
    ]
    return f"{name:30} " + "  ".join(f"{text:>13}" for text in told) + "\n"


if __name__ == "__main__":
    sys.exit(main())
