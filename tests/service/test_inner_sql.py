"""IN with a SELECT of groups on a real deployment: values, prices, and intervals of the choice."""

from __future__ import annotations

import random
from pathlib import Path

import duckdb
import pytest

from qserver.errors import BudgetExhaustedError, SqlError
from qserver.query.sql.tables.unconfirmed import UnconfirmedError
from qserver.service.statement_answers import StatementAnswer
from qserver.service.statements import Statements
from tests.deployment import Deployment
from tests.service.test_statements import answered, explained, interval, remark_with, spent
from tests.sweeps import n_of

SIZES = (400, 300, 200, 160, 120, 60, 40, 20, 5, 0)
ROWS: list[tuple[int | str, ...]] = [
    (20 + i, "Male" if k % 4 == 0 else "Female") for i, n in enumerate(SIZES) for k in range(n)
]
MANY = "(SELECT age FROM people GROUP BY age HAVING COUNT(*) > 140)"
FIRST = "(SELECT age FROM people GROUP BY age ORDER BY COUNT(*) DESC LIMIT 3)"
NEAR = "SELECT age FROM people GROUP BY age HAVING COUNT(*) > {at}"
QUOTED = (
    f"SELECT COUNT(*) FROM people WHERE age IN ({NEAR}) WITHIN {{within}}",
    f"SELECT sex, COUNT(*) FROM people WHERE age NOT IN ({NEAR}) GROUP BY sex WITHIN {{within}}",
    f"SELECT COUNT_IF(sex = 'Male') / COUNT(*) WITHIN 0.1 FROM people WHERE age IN ({NEAR})"
    " WITHIN {within} ASSUMING AT LEAST 50",
    f"SELECT AVG(age) WITHIN 1 FROM people WHERE age IN {FIRST} WITHIN {{within}}"
    " ASSUMING AT LEAST 100",
)
"""Of groups of about 50 people: some are in doubt, or too many."""


def of_town(tmp_path: Path, store_url: str, limit: str = "1000") -> Deployment:
    return Deployment.make(tmp_path, store_url, limit=limit, rows=ROWS)


@pytest.fixture
def town(tmp_path: Path, store_url: str) -> Deployment:
    return of_town(tmp_path, store_url)


def by_duckdb(text: str) -> dict[object, float]:
    """The true rows: the first column, or nothing, with the number behind it."""
    connection = duckdb.connect()
    connection.execute("CREATE TABLE people (age BIGINT, sex VARCHAR)")
    values = ", ".join(f"({age}, '{sex}')" for age, sex in ROWS)
    connection.execute(f"INSERT INTO people VALUES {values}")
    rows = connection.execute(text).fetchall()
    return {(str(row[0]) if len(row) > 1 else None): float(row[-1]) for row in rows}


def check(found: StatementAnswer, text: str) -> None:
    """Each number that DuckDB gives lies in its interval, and the estimate, too."""
    true = by_duckdb(text)
    shown = dict[object, float]()
    for i, row in enumerate(found.asked.statement.rows):
        group = row.group[0] if row.group else None
        low, high = interval(found, i)
        estimate = found.cells[i][0].value.estimate
        assert estimate is not None
        assert low <= estimate <= high
        if group in true:
            shown[group] = true[group]
            assert low <= true[group] <= high
    assert shown == true


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "within"),
    [
        (f"SELECT COUNT(*) FROM people WHERE age IN {MANY}", "5"),
        (f"SELECT COUNT(*) FROM people WHERE age IN {FIRST}", "5"),
        (f"SELECT COUNT(*) FROM people WHERE age NOT IN {MANY}", "5"),
        (f"SELECT COUNT(*) FROM people WHERE sex = 'Male' AND age = ANY {MANY}", "5"),
        (f"SELECT COUNT(*) FROM people WHERE age = {FIRST.replace('LIMIT 3', 'LIMIT 1')}", "5"),
        (f"SELECT sex, COUNT(*) FROM people WHERE age IN {MANY} GROUP BY sex", "5"),
        (f"SELECT age, COUNT(*) FROM people WHERE age IN {FIRST} GROUP BY age", "5"),
        (f"SELECT COUNT(*) FROM people WHERE age <> ALL {MANY} OR sex = 'Male'", "5"),
        (f"SELECT COUNT(*) FROM people WHERE age <> {FIRST.replace('LIMIT 3', 'LIMIT 1')}", "5"),
        (f"SELECT COUNT(*) FILTER (WHERE NOT age IN {MANY}) FROM people", "5"),
        (
            "WITH big AS (SELECT age, COUNT(*) AS n FROM people GROUP BY age) SELECT sex, COUNT(*) "
            "FROM people WHERE age IN (SELECT age FROM big WHERE n > 140) GROUP BY sex",
            "5",
        ),
        (
            f"SELECT COUNT(*) FROM people WHERE age IN {FIRST} OR sex IN (SELECT sex FROM people "
            "WHERE age > 24 GROUP BY sex HAVING COUNT(*) > 80)",
            "5",
        ),
    ],
)
def test_a_number_about_the_groups_of_a_select_holds_what_duckdb_says(
    text: str, within: str, town: Deployment
) -> None:
    asked = f"{text} WITHIN {within} CONFIDENCE 0.9999"
    quote = explained(town, asked)
    check(answered(town, asked), text)
    assert spent(town) <= quote.most_nano
    again = answered(town, asked)
    assert again.charged_nano == 0
    assert again.asked.confidence == pytest.approx(0.9999, abs=1e-12)
    assert "By its released numbers the inner SELECT gives" in " ".join(
        again.asked.statement.remarks
    )


