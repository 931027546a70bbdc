"""Statements as texts: from history until the session says otherwise, with intervals beside."""

from __future__ import annotations

import pytest

from tests.deployment import Deployment
from tests.postgres.client import RawClient, connected, startup
from tests.service.test_statements import answered, spent

BY_SEX = "SELECT sex, COUNT(*) AS n FROM people GROUP BY sex"


def test_a_client_is_let_in_and_told_what_is_set(town: Deployment) -> None:
    with connected(town.service()) as client:
        reply = client.start(application_name="a test")
        assert reply.letters[0] == "R"
        assert reply.letters.endswith("KZ")
        assert reply.status == "I"
        assert client.told["server_version"] == "16.0"
        assert client.told["client_encoding"] == "UTF8"
        assert client.told["application_name"] == "a test"


def test_what_is_set_at_the_start_holds_and_what_is_wrong_ends_it(town: Deployment) -> None:
    with connected(town.service()) as client:
        client.start(options="-c qserver.within=60 --qserver.spend=on -c geqo=off")
        assert client.query("SHOW qserver.within; SHOW qserver.spend").rows == [["60"], ["on"]]
        client.query("RESET ALL")
        assert client.query("SHOW qserver.within; SHOW qserver.spend").rows == [["60"], ["off"]]
    with connected(town.service()) as client:
        client.send(startup(options="-c qserver.spend=perhaps"))
        assert client.last()["C"] == "22023"


def test_history_answers_with_the_interval_beside_the_number(
    town: Deployment, client: RawClient
) -> None:
    table = answered(town, f"{BY_SEX} WITHIN 20")
    before = spent(town)
    reply = client.query(BY_SEX)
    assert reply.columns == ["sex", "n", "n_low", "n_high"]
    assert reply.tags == ["SELECT 3"]
    numbers = [[float(x or "nan") for x in row[1:]] for row in reply.rows]
    cells = [row[0].value for row in table.cells]
    assert numbers == [[c.estimate, c.interval.low, c.interval.high] for c in cells]
    assert spent(town) == before > 0


@pytest.mark.parametrize("within", ["", " WITHIN 20"])
def test_nothing_is_spent_until_the_session_says_so(
    town: Deployment, client: RawClient, within: str
) -> None:
    reply = client.query(BY_SEX + within)
    assert reply.error["C"] == "55000"
    assert reply.error["D"].startswith("price ")
    assert "Nothing was spent" in reply.error["H"]
    assert reply.status == "I"
    assert spent(town) == 0


@pytest.mark.usefixtures("worker")
def test_a_session_that_spends_measures_and_says_what_it_cost(
    town: Deployment, client: RawClient
) -> None:
    assert client.query("SET qserver.spend = on").tags == ["SET"]
    reply = client.query(f"{BY_SEX} WITHIN 20")
    assert len(reply.rows) == 3
    cost, looking, small = reply.of(b"N")
    assert b"This cost" in cost
    assert b"All 3 at once: +-" in looking
    # Nobody lacks a sex, so that number is noise.
    assert b"1 of 3 numbers are smaller than their intervals are long" in small
    assert spent(town) > 0
    assert client.query("SET qserver.spend TO DEFAULT; SHOW qserver.spend").rows == [["off"]]


@pytest.mark.slow
@pytest.mark.usefixtures("worker")
def test_a_statement_in_steps_says_what_all_of_them_cost(
    town: Deployment,
) -> None:
    """Each step is a job that the connection waits for."""
    with connected(town.service()) as client:
        client.start()
        client.query("SET qserver.spend = on")
        text = "SELECT AVG(age) FROM people WITHIN 0.1 ASSUMING AT LEAST 100"
        cost, *_ = client.query(text).of(b"N")
    assert town.service().ledger.loss("people", where=None, attribute=None).n_charges > 1
    assert f"This cost {spent(town) / 1e9:.4g} epsilon".encode() in cost


@pytest.mark.usefixtures("worker")
def test_a_length_of_the_session_stands_for_within(town: Deployment, client: RawClient) -> None:
    client.query("SET qserver.spend = on; SET qserver.within = 25; SET qserver.confidence = '0.9'")
    [[n, low, high]] = client.query("SELECT COUNT(*) FROM people").rows
    assert n is not None
    assert 0 < float(high or 0) - float(low or 0) <= 50
    assert spent(town) > 0


