"""With `qserver.intervals = columns` ends of intervals are columns of the catalogue, by name."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import pytest

from qserver.query.domain import Attribute, Domain
from tests.deployment import Deployment
from tests.postgres.client import RawClient, connected
from tests.service.test_statements import answered

NAMED = "-c qserver.intervals=columns"
BY_SEX = "SELECT sex, COUNT(*) AS n, AVG(age) AS a FROM people GROUP BY sex"


@pytest.fixture
def named(town: Deployment) -> Iterator[RawClient]:
    """A connection whose address asks for these columns; something was released before."""
    answered(town, "SELECT age, sex, COUNT(*) FROM people GROUP BY age, sex WITHIN 20")
    with connected(town.service()) as client:
        client.start(options=NAMED)
        yield client


def test_the_catalogue_has_the_ends_of_numbers_where_they_are_asked_for(client: RawClient) -> None:
    standard = "SELECT column_name, data_type, is_nullable FROM information_schema.columns"
    own = "SELECT attname, attnum, atttypid, attnotnull FROM pg_attribute"
    table = "SELECT relnatts FROM pg_class"
    before = [client.query(text).rows for text in (standard, own, table)]
    client.query("SET qserver.intervals = columns")
    assert client.query("SHOW qserver.intervals").rows == [["columns"]]
    ends = ["age_low", "age_high"]
    added = [[name, "double precision", "YES"] for name in ends]
    assert client.query(standard).rows == before[0] + added
    numbered = [[name, str(k), "701", "f"] for k, name in enumerate(ends, start=3)]
    assert client.query(own).rows == before[1] + numbered
    assert client.query(table).rows == [["4"]]
    client.query("RESET qserver.intervals")
    assert [client.query(text).rows for text in (standard, own, table)] == before


def test_an_attribute_of_such_a_name_stands_for_itself(tmp_path: Path, store_url: str) -> None:
    ages = [Attribute(n, "integer", edges=(Fraction(0), Fraction(9))) for n in ("age", "age_low")]
    town = Deployment.make(tmp_path, store_url, domain=Domain(tuple(ages)), rows=((1, 2),))
    with connected(town.service()) as client:
        client.start(options=NAMED)
        names = client.query("SELECT attname, atttypid FROM pg_attribute").rows
        ends = ["age_high", "age_low_low", "age_low_high"]
        assert names == [["age", "20"], ["age_low", "20"], *([name, "701"] for name in ends)]
        reply = client.query("SELECT SUM(age_low) AS s FROM people LIMIT 0")
        assert reply.columns == ["s", "s_low", "s_high"]


@pytest.mark.slow
def test_ends_by_name_are_those_of_the_numbers(named: RawClient) -> None:
    """Of sums, averages and counts; of a number that an inner SELECT names; in any order."""
    whole = named.query(BY_SEX).rows
    assert len(whole) == 3
    text = (
        "SELECT AVG(age_high) AS hi, sex, AVG(people.age), "
        'AVG(CAST("age_low" AS DOUBLE PRECISION)) AS "AVG(age_low)", COUNT(age_low) FROM people '
        "GROUP BY sex"
    )
    reply = named.query(text)
    assert reply.columns == ["hi", "sex", "AVG(people.age)", "AVG(age_low)", "COUNT(age_low)"]
    assert [row[:4] for row in reply.rows] == [[r[6], r[0], r[4], r[5]] for r in whole]
    twice = (
        "SELECT COUNT(*) AS n, AVG(age_low), AVG(age_low) b, sex FROM people GROUP BY 4 ORDER BY 4"
    )
    assert [row[1:] for row in named.query(twice).rows] == [[r[5], r[5], r[0]] for r in whole]
    plain = f"SELECT n, n_low, t.n_high FROM ({BY_SEX}) AS t"
    assert named.query(plain).columns == ["n", "n_low", "n_high"]
    assert named.query(plain).rows == [r[1:4] for r in whole]
    for item in ("MAX(n_low)", "n_low", "t.n_low"):
        outer = f"SELECT sex, {item} AS low FROM ({BY_SEX}) AS t"
        outer += " GROUP BY sex" if "MAX" in item else ""
        assert named.query(outer).rows == [[r[0], r[2]] for r in whole], item


@pytest.mark.slow
def test_of_what_is_not_known_the_number_is_null_and_its_ends_are_all_that_is_public(
    named: RawClient,
) -> None:
    text = "SELECT sex, AVG(age), AVG(age_low), AVG(age_high) FROM people GROUP BY sex"
    assert named.query(text).rows[-1] == [None, None, "20", "29"]
    reply = named.query("SELECT sex, COUNT(*) AS n, COUNT(age_low) FROM people GROUP BY sex")
    assert any(b"smaller than their intervals are long" in body for body in reply.of(b"N"))


@pytest.mark.slow
def test_an_end_stands_alone_in_an_item_of_select(named: RawClient) -> None:
    for text, place in (
        ("SELECT AVG(age_low) AS a FROM people WHERE age_low > 3", "age_low > 3"),
        ("SELECT sex, AVG(age_low) AS a FROM people GROUP BY sex ORDER BY a, sex", "a, sex"),
        ("SELECT sex, AVG(age_low) AS a FROM people GROUP BY sex ORDER BY 2 LIMIT 1", "2 LIMIT"),
        ("SELECT -AVG(age_low) AS a FROM people", "age_low"),
        ("SELECT AVG(age) - AVG(age_low) AS a FROM people", "age_low"),
        ("SELECT AVG(age_low + age_high) AS a FROM people", "age_low"),
        (f"SELECT *, n_low FROM ({BY_SEX}) AS t", "*"),
    ):
        error = named.query(text).error
        assert (error["C"], "is an end of one number" in error["M"]) == ("42601", True), text
        assert text[int(error["P"]) - 1 :].startswith(place), text
    assert named.query("SELECT age_low, COUNT(*) FROM people GROUP BY age").error["C"] == "42601"


@pytest.mark.slow
def test_the_price_of_an_end_is_that_of_its_number(named: RawClient) -> None:
    prices = [
        named.query(f"EXPLAIN SELECT {items} FROM people WITHIN 0.1").rows
        for items in ("AVG(age)", "AVG(age_low), avg(age_high) AS b, AVG(age)")
    ]
    assert prices[0] == prices[1] != []
    named.query("SET qserver.intervals = on")
    assert "age_low" in named.query("SELECT AVG(age_low) FROM people").error["M"]


@pytest.mark.slow
def test_rows_stand_in_the_order_of_an_end(named: RawClient) -> None:
    """As tools order charts: by its name, its place or its expression, in an outer SELECT, too."""
    rows = [(float(r[5] or "inf"), r[0]) for r in named.query(BY_SEX).rows]
    up = [sex for _, sex in sorted(rows, key=lambda row: row[0])]
    text = "SELECT sex, AVG(age_low) AS low FROM people GROUP BY sex ORDER BY"
    virtual = f"SELECT sex AS sex, a AS a FROM ({BY_SEX}\n) AS virtual_table\nORDER BY"
    for said in (f"{text} low", f"{text} AVG(age_low) ASC", f"{text} 2", f"{virtual} a_low"):
        assert [r[0] for r in named.query(said).rows] == up, said
        assert [r[0] for r in named.query(f"{said} LIMIT 1000").rows] == up, said
        down = said.removesuffix(" ASC") + " DESC NULLS LAST LIMIT 1000"
        assert [r[0] for r in named.query(down).rows] == up[::-1], down
        # Rows that are shown for an end were chosen, which their intervals do not say.
        chosen = named.query(f"{said} LIMIT 2").error
        assert chosen["C"] == "42601"
        assert "order and choose by AVG(x)" in chosen["H"]
    assert named.query(f"{text} sex, low").error["C"] == "42601"