COUNT = f"SELECT COUNT(*) FROM people WHERE age IN {MANY}"


@pytest.mark.slow
def test_a_group_in_doubt_is_said_and_both_choices_are_held(town: Deployment) -> None:
    """One age has just as many people as would be too few, the others 40 more or less."""
    text = f"{COUNT} AND sex = 'Female' WITHIN 10 CONFIDENCE 0.9999".replace("140", "160")
    quote = explained(town, text)
    assert any("about several choices" in one for one in quote.asked.statement.remarks)
    found = answered(town, text)
    assert spent(town) <= quote.most_nano
    assert "gives '23' is not sure" in remark_with(found, "Whether it gives")
    low, high = interval(found)
    women = [3 * n / 4 for n in SIZES]
    assert low <= sum(women[:3]) <= sum(women[:4]) <= high
    assert explained(town, text).price_nano == 0


@pytest.mark.slow
def test_the_same_select_gives_the_same_behind_in_and_not_in(town: Deployment) -> None:
    """Of an age with 160 people it is in doubt whether it is given, and it counts in both cases."""
    many = MANY.replace("140", "160")
    text = f"SELECT COUNT(*) FROM people WHERE age IN {many} OR age NOT IN {many}"
    found = answered(town, f"{text} WITHIN 10 CONFIDENCE 0.9999")
    assert "gives '23' is not sure" in remark_with(found, "Whether it gives")
    low, high = interval(found)
    assert low <= sum(SIZES) <= high < low + 80


@pytest.mark.slow
@pytest.mark.parametrize(("least", "within"), [(30, 300), (140, 100)])
def test_a_choice_with_too_many_groups_in_doubt_is_not_told(
    town: Deployment, least: int, within: int
) -> None:
    """And the rest, which would be asked for nothing, is not: the counts alone are charged."""
    men = "SELECT COUNT(*) FROM people WHERE sex = 'Male'"
    text = f"{men} AND age IN ({NEAR.format(at=least)}) WITHIN {within}"
    rest = f"{men} WITHIN {within} CONFIDENCE 0.9575"
    of_counts = explained(town, text).price_nano - explained(town, rest).price_nano
    found = answered(town, text)
    assert spent(town) == of_counts
    [[cell]] = found.cells
    ends = cell.value.interval
    assert (cell.value.estimate, ends.low, ends.high) == (None, None, None)
    assert "a shorter WITHIN" in remark_with(found, "Too many")


