"""Groups have the types that the catalogue says: days, whole numbers, truth values, or texts."""

from __future__ import annotations

from datetime import date
from fractions import Fraction
from pathlib import Path

import pytest

from qserver.query.calendar import Periods
from qserver.query.domain import Attribute, Domain
from tests.deployment import Deployment
from tests.postgres.client import RawClient, connected
from tests.postgres.test_extended import bind, execute, parse, sent
from tests.service.test_statements import answered

WEEKS = Domain(
    (
        Attribute("week", "date", periods=Periods("week", "2024-W09", 4)),
        Attribute("age", "integer", edges=tuple(map(Fraction, (20, 21, 30)))),
        Attribute("height", "real", edges=tuple(map(Fraction, ("0.5", "1", "2.5")))),
        Attribute("sex", "labels", labels=("Female", "Male"), missing="other"),
    )
)
ROWS = (
    ("2024-03-05", 20, "1.5", "Female"),
    ("2024-03-20", 25, "0.75", "Male"),
    ("2024-02-26", 29, "2", "Male"),
)


@pytest.fixture
def weeks(tmp_path: Path, store_url: str) -> Deployment:
    town = Deployment.make(tmp_path, store_url, limit="1000", domain=WEEKS, rows=ROWS)
    answered(town, "SELECT week, age, sex, COUNT(*) FROM people GROUP BY week, age, sex WITHIN 20")
    answered(town, "SELECT height, COUNT(*) FROM people GROUP BY height WITHIN 20")
    return town


def groups(client: RawClient, item: str) -> tuple[int, list[str | None]]:
    """The type of a group, and its values."""
    reply = client.query(f"SELECT {item} AS g, COUNT(*) AS n FROM people GROUP BY 1")
    [body] = reply.of(b"T")
    at = body.index(b"g\0") + 2 + 6
    return int.from_bytes(body[at : at + 4]), [row[0] for row in reply.rows]


@pytest.mark.slow
def test_a_group_has_the_type_of_what_it_is(weeks: Deployment) -> None:
    with connected(weeks.service()) as client:
        client.start()
        firsts = [date.fromisocalendar(2024, week, 1).isoformat() for week in range(9, 13)]
        assert groups(client, "week") == (1082, firsts)
        assert groups(client, "date_trunc('week', week)") == (
            1114,
            [f"{d} 00:00:00" for d in firsts],
        )
        assert groups(client, "date_trunc('week', week)::date") == (1082, firsts)
        assert groups(client, "date_trunc('year', week)") == (1114, ["2024-01-01 00:00:00"])
        assert groups(client, "to_char(week, 'YYYY-MM')") == (25, ["2024-02", "2024-03"])
        assert groups(client, "EXTRACT(year FROM week)") == (20, ["2024"])
        assert groups(client, "age") == (20, ["20", "21"])
        assert groups(client, "height") == (701, ["0.5", "1"])
        assert groups(client, "age::text") == (25, ["20", "21..29"])
        assert groups(client, "CAST(age AS DOUBLE PRECISION)") == (701, ["20", "21"])
        assert groups(client, "time_bucket('7 days', week)") == (1082, firsts)
        stamps = [f"{day} 00:00:00" for day in firsts]
        assert groups(client, "week - INTERVAL '7 days' + INTERVAL '1 week'") == (1114, stamps)
        assert groups(client, "to_timestamp(EXTRACT(epoch FROM week))") == (1114, stamps)
        assert groups(client, "date_trunc('week', week)::timestamptz") == (1114, stamps)
        assert groups(client, "age >= 21") == (16, ["f", "t"])
        assert groups(client, "sex") == (25, ["Female", "Male", None])
        assert groups(client, "CASE WHEN age < 21 THEN 'a' ELSE 'b' END") == (25, ["a", "b"])


@pytest.mark.slow
def test_each_column_has_the_type_that_the_catalogue_says(weeks: Deployment) -> None:
    with connected(weeks.service()) as client:
        client.start()
        told = client.query("SELECT attname, atttypid FROM pg_attribute").rows
        assert [name for name, _ in told] == ["week", "age", "height", "sex"]
        for name, oid in told:
            assert str(groups(client, str(name))[0]) == oid, name


@pytest.mark.slow
def test_a_day_that_was_shown_can_be_asked_for(weeks: Deployment) -> None:
    """As a text, as a timestamp of midnight, and as a value without a type, in text and binary."""
    asked = "SELECT COUNT(*) AS n FROM people WHERE week {}"
    with connected(weeks.service()) as client:
        client.start()
        expected = client.query(asked.format("= '2024-W10'")).rows
        for condition in (
            "= '2024-03-04'",
            "IN ('2024-03-04 00:00:00')",
            "= DATE '2024-03-04'",
            "= ANY(ARRAY['2024-03-04'])",
            "<> ALL(ARRAY['2024-02-26', '2024-03-11', '2024-03-18'])",
        ):
            assert client.query(asked.format(condition)).rows == expected, condition
        days = (date(2024, 3, 4) - date(2000, 1, 1)).days
        for value, form in ((b"2024-03-04", 0), (days.to_bytes(4), 1)):
            reply = sent(client, parse(asked.format("= $1")), bind(value, forms=(form,)), execute())
            assert reply.rows == expected
        micros = (days * 86_400_000_000).to_bytes(8)
        reply = sent(client, parse(asked.format("= $1"), 1114), bind(micros, forms=(1,)), execute())
        assert reply.rows == expected
        assert "cut" not in client.query(asked.format("= '2024-03-05'")).error["M"]
