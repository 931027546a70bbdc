"""The engine gives what DuckDB gives, survives what ends its process, and takes little time."""

import datetime
import itertools
import os
import signal
from fractions import Fraction

import pytest
from sqlglot import exp, parse_one

from qserver.errors import CapacityError, EngineError
from qserver.query.sql.engine import run as engine
from qserver.query.sql.engine.run import Table, run

NEW = itertools.count(1_000_000)
PEOPLE = Table(
    "people",
    ("name", "age", "height", "born", "member"),
    ("VARCHAR", "BIGINT", "DECIMAL(18,2)", "DATE", "BOOLEAN"),
    (
        ("Ann", 30, Fraction(7, 4), datetime.date(1996, 2, 29), True),
        ('Bo\'s \\ "ö"', None, Fraction(-1, 2), None, False),
        (None, -7, None, datetime.date(1, 1, 1), None),
    ),
)


@pytest.fixture(autouse=True, scope="module")
def _new() -> None:
    """An engine that other tests have not used: whoever ends one has used all that it has."""
    engine._engine.end()


def rows(sql: str, *tables: Table) -> list[tuple[object, ...]]:
    return run(parse_one(sql, read="duckdb"), tables)


def process() -> int:
    rows(f"SELECT {next(NEW)}")  # what was asked before is answered by heart
    child = engine._engine._processes[0]._process
    assert child is not None
    return child.pid


def test_a_table_comes_back_as_it_went() -> None:
    assert rows("SELECT * FROM people", PEOPLE) == list(PEOPLE.rows)


@pytest.mark.parametrize("sum_of", ["born + 5000000", "born - 1000000"])
def test_a_day_beyond_the_calendar_of_others_is_refused(sum_of: str) -> None:
    """DuckDB has years before 1 and after 9999."""
    with pytest.raises(EngineError, match="a day is before the year 1 or after 9999"):
        rows(f"SELECT {sum_of} FROM people WHERE age = 30", PEOPLE)


def test_a_result_has_exact_numbers_and_days() -> None:
    found = rows(
        "SELECT age / 2, age // 2, height * 3, SUM(age) OVER (), UPPER(name),"
        " DATE_TRUNC('year', born) FROM people",
        PEOPLE,
    )
    new_year = datetime.datetime(1996, 1, 1)
    assert found[0] == (15.0, 15, Fraction(21, 4), 23, "ANN", new_year)


def test_nothing_is_left_of_a_table_that_is_not_given_again() -> None:
    """The same name may mean another table, and none."""
    other = Table("people", ("age",), ("BIGINT",), ((5,),))
    assert len(rows("SELECT age FROM people", PEOPLE)) == 3
    assert rows("SELECT age FROM people", other) == [(5,)]
    assert rows("SELECT COUNT(*) FROM people", Table("people", ("a",), ("BIGINT",), ())) == [(0,)]
    with pytest.raises(EngineError, match="read the tables"):
        rows("SELECT age FROM people")


def test_what_duckdb_refuses_is_said_in_one_line() -> None:
    with pytest.raises(EngineError, match=r'^`sql` must be SQL that.*"weight" not found') as raised:
        rows("SELECT weight FROM people", PEOPLE)
    assert "\n" not in str(raised.value)
    assert rows("SELECT 2") == [(2,)]


def test_a_statement_is_an_expression_of_its_tables_alone() -> None:
    """The same question over the same table is answered by heart, over another one anew."""
    one, other = (Table("t", ("a",), ("BIGINT",), ((n,),)) for n in (1, 2))
    assert [rows("SELECT a + 1 FROM t", t) for t in (one, other, one)] == [[(2,)], [(3,)], [(2,)]]


def test_an_engine_that_was_killed_is_started_again() -> None:
    first = process()
    os.kill(first, signal.SIGKILL)
    os.waitid(os.P_PID, first, os.WEXITED | os.WNOWAIT)
    assert rows("SELECT 40 + 2") == [(42,)]
    assert process() != first


def test_an_engine_that_ends_in_the_middle_fails_one_call() -> None:
    process()
    with pytest.raises(EngineError, match="engine failed"):
        engine._engine._processes[0].exchange(b"no request\n")
    assert rows("SELECT 40 + 3") == [(43,)]


def test_a_statement_waits_for_no_other_one() -> None:
    """The first process is taken for as long as this test lasts."""
    busy = engine._engine._idle.get()
    try:
        assert rows("SELECT 45") == [(45,)]
        assert rows("SELECT 45") == [(45,)]  # by heart
        other = engine._engine._idle.get()
        assert rows("SELECT 45") == [(45,)]  # by heart, where both are taken
        engine._engine._idle.put(other)
    finally:
        engine._engine._idle.put(busy)


def test_a_fork_has_an_engine_of_its_own() -> None:
    parents = process()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:  # pragma: no cover - in the other process
        found = rows("SELECT 6 * 7") == [(42,)] and process() != parents
        engine._engine.end()
        os.write(writer, b"y" if found else b"n")
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reader, 1) == b"y"
    os.close(reader)
    os.close(writer)
    assert process() == parents
    assert rows("SELECT 44") == [(44,)]


def test_an_engine_has_nothing_of_the_environment_or_of_qserver() -> None:
    pid = process()
    with open(f"/proc/{pid}/environ", "rb") as file:
        assert file.read().replace(b"\0", b"") == b""
    with open(f"/proc/{pid}/maps") as file:
        assert "numpy" not in file.read()


@pytest.mark.slow
@pytest.mark.parametrize(
    "sql",
    [
        # A day on this machine, more memory than there is, more rows than are taken.
        "SELECT COUNT(*) FROM t a, t b, t c, t d, t e, t f, t g, t h WHERE a.x + b.x + c.x = h.x",
        "SELECT s FROM (SELECT SUM(a.x) OVER (ORDER BY b.x) AS s FROM t a, t b, t c, t d)",
        "SELECT a.x FROM t a, t b, t c, t d",
    ],
)
def test_a_statement_that_takes_too_much_is_ended(sql: str) -> None:
    table = Table("t", ("x",), ("BIGINT",), tuple((i,) for i in range(100)))
    with pytest.raises(CapacityError):
        rows(sql, table)
    assert rows("SELECT 45") == [(45,)]


def test_a_tree_may_be_made_by_hand() -> None:
    tree = exp.select(exp.Upper(this=exp.Literal.string("a'b"))).limit(1)
    assert run(tree, ()) == [("A'B",)]
