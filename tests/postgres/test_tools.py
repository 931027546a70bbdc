"""Real clients on a real port: psql, Python's drivers, SQLAlchemy with pandas, and pgjdbc."""

from __future__ import annotations

import asyncio
import io
import os
import re
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import adbc_driver_postgresql.dbapi as adbc
import asyncpg
import pandas as pd
import pg8000.dbapi
import psycopg
import psycopg2
import pytest
import sqlalchemy as sa

from qserver.api.access import TokenAccess
from qserver.postgres.connection import House, converse
from qserver.postgres.server import PostgresServer
from qserver.storage.accounts import AccountBook, RateLimiter
from qserver.storage.store import Store
from tests.deployment import Deployment
from tests.postgres.certificate import Certificate
from tests.service.test_statements import answered, spent

pytestmark = pytest.mark.tools
JDBC = Path("/usr/share/java/postgresql.jar")
BY_SEX = "SELECT sex, COUNT(*) AS n FROM people GROUP BY sex"
UNDER = "SELECT sex, COUNT(*) AS n FROM people WHERE age < {} GROUP BY sex"
COLUMNS = ["sex", "n", "n_low", "n_high"]


@dataclass(frozen=True)
class Port:
    town: Deployment
    number: int
    token: str
    ca: Path

    def psql(self, *texts: str, ssl: str = "prefer") -> str:
        """What psql prints, errors included."""
        program = shutil.which("psql")
        assert program, "apt-get install postgresql-client"
        commands = [part for text in texts for part in ("-c", text)]
        place = f"host=localhost port={self.number} user=ada dbname=qserver sslmode={ssl}"
        found = subprocess.run(
            [program, "-X", f"{place} sslrootcert={self.ca}", *commands],
            env={**os.environ, "PGPASSWORD": self.token},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=60,
            check=False,
        )
        return found.stdout

    @property
    def conninfo(self) -> str:
        return f"host=localhost port={self.number} user=ada dbname=qserver password={self.token}"


@pytest.fixture
def port(town: Deployment, tmp_path: Path) -> Iterator[Port]:
    store = Store.open(town.settings)
    book = AccountBook(store.client)
    access = TokenAccess(book, RateLimiter(store.client), token_rate=0, address_rate=0)
    certificate = Certificate.write(tmp_path, "localhost")
    listener = socket.create_server(("localhost", 0))
    house = House(town.service(), access, certificate.context)
    server = PostgresServer(listener, partial(converse, house))
    thread = threading.Thread(target=server.run, kwargs={"grace_s": 60.0})
    thread.start()
    token = book.create("ada", "analyst").text
    yield Port(town, listener.getsockname()[1], token, certificate.path)
    server.stop()
    thread.join()


@pytest.fixture
def known(port: Port) -> Port:
    """The port where history answers the statements of these tests."""
    answered(port.town, f"{BY_SEX} WITHIN 20")
    answered(port.town, f"{UNDER.format(25)} WITHIN 20")
    return port


def test_psql_asks_is_refused_with_the_price_and_pays(port: Port, worker: None) -> None:
    said = port.psql(f"{BY_SEX} WITHIN 20")
    assert re.search(r"^ERROR: .*\nLINE 1: SELECT sex.*\n +\^\nDETAIL:  price ", said, re.MULTILINE)
    assert spent(port.town) == 0
    said = port.psql(f"EXPLAIN {BY_SEX} WITHIN 20")
    assert re.search(r"price +\| remaining", said)
    assert spent(port.town) == 0
    said = port.psql("SET qserver.spend = on", f"{BY_SEX} WITHIN 20", BY_SEX)
    assert "NOTICE:  This cost " in said
    assert said.count("(3 rows)") == 2
    assert len(re.findall(r"^ Female ", said, re.MULTILINE)) == 2
    assert spent(port.town) > 0


