"""What tools send for their charts is answered with groups and numbers that the records have."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from datetime import date, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import pytest

from qserver.query.calendar import Periods
from qserver.query.domain import Attribute, Domain
from tests.deployment import Deployment
from tests.postgres.client import Reply, connected
from tests.service.test_statements import answered

HERE = Path(__file__).parent
TEXTS = (HERE / "charts.sql").read_text(encoding="utf-8")
CHARTS = {
    found["title"]: (found["text"], found["other"] or found["text"])
    for found in re.finditer(
        r"(?m)^-- (?P<title>[A-Z][\w ]+: .*)\n(?P<text>[^;]+);\n(?:-- as: (?P<other>.*)\n)?", TEXTS
    )
}
LISTS = (HERE / "lists.sql").read_text(encoding="utf-8")
GIVEN = re.findall(r"(?m)^-- ([A-Z][\w ]+: .*)\n(.+);\n-- gives: (.*)$", LISTS)
FIRST = date(2024, 2, 26)
PEOPLE = Domain(
    (
        Attribute("d", "date", periods=Periods("day", "2024-02-26", 28)),
        Attribute("age", "integer", edges=tuple(map(Fraction, range(20, 31)))),
        Attribute("sex", "labels", labels=("Female", "Male")),
    )
)
ROWS = tuple(
    (str(FIRST + timedelta(i % 28)), 20 + i % 7, ("Female", "Male")[i % 3 == 0])
    for i in range(5000)
)
# An interval that misses at this confidence would be a fault, not bad luck.
SURE = "-c qserver.confidence=0.99999999 -c qserver.intervals=on"


def _value(value: object) -> object:
    """A group of DuckDB as PostgreSQL writes it in text."""
    if isinstance(value, date):  # also the first instant of one
        return f"{value:%Y-%m-%d}"
    if isinstance(value, float) and value == int(value):
        return str(int(value))
    return None if value is None else str(value)


@pytest.mark.slow
def test_charts_have_the_groups_and_numbers_of_the_records(tmp_path: Path, store_url: str) -> None:
    """All from what was released once, as exactly as that allows."""
    town = Deployment.make(tmp_path, store_url, limit="100000", domain=PEOPLE, rows=ROWS)
    answered(town, "SELECT d, age, sex, COUNT(*) FROM people GROUP BY d, age, sex WITHIN 2")
    with duckdb.connect(":memory:") as records, connected(town.service()) as client:
        records.execute("CREATE SCHEMA public")
        records.execute("CREATE TABLE public.people (d DATE, age INTEGER, sex VARCHAR)")
        records.execute("SET schema = 'public'")
        records.executemany("INSERT INTO public.people VALUES (?, ?, ?)", ROWS)
        client.start(options=SURE)
        for title, (text, other) in CHARTS.items():
            reply = client.query(text)
            assert "E" not in reply.letters, (title, reply.error)
            _check(title, reply, records.execute(other).fetchall())


def _check(title: str, reply: Reply, found: Sequence[Sequence[Any]]) -> None:
    """Both have the same order; behind it the port has numbers that HAVING names."""
    names = reply.columns
    numbers = [i for i, name in enumerate(names) if f"{name}_low" in names[i + 1 : i + 2]]
    groups = [i for i in range(len(names)) if not any(0 <= i - k <= 2 for k in numbers)]
    items = sorted([*groups, *numbers])[: len(found[0])]
    numbers = [i for i in numbers if i in items]
    rows = [dict(zip(items, row, strict=True)) for row in found]
    expected = {tuple(_value(row[i]) for i in groups): row for row in rows}
    told = {
        tuple((row[i] or "").removesuffix(" 00:00:00") or None for i in groups): row
        for row in reply.rows
    }
    # A group without records has a number, too.
    assert told.keys() >= expected.keys(), title
    assert len(told) == len(reply.rows) > 0, title
    for key, true in expected.items():
        for i in numbers:
            low, high = (float(told[key][i + j] or "nan") for j in (1, 2))
            assert low <= float(true[i]) <= high, (title, key, names[i])


@pytest.mark.slow
def test_what_tools_ask_before_they_draw_has_the_rows_that_postgresql_gives(
    tmp_path: Path, store_url: str
) -> None:
    town = Deployment.make(tmp_path, store_url, domain=PEOPLE, rows=ROWS[:9])
    with connected(town.service()) as client:
        client.start()
        for title, text, rows in GIVEN:
            reply = client.query(text)
            assert "E" not in reply.letters, (title, reply.error)
            assert reply.rows == json.loads(rows), title


def test_statements_of_all_tools_are_kept() -> None:
    tools = {"Grafana", "Metabase", "Tableau", "Power BI", "Looker"}
    assert {title.partition(":")[0] for title in CHARTS} == {*tools, "Superset"}
    assert {title.partition(":")[0] for title, _, _ in GIVEN} == tools
    assert (len(CHARTS), len(GIVEN)) == (TEXTS.count(";\n"), LISTS.count(";\n"))
