"""What a free answer of the PostgreSQL port waits for, while others ask much.

The port in a process of its own, 32 connections that send costly statements as fast as they are
answered or refused, and one that sends a free statement, each time after a pause. The storm has a
process of its own, and so have server and worker; all share the processors. The free statement is
one that was asked before, or a new one each time, which must be computed. So must each of the new
joins and tables of a storm; a storm of one join or table is answered by what is kept, and shows
what waits where the processors are taken whatever is asked. Of 100 waits `of_100_ms`
is the longest but one.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import multiprocessing
import socket
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path
from statistics import median

from qserver.config import LOOPBACK
from tests.postgres.client import RawClient

from .stack import deployed, porting
from .tables import Report, Value

N_STORM = 32
N_ANSWERS = 100
N_QUICK = 5
PAUSE_S = 0.05
LIMIT_MS = 100
_ROWS = 3_000
_NUMBERS = itertools.count()
_DAYS = 28
_FREE = "SELECT sex, COUNT(*) AS n FROM people WHERE day < {} GROUP BY sex"
_PAID = "SELECT day, age, sex, COUNT(*) FROM people GROUP BY day, age, sex WITHIN 20"
_JOIN = (
    "SELECT a.n AS n{i} FROM (SELECT day, age, COUNT(*) AS n FROM people GROUP BY day, age) AS a "
    "JOIN (SELECT day, COUNT(*) AS m FROM people GROUP BY day) AS b ON a.day = b.day"
)
_TABLE = (
    "SELECT day, sex, COUNT(*) AS n{i}, COUNT(*) - LAG(COUNT(*)) OVER (ORDER BY day) AS change "
    "FROM people GROUP BY day, sex"
)
STORMS: Mapping[str, str] = {
    "none": "",
    "catalogue join": "SELECT count(*) FROM pg_type a, pg_type b, pg_type c, pg_type d "
    "WHERE a.typname || b.typname < c.typname || d.typname",
    "long catalogue text": "SELECT "
    + ", ".join(f"typname || '{i}' AS c{i}" for i in range(1500))
    + " FROM pg_type",
    "long dataset text": "SELECT COUNT(*) FROM people WHERE "
    + " OR ".join(f"(age = {20 + i % 9} AND day = {1 + i % _DAYS})" for i in range(1200)),
    "join of numbers": _JOIN.replace("{i}", ""),
    "table": _TABLE.replace("{i}", ""),
    "new joins": _JOIN,
    "new tables": _TABLE,
}


def run(*, quick: bool) -> Report:
    """Waits by storm and by kind of free answer."""
    rows = list[dict[str, Value]]()
    with _port() as port:
        for storm, text in list(STORMS.items())[: 2 if quick else None]:
            for own in ("asked before", "new each time"):
                with _storming(port, text):
                    waits = sorted(_waits(port, own, N_QUICK if quick else N_ANSWERS))
                rows.append(_row(storm, own, waits))
    return Report(
        name="storm",
        title="Milliseconds of a free answer while 32 connections ask much",
        parameters={"connections": N_STORM, "answers": N_ANSWERS, "pause_s": PAUSE_S},
        rows=tuple(rows),
    )


def _row(storm: str, own: str, waits: list[float]) -> dict[str, Value]:
    middle, longest, above = median(waits), waits[-1], sum(wait > LIMIT_MS for wait in waits)
    return {
        "storm": storm,
        "free_answer": own,
        "median_ms": round(middle, 1),
        "of_100_ms": round(waits[len(waits) * 99 // 100], 1),
        "longest_ms": round(longest, 1),
        f"above_{LIMIT_MS}_ms": above,
        "answers": len(waits),
        "told": f"{middle:.3g} / {longest:.3g} / {above}",
    }


def _waits(port: int, own: str, n: int) -> Iterator[float]:
    """Milliseconds of free answers by the clock, one after another."""
    with _connected(port) as client:
        for i in range(n):
            text = _FREE.format(9 if own == "asked before" else _new(next(_NUMBERS)))
            if i == 0:
                client.query(text)
            begun = time.perf_counter()
            errors = client.query(text).of(b"E")
            yield 1000 * (time.perf_counter() - begun)
            if errors:
                raise RuntimeError(f"A free answer was refused: {errors[0]!r}")
            time.sleep(PAUSE_S)


def _new(number: int) -> str:
    """The days before another one, of other ages, without another day."""
    rest, days = divmod(number, _DAYS - 1)
    without, ages = divmod(rest, 9)
    return f"{2 + days} AND age < {21 + ages} AND day <> {1 + without}"


@contextlib.contextmanager
def _connected(port: int) -> Iterator[RawClient]:
    with socket.create_connection((LOOPBACK, port), timeout=600) as connection:
        client = RawClient(connection, connection, threading.current_thread())
        client.start()
        yield client


@contextlib.contextmanager
def _storming(port: int, text: str) -> Iterator[None]:
    """Connections of another process that send a text, of which one was answered already."""
    counter, done = multiprocessing.Value("q", 0), multiprocessing.Value("b", False)
    storm = multiprocessing.Process(target=_storm, args=(port, text, counter, done))
    if text:
        storm.start()
        while not done.value:  # it has begun
            time.sleep(PAUSE_S)
    try:
        yield
    finally:
        if text:
            storm.terminate()
            storm.join()


def _storm(port: int, text: str, counter: Synchronized[int], done: Synchronized[bool]) -> None:
    def one() -> None:
        with contextlib.suppress(OSError, AssertionError), _connected(port) as client:
            while True:
                with counter.get_lock():
                    counter.value += 1
                    number = counter.value
                client.query(text.replace("{i}", str(number)))
                done.value = True

    threads = [threading.Thread(target=one) for _ in range(N_STORM)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@contextlib.contextmanager
def _port() -> Iterator[int]:
    """The number of a port with one table, all of which was paid for."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        data, domain = folder / "people.csv", folder / "people.json"
        rows = (f"{1 + i % _DAYS},{20 + i % 10},{'FM'[i % 3 == 0]}\n" for i in range(_ROWS))
        data.write_text("day,age,sex\n" + "".join(rows), encoding="utf-8")
        attributes = [
            {"name": "day", "kind": "integer", "edges": [*range(1, _DAYS + 2)]},
            {"name": "age", "kind": "integer", "edges": [*range(20, 31)]},
            {"name": "sex", "kind": "labels", "labels": ["F", "M"]},
        ]
        domain.write_text(json.dumps({"attributes": attributes}), encoding="utf-8")
        arguments = ("--data", str(data), "--domain", str(domain), "--limit", "1000")
        # Those of the storm before may not have been found gone yet.
        most = 4 * N_STORM
        site = stack.enter_context(
            deployed("people", *arguments, wait_s=50.0, postgres_connections=most)
        )
        found = stack.enter_context(porting(site.settings, log=folder / "port.log"))
        with _connected(found.port) as client:
            client.query("SET qserver.spend = on")
            if errors := client.query(_PAID).of(b"E"):
                raise RuntimeError(f"The table was refused: {errors[0]!r}")
        yield found.port