def test_explain_gives_the_price_as_a_row(town: Deployment, client: RawClient) -> None:
    reply = client.query(f"EXPLAIN {BY_SEX} WITHIN 20")
    assert reply.columns == [
        "price",
        "remaining",
        "affordable",
        "at_most",
        "kind",
        "most",
        "allowance",
    ]
    [[price, remaining, affordable, *_]] = reply.rows
    assert 0 < float(price or 0) < float(remaining or 0) == 1000
    assert affordable == "t"
    assert spent(town) == 0


def test_a_schema_may_stand_behind_its_database(town: Deployment, client: RawClient) -> None:
    answered(town, f"{BY_SEX} WITHIN 20")
    expected = client.query(BY_SEX).rows
    named = 'SELECT "qserver"."public"."people".sex, COUNT(*) AS n FROM qserver.public."people"'
    assert client.query(f"{named} GROUP BY 1").rows == expected
    assert client.query("SELECT relname FROM qserver.pg_catalog.pg_class").rows == [["people"]]
    wrong = client.query("SELECT COUNT(*) FROM other.public.people").error
    assert wrong["C"] == "42P01"


def test_explain_never_refuses_for_want_of_a_length(town: Deployment, client: RawClient) -> None:
    [[price, *_, kind, most, _]] = client.query(f"EXPLAIN {BY_SEX}").rows
    [[expected, *_]] = client.query(f"EXPLAIN {BY_SEX} WITHIN 100").rows
    assert (float(price or 0), kind, most) == (
        pytest.approx(float(expected or 0)),
        "default",
        price,
    )
    answered(town, f"{BY_SEX} WITHIN 20")
    reply = client.query(f"EXPLAIN {BY_SEX}")
    assert (len(reply.rows), len(reply.of(b"N"))) == (1, 1)
    assert "measures nothing" in client.query(f"EXPLAIN ANALYZE {BY_SEX}").error["H"]
    free = client.query("EXPLAIN SELECT relname FROM pg_class")
    assert (free.columns, free.rows[0][0]) == (reply.columns, "0")


@pytest.mark.slow
def test_a_length_for_each_kind_of_number(town: Deployment, client: RawClient) -> None:
    """As if each was typed behind its number, unless another is."""
    asked = "EXPLAIN SELECT COUNT(*) AS n{}, AVG(age){} AS a FROM people"
    [typed] = client.query(asked.format(" WITHIN 50", " WITHIN 0.5")).rows
    [other] = client.query(asked.format(" WITHIN 50", " WITHIN 0.2")).rows
    client.query("SET qserver.within = 'count=50, avg = .5'")
    assert client.query(asked.format("", "")).rows == [typed]
    assert client.query(asked.format("", " WITHIN 0.2")).rows == [other]
    assert typed[0] != other[0]
    for wrong in ("count", "count=x", "count=-1", "counts=1", "count=1;avg=2"):
        assert client.query(f"SET qserver.within = '{wrong}'").error["C"] == "22023"


@pytest.mark.slow
@pytest.mark.usefixtures("worker")
def test_a_connection_spends_no_more_than_it_said(town: Deployment) -> None:
    with connected(town.service()) as client:
        client.start(options="-c qserver.spend=on -c qserver.most=0.1 -c qserver.intervals=columns")
        assert client.query(f"{BY_SEX} WITHIN 1").error["C"] == "53400"
        assert spent(town) == 0
        assert len(client.query(f"{BY_SEX} WITHIN 60").rows) == 3
        first = spent(town)
        assert 0 < first < 10**8
        assert len(client.query(f"{BY_SEX} WITHIN 60").rows) == 3
        for within in (50, 40, 30, 20, 10):
            client.query(f"SELECT COUNT(*) FROM people WHERE age < 25 WITHIN {within}")
        assert first <= spent(town) <= 10**8
        assert client.query(f"{BY_SEX} WITHIN 10 AT MOST 5").error["C"] == "53400"
        client.query("SET qserver.most = 1000")
        assert len(client.query(f"{BY_SEX} WITHIN 10").rows) == 3
        assert spent(town) > 10**8


def test_an_error_points_at_the_character_that_was_sent(client: RawClient) -> None:
    text = "SHOW TABLES;\n  SELECT COUNT(*) FROM people WHERE sex = 'nobody' WITHIN 9"
    reply = client.query(text)
    assert reply.rows == [["people"]]
    assert reply.error["C"] == "42601"
    assert text[int(reply.error["P"]) - 1 :].startswith("'nobody' WITHIN")
    assert "Female" in reply.error["H"]