@pytest.mark.slow
def test_numbers_of_any_kind_follow_the_choice(town: Deployment) -> None:
    """An average and a median of the 1,060 people of the four most frequent ages."""
    sure = "ASSUMING AT LEAST 300 CONFIDENCE 0.9999"
    text = f"SELECT AVG(age) WITHIN 1, MEDIAN(age) WITHIN 1 FROM people WHERE age IN {MANY}"
    quote = explained(town, f"{text} WITHIN 4 {sure}")
    found = answered(town, f"{text} WITHIN 4 {sure}")
    assert spent(town) <= quote.most_nano
    ages = [20 + i for i, n in enumerate(SIZES[:4]) for _ in range(n)]
    for column, true in enumerate((sum(ages) / len(ages), ages[len(ages) // 2])):
        low, high = interval(found, column=column)
        assert low <= true <= high


@pytest.mark.slow
def test_an_average_about_another_choice_is_measured_where_history_tells_little(
    town: Deployment,
) -> None:
    """Counts of all ages are known, but no average of any of them beside that of the choice."""
    text = f"SELECT sex, AVG(age) WITHIN 1 FROM people WHERE age IN {MANY} GROUP BY sex"
    text = text.replace("140", "160")
    found = answered(town, f"{text} WITHIN 10 ASSUMING AT LEAST 150 CONFIDENCE 0.9999")
    assert "gives '23' is not sure" in remark_with(found, "Whether it gives")
    low, high = interval(found)
    means = [sum(i * n for i, n in enumerate(SIZES[:k])) / sum(SIZES[:k]) for k in (3, 4)]
    assert low <= 20 + means[0] <= 20 + means[1] <= high < low + 4


@pytest.mark.slow
def test_a_statement_that_says_no_length_spends_nothing(town: Deployment) -> None:
    for text in (COUNT, COUNT.replace("COUNT(*) FROM people W", "AVG(age) FROM people W", 1)):
        for send in (text, f"EXPLAIN {text}"):
            with pytest.raises(UnconfirmedError):
                Statements(town.service()).run("people", send, wait_s=0)
    with pytest.raises(UnconfirmedError, match="Nothing was spent"):
        Statements(town.service()).run("people", f"{COUNT} WITHIN 5", wait_s=0, spends=False)
    text = COUNT.replace("SELECT COUNT(*)", "SELECT AVG(age) WITHIN 1", 1)
    with pytest.raises(SqlError, match="counts of the inner SELECT"):
        Statements(town.service()).run("people", text, wait_s=0)
    assert spent(town) == 0


@pytest.mark.slow
def test_what_is_asked_under_a_key_says_what_all_parts_cost(town: Deployment) -> None:
    text = COUNT.replace("140", "160").replace("WHERE", "WHERE sex = 'Male' AND")
    found = answered(town, f"{text} WITHIN 10 CONFIDENCE 0.9999", key="k")
    assert found.charged_nano == spent(town) > 0
    assert answered(town, f"{text} WITHIN 10 CONFIDENCE 0.9999").charged_nano == 0


@pytest.mark.slow
def test_what_history_knows_of_all_groups_together_lowers_no_quote(town: Deployment) -> None:
    """All men are counted, so that the widest choice is free; men of some ages are not."""
    answered(town, "SELECT COUNT(*) FROM people WHERE sex = 'Male' WITHIN 5")
    text = f"{COUNT} AND sex = 'Male' WITHIN 5 CONFIDENCE 0.94"
    quote, before = explained(town, text), spent(town)
    answered(town, text)
    assert before < spent(town) <= before + quote.most_nano


@pytest.mark.slow
def test_what_history_knows_is_answered_without_a_length(town: Deployment) -> None:
    asked = answered(town, f"{COUNT} WITHIN 5")
    before = spent(town)
    known = answered(town, COUNT)
    assert spent(town) == before
    assert known.cells[0][0].value.estimate == asked.cells[0][0].value.estimate


@pytest.mark.slow
def test_nothing_is_spent_where_the_rest_cannot_be_paid(tmp_path: Path, store_url: str) -> None:
    town = of_town(tmp_path, store_url, limit="0.2")
    text = f"SELECT sex, COUNT(*) FROM people WHERE age IN {MANY} GROUP BY sex WITHIN 30"
    price = explained(town, text).price_nano
    inner = "SELECT age, COUNT(*) FROM people GROUP BY age WITHIN 30 CONFIDENCE 0.9925"
    assert explained(town, inner).price_nano < 200_000_000 < price
    with pytest.raises(BudgetExhaustedError):
        Statements(town.service()).run("people", text, wait_s=0)
    assert spent(town) == 0


@pytest.mark.slow
def test_it_is_one_statement_over_http_and_none_on_the_pages(town: Deployment) -> None:
    answered(town, f"{COUNT} WITHIN 5")
    reply = town.web().post("/v1/datasets/people/sql", json={"sql": f"{COUNT} WITHIN 5"})
    assert reply.status_code == 200
    assert reply.json is not None
    table = reply.json["table"]
    assert table["confidence"] == pytest.approx(0.95, abs=1e-12)
    assert any("the inner SELECT gives" in text for text in table["remarks"])
    fields = {"text": f"{COUNT} WITHIN 5"}
    page = town.web().get("/portal/datasets/people/answer", query_string=fields)
    assert "ask an inner SELECT first on this page" in page.text


@pytest.mark.slow
def test_no_quote_is_passed_and_the_same_statement_is_free_again(
    tmp_path: Path, store_url: str
) -> None:
    rng = random.Random(random.SystemRandom().random())
    town = Deployment.make(tmp_path, store_url, limit="1000")
    for _ in range(n_of(60, share=6)):
        at, within = rng.choice((16, 45, 50, 52, 60)), rng.choice((5, 10, 20, 30))
        text = rng.choice(QUOTED).format(at=at, within=within)
        before, quote = spent(town), explained(town, text)
        answered(town, text)
        once = spent(town)
        assert once - before <= quote.most_nano, text
        answered(town, text)
        again = explained(town, text)
        assert (spent(town), again.price_nano, again.most_nano) == (once, 0, 0), text
