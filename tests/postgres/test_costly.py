"""No statement takes more of the processor, or returns more, than it may, over the real port."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from qserver.config import LOOPBACK
from qserver.postgres.catalogue.child import MOST_BYTES, MOST_SECONDS
from tests.benchmarks.stack import porting
from tests.deployment import Deployment
from tests.postgres.client import RawClient, fields
from tests.postgres.costly import Costly
from tests.postgres.test_charts import PEOPLE, ROWS
from tests.service.test_statements import answered
from tests.sweeps import examples, is_whole, settle_seed

BESIDE_S = 2.0
"""What the process of connections, a new process and its engine may take beside the statement."""
_TICKS_S = os.sysconf("SC_CLK_TCK")


def _used_s(root: int) -> float:
    """Seconds of the processor that the processes below this one took, with those that ended."""
    parents, used = dict[int, int](), dict[int, float]()
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            told = path.read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
            parents[int(path.parent.name)] = int(told[1])
            used[int(path.parent.name)] = sum(map(int, told[11:15])) / _TICKS_S

    def is_below(pid: int) -> bool:
        while pid and pid != root:
            pid = parents.get(pid, 0)
        return pid == root

    return sum(seconds for pid, seconds in used.items() if pid != root and is_below(pid))


@pytest.fixture
def client(tmp_path: Path, store_url: str) -> Iterator[RawClient]:
    """A connection to the port in processes of its own; history has what its dataset holds."""
    town = Deployment.make(tmp_path, store_url, limit="100000", domain=PEOPLE, rows=ROWS)
    answered(town, "SELECT d, age, sex, COUNT(*) FROM people GROUP BY d, age, sex WITHIN 2")
    with (
        porting(town.settings, log=tmp_path / "port.log") as site,
        socket.create_connection((LOOPBACK, site.port), timeout=60) as connection,
    ):
        found = RawClient(connection, connection, threading.current_thread())
        found.start()
        yield found


@pytest.mark.slow
def test_functions_joins_and_lengths_take_no_more_than_they_may(client: RawClient) -> None:
    """About datasets and the catalogue: each is answered or refused, and the next one is read."""
    costly, n_answered = Costly(settle_seed() if is_whole() else "costly"), 0
    client.query("SHOW server_version")
    for _ in range(examples(40)):
        text, before = costly.statement(), _used_s(os.getpid())
        reply = client.query(text)
        taken = _used_s(os.getpid()) - before
        assert taken <= MOST_SECONDS + BESIDE_S, f"{taken:.1f} s: {text[:500]}"
        assert sum(len(body) for _, body in reply.messages) <= MOST_BYTES, text[:500]
        for error in reply.of(b"E"):
            # Not XX000, which says that the server is at fault.
            assert fields(error)["C"][:2] in ("0A", "22", "42", "54", "57"), (fields(error), text)
        n_answered += not reply.of(b"E")
    assert n_answered