_WHAT_IS_NOT_POSSIBLE_IS_REFUSE = [
    ("DROP TABLE people", "25006"),
    ("INSERT INTO people VALUES (1)", "25006"),
    ("COPY people FROM STDIN", "25006"),
    ("COPY people TO STDOUT", "42601"),
    ("COPY (SELECT COUNT(*) FROM people) TO '/tmp/x'", "42601"),
    ("FROBNICATE", "42601"),
    ("SELECT $1", "42P02"),
    ("SELECT COUNT(*) FROM nobody", "42P01"),
    ("SHOW nothing", "42704"),
    ("SET qserver.nothing = 1", "42704"),
    ("SET qserver.spend = perhaps", "22023"),
    ("SET qserver.within = -1", "22023"),
    ("SET client_encoding = LATIN1", "22023"),
    ("SET server_version = 1", "55P02"),
    ("SET", "42601"),
]


def test_what_is_not_possible_is_refused_by_its_code(client: RawClient) -> None:
    for text, state in _WHAT_IS_NOT_POSSIBLE_IS_REFUSE:
        assert client.query(text).error["C"] == state
        assert client.query("SHOW TABLES").rows == [["people"]]


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("SELECT COUNT(*) FROM poeple", "Did you mean `people`?"),
        ("TABLE people", "DESCRIBE people"),
        ("EXPLAIN ANALYZE SELECT COUNT(*) FROM people WITHIN 9", "measures nothing"),
        ("SELECT COUNT(*) FROM people JOIN orders USING (id) WITHIN 9", "attach --query"),
        ("SELECT COUNT(*), AVG(age) FROM people WITHIN 20", "AVG(age) WITHIN 0.45 FROM people"),
    ],
)
def test_a_refusal_says_what_to_type(client: RawClient, text: str, hint: str) -> None:
    assert hint in client.query(text).error["H"]


def test_a_text_of_nothing_gets_the_answer_for_nothing(client: RawClient) -> None:
    assert client.query("").letters == "IZ"
    assert client.query(" ; -- nothing\n /* at /* all */ */ ;").letters == "IZ"


def test_a_transaction_takes_back_what_was_set(client: RawClient) -> None:
    """A rollback, and a transaction that failed, end with what may be spent as before."""
    for ending in ("ROLLBACK", "SELECT COUNT(*) FROM nobody; COMMIT"):
        assert client.query("BEGIN; SET qserver.spend = on").status == "T"
        assert client.query("SHOW qserver.spend").rows == [["on"]]
        for text in ending.split("; "):
            reply = client.query(text)
        assert reply.tags == ["ROLLBACK"]
        assert client.query("SHOW qserver.spend").rows == [["off"]]


def test_what_is_set_for_a_transaction_ends_with_it(client: RawClient) -> None:
    client.query("BEGIN; SET LOCAL qserver.spend = on")
    assert client.query("SHOW qserver.spend").rows == [["on"]]
    assert client.query("COMMIT").status == "I"
    assert client.query("SHOW qserver.spend").rows == [["off"]]
    client.query("SET LOCAL qserver.spend = on")
    assert client.query("SHOW qserver.spend").rows == [["off"]]


def test_a_pool_that_hands_a_connection_on_takes_back_what_may_be_spent(client: RawClient) -> None:
    for text in ("DISCARD ALL", "RESET ALL", "RESET qserver.spend"):
        client.query("SET qserver.spend = on")
        client.query(text)
        assert client.query("SHOW qserver.spend").rows == [["off"]]


def test_reset_goes_back_to_what_the_address_says_but_for_spending(town: Deployment) -> None:
    with connected(town.service()) as client:
        client.start(
            application_name="psql",
            options="-c qserver.intervals=columns -c qserver.within=9 -c qserver.spend=on",
        )
        assert client.query("SHOW qserver.spend").rows == [["on"]]
        for text in ("DISCARD ALL", "RESET ALL"):
            client.query("SET qserver.intervals = off; SET qserver.within = 5")
            client.query("SET application_name = other")
            client.query(text)
            shown = ("application_name", "qserver.intervals", "qserver.within", "qserver.spend")
            told = [client.query(f"SHOW {name}").rows[0][0] for name in shown]
            assert told == ["psql", "columns", "9", "off"]


def test_a_transaction_that_failed_answers_nothing_but_its_end(client: RawClient) -> None:
    client.query("BEGIN")
    assert client.query("SELECT COUNT(*) FROM nobody").status == "E"
    assert client.query("SHOW TABLES").error["C"] == "25P02"
    assert client.query("ROLLBACK").status == "I"
    assert client.query("SHOW TABLES").tags == ["SHOW"]
