"""PROBABILITY in SQL: what history says of a number, free, as over HTTP."""

from __future__ import annotations

from pathlib import Path

import pytest

from qserver.cli.main import main
from qserver.client import Client
from qserver.errors import SqlError
from qserver.query.sql.parser import parse_statement
from qserver.service.statements import Statements
from tests.client.serving import serving
from tests.deployment import PEOPLE, Deployment
from tests.service.test_statements import answered


@pytest.fixture
def town(tmp_path: Path, store_url: str) -> Deployment:
    return Deployment.make(tmp_path, store_url, limit="1000")


def test_probabilities_of_groups_are_those_that_http_gives(town: Deployment) -> None:
    answered(town, "SELECT sex, COUNT(*) FROM people GROUP BY sex WITHIN 20")
    spent = town.service().dataset("people").spent_nano
    text = (
        "SELECT sex, PROBABILITY(COUNT(*) >= 160) AS many, PROBABILITY(2 * COUNT(*) BETWEEN 300 "
        "AND 340), PROBABILITY(COUNT(*) <= 160) FROM people GROUP BY sex"
    )
    found = answered(town, text)
    assert found.charged_nano == 0
    assert town.service().dataset("people").spent_nano == spent
    insight, parse = town.service().insight, town.service().parse
    for row, cells in zip(found.asked.statement.rows, found.cells, strict=True):
        query = parse("people", {"where": {"sex": row.group[0] or "other"}})
        for cell, (low, high) in zip(
            cells, ((160, float("inf")), (150, 170), (float("-inf"), 160)), strict=True
        ):
            expected = insight.probability("people", query, low=low, high=high).probability
            assert cell.value.estimate == pytest.approx(expected, abs=1e-9)
        many, _, few = (cell.value.estimate for cell in cells)
        assert many is not None
        assert few is not None
        assert many + few == pytest.approx(1)


def test_what_history_does_not_give_has_no_probability(town: Deployment) -> None:
    found = Statements(town.service()).run(
        "people", "SELECT PROBABILITY(COUNT(*) >= 9) FROM people", wait_s=0
    )
    [[cell]] = found.cells
    assert cell.value.estimate is None


def test_client_and_command_line_show_it(
    town: Deployment, capsys: pytest.CaptureFixture[str]
) -> None:
    answered(town, "SELECT COUNT(*) FROM people WITHIN 20")
    text = "SELECT PROBABILITY(COUNT(*) >= 400) FROM people"
    with serving(town, wait_s=0) as served:
        assert Client(served.url).sql(text).only.estimate == pytest.approx(1, abs=1e-3)
        assert main(["sql", text, "--url", served.url]) == 0
        assert "PROBABILITY(COUNT(*) >= 400)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SELECT PROBABILITY(COUNT(*) > 9) FROM people", "by >=, <= or BETWEEN"),
        ("SELECT PROBABILITY(COUNT(*)) FROM people", "by >=, <= or BETWEEN"),
        ("SELECT PROBABILITY(AVG(age) >= 9) FROM people", "one count or sum with numbers"),
        ("SELECT PROBABILITY(COUNT(*) >= age) FROM people", "with numbers"),
        ("SELECT PROBABILITY(9 >= COUNT(*)) FROM people", "with numbers"),
        ("SELECT PROBABILITY(COUNT(*) >= 9), COUNT(*) FROM people", "either probabilities or"),
        ("SELECT PROBABILITY(COUNT(*) >= 9) FROM people WITHIN 5", "costs nothing"),
        ("EXPLAIN SELECT PROBABILITY(COUNT(*) >= 9) FROM people", "costs nothing"),
    ],
)
def test_other_events_are_refused_with_what_can_be_asked(text: str, message: str) -> None:
    with pytest.raises(SqlError, match=message):
        parse_statement(text, PEOPLE, dataset="people")


def test_a_price_of_a_probability_is_refused(town: Deployment) -> None:
    text = "SELECT PROBABILITY(COUNT(*) >= 9) FROM people"
    with pytest.raises(SqlError, match="costs nothing"):
        Statements(town.service()).run("people", text, wait_s=0, explain=True)
