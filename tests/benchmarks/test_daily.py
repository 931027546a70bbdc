"""What users ask every day takes no more than so many echoes of the same run; clocks of parts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.benchmarks.parts import Clocks, processes
from tests.benchmarks.test_benchmarks import quick_document

MOST_AGAIN = {
    ("known count", "body"): 4,
    ("known count", "client"): 16,
    ("known count", "SQL body"): 8,
    ("known count", "client, SQL"): 10,
    ("known count", "port"): 8,
    ("known count", "page"): 150,
    ("GROUP BY age, sex", "SQL body"): 45,
    ("GROUP BY age, sex", "client, SQL"): 50,
    ("GROUP BY age, sex", "port"): 30,
    ("AVG by sex", "SQL body"): 10,
}
"""Echoes that a known statement takes at most: two to three times what was measured."""
MOST_FIRST = {
    ("fresh count", "body"): 400,
    ("free count", "body"): 250,
    ("GROUP BY age, sex", "SQL body"): 12_000,
    ("AVG by sex", "SQL body"): 12_000,
}
"""The same of a statement that is asked for the first time."""


@pytest.mark.slow
def test_no_statement_takes_many_more_echoes_than_it_did(tmp_path: Path) -> None:
    """Processor time of all parts beside that of an echo, on whatever processor there is."""
    found = {
        (row["statement"], row["face"]): row for row in quick_document("daily", tmp_path)["rows"]
    }
    echo_ms = found["echo", "body"]["again_ms"]
    again = {key: found[key]["again_ms"] / echo_ms for key in MOST_AGAIN}
    first = {key: found[key]["first_ms"] / echo_ms for key in MOST_FIRST}
    assert {key: n for key, n in again.items() if n > MOST_AGAIN[key]} == {}
    assert {key: n for key, n in first.items() if n > MOST_FIRST[key]} == {}


def test_a_part_is_known_by_its_command_and_its_clock_is_what_it_says_itself() -> None:
    """A process that is called like the worker, and tells its own processor time."""
    code = "import time; sum(range(10**6)); print(time.process_time(), flush=True); input()"
    call = [sys.executable, "-c", code, "-m", "worker", "run"]
    with subprocess.Popen(call, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as one:
        assert one.stdin is not None
        assert one.stdout is not None
        said_s = float(one.stdout.readline())
        assert one.pid in processes()["worker"]
        used_s = Clocks().seconds()["worker"]
        one.stdin.close()
    assert said_s <= used_s < said_s + 1.0
    assert one.pid not in processes().get("worker", ())