def test_psql_describes_what_is_there(port: Port) -> None:
    for text in (r"\d", r"\dt", r"\dt+", r"\dt public.*", r"\dt peo*"):
        assert re.search(r" public \| people \| table +\| ada", port.psql(text)), text
    for text in (r"\d people", r"\d+ people", r'\d public."people"'):
        said = port.psql(text)
        assert 'Table "public.people"' in said
        assert re.search(r"^ age +\| bigint +\|", said, re.MULTILINE)
        assert re.search(r"^ sex +\| text +\|", said, re.MULTILINE)
    assert "Did not find any relation" in port.psql(r"\d nothing")
    assert re.search(r"^ public +\| ada", port.psql(r"\dn"), re.MULTILINE)
    assert re.search(r"^ qserver +\| ada +\| UTF8", port.psql(r"\l"), re.MULTILINE)
    others = (
        r"\du",
        r"\df",
        r"\dv",
        r"\di",
        r"\ds",
        r"\dT",
        r"\dp",
        r"\db",
        r"\dx",
        r"\dO",
        r"\l+",
        r"\dn+",
    )
    for text in others:
        assert "ERROR" not in port.psql(text), text
    assert spent(port.town) == 0


def test_psql_comes_in_by_tls_and_by_no_other_password(port: Port) -> None:
    said = port.psql("SHOW TABLES", r"\conninfo", ssl="verify-full")
    assert "people" in said
    assert "TLSv1.3" in said
    wrong = Port(port.town, port.number, "qs_wrong", port.ca)
    assert "FATAL:  The password is not the token" in wrong.psql("SHOW TABLES")


def test_psycopg_asks_with_values_as_texts_and_in_binary(known: Port) -> None:
    with psycopg.connect(known.conninfo, autocommit=True) as connection:
        expected = connection.execute(UNDER.format(25)).fetchall()
        assert len(expected) == 3
        for prepare in (False, True):
            for binary in (False, True):
                cursor = connection.cursor(binary=binary)
                cursor.execute(UNDER.format("%s"), (25,), prepare=prepare)
                assert [c.name for c in cursor.description or ()] == COLUMNS
                assert cursor.fetchall() == expected
        with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState) as caught:
            connection.execute(f"{BY_SEX} WITHIN %s", (0.5,))
        assert (caught.value.diag.message_detail or "").startswith("price ")
        with pytest.raises(psycopg.errors.SyntaxError):
            connection.execute("SELECT COUNT(*) FROM people WHERE sex = %s", ("nobody",))
        # More than it keeps prepared: the oldest are given back.
        for i in range(120):
            assert connection.execute(f"SELECT {i}", prepare=True).fetchone() == (i,)


def test_psycopg_s_transactions_take_back_what_may_be_spent(known: Port, worker: None) -> None:
    before = spent(known.town)
    with psycopg.connect(known.conninfo) as connection:
        connection.execute("SET qserver.spend = on")
        connection.rollback()
        with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState):
            connection.execute(f"{BY_SEX} WITHIN 1")
        with pytest.raises(psycopg.errors.InFailedSqlTransaction):
            connection.execute("SELECT 1")
        connection.rollback()
        assert spent(known.town) == before
        connection.execute("SET qserver.spend = on")
        assert len(connection.execute(f"{BY_SEX} WITHIN 10").fetchall()) == 3
    assert spent(known.town) > before


def test_pg8000_describes_before_it_has_values(known: Port) -> None:
    before = spent(known.town)
    connection = pg8000.dbapi.connect(
        user="ada", host="localhost", port=known.number, password=known.token, database="qserver"
    )
    cursor = connection.cursor()
    cursor.execute(UNDER.format("%s") + " WITHIN %s", (25, 20))
    assert [c[0] for c in cursor.description] == COLUMNS
    assert len(cursor.fetchall()) == 3
    cursor.execute("SELECT COUNT(*) FILTER (WHERE sex = %s) AS n FROM people", ("Female",))
    assert [c[0] for c in cursor.description] == COLUMNS[1:]
    assert len(cursor.fetchall()) == 1
    connection.close()
    assert spent(known.town) == before


