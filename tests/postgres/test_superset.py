"""Superset itself: the data frames of its charts, with values within their intervals.

`QSERVER_SUPERSET` names the python of an environment with `apache-superset` and `psycopg2-binary`.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import threading
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pytest

from qserver.api.access import OpenAccess
from qserver.postgres.connection import House, converse
from qserver.postgres.server import PostgresServer
from tests.deployment import Deployment
from tests.postgres.client import connected
from tests.postgres.test_charts import PEOPLE, ROWS, SURE
from tests.service.test_statements import answered

pytestmark = [pytest.mark.tools, pytest.mark.slow]
NAME = "QSERVER_SUPERSET"
PROGRAM = Path(__file__).parent / "superset_frames.py"
CONFIG = """
SECRET_KEY = "{key}"
SQLALCHEMY_DATABASE_URI = "sqlite:///{folder}/superset.db"
PREVENT_UNSAFE_DB_CONNECTIONS = False
"""
AS: dict[str, str] = {
    "count by sex": "SELECT sex, COUNT(*) AS n FROM people GROUP BY sex",
    "one number": "SELECT COUNT(*) AS n FROM people",
    "not in": "SELECT sex, COUNT(*) AS n FROM people WHERE sex NOT IN ('Male') GROUP BY sex",
    "in": "SELECT sex, COUNT(*) AS n FROM people WHERE sex IN ('Female') GROUP BY sex",
    "is null": "SELECT sex, COUNT(*) AS n FROM people WHERE sex IS NULL GROUP BY sex",
    "top 3": "SELECT age, COUNT(*) AS n FROM people GROUP BY age",
    "histogram": "SELECT age, COUNT(*) AS n FROM people GROUP BY age",
    "weeks": "SELECT DATE_TRUNC('week', d) AS d, COUNT(*) AS n FROM people GROUP BY 1",
    "months": "SELECT DATE_TRUNC('month', d) AS d, COUNT(*) AS n FROM people GROUP BY 1",
    "years": "SELECT DATE_TRUNC('year', d) AS d, COUNT(*) AS n FROM people GROUP BY 1",
    "time range": "SELECT DATE_TRUNC('week', d) AS d, COUNT(*) AS n FROM people "
    "WHERE d >= '2024-03-04' AND d < '2024-03-18' GROUP BY 1",
    "average with its interval": "SELECT sex, AVG(age) AS n FROM people GROUP BY sex",
}
"""Per chart what it is of the records, and of the port with intervals beside."""


@pytest.fixture
def frames(tmp_path: Path, store_url: str) -> tuple[Deployment, list[dict[str, Any]]]:
    """The deployment and the data frames of all charts."""
    python = os.environ.get(NAME, "")
    if not Path(python).is_file():
        pytest.skip(f"{NAME} names no python with apache-superset: its charts are NOT TESTED.")
    town = Deployment.make(tmp_path, store_url, limit="100000", domain=PEOPLE, rows=ROWS)
    answered(town, "SELECT d, age, sex, COUNT(*) FROM people GROUP BY d, age, sex WITHIN 2")
    listener = socket.create_server(("127.0.0.1", 0))
    house = House(town.service(), OpenAccess())
    server = PostgresServer(listener, partial(converse, house))
    thread = threading.Thread(target=server.run, kwargs={"grace_s": 60.0})
    thread.start()
    (tmp_path / "superset_config.py").write_text(CONFIG.format(key="k" * 40, folder=tmp_path))
    options = "-c%20qserver.intervals%3Dcolumns%20-c%20qserver.confidence%3D0.99999999"
    address = f"127.0.0.1:{listener.getsockname()[1]}/qserver?options={options}"
    try:
        found = subprocess.run(
            [python, str(PROGRAM), f"postgresql+psycopg2://ada:x@{address}"],
            env={**os.environ, "PYTHONPATH": str(tmp_path), "SUPERSET_HOME": str(tmp_path)},
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
    finally:
        server.stop()
        thread.join()
    lines = [line[6:] for line in found.stdout.splitlines() if line.startswith("frame ")]
    assert lines, found.stderr[-2000:]
    return town, [json.loads(line) for line in lines]


def _key(value: object) -> str:
    return str(value)[: len("0000-00-00")] if str(value)[:2] == "20" else str(value)


def test_charts_of_superset_have_values_within_their_intervals(
    frames: tuple[Deployment, list[dict[str, Any]]],
) -> None:
    town, told = frames
    assert [frame["name"] for frame in told] == [*AS]
    with duckdb.connect(":memory:") as records, connected(town.service()) as client:
        records.execute("CREATE TABLE people (d DATE, age INTEGER, sex VARCHAR)")
        records.executemany("INSERT INTO people VALUES (?, ?, ?)", ROWS)
        client.start(options=SURE)
        for frame in told:
            name = frame["name"]
            assert not frame["error"], (name, frame["error"])
            reply = client.query(AS[name])
            ends = {_key(row[0] if len(row) > 3 else ""): row[-3:] for row in reply.rows}
            true = {
                _key(row[0] if len(row) > 1 else ""): row[-1]
                for row in records.execute(AS[name]).fetchall()
            }
            drawn = {_key(row[0] if len(row) > 1 else ""): row[1:] or row for row in frame["data"]}
            assert drawn.keys() <= ends.keys(), name
            assert drawn or name == "is null"
            assert len(drawn) == min(len(ends), 3 if name == "top 3" else len(ends)), name
            for key, values in drawn.items():
                estimate, low, high = (float(value or "nan") for value in ends[key])
                assert values[0] == pytest.approx(estimate), (name, key)
                assert low <= float(true.get(key, 0)) <= high, (name, key)
                assert values[1:] in ([], [pytest.approx(low), pytest.approx(high)]), (name, key)
