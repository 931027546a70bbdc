"""What a price costs on a history of years: `python -m tests.benchmarks.explains`.

Processor time in seconds of one explanation, on the histories of `restart`: of a question that was
paid for, of new ones, of GROUP BY, and of workloads of new questions. Each is explained three times
on one state, with three lengths; the longest is shown. The first line is what a process without a
checkpoint takes before.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from qserver.config import Settings
from qserver.query.question import Question, Workload
from qserver.query.requirement import Requirement
from qserver.service.service import Service
from qserver.service.statements import Statements
from qserver.storage.server.embedded_store import EmbeddedServer
from qserver.storage.spend import SpendingStore
from qserver.storage.store import Store

from .long_histories import SHAPES, Shape, fill, meta_of

_KINDS = ("many", "dense", "wide")
_LENGTHS = (100.0, 90.0, 110.0)
_SEED, _NEW_SEED = 1, 2
_LEASE_MS = 600_000
Explain = Callable[[float], object]


def main() -> int:
    """Measure and print a table, line by line."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.explains")
    parser.add_argument("--size", type=int, default=5_000)
    parser.add_argument("--kinds", nargs="+", choices=sorted(SHAPES), default=_KINDS)
    asked = parser.parse_args()
    sys.stdout.write(f"load {os.getloadavg()[0]:.1f}, {asked.size} paid questions\n")
    for kind in asked.kinds:
        for name, seconds in _measured(SHAPES[kind], asked.size):
            sys.stdout.write(f"{kind:6} {name:24} {seconds:7.3f}\n")
            sys.stdout.flush()
    return 0


def _measured(shape: Shape, n: int) -> Iterator[tuple[str, float]]:
    with tempfile.TemporaryDirectory() as text, EmbeddedServer.start(Path(text)) as server:
        settings = Settings(redis_url=server.url, state_dir=Path(text), lease_ms=_LEASE_MS)
        paid = list(islice(shape.queries(_SEED), n))
        fill(SpendingStore.open(settings), meta_of(shape), paid)
        service = Service(Store.open(settings), settings)
        explains = _explains(service, shape, paid[0])
        begun = time.thread_time()
        for name in ("new", "workload of 2"):  # prices and workloads have a copy of history each
            explains[name](120.0)
        yield "(reading all, twice)", time.thread_time() - begun
        for name, explain in explains.items():
            yield name, max(_seconds(explain, length) for length in _LENGTHS)


def _explains(service: Service, shape: Shape, paid: object) -> Mapping[str, Explain]:
    new = list(islice(shape.queries(_NEW_SEED), 400))
    statements = Statements(service)

    def single(query: object) -> Explain:
        return lambda length: service.explain("long", Question(query, Requirement(length, 0.95)))  # type: ignore[arg-type]

    def workload(n: int, *, simultaneous: bool = False) -> Explain:
        return lambda length: service.explain_workload(
            "long",
            Workload(
                tuple(Question(q, Requirement(length, 0.95)) for q in new[-n:]),
                simultaneous=simultaneous,
            ),
        )

    def grouped(*names: str) -> Explain:
        columns = ", ".join(names)
        return lambda length: statements.run(
            "long",
            f"EXPLAIN SELECT {columns}, COUNT(*) FROM long GROUP BY {columns} "
            f"WITHIN {length / 2:g} CONFIDENCE 0.95",
            wait_s=0.0,
        )

    return {
        "paid for": single(paid),
        "new": single(new[0]),
        "another new one": single(new[1]),
        "new, only these": lambda length: service.explain(
            "long", Question(new[2], Requirement(length, 0.95), measure="only_this")
        ),
        "group by 1": grouped("a0"),
        **({"group by 3": grouped("a0", "a1", "a2")} if shape.n_values <= 10 else {}),
        "workload of 2": workload(2),
        "workload of 10": workload(10),
        "workload of 10, joint": workload(10, simultaneous=True),
        "workload of 100": workload(100),
    }


def _seconds(explain: Explain, length: float) -> float:
    begun = time.thread_time()
    explain(length)
    return time.thread_time() - begun


if __name__ == "__main__":
    sys.exit(main())
