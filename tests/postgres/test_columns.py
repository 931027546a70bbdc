"""Which columns a table has, in what order, how rounded, and what is told of its cost."""

from __future__ import annotations

import pytest

from qserver.text import ADDS_NOTHING
from tests.deployment import Deployment
from tests.postgres.client import RawClient, connected
from tests.service.test_statements import answered, spent

SPENDS = "SET qserver.spend = on"


@pytest.mark.usefixtures("worker")
def test_columns_stand_in_the_order_of_select(client: RawClient) -> None:
    client.query(SPENDS)
    reply = client.query(
        "SELECT COUNT(*) AS n, sex, SUM(age) WITHIN 50 AS s, "
        "RANK() OVER (ORDER BY COUNT(*) DESC) AS r FROM people GROUP BY sex, age "
        "HAVING COUNT(*) > -1000 WITHIN 50"
    )
    ends = [[name, f"{name}_low", f"{name}_high"] for name in "nsr"]
    assert reply.columns == [*ends[0], "sex", *ends[1], *ends[2], "age"]
    assert {row[3] for row in reply.rows} == {"Female", "Male", None}


@pytest.mark.slow
@pytest.mark.usefixtures("worker")
def test_without_intervals_there_is_what_select_names_alone(client: RawClient) -> None:
    client.query(SPENDS)
    text = "SELECT COUNT(*) AS n, sex FROM people GROUP BY age, sex ORDER BY MIN(age) WITHIN 50"
    whole = client.query(text)
    assert whole.columns[:4] == ["n", "n_low", "n_high", "sex"]
    client.query("SET qserver.intervals = off")
    bare = client.query(text)
    assert bare.columns == ["n", "sex"]
    assert bare.rows == [[row[0], row[3]] for row in whole.rows]
    assert client.query("RESET qserver.intervals; SHOW qserver.intervals").rows == [["on"]]


def test_numbers_are_rounded_by_their_intervals_in_psql_and_where_it_is_set(
    town: Deployment,
) -> None:
    text = "SELECT COUNT(*) AS n FROM people"
    answered(town, f"{text} WITHIN 50")
    with connected(town.service()) as client:
        client.start(application_name="psql")
        [[n, low, high]] = client.query(text).rows
        assert client.query("SHOW qserver.rounded").rows == [[""]]
        client.query("SET qserver.rounded = off")
        [[exact, exact_low, exact_high]] = client.query(text).rows
    assert n == str(round(float(exact or 0)))
    assert float(low or 0) <= float(exact_low or 0) < float(low or 0) + 1
    assert float(high or 0) - 1 < float(exact_high or 0) <= float(high or 0)
    with connected(town.service()) as client:
        client.start(application_name="another")
        assert client.query(text).rows == [[exact, exact_low, exact_high]]
        client.query("SET qserver.rounded = on")
        assert client.query(text).rows == [[n, low, high]]
        assert client.query("SET qserver.rounded = perhaps").error["C"] == "22023"


@pytest.mark.usefixtures("worker")
def test_a_charge_below_the_largest_loss_is_told(client: RawClient) -> None:
    client.query(SPENDS)
    first = client.query("SELECT COUNT(*) AS n FROM people WHERE sex = 'Female' WITHIN 20")
    assert b"This cost" in first.of(b"N")[0]
    other = client.query("SELECT COUNT(*) AS n FROM people WHERE sex = 'Male' WITHIN 40")
    assert ADDS_NOTHING.encode() in other.of(b"N")[0]
    assert (
        client.query("SELECT COUNT(*) AS n FROM people WHERE sex = 'Male' WITHIN 40").of(b"N") == []
    )


def test_no_rows_are_described_and_cost_nothing(client: RawClient) -> None:
    reply = client.query("SELECT sex, COUNT(*) AS n FROM people GROUP BY sex LIMIT 0")
    assert (reply.columns, reply.rows) == (["sex", "n", "n_low", "n_high"], [])
    reply = client.query('SELECT TRUE AS "_" FROM "public"."people" WHERE 1 <> 1 LIMIT 0')
    assert (reply.columns, reply.rows) == (["_"], [])


