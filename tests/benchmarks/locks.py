"""How long a question holds its dataset: `python -m tests.benchmarks.locks`.

Processor time in milliseconds that each question spends under the lock that all questions of a
dataset take, on the histories of `restart`. Whoever asks meanwhile waits as long. The first
question after a start is shown apart: inference over all rows is built with it. Prices and
workloads have copies of the history of their own, and must not take the lock at all.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

from qserver.query.question import Question

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from qserver.config import Settings
from qserver.query.linear_query import LinearQuery
from qserver.query.requirement import Requirement
from qserver.service.datasets import OpenDataset
from qserver.service.service import Service
from qserver.storage.server.embedded_store import EmbeddedServer
from qserver.storage.spend import SpendingStore
from qserver.storage.store import Store

from .long_histories import SHAPES, Shape, fill, meta_of

_KINDS = ("many", "wide", "dense")
_SEED, _NEW_SEED = 1, 2
_N = 60
_LEASE_MS = 600_000
_LONG = Requirement(1e7, 0.95)  # so that history answers


class _TimedLock:
    """A lock that notes the holder's processor time, in milliseconds."""

    def __init__(self, lock: threading.Lock) -> None:
        self._lock = lock
        self._begun = 0.0
        self.held: list[float] = []

    def __enter__(self) -> None:
        self._lock.acquire()
        self._begun = time.thread_time()

    def __exit__(self, *_: object) -> None:
        self.held.append(1e3 * (time.thread_time() - self._begun))
        self._lock.release()


def main() -> int:
    """Measure and print a table, line by line."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.locks")
    parser.add_argument("--size", type=int, default=5_000)
    parser.add_argument("--kinds", nargs="+", choices=sorted(SHAPES), default=_KINDS)
    asked = parser.parse_args()
    sys.stdout.write(f"load {os.getloadavg()[0]:.1f}, {asked.size} paid questions\n")
    for kind in asked.kinds:
        for name, held in _measured(SHAPES[kind], asked.size):
            most, middle = (held[-1], held[len(held) // 2]) if held else (0.0, 0.0)
            sys.stdout.write(f"{kind:6} {name:12} {len(held):4} most {most:7.1f} {middle:7.1f}\n")
            sys.stdout.flush()
    return 0


def _measured(shape: Shape, n: int) -> Iterator[tuple[str, list[float]]]:
    """What was asked, and the times under the lock in rising order."""
    with tempfile.TemporaryDirectory() as text, EmbeddedServer.start(Path(text)) as server:
        settings = Settings(redis_url=server.url, state_dir=Path(text), lease_ms=_LEASE_MS)
        paid = list(islice(shape.queries(_SEED), n))
        fill(SpendingStore.open(settings), meta_of(shape), paid)
        service = Service(Store.open(settings), settings)
        lock = _with_timed_lock(service)
        new = list(islice(shape.queries(_NEW_SEED), _N + 1))

        def ask(query: LinearQuery) -> None:
            service.ask("long", Question(query, _LONG), wait_s=0)

        def price(query: LinearQuery) -> None:
            service.explain("long", Question(query, Requirement(90.0, 0.95)))

        first: tuple[tuple[str, Callable[[LinearQuery], None], list[LinearQuery]], ...] = (
            ("first known", ask, paid[:1]),
            ("known", ask, paid[1:_N]),
            ("first new", ask, new[:1]),
            ("new, free", ask, new[1:]),
            ("price", price, new[:3]),
        )
        for name, put, queries in first:
            lock.held.clear()
            for query in queries:
                put(query)
            yield name, sorted(lock.held)


def _with_timed_lock(service: Service) -> _TimedLock:
    """The lock of the questions' replica, from now on a timed one."""
    datasets = service._datasets
    opened = datasets.get("long")
    lock = _TimedLock(opened.lock)
    datasets._open["long"] = OpenDataset(opened.replica, lock)  # type: ignore[arg-type]
    return lock


if __name__ == "__main__":
    sys.exit(main())
