"""Other systems answer the same statements on Adult at the same stated accuracy, run for real.

OpenDP, SmartNoise SQL and Tumult Analytics, each installed from PyPI in an environment of its own;
the last needs Java. `programs` in `tests/benchmarks/peer` ask them. Accuracy is half the length of
an interval of 95 percent: 100 for counts, 1 or .5 for averages, 2 years for medians. The other
systems get the epsilon that gives it, and are told for free what that takes
(`peer/statements.py`): an analyst would not know it. Epsilon is what each system says it charged.

qserver gets a dataset for each workload, so that none is answered from what another one paid.
`missed` are numbers whose interval does not hold the true one. qserver's CPU is of HTTP, worker and
store together, with every write on disk; the others are libraries that keep neither answers nor
accounts, and their CPU is of the process that calls them, for Tumult with Spark. Of a dashboard
ten times, qserver charges the first; who uses a library may keep the numbers and so, too, pay once.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import tempfile
import venv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from qserver.cli.local.demo import N_ADULT_RECORDS, adult_demo

from .faces import Body
from .load import ROOT
from .parts import Clocks
from .peer.statements import CONFIDENCE, Statement, Truth, workloads
from .stack import deployed
from .tables import Report, Value

LIMIT = "1000"


@dataclass(frozen=True)
class Peer:
    """Another system.

    Args:
        needs: what pip installs; the first is the system itself.
        program: the module that asks it.
        lacks: kinds of statements that it has not.
    """

    name: str
    needs: tuple[str, ...]
    program: str
    lacks: frozenset[str] = frozenset()


PEERS = (
    Peer("OpenDP", ("opendp==0.16.0", "numpy>=2,<3"), "opendp_library"),
    Peer("SmartNoise SQL", ("smartnoise-sql==1.0.10",), "smartnoise", frozenset({"median"})),
    Peer("Tumult Analytics", ("tmlt-analytics==0.21.0",), "tumult"),
)


@dataclass(frozen=True)
class Said:
    """One statement, as a system answered it."""

    statement: Statement
    intervals: Mapping[str, tuple[float, float]]
    epsilon: float
    cpu_s: float


def run(*, quick: bool) -> Report:
    """Epsilon, misses and processor time by workload and system; the quick one is qserver alone."""
    with tempfile.TemporaryDirectory() as text:
        return measured(Path(text), () if quick else PEERS, quick=quick)


def measured(folder: Path, peers: Sequence[Peer], *, quick: bool) -> Report:
    """The same, with the environments of other systems in a folder, which may have them already."""
    truth, asked = Truth.written(folder), workloads(quick=quick)
    every = [one for statements in asked.values() for one in statements]
    said = {"qserver": [one for chosen in asked.values() for one in _ours(chosen)]}
    for peer in peers:
        known = [one for one in every if one.kind not in peer.lacks]
        said[peer.name] = list(_theirs(peer, _environment(peer, folder), truth, known))
    rows = list[Mapping[str, Value]]()
    for workload, statements in asked.items():
        for system, answers in said.items():
            chosen, answers = answers[: len(statements)], answers[len(statements) :]
            if [one.statement for one in chosen] != list(statements):
                continue
            said[system] = answers
            rows += [_row(workload, system, chosen, truth)] if chosen else []
    return Report(
        name="peers",
        title="The same statements at the same stated accuracy, asked of other systems",
        parameters={
            "confidence": CONFIDENCE,
            "records": N_ADULT_RECORDS,
            "versions": ", ".join(peer.needs[0] for peer in peers),
        },
        rows=tuple(rows),
    )


def _row(workload: str, system: str, said: Sequence[Said], truth: Truth) -> Mapping[str, Value]:
    numbers = missed = 0
    for one in said:
        for key, true in truth.numbers(one.statement).items():
            # A group that is left out is missed: its number is stated nowhere.
            low, high = one.intervals.get(key, (1.0, 0.0))
            numbers, missed = numbers + 1, missed + (not low <= true <= high)
    times = sorted(one.cpu_s for one in said)
    return {
        "workload": workload,
        "system": system,
        "statements": len(said),
        "numbers": numbers,
        "epsilon": round(sum(one.epsilon for one in said), 4),
        "missed": missed,
        "cpu_ms": round(1e3 * sum(times) / len(times), 1),
        "median_cpu_ms": round(1e3 * times[len(times) // 2], 1),
    }


def _ours(statements: Sequence[Statement]) -> Iterator[Said]:
    """Over HTTP, one after another, on a dataset that nobody asked before."""
    with (
        deployed("adult", *adult_demo().attach, "--limit", LIMIT) as site,
        contextlib.closing(Body(site.port, "adult")) as body,
    ):
        body.sql("SELECT COUNT(*) AS n FROM adult WITHIN 10000")  # starts what reads SQL
        clocks, spent = Clocks(), body.spent()
        for one in statements:
            before = clocks.seconds()
            found = body.sql(one.ours)
            after = clocks.seconds()
            intervals = {
                (row["group"] or [""])[0]: tuple(row["cells"][-1]["interval"])
                for row in found["table"]["rows"]
            }
            now = body.spent()
            cpu_s = sum(after[part] - before[part] for part in after)
            yield Said(one, intervals, now - spent, cpu_s)
            spent = now


def _theirs(
    peer: Peer, python: Path, truth: Truth, statements: Sequence[Statement]
) -> Iterator[Said]:
    asked: dict[str, Any] = {
        "data": str(truth.path),
        "records": N_ADULT_RECORDS,
        "statements": [truth.document(one) for one in statements],
    }
    done = subprocess.run(
        [python, "-m", f"tests.benchmarks.peer.{peer.program}"],
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{peer.name} failed: {done.stderr[-3000:]}")
    for one, line in zip(statements, done.stdout.splitlines(), strict=True):
        found = json.loads(line)
        intervals = {key: (x - one.half, x + one.half) for key, x in found["rows"]}
        yield Said(one, intervals, found["epsilon"], found["cpu_s"])


def _environment(peer: Peer, folder: Path) -> Path:
    """The interpreter of an environment with this system, which is made where it is missing."""
    place = folder / peer.program
    python = place / "bin" / "python"
    if not python.exists():
        venv.create(place, with_pip=True)
        pip = [str(python), "-m", "pip", "install", "--quiet", *peer.needs]
        subprocess.run(pip, check=True, stdout=sys.stderr)
    return python
