"""A statement without WITHIN never spends: history answers it, or its price is the error."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from functools import partial
from pathlib import Path

import pytest

from qserver.api.bodies.workloads_and_sql import SqlBody
from qserver.client import Table
from qserver.errors import SqlError
from qserver.query.sql.exactness import UNSAID, Exactness
from qserver.query.sql.tables.unconfirmed import UnconfirmedError, stated
from qserver.service.statement_answers import StatementAnswer, StatementExplanation
from qserver.service.statements import Statements
from tests.deployment import PEOPLE, ROWS, Deployment
from tests.query.sql.people import read
from tests.service.test_statements import SURE, answered, explained, interval, spent

BY_SEX = "SELECT sex, COUNT(*) AS n FROM people GROUP BY sex"


@pytest.fixture
def town(tmp_path: Path, store_url: str) -> Deployment:
    return Deployment.make(tmp_path, store_url, limit="1000")


def refused(town: Deployment, text: str) -> UnconfirmedError:
    with pytest.raises(UnconfirmedError) as caught:
        Statements(town.service()).run("people", text, wait_s=0)
    assert spent(town) == 0
    return caught.value


def test_it_costs_nothing_and_says_what_it_would_cost(town: Deployment) -> None:
    for before in ("", "EXPLAIN "):
        error = refused(town, before + BY_SEX)
        assert error.words == "WITHIN 100"
        assert error.price_nano == explained(town, f"{BY_SEX} WITHIN 100").price_nano > 0
        assert error.remaining_nano == 1000 * 10**9
        assert "With WITHIN 100 it would cost" in str(error)
        assert error.excerpt.splitlines()[0].endswith("GROUP BY sex")


def test_words_that_confirm_are_those_of_each_column(town: Deployment) -> None:
    error = refused(town, "SELECT COUNT(*) AS n, AVG(age) AS a, SUM(age) WITHIN 9 FROM people")
    assert error.words == "n WITHIN 100, a WITHIN 0.45 ASSUMING AT LEAST 1000"
    with_them = (
        "SELECT COUNT(*) AS n WITHIN 100, AVG(age) AS a WITHIN 0.45, SUM(age) WITHIN 9 "
        "FROM people ASSUMING AT LEAST 1000"
    )
    assert explained(town, with_them).price_nano == error.price_nano


def test_history_answers_what_it_gives(town: Deployment) -> None:
    refused(town, BY_SEX)
    first = answered(town, f"{BY_SEX} WITHIN 20 {SURE}")
    before = spent(town)
    found = Statements(town.service()).run("people", f"{BY_SEX} {SURE}", wait_s=0)
    assert isinstance(found, StatementAnswer)
    assert found.charged_nano == 0
    assert [row[0].value.estimate for row in found.cells] == [
        row[0].value.estimate for row in first.cells
    ]
    shares = "SELECT sex, COUNT(*) * 1.0 / SUM(COUNT(*)) OVER () AS share FROM people GROUP BY sex"
    share = Statements(town.service()).run("people", f"{shares} {SURE}", wait_s=0)
    assert isinstance(share, StatementAnswer)
    low, high = interval(share)
    assert low <= sum(sex == "Female" for _, sex in ROWS) / len(ROWS) <= high
    [top] = (
        Statements(town.service())
        .run("people", f"{BY_SEX} ORDER BY n DESC LIMIT 1 {SURE}", wait_s=0)
        .cells
    )
    assert top[0].value.interval.low is not None
    assert spent(town) == before
    with pytest.raises(UnconfirmedError, match="without EXPLAIN history answers it at no cost"):
        Statements(town.service()).run("people", f"EXPLAIN {BY_SEX} {SURE}", wait_s=0)


def test_a_default_fills_what_the_text_leaves_out(town: Deployment) -> None:
    default = Exactness(Fraction(20), Fraction("0.999999"))
    for _ in range(2):
        found = Statements(town.service()).run("people", BY_SEX, wait_s=0, default=default)
        town.work_off()
    assert isinstance(found, StatementAnswer)
    assert found.asked.confidence == 0.999999
    low, high = interval(found)
    assert high - low <= 40
    said = read("SELECT COUNT(*) FROM people WITHIN 5").with_default(default)
    assert said.exactness_of(0) == Exactness(Fraction(5), Fraction("0.999999"))


@pytest.mark.parametrize("tail", ["INDEPENDENT", "GIVEN NON NEGATIVE", "SIMULTANEOUS"])
def test_what_history_cannot_give_has_to_say_it(tail: str, town: Deployment) -> None:
    with pytest.raises(SqlError, match="say how long the intervals may be"):
        Statements(town.service()).run("people", f"SELECT COUNT(*) FROM people {tail}", wait_s=0)


def test_stated_lengths_depend_on_the_text_alone() -> None:
    full = stated(
        read(
            "SELECT COUNT(*), SUM(age), AVG(age), COUNT(*) / COUNT(*) FILTER (WHERE age > 22), "
            "COUNT(*) WITHIN 2 PERCENT FROM people ASSUMING AT LEAST 30"
        )
    )
    found = [one.half_width for one in full.exactness]
    assert found == [100, 2700, Fraction("0.35"), Fraction(1, 20), None]
    assert full.clauses.assuming == 30


def test_names_alone_cost_nothing(town: Deployment) -> None:
    for text, n in (
        ("SHOW TABLES", 1),
        ("DESCRIBE people", 2),
        ("SELECT DISTINCT sex FROM people", 3),
    ):
        found = Statements(town.service()).run("people", text, wait_s=0)
        assert isinstance(found, StatementAnswer)
        table = SqlBody.of(found).model_dump(mode="json")["table"]
        assert len(table["rows"]) == n
        assert (table["columns"], table["epsilon_charged"]) == ([], 0.0)
        shown = Table.of(table)
        assert len(list(shown.texts())) == n
        assert shown.notes()
    with pytest.raises(SqlError, match="cost nothing"):
        Statements(town.service()).run(
            "people", "EXPLAIN SELECT DISTINCT sex FROM people", wait_s=0
        )


@pytest.mark.slow
def test_what_may_not_spend_is_answered_once_it_is_free_and_priced_before(town: Deployment) -> None:
    """Whatever the text says: a length, a default, an average, or fresh noise."""
    texts = {
        f"{BY_SEX} WITHIN 20 {SURE}": UNSAID,
        f"{BY_SEX} {SURE}": Exactness(Fraction(10), None),
        f"SELECT AVG(age) FROM people WITHIN 9 {SURE} ASSUMING AT LEAST 2": UNSAID,
    }
    for text, default in texts.items():
        before = spent(town)
        run = partial(Statements(town.service()).run, "people", text, wait_s=0, default=default)
        with pytest.raises(UnconfirmedError, match="Nothing was spent") as caught:
            run(spends=False)
        price = run(explain=True)
        assert isinstance(price, StatementExplanation)
        assert caught.value.price_nano == price.price_nano > 0
        assert spent(town) == before
        paid = answered(town, text if default is UNSAID else f"{text} WITHIN 10")
        again = run(spends=False)
        assert isinstance(again, StatementAnswer)
        assert again.charged_nano == 0
        assert [c.value for row in again.cells for c in row] == [
            c.value for row in paid.cells for c in row
        ]
        town.work_off()
    alone = f"SELECT COUNT(*) FROM people WITHIN 20 {SURE} INDEPENDENT"
    with pytest.raises(UnconfirmedError):
        Statements(town.service()).run("people", alone, wait_s=0, spends=False)


def test_a_price_of_nothing_says_who_is_charged(town: Deployment) -> None:
    """Men lose what women have lost already; the largest loss stays."""
    text = "SELECT COUNT(*) FROM people WHERE sex = '{}' WITHIN 20"
    answered(town, text.format("Female"))
    with pytest.raises(UnconfirmedError, match="add nothing to the largest loss") as caught:
        Statements(town.service()).run("people", text.format("Male"), wait_s=0, spends=False)
    assert caught.value.price_nano == 0


@pytest.fixture
def owned(tmp_path: Path, store_url: str) -> Deployment:
    """A town whose owner said how exact counts are where SQL does not say it."""
    said = replace(PEOPLE, within=Fraction(20))
    return Deployment.make(tmp_path, store_url, limit="1000", domain=said)


def test_a_length_of_the_owner_is_as_if_typed(owned: Deployment) -> None:
    for text, length in ((BY_SEX, 20), ("SELECT SUM(age) FROM people", 580)):
        price = explained(owned, text)
        assert price.price_nano == explained(owned, f"{text} WITHIN {length}").price_nano > 0
    found = answered(owned, f"{BY_SEX} {SURE}")
    assert spent(owned) > 0
    low, high = interval(found)
    assert high - low <= 40
    # What is typed counts, and what a session says counts before what the owner says.
    longer = explained(owned, "SELECT COUNT(*) FROM people WHERE age > 25 WITHIN 50")
    run = partial(Statements(owned.service()).run, "people", wait_s=0, explain=True)
    session = run("SELECT COUNT(*) FROM people WHERE age > 25", default=Exactness(Fraction(50)))
    assert isinstance(session, StatementExplanation)
    assert session.price_nano == longer.price_nano


def test_a_length_of_the_owner_never_makes_a_tool_spend(owned: Deployment) -> None:
    run = partial(Statements(owned.service()).run, "people", wait_s=0, spends=False)
    text = f"{BY_SEX} {SURE}"
    with pytest.raises(UnconfirmedError, match="With WITHIN 20 it would cost") as caught:
        run(text)
    assert caught.value.price_nano == explained(owned, text).price_nano
    assert spent(owned) == 0
    # What history gives is the answer, also where it is less exact than the owner said.
    answered(owned, f"{BY_SEX} WITHIN 90 {SURE}")
    before = spent(owned)
    found = run(text)
    assert isinstance(found, StatementAnswer)
    assert (found.charged_nano, spent(owned)) == (0, before)
    low, high = interval(found)
    assert high - low > 40


def test_averages_are_confirmed_also_where_the_owner_said_a_length(owned: Deployment) -> None:
    error = refused(owned, "SELECT COUNT(*) AS n, AVG(age) AS a FROM people")
    assert error.words == "n WITHIN 20, a WITHIN 0.45 ASSUMING AT LEAST 1000"


@pytest.mark.slow
def test_a_length_of_counts_asks_for_those_of_averages(town: Deployment) -> None:
    """Typed, or said beside the text: the text that is shown costs what it says."""
    text = "SELECT sex, COUNT(*) AS n, AVG(age) AS a FROM people GROUP BY sex"
    typed = refused(town, f"{text} WITHIN 20")
    shown = f"{text.replace('AS a', 'AS a WITHIN 0.45')} WITHIN 20 ASSUMING AT LEAST 1000"
    assert str(typed).endswith(f"To accept, send {shown}")
    assert typed.words == "a WITHIN 0.45 ASSUMING AT LEAST 1000"
    assert explained(town, shown).price_nano == typed.price_nano > 0
    run = partial(Statements(town.service()).run, "people", text, wait_s=0)
    with pytest.raises(UnconfirmedError, match="say WITHIN behind averages of `age`, too") as said:
        run(default=Exactness(Fraction(20)))
    assert said.value.price_nano == typed.price_nano
    with pytest.raises(UnconfirmedError, match="say WITHIN behind averages"):
        Statements(town.service()).run("people", f"{text} WITHIN 20 SIMULTANEOUS", wait_s=0)


def test_a_default_that_no_average_can_miss_says_nothing(town: Deployment) -> None:
    run = partial(Statements(town.service()).run, "people", wait_s=0, explain=True)
    text = "SELECT AVG(age) FROM people"
    with pytest.raises(UnconfirmedError, match="say how long the intervals may be"):
        run(text, default=Exactness(Fraction(100)))
    price = run(text, default=Exactness(Fraction(1)))
    assert isinstance(price, StatementExplanation)
    assert price.price_nano == explained(town, f"{text} WITHIN 1").price_nano


@pytest.mark.slow
def test_history_is_no_answer_where_it_is_less_exact_than_typed(town: Deployment) -> None:
    """The average has no length, so any is an answer; the count beside it has one."""
    answered(town, f"SELECT COUNT(*), SUM(age) WITHIN 3000 FROM people WITHIN 60 {SURE}")
    before, of = spent(town), "COUNT(*) AS n, AVG(age) AS a"
    run = partial(Statements(town.service()).run, "people", wait_s=0)
    found = run(f"SELECT {of} FROM people WITHIN 60 {SURE}")
    assert isinstance(found, StatementAnswer)
    assert (found.charged_nano, spent(town)) == (0, before)
    with pytest.raises(UnconfirmedError):
        run(f"SELECT {of} FROM people WITHIN 10 {SURE}")


@pytest.mark.slow
def test_a_number_of_which_no_more_is_known_than_what_is_public_is_empty(
    town: Deployment,
) -> None:
    """On every face: the interval alone is shown."""
    text = "SELECT COUNT(DISTINCT sex) AS k, COUNT(*) AS n FROM people"
    found = answered(town, f"{text} WITHIN 5000 {SURE}")
    table = SqlBody.of(found).model_dump(mode="json")["table"]
    of_groups, of_people = table["rows"][0]["cells"]
    assert (of_groups["estimate"], of_groups["interval"]) == (None, [0.0, 2.0])
    assert of_people["estimate"] is not None
    shown = Table.of(table)
    assert math.isnan(shown.cells[0][0].estimate)
    assert "-" in next(iter(shown.texts()))
