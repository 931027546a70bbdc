"""Clients that stand on a program of their own: pgbouncer between, and DuckDB's scanner.

`QSERVER_SCANNER` names the python of an environment with `duckdb` and the package of the same
version `duckdb-extension-postgres-scanner`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import asyncpg
import psycopg
import pytest

from tests.postgres.test_tools import BY_SEX, COLUMNS, UNDER, Port, known, port
from tests.service.test_statements import spent

__all__ = ["known", "port"]
pytestmark = [pytest.mark.tools, pytest.mark.slow]
NAME = "QSERVER_SCANNER"
POOL = """
[databases]
* = host=localhost port={server} user=ada password={token}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {pool}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 2
ignore_startup_parameters = extra_float_digits,options
"""
SCAN = """
import duckdb, duckdb_extension_postgres_scanner as package, json, pathlib, sys
[file] = pathlib.Path(package.__file__).parent.rglob("*.duckdb_extension")
db = duckdb.connect(config={"allow_unsigned_extensions": "true"})
db.execute(f"LOAD '{file}'")
db.execute(f"ATTACH '{sys.argv[1]}' AS q (TYPE postgres, READ_ONLY)")
for text in json.loads(sys.argv[2]):
    try:
        read = db.execute(text)
        names = [column[0] for column in read.description]
        print("read " + json.dumps([names, read.fetchall()]))
    except duckdb.Error as exc:
        print("read " + json.dumps(str(exc)))
"""


@contextlib.contextmanager
def pooled(port: Port, folder: Path) -> Iterator[str]:
    """The address of pgbouncer in transaction mode before the port."""
    program = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")
    if program is None:
        pytest.skip("apt-get install pgbouncer: pgbouncer is NOT TESTED.")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        number = listener.getsockname()[1]
    config = folder / "pgbouncer.ini"
    config.write_text(POOL.format(server=port.number, token=port.token, pool=number))
    as_other = ("-u", "nobody") if os.getuid() == 0 else ()
    child = subprocess.Popen([program, *as_other, "-q", str(config)], stderr=subprocess.PIPE)
    assert child.stderr is not None
    try:
        while True:
            assert child.poll() is None, child.stderr.read()
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", number)):
                break
        yield f"host=127.0.0.1 port={number} user=ada dbname=q"
    finally:
        child.terminate()
        child.wait()
        child.stderr.close()


def test_pgbouncer_hands_connections_on_between_transactions(known: Port, tmp_path: Path) -> None:
    """More clients than connections; settings are local to a transaction."""
    with psycopg.connect(known.conninfo) as direct:
        expected = direct.execute(UNDER.format(25)).fetchall()
    with pooled(known, tmp_path) as address:

        def ask(_: int) -> list[Any]:
            with psycopg.connect(address, prepare_threshold=None, autocommit=True) as connection:
                return connection.execute(UNDER.format("%s"), (25,)).fetchall()

        with ThreadPoolExecutor(8) as several:
            assert list(several.map(ask, range(16))) == [expected] * 16
        with psycopg.connect(address, prepare_threshold=None, autocommit=True) as connection:
            with connection.transaction():
                connection.execute("SET LOCAL qserver.intervals = off")
                short = connection.execute(UNDER.format(25)).fetchall()
                assert short == [row[:2] for row in expected]
            assert connection.execute("SHOW qserver.intervals").fetchone() == ("on",)
            with connection.transaction(), connection.cursor(name="kept") as cursor:
                cursor.execute(UNDER.format("%s"), (25,))
                assert cursor.fetchall() == expected
            with connection.cursor().copy(f"COPY ({BY_SEX}) TO STDOUT") as copy:
                assert len(list(copy.rows())) == 3
            assert connection.execute("SELECT relname FROM pg_class").fetchall() == [("people",)]

        async def asked() -> list[int]:
            pairs = dict(pair.split("=") for pair in address.split() if "dbname" not in pair)
            pool = asyncpg.create_pool(
                **pairs, database="q", statement_cache_size=0, min_size=1, max_size=5
            )

            async def one() -> int:
                async with pool.acquire() as connection:
                    return len(await connection.fetch(UNDER.format("$1"), 25))

            async with pool:
                return list(await asyncio.gather(*(one() for _ in range(12))))

        assert asyncio.run(asked()) == [3] * 12


@pytest.fixture
def scanned(known: Port) -> Any:
    """What DuckDB reads by each text: names and rows, or an error."""
    python = os.environ.get(NAME, "")
    if not Path(python).is_file():
        pytest.skip(f"{NAME} names no python with DuckDB's postgres_scanner: it is NOT TESTED.")

    def read(*texts: str) -> list[Any]:
        found = subprocess.run(
            [python, "-c", SCAN, known.conninfo, json.dumps(texts)],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        lines = [line[5:] for line in found.stdout.splitlines() if line.startswith("read ")]
        assert len(lines) == len(texts), found.stderr[-2000:]
        return [json.loads(line) for line in lines]

    return read


def test_duckdb_s_scanner_attaches_lists_and_reads(known: Port, scanned: Any) -> None:
    """Each number with its interval, and only the columns that DuckDB asks for by their places."""
    before = spent(known.town)
    with psycopg.connect(known.conninfo) as direct:
        rows = [list(row) for row in direct.execute(UNDER.format(25)).fetchall()]
    of = f"postgres_query('q', '{UNDER.format(25)}')"
    unnamed = "postgres_query('q', 'SELECT sex, COUNT(*) FROM people GROUP BY sex')"
    whole, picked, sex, counted, filtered, low, tables, columns, kinds, table = scanned(
        f"SELECT * FROM {of}",
        f"SELECT n, n_high FROM {of}",
        f"SELECT sex FROM {of}",
        f"SELECT count(*) AS n FROM {of}",
        f"SELECT sex FROM {of} WHERE n > -1000 AND n_low < 1000",
        f'SELECT "COUNT(*)_low" < "COUNT(*)" AS is_less FROM {unnamed}',
        "SELECT schema_name, table_name FROM duckdb_tables() WHERE database_name = 'q'",
        "SELECT column_name, data_type FROM duckdb_columns() WHERE database_name = 'q'",
        "SELECT * FROM postgres_query('q', 'SELECT typname FROM pg_type WHERE oid = 20')",
        "SELECT * FROM q.public.people",
    )
    assert whole == [COLUMNS, rows]
    assert picked == [["n", "n_high"], [[row[1], row[3]] for row in rows]]
    assert sex == [["sex"], [[row[0]] for row in rows]]
    assert counted == [["n"], [[3]]]
    assert filtered == [["sex"], [[row[0]] for row in rows]]
    assert low == [["is_less"], [[True]] * 3]
    assert tables[1] == [["public", "people"]]
    assert columns[1] == [["age", "BIGINT"], ["sex", "VARCHAR"]]
    assert kinds == [["typname"], [["int8"]]]
    assert "must count or sum" in table
    assert spent(known.town) == before
