"""The driver for Python's database interface, against the census data behind HTTP."""

from __future__ import annotations

import re
from pathlib import Path

import duckdb
import pyarrow
import pytest

from qserver.client import Client, dbapi
from qserver.client.errors import BudgetProblemError

BY_SEX = "SELECT sex, COUNT(*) AS n FROM adult WHERE age >= ? GROUP BY sex WITHIN ?"


def test_the_module_has_what_pep_249_asks_for() -> None:
    assert (dbapi.apilevel, dbapi.threadsafety, dbapi.paramstyle) == ("2.0", 2, "qmark")
    below = {
        dbapi.Error: (dbapi.InterfaceError, dbapi.DatabaseError),
        dbapi.DatabaseError: (
            *(dbapi.DataError, dbapi.OperationalError, dbapi.IntegrityError),
            *(dbapi.InternalError, dbapi.ProgrammingError, dbapi.NotSupportedError),
        ),
        Exception: (dbapi.Error, dbapi.Warning),
    }
    for parent, children in below.items():
        for child in children:
            assert issubclass(child, parent)
            if parent is not Exception:
                assert getattr(dbapi.Connection, child.__name__) is child
    for name in ("Date", "Time", "Timestamp", "Binary", "STRING", "BINARY", "NUMBER", "ROWID"):
        assert hasattr(dbapi, name)
    assert dbapi.DateFromTicks(86400 * 2).year == 1970
    assert dbapi.TimestampFromTicks(86400).time() == dbapi.TimeFromTicks(86400)


def test_columns_come_in_the_order_of_select(demo_url: str) -> None:
    with dbapi.connect(demo_url, spend=True) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT COUNT(*) AS n, sex FROM adult GROUP BY sex WITHIN 200")
        names = [column[0] for column in cursor.description or ()]
        assert names == ["n", "n_low", "n_high", "sex"]
        assert {row[-1] for row in cursor.fetchall()} == {"Female", "Male", None}
        cursor.execute("SELECT COUNT(*) AS n FROM adult GROUP BY sex WITHIN 200")
        # What SELECT does not name stands behind.
        assert [column[0] for column in cursor.description or ()][-1] == "sex"
        assert cursor.table is not None
        assert cursor.table.order == (1, 0)
        assert cursor.table.header() == ["n", "low", "high", "sex"]
        assert repr(cursor.table).split()[:2] == ["n", "sex"]


@pytest.mark.slow
def test_a_statement_is_priced_paid_fetched_and_asked_again_for_nothing(demo_url: str) -> None:
    with dbapi.connect(demo_url) as connection, connection.cursor() as cursor:
        assert (cursor.description, cursor.rowcount, cursor.rownumber) == (None, -1, None)
        with pytest.raises(dbapi.PriceError, match=r"connection\.spend = True") as caught:
            cursor.execute(BY_SEX, (30, 200))
        price = cursor.price(BY_SEX, (30, 200))
        assert caught.value.price == price.price > 0
        assert caught.value.remaining == price.remaining == 2.0
        connection.spend = True
        assert cursor.execute(BY_SEX, (30, 200)) is cursor
        assert cursor.table is not None
        assert cursor.table.cost.charged == pytest.approx(price.price)
        connection.spend = False
        cursor.execute(BY_SEX, [30, 200])
        assert cursor.table.cost.charged == 0.0
        assert [column[:2] for column in cursor.description or ()] == [
            ("sex", dbapi.STRING),
            *((name, dbapi.NUMBER) for name in ("n", "n_low", "n_high")),
        ]
        assert (cursor.rowcount, cursor.arraysize) == (3, 1)
        first = cursor.fetchone()
        assert first is not None
        assert first[0] == "Female"
        assert first[2] < first[1] < first[3]
        assert [row[0] for row in cursor.fetchmany()] == ["Male"]
        assert [row[0] for row in cursor.fetchmany(5)] == [None]
        assert (cursor.fetchone(), cursor.fetchmany(5), cursor.fetchall()) == (None, [], [])
        assert pyarrow.table(cursor).num_rows == 3
        assert cursor.to_arrow().column_names == ["sex", "n", "n_low", "n_high"]
        assert duckdb.sql("SELECT count(*) FROM cursor").fetchall() == [(3,)]
        explained = connection.execute("EXPLAIN " + BY_SEX, (30, 200))
        assert [column[0] for column in explained.description or ()][:3] == [
            *("price", "remaining", "affordable"),
        ]
        assert next(iter(explained))[::4] == (0.0, "free")
        assert explained.table is None


def test_what_is_public_is_read_without_spending(demo_url: str) -> None:
    connection = dbapi.connect(demo_url, dataset="adult")
    assert connection.execute("SHOW TABLES").fetchall() == [("adult",), ("people",)]
    names = "SELECT column_name FROM information_schema.columns WHERE column_name = ?"
    assert connection.execute(names, ["it's"]).fetchall() == []
    assert connection.execute(names, ["age"]).fetchall() == [("age",)]
    assert connection.execute("DESCRIBE adult").rowcount > 5
    with pytest.raises(dbapi.ProgrammingError, match=r"(?s)line 1, column 41.*\n +\^{7}"):
        connection.execute("SELECT COUNT(*) FROM adult WHERE sex = ?", ["it's"])
    with pytest.raises(dbapi.ProgrammingError, match="No dataset is called"):
        connection.execute("SELECT COUNT(*) FROM other")
    with pytest.raises(dbapi.PriceError) as caught:
        connection.execute("SELECT COUNT(*) FROM adult")
    assert caught.value.add == "WITHIN 100"
    assert isinstance(caught.value.__cause__, BudgetProblemError)
    connection.commit()
    connection.rollback()
    cursor = connection.cursor()
    with pytest.raises(dbapi.NotSupportedError):
        cursor.executemany("SELECT 1", [])
    with pytest.raises(dbapi.InterfaceError, match="no result"):
        cursor.fetchone()
    connection.close()
    for use in (cursor.fetchall, connection.cursor, connection.commit, connection.rollback):
        with pytest.raises(dbapi.InterfaceError, match="closed"):
            use()


def test_a_default_length_is_that_of_the_connection(demo_url: str) -> None:
    connection = dbapi.connect(demo_url, within=300, confidence=0.9, spend=True)
    cursor = connection.execute("SELECT COUNT(*) AS n FROM adult WHERE sex = 'Male'")
    assert cursor.table is not None
    assert cursor.table.confidence == 0.9
    assert cursor.table.only.interval.half_width <= 300
    assert Client(demo_url).dataset("adult").spent > 0
    closed = connection.cursor()
    closed.close()
    with pytest.raises(dbapi.InterfaceError, match="cursor is closed"):
        closed.execute("SELECT 1")


def test_errors_of_the_way_are_operational() -> None:
    with pytest.raises(dbapi.OperationalError):
        dbapi.connect("http://127.0.0.1:1", retries=0).execute("SELECT COUNT(*) FROM adult")
    with pytest.raises(dbapi.ProgrammingError, match="url"):
        dbapi.connect("127.0.0.1")


@pytest.mark.slow
def test_the_examples_of_the_page_run(demo_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    page = Path(__file__).parents[2].joinpath("docs", "python.md").read_text(encoding="utf-8")
    [example] = re.findall(r"(?ms)^```python\n(from qserver.client import dbapi.*?)^```$", page)
    exec(example.replace("http://127.0.0.1:8000", demo_url), {})
    [price, *rows, cost] = capsys.readouterr().out.splitlines()
    assert price.endswith("of 2.0")
    assert [row.split()[0] for row in rows] == ["Female", "Male", "None"]
    assert cost.startswith("cost 0.")