def test_ends_of_intervals_are_chosen_by_name_among_the_columns(
    town: Deployment, client: RawClient
) -> None:
    """As DuckDB's scanner reads what it is told that a query gives, in text and in binary."""
    inner = "SELECT sex, COUNT(*) AS n FROM people GROUP BY sex"
    answered(town, f"{inner} WITHIN 20")
    whole = client.query(inner).rows
    outer = f'SELECT "n_high", "sex" FROM ({inner}) AS __unnamed_subquery'
    reply = client.query(outer)
    assert reply.columns == ["n_high", "sex"]
    assert reply.rows == [[row[3], row[0]] for row in whole]
    assert client.query(f"{outer} LIMIT 2").rows == reply.rows[:2]
    copied = client.query(f"COPY ({outer} ) TO STDOUT (FORMAT binary)")
    assert copied.tags == ["COPY 3"]
    assert client.query(f"SELECT n_high, x FROM ({inner}) AS t").error["C"] == "42703"


FILTERS = [
    # Metabase: a breakdown, "is not", "is empty", "not empty".
    (
        'SELECT "public"."people"."sex" AS "sex", COUNT(*) AS "count" FROM "public"."people" '
        'GROUP BY "public"."people"."sex" ORDER BY "public"."people"."sex" ASC',
        ["Female", "Male", None],
    ),
    (
        'SELECT "public"."people"."sex" AS "sex", COUNT(*) AS "count" FROM "public"."people" '
        'WHERE ("public"."people"."sex" <> \'Male\') OR ("public"."people"."sex" IS NULL) '
        'GROUP BY "public"."people"."sex" ORDER BY "count" DESC',
        ["Female", None],
    ),
    (
        'SELECT "public"."people"."sex" AS "sex", COUNT(*) AS "count" FROM "public"."people" '
        'WHERE "public"."people"."sex" IS NULL GROUP BY "public"."people"."sex"',
        [None],
    ),
    # Superset: a chart with all rows, and one that leaves NULL out.
    (
        "SELECT sex AS sex, COUNT(*) AS count FROM public.people GROUP BY sex ORDER BY count DESC "
        "LIMIT 1000",
        ["Female", "Male", None],
    ),
    (
        "SELECT sex AS sex, COUNT(*) AS count FROM public.people WHERE sex IS NOT NULL AND "
        "sex NOT IN ('Female') GROUP BY sex ORDER BY count DESC LIMIT 1000",
        ["Male"],
    ),
    # Tableau: a filter that keeps NULL, and a group with a name for it.
    (
        'SELECT "people"."sex" AS "sex", COUNT(1) AS "cnt:people:ok" FROM "public"."people" '
        '"people" WHERE (NOT ("people"."sex" = \'Male\') OR ("people"."sex" IS NULL)) '
        "GROUP BY 1",
        ["Female", None],
    ),
    (
        "SELECT (CASE WHEN (people.sex IS NULL) THEN 'none' ELSE people.sex END) AS sex, "
        "COUNT(*) AS n FROM public.people GROUP BY 1",
        ["none", "Female", "Male"],
    ),
]


def test_missing_values_are_null_in_what_tools_send(town: Deployment) -> None:
    """After one table all of it is free."""
    answered(town, "SELECT sex, COUNT(*) AS n FROM people GROUP BY sex WITHIN 10")
    with connected(town.service()) as client:
        client.start()
        client.query("SET qserver.within = 200")
        client.query("SET qserver.confidence = 0.999999")
        for text, groups in FILTERS:
            reply = client.query(text)
            assert [row[0] for row in reply.rows] == groups, text
        # None of these people lacks a sex.
        [[n, low, high]] = client.query("SELECT COUNT(*) - COUNT(sex) AS n FROM people").rows
    assert float(low or 0) <= 0 <= float(high or 0)
    assert float(n or 0) == pytest.approx(0, abs=200)


@pytest.mark.slow
@pytest.mark.usefixtures("worker")
def test_a_select_behind_in_says_what_it_gives_and_what_all_of_it_cost(
    client: RawClient, town: Deployment
) -> None:
    client.query(SPENDS)
    inner = "SELECT age FROM people GROUP BY age HAVING COUNT(*) > 20"
    reply = client.query(
        f"SELECT sex, COUNT(*) AS n FROM people WHERE age IN ({inner}) GROUP BY sex WITHIN 4"
    )
    assert [row[0] for row in reply.rows] == ["Female", "Male", None]
    said = b" ".join(reply.of(b"N")).decode()
    assert f"This cost {spent(town) / 1e9:.4g} epsilon" in said
    assert "the inner SELECT gives '20', '21', '22'" in said
