"""Days between two, arrays in text, units in values, and prices of what is prepared, by drivers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import date, datetime, timedelta
from pathlib import Path

import asyncpg
import psycopg
import pytest

from tests.deployment import Deployment
from tests.postgres.test_charts import FIRST, PEOPLE, ROWS
from tests.postgres.test_tools import Port, port
from tests.service.test_statements import answered, spent

__all__ = ["port"]
pytestmark = [pytest.mark.tools, pytest.mark.slow]


@pytest.fixture
def town(tmp_path: Path, store_url: str) -> Deployment:
    town = Deployment.make(tmp_path, store_url, limit="100000", domain=PEOPLE, rows=ROWS)
    answered(town, "SELECT d, age, sex, COUNT(*) FROM people GROUP BY d, age, sex WITHIN 2")
    return town


@pytest.fixture
def connection(port: Port) -> Iterator[psycopg.Connection]:
    """All that is asked here is free, since the table has all of it."""
    before, options = spent(port.town), "-c qserver.intervals=off"
    with psycopg.connect(port.conninfo, autocommit=True, options=options) as found:
        yield found
    assert spent(port.town) == before


def test_psycopg_reads_days_between_constants_and_arrays(connection: psycopg.Connection) -> None:
    """The number of each is that of the same in words."""

    def rows(text: str) -> list[tuple[object, ...]]:
        return connection.execute(text).fetchall()

    since = rows("SELECT d - DATE '2024-03-01' AS n, COUNT(*) FROM people GROUP BY 1 ORDER BY 1")
    assert [n for n, _ in since] == [i + (FIRST - date(2024, 3, 1)).days for i in range(28)]
    counted = "SELECT COUNT(*) FROM people WHERE "
    week = rows(f"{counted} d >= '2024-03-01' AND d < '2024-03-08'")
    for same in (
        "d - DATE '2024-03-01' BETWEEN 0 AND 6",
        "d - '2024-03-01'::date IN (0,1,2,3,4,5,6)",
    ):
        assert rows(counted + same) == week
    whole = rows("SELECT COUNT(*) FROM people")
    assert rows("SELECT 'all' AS k, COUNT(*) FROM people GROUP BY 1") == [("all", *whole[0])]
    women = rows(f"{counted} sex = 'Female'")
    for same in (
        "sex = ANY('{Female}')",
        "sex = ANY('{Female}'::text[])",
        "sex <> ALL('{Male}')",
    ):
        assert rows(counted + same) == women
    young = rows(f"{counted} age IN (20, 21)")
    for same in ("age = ANY('{20,21}')", "age = ANY('{20, 21}'::int[])"):
        assert rows(counted + same) == young
    two = rows(f"{counted} d IN ('2024-03-01', '2024-03-02')")
    assert rows(f"{counted} d = ANY('{{2024-03-01,2024-03-02}}'::date[])") == two


def test_psycopg_reads_the_first_and_the_last_day_and_none_of_nobody(
    connection: psycopg.Connection,
) -> None:
    last = FIRST + timedelta(27)

    def rows(text: str) -> list[tuple[object, ...]]:
        return connection.execute(text).fetchall()

    text = "SELECT MIN(d), MAX(d), MAX(d) - MIN(d) AS n, COUNT(*) FROM people WHERE "
    for of, first in (("age < 27", FIRST), ("d >= '2024-03-05'", date(2024, 3, 5))):
        [(low, high, n, _)] = rows(text + of)
        assert (low, high, n) == (first, last, (last - first).days)
    connection.execute("SET qserver.intervals = on")
    # At 0.95 the noise of 56 cells shows somebody where there is nobody, now and then.
    sure = "SELECT MAX(d) AS b FROM people WHERE age = 29 CONFIDENCE 0.9999999"
    assert rows(sure) == [(None, FIRST, last)]
    cursor = connection.execute("SELECT sex, MIN(d) AS a FROM people GROUP BY sex")
    assert [column.type_code for column in cursor.description or ()] == [25, *[1082] * 3]
    assert cursor.fetchall() == [(sex, *[FIRST] * 3) for sex in ("Female", "Male")]


def test_psycopg_prices_and_runs_what_is_prepared_and_copies_quoted(
    connection: psycopg.Connection,
) -> None:
    under = connection.execute("SELECT COUNT(*) FROM people WHERE age < 25").fetchall()
    with connection.cursor() as cursor:
        cursor.execute("PREPARE under (int) AS SELECT COUNT(*) FROM people WHERE age < $1")
        cursor.execute("EXPLAIN EXECUTE under (25)")
        assert [column.name for column in cursor.description or ()][:2] == [
            "price",
            "remaining",
        ]
        assert cursor.fetchone() is not None
        cursor.execute("EXECUTE under (25)")
        assert cursor.fetchall() == under
        by = "COPY (SELECT sex, COUNT(*) AS n FROM people GROUP BY sex) TO STDOUT"
        for form in (
            "(FORMAT csv, HEADER, FORCE_QUOTE (sex))",
            "WITH CSV HEADER FORCE QUOTE sex",
        ):
            with cursor.copy(f"{by} {form}") as copy:
                lines = b"".join(copy).decode().splitlines()
            assert lines[0] == "sex,n"
            assert [line.split(",")[0] for line in lines[1:]] == ['"Female"', '"Male"']
        with cursor.copy(f"{by} (FORMAT csv, FORCE_QUOTE *)") as copy:
            assert b"".join(copy).count(b'"') == 8


def test_asyncpg_describes_a_unit_that_is_a_value(port: Port) -> None:
    async def asked() -> list[tuple[object, ...]]:
        address = {"user": "ada", "host": "localhost", "port": port.number, "database": "q"}
        connection = await asyncpg.connect(**address, password=port.token)
        text = "SELECT date_trunc($1, d) AS w, COUNT(*) AS n FROM people GROUP BY 1 ORDER BY 1"
        found = await connection.fetch(text, "week")
        kinds = [column.type.name for column in (await connection.prepare(text)).get_attributes()]
        for place, value, same in (
            (
                "date_trunc('week', d) = $1",
                datetime(2024, 3, 4),
                "d BETWEEN '2024-03-04' AND '2024-03-10'",
            ),
            ("d - $1 < 5", date(2024, 3, 1), "d < '2024-03-06'"),
            ("d + $1 > '2024-03-20'", 7, "d > '2024-03-13'"),
            ("age % 2 = $1", 0, "age IN (20, 22, 24, 26, 28)"),
        ):
            counted = "SELECT COUNT(*) AS n FROM people WHERE "
            assert await connection.fetch(counted + place, value) == await connection.fetch(
                counted + same
            )
        await connection.close()
        return [tuple(kinds), *map(tuple, found)]

    kinds, *rows = asyncio.run(asked())
    assert kinds[:2] == ("timestamp", "float8")
    firsts = [
        datetime(2024, 2, 26),
        datetime(2024, 3, 4),
        datetime(2024, 3, 11),
        datetime(2024, 3, 18),
    ]
    assert [row[0] for row in rows] == firsts
