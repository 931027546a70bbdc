"""The type of a parameter by where it stands, and days as tools write them."""

from __future__ import annotations

import pytest

from qserver.postgres.statements.value_types import days_of, types_of
from qserver.postgres.wire.faults import PostgresError
from qserver.postgres.wire.texts import Text
from qserver.postgres.wire.values import BY_NAME
from qserver.query.calendar import Periods
from qserver.query.domain import Attribute, Domain

COLUMNS = {
    name: BY_NAME[kind]
    for name, kind in {
        "age": "int4", "sex": "text", "d": "date", "hours-per-week": "int4", "height": "float8"
    }.items()
}  # fmt: skip
DAYS = Domain((Attribute("d", "period", periods=Periods("day", "2024-03-01", 40)),))


@pytest.mark.parametrize(
    ("text", "types"),
    [
        ("WHERE age = $1", "int4"),
        ("WHERE $1 <= age", "int4"),
        ('WHERE t."age" <> $1', "int4"),
        ("WHERE hours-per-week > $1", "int4"),
        ("WHERE d BETWEEN $1 AND $2 AND sex = $3", "date date text"),
        ("WHERE d BETWEEN '2024-03-01' AND $1", "date"),
        ("WHERE age = 5 AND $1 = sex", "text"),
        ("WHERE age IN ($1, $2)", "int4 int4"),
        ("WHERE age NOT IN (1, $1)", "int4"),
        ("WHERE age = ANY($1)", "_int4"),
        ("WHERE sex <> ALL ($1)", "_text"),
        ("WHERE age = ANY($1::int[])", "_int4"),
        ("WHERE x = $1::bigint", "int8"),
        ("WHERE x = $1::pg_catalog.int2", "int2"),
        ("WHERE x = CAST($1 AS double precision)", "float8"),
        ("WHERE x = $1::timestamp with time zone", "timestamptz"),
        ("WHERE x = $1::character varying(10)", "varchar"),
        ("WHERE sex LIKE $1 AND height < $2", "text float8"),
        ("WHERE EXTRACT(year FROM d) = $1", "int4"),
        ("WHERE date_trunc('week', d) = $1", "timestamp"),
        ("WHERE date_trunc('week', d)::date >= $1", "date"),
        ("WHERE d - $1 < $2 AND d + $3 > '2024-03-01'", "date int4 int4"),
        ("WHERE age % 2 = $1 AND age + $2 > 3 AND age > -$3", "int4 int4 int4"),
        ("WITHIN $1 CONFIDENCE $2 LIMIT $3", "float8 float8 int8"),
        ("HAVING COUNT(*) >= $1", "float8"),
        ("SELECT COUNT(*) AS n FROM t HAVING n > $1", "float8"),
        ("SELECT $1", "text"),
        ("WHERE y = $1 OR $2", "text text"),
        ("WHERE age = $2", "text int4"),
    ],
)
def test_a_parameter_has_the_type_of_its_place(text: str, types: str) -> None:
    assert " ".join(kind.name for kind in types_of(Text(text), COLUMNS)) == types


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("d >= '2024-03-05 00:00:00'", "d >= '2024-03-05'"),
        ("d >= '2024-03-05T00:00:00.000Z'", "d >= '2024-03-05'"),
        ("d >= '2024-03-05 00:00:00+01:00'", "d >= '2024-03-05'"),
        ("d >= '2024-03-05 00:00 Europe/Paris'", "d >= '2024-03-05'"),
        ("d >= TIMESTAMP WITH TIME ZONE '2024-03-05 00:00:00+00'", "d >= TIMESTAMP  '2024-03-05'"),
        ("date_trunc('day', d::timestamp)", "date_trunc('day', d)"),
        ("date_trunc('day', CAST(d AS TIMESTAMP))", "date_trunc('day', (d ))"),
        ("x::timestamp", "x::timestamp"),
        (
            "d = TO_TIMESTAMP('2024-03-05 00:00:00', 'x')",
            "d = TO_TIMESTAMP('2024-03-05 00:00:00', 'x')",
        ),
        ("d > CURRENT_DATE - INTERVAL '7 days'", "d > DATE '2024-03-10' - INTERVAL '7 days'"),
        ("d > now()", "d > DATE '2024-03-10'"),
        ("d <= '2024-03-05T23:59:59.999Z'", "d <= '2024-03-05'"),
        (
            "d BETWEEN '2024-03-01' AND '2024-03-05 23:59:59'",
            "d BETWEEN '2024-03-01' AND '2024-03-05'",
        ),
    ],
)
def test_times_are_days(text: str, day: str) -> None:
    growing = Domain((Attribute("d", "period", periods=DAYS.attributes[0].periods, sealed=10),))
    asked = Text(text)
    found = days_of(asked, growing)
    assert asked.bound((), edits=found.edits)[0] == day
    assert bool(found.notices) == ("DATE '" in day)


def test_today_of_data_that_are_complete_is_their_last_day() -> None:
    found = days_of(Text("d > CURRENT_DATE"), DAYS)
    assert [edit.text for edit in found.edits] == ["DATE '2024-04-09'"]
    assert found.notices == ("Today is 2024-04-09, the last sealed day of the data.",)


def test_what_cuts_through_a_day_is_refused_where_it_stands() -> None:
    text = "SELECT COUNT(*) FROM t WHERE d > '2024-03-05 12:00:00'"
    with pytest.raises(PostgresError, match="A day is the finest time of `d`") as caught:
        days_of(Text(text), DAYS)
    assert text[caught.value.position - 1 :].startswith("'2024-03-05 12")
    for condition in ("d >= '2024-03-05 23:59:59'", "d < '2024-03-05 23:59:59.999'"):
        with pytest.raises(PostgresError, match="A day is the finest time of `d`"):
            days_of(Text(f"SELECT COUNT(*) FROM t WHERE {condition}"), DAYS)
    nothing = Domain((Attribute("a", "labels", labels=("x",)),))
    assert days_of(Text(text), nothing).edits == ()