def test_asyncpg_takes_all_in_binary(known: Port) -> None:
    async def asked() -> list[list[asyncpg.Record]]:
        connection = await asyncpg.connect(
            user="ada", host="localhost", port=known.number, password=known.token, database="q"
        )
        found = [
            await connection.fetch(UNDER.format(25)),
            await connection.fetch("SELECT COUNT(*) AS n FROM people WHERE sex = $1", "Female"),
            await connection.fetch("SELECT current_schemas(true) AS s, reltuples FROM pg_class"),
        ]
        await connection.close()
        return found

    by_sex, women, [schemas] = asyncio.run(asked())
    assert [*schemas.values()] == [["pg_catalog", "public"], -1.0]
    assert [*by_sex[0].keys()] == COLUMNS
    assert all(row["n_low"] < row["n"] < row["n_high"] for row in by_sex + women)


def test_asyncpg_s_pool_hands_connections_on_and_takes_typed_values(known: Port) -> None:
    async def asked() -> list[object]:
        address = {"user": "ada", "host": "localhost", "port": known.number, "database": "q"}
        pool = asyncpg.create_pool(**address, password=known.token, min_size=1, max_size=1)
        found = list[object]()
        async with pool:
            for text, value in (
                ("age < $1", 25),
                ("age < $1::int", 25),
                ("age < $1::bigint", 25),
                ("age = ANY($1)", [20, 21, 22, 23, 24]),
                ("age = ANY($1::int[])", [20, 21, 22, 23, 24]),
            ):
                async with pool.acquire() as connection:
                    await connection.execute("SET qserver.intervals = off")
                    count = f"SELECT sex, COUNT(*) AS n FROM people WHERE {text} GROUP BY sex"
                    found.append([tuple(row) for row in await connection.fetch(count, value)])
                async with pool.acquire() as connection:
                    assert await connection.fetchval("SHOW qserver.intervals") == "on"
            async with pool.acquire() as connection:
                out = io.BytesIO()
                said = await connection.copy_from_query(UNDER.format(25), output=out, format="csv")
                found.append((said, out.getvalue().count(b"\n")))
                async with connection.transaction():
                    cursor = connection.cursor(UNDER.format(25), prefetch=1)
                    found.append(len([row async for row in cursor]))
        return found

    first, *others, copied, read = asyncio.run(asked())
    assert all(other == first for other in others)
    assert (copied, read) == (("COPY 3", 3), 3)


def test_psycopg_copies_out_and_reads_by_cursors_of_the_server(known: Port) -> None:
    with psycopg.connect(known.conninfo) as connection:
        expected = connection.execute(UNDER.format(25)).fetchall()
        with connection.cursor().copy(f"COPY ({UNDER.format(25)}) TO STDOUT") as copy:
            copy.set_types(["text", "float8", "float8", "float8"])
            assert list(copy.rows()) == expected
        for binary in (False, True):
            with connection.cursor(name="kept", binary=binary) as cursor:
                cursor.itersize = 2
                cursor.execute(UNDER.format("%s"), (25,))
                assert list(cursor) == expected
    with psycopg2.connect(known.conninfo) as other, other.cursor(name="kept") as cursor:
        cursor.itersize = 1
        cursor.execute(UNDER.format("%s"), (25,))
        assert list(cursor) == expected
        assert other.get_backend_pid() > 0


def test_adbc_reads_arrow(known: Port) -> None:
    uri = f"postgresql://ada:{known.token}@localhost:{known.number}/q"
    with adbc.connect(uri) as connection, connection.cursor() as cursor:
        cursor.execute(UNDER.format(25))
        read = cursor.fetch_arrow_table()
    assert read.column_names == COLUMNS
    assert [str(kind) for kind in read.schema.types] == ["string", *["double"] * 3]
    assert read.num_rows == 3


