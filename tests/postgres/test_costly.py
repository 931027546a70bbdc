"""No statement takes more than it may, whatever functions, joins, lengths and depths it has."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from qserver.cli.processes import Child, listen, postgres_spec
from qserver.config import LOOPBACK
from qserver.postgres.catalogue.child import MOST_BYTES, MOST_SECONDS
from tests.deployment import Deployment
from tests.postgres.client import RawClient, Reply, fields
from tests.postgres.costly import Costly
from tests.postgres.test_charts import PEOPLE, ROWS
from tests.service.test_statements import answered
from tests.sweeps import n_of, settle_seed

pytestmark = pytest.mark.slow
MOST_MB = 260
"""Of any of the processes: one that answers statements takes about 110 before the first."""
BEYOND_S = 3.0
"""A process that took its time is ended and another one loads; an engine may be at its 2 s."""
WAIT_S = 300
"""For an answer, however busy the machine is."""
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Process:
    """What the system says of a process: its parent, seconds of the processor, and most memory."""

    parent: int
    used_s: float
    peak_mb: int


def _process(folder: Path) -> Process | None:
    try:
        words = (folder / "stat").read_text().rpartition(")")[2].split()
        status = (folder / "status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return None
    peak = [int(line.split()[1]) >> 10 for line in status if line.startswith("VmHWM")]
    # Its own, and of those that it started and that have ended.
    return Process(int(words[1]), sum(map(int, words[11:15])) / _TICKS, max(peak, default=0))


def family(root: int) -> dict[int, Process]:
    """A process and all that it started, by number."""
    found = {
        int(folder.name): process
        for folder in Path("/proc").iterdir()
        if folder.name.isdecimal() and (process := _process(folder))
    }
    kept = {root}
    while more := {n for n, process in found.items() if process.parent in kept} - kept:
        kept |= more
    return {n: process for n, process in found.items() if n in kept}


@pytest.fixture
def port(tmp_path: Path, store_url: str) -> Iterator[tuple[Child, int]]:
    """The port in a process of its own, over a dataset that was paid for."""
    town = Deployment.make(tmp_path, store_url, limit="100000", domain=PEOPLE, rows=ROWS)
    answered(town, "SELECT d, age, sex, COUNT(*) FROM people GROUP BY d, age, sex WITHIN 2")
    with closing(listen(LOOPBACK, 0)) as listener:
        log = tmp_path / "port.log"
        child = Child(postgres_spec(town.settings, listener=listener, log=log, environ=os.environ))
        try:
            yield child, listener.getsockname()[1]
        finally:
            child.stop()


def connect(number: int) -> RawClient:
    connection = socket.create_connection((LOOPBACK, number), timeout=WAIT_S)
    client = RawClient(connection, connection, threading.current_thread())
    client.start()
    return client


def check(text: str, reply: Reply) -> None:
    """Rows of at most so many bytes, or an error that says why."""
    shown = f"{text[:300]} ({len(text):,} characters)"
    errors = [fields(body) for body in reply.of(b"E")]
    assert all(error["C"] != "XX000" for error in errors), (shown, errors)
    assert reply.status == "I"
    assert sum(len(body) for body in reply.of(b"D") + reply.of(b"d")) <= MOST_BYTES, shown


def test_no_statement_takes_more_than_it_may(port: tuple[Child, int]) -> None:
    """By the processor that all processes of the port take, their memory, and what comes."""
    child, number = port
    made = Costly(f"{settle_seed()} costly")
    with closing((client := connect(number)).socket):
        for _ in range(n_of(300, share=25)):
            text = made.statement()
            before = {n: process.used_s for n, process in family(child.pid).items()}
            reply = client.query(text)
            after = family(child.pid)
            used_s = sum(process.used_s - before.get(n, 0.0) for n, process in after.items())
            check(text, reply)
            assert used_s <= MOST_SECONDS + BEYOND_S, (text[:300], len(text))
            assert max(process.peak_mb for process in after.values()) <= MOST_MB, text[:300]
            assert client.query("SHOW qserver.spend").rows == [["off"]]