@pytest.mark.parametrize("driver", ["psycopg", "psycopg2", "pg8000"])
def test_sqlalchemy_reflects_and_pandas_reads(known: Port, driver: str) -> None:
    before = spent(known.town)
    url = f"postgresql+{driver}://ada:{known.token}@localhost:{known.number}/qserver"
    engine = sa.create_engine(url)
    seen = sa.inspect(engine)
    assert seen.get_schema_names() == ["information_schema", "public"]
    assert seen.get_table_names() == ["people"]
    assert (seen.has_table("people"), seen.has_table("nobody")) == (True, False)
    assert seen.get_view_names() == seen.get_materialized_view_names() == []
    assert seen.get_sequence_names() == seen.get_enums() == []
    assert seen.get_pk_constraint("people")["constrained_columns"] == []
    assert seen.get_foreign_keys("people") == seen.get_indexes("people") == []
    assert seen.get_unique_constraints("people") == seen.get_check_constraints("people") == []
    assert seen.get_table_comment("people") == {"text": None}
    table = sa.Table("people", sa.MetaData(), autoload_with=engine)
    kinds = {column.name: type(column.type) for column in table.columns}
    assert kinds == {"age": sa.BIGINT, "sex": sa.TEXT}
    by_text = pd.read_sql(BY_SEX, engine)
    asked = sa.select(table.c.sex, sa.func.count().label("n")).group_by(table.c.sex)
    assert list(by_text.columns) == COLUMNS
    assert by_text.equals(pd.read_sql(asked, engine))
    under = sa.select(table.c.sex, sa.func.count().label("n")).where(table.c.age < 25)
    assert len(pd.read_sql(under.group_by(table.c.sex), engine)) == 3
    engine.dispose()
    assert spent(known.town) == before


def test_pgjdbc_reads_the_metadata_as_metabase_does(known: Port) -> None:
    assert JDBC.exists(), "apt-get install libpostgresql-jdbc-java"
    java = shutil.which("java")
    assert java, "apt-get install openjdk-17-jdk-headless"
    before = spent(known.town)
    program = Path(__file__).parent / "Metadata.java"
    url = f"jdbc:postgresql://localhost:{known.number}/qserver"
    said = subprocess.run(
        [java, "-cp", str(JDBC), str(program), url, known.token, str(known.ca)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
        check=False,
    ).stdout
    assert "Exception" not in said, said
    told = sections(said)
    assert told["catalogs"] == ["qserver"]
    assert told["schemas"] == ["information_schema", "pg_catalog", "public"]
    assert told["schemas like"] == ["public"]
    assert told["tables"] == ["public people TABLE"]
    assert told["tables like"] == []
    assert told["columns"] == ["age int8 -5 0 1 NO", "sex text 12 0 2 NO"]
    for empty in ("primary keys", "indexes", "imported keys", "exported keys", "functions"):
        assert told[empty] == [], empty
    assert {"int4 4", "text 12", "float8 8"} <= set(told["types"])
    assert told["privileges"] == ["SELECT"]
    lines = said.splitlines()
    assert [line for line in lines if line.startswith("shape")] == [
        "shape sex text",
        "shape n float8",
        "shape n_low float8",
        "shape n_high float8",
    ]
    answers = [lines[i + 1 : i + 4] for i, line in enumerate(lines) if line == "rows"]
    assert len(answers) == 8
    assert all(answer == answers[0] for answer in answers)
    assert "refused 55000" in lines
    assert told["one"] == ["1"]
    assert spent(known.town) == before


def sections(said: str) -> dict[str, list[str]]:
    """The lines below each heading."""
    found: dict[str, list[str]] = {}
    heading = ""
    for line in said.splitlines():
        if line.startswith("  "):
            found[heading].append(line.strip())
        else:
            heading = line
            found[heading] = []
    return found
