"""What a table of SQL says after it was looked at, and statements that name a choice."""

from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path

import pytest

from qserver.errors import SqlError
from qserver.portal.pages.sql import known_view
from qserver.query.asking.after_looking import Selection
from qserver.query.sql.parser import parse_statement
from qserver.service.statement_answers import AnsweredCell
from qserver.service.statements import Statements
from tests.deployment import PEOPLE, Deployment
from tests.service.test_statements import answered, explained

BY_AGE = "SELECT age, COUNT(*) FROM people GROUP BY age WITHIN 20"
WIDER = math.log(11 / 0.05) / math.log(20)


@pytest.fixture
def town(tmp_path: Path, store_url: str) -> Deployment:
    return Deployment.make(tmp_path, store_url, limit="1000")


def reach(cell: AnsweredCell) -> tuple[float, float]:
    estimate, ends = cell.value.estimate, cell.value.interval
    assert estimate is not None
    assert ends.low is not None
    assert ends.high is not None
    return estimate - ends.low, ends.high - estimate


def test_each_number_of_a_table_has_its_readings(town: Deployment) -> None:
    found = answered(town, BY_AGE)
    for (cell,) in found.cells:
        half, looked = reach(cell)[0], cell.after_looking
        assert looked is not None
        estimate = cell.value.estimate or 0.0
        assert looked.largest.low == looked.at_once.low == pytest.approx(estimate - WIDER * half)
        assert looked.largest.high == pytest.approx(estimate + half)
        assert looked.least.high == looked.at_once.high


def test_a_table_that_names_its_choice_has_these_intervals_for_nothing_more(
    town: Deployment,
) -> None:
    plain = answered(town, BY_AGE)
    price = explained(town, f"{BY_AGE} AS LARGEST OF 11").price_nano
    found = answered(town, f"{BY_AGE} AS LARGEST OF 11")
    assert price == found.charged_nano == 0
    for (cell,), (before,) in zip(found.cells, plain.cells, strict=True):
        assert cell.after_looking is None
        assert before.after_looking is not None
        assert cell.value.interval == before.after_looking.largest
    # The portal's page, which knows only what is free, shows the same.
    statement = found.asked.statement
    shown = known_view(town.service(), "people", statement, query="").answer
    for (cell,), (same,) in zip(shown.cells, found.cells, strict=True):
        assert reach(cell) == pytest.approx(reach(same))


def test_one_number_that_was_chosen_has_a_longer_interval(town: Deployment) -> None:
    text = "SELECT COUNT(*) FROM people WHERE age = 23 WITHIN 20"
    [[plain]] = answered(town, text).cells
    [[top]] = answered(town, f"{text} AS LARGEST OF 11").cells
    [[two]] = answered(town, f"{text} AS LARGEST 2 OF 11").cells
    [[any_]] = answered(town, f"{text} AS ANY OF 11").cells
    assert plain.after_looking is None
    assert reach(top)[0] == pytest.approx(WIDER * reach(plain)[0])
    assert reach(top)[1] == pytest.approx(reach(plain)[1])
    assert reach(top)[1] < reach(two)[1] < reach(any_)[1]
    assert reach(top)[0] == reach(two)[0] == reach(any_)[0]


def test_where_answers_disagree_some_numbers_of_a_choice_hold_by_the_rule_for_any(
    town: Deployment,
) -> None:
    """The short rule for the largest needs the laws of the others, which are not in the table."""
    for where, length in (
        ({"age": {"between": [22, 23]}}, 90),
        ({"age": 22}, 60),
        ({"age": 23}, 70),
    ):
        town.ask(where, length=length)
    text = "SELECT age, COUNT(*) FROM people WHERE age IN (22, 23) GROUP BY age WITHIN 35"
    plain = answered(town, text)
    assert [cell.statement and cell.statement.disagreements for (cell,) in plain.cells] == [1, 1]
    of_three = answered(town, f"{text} AS LARGEST OF 3"), answered(town, f"{text} AS ANY OF 3")
    for (top,), (any_,), (alone,) in zip(
        *(found.cells for found in of_three), plain.cells, strict=True
    ):
        assert reach(top) == reach(any_)
        assert reach(alone)[1] < reach(top)[1]
    of_two = answered(town, f"{text} AS LARGEST OF 2"), answered(town, f"{text} AS ANY OF 2")
    tops, anys = ([reach(cell)[1] for (cell,) in found.cells] for found in of_two)
    assert max(tops) < max(anys)


@pytest.mark.slow
def test_a_page_says_of_all_intervals_at_once_what_sql_says(town: Deployment) -> None:
    """In a process that computes them, and in one that was asked before."""
    answered(town, "SELECT age, sex, COUNT(*) FROM people GROUP BY age, sex WITHIN 30")
    text = "SELECT age, COUNT(*) FROM people GROUP BY age WITHIN 30 SIMULTANEOUS"
    found = answered(town, text)
    statement, service = parse_statement(text, PEOPLE, dataset="people"), town.service()
    assert found.simultaneous is not None
    for _ in range(2):
        shown = known_view(service, "people", statement, query="").answer
        assert shown.simultaneous == found.simultaneous
        assert shown.asked.statement.remarks == found.asked.statement.remarks
        for (cell,), (same,) in zip(shown.cells, found.cells, strict=True):
            assert reach(cell) == pytest.approx(reach(same))
        Statements(service).run("people", text, wait_s=60)


def test_columns_are_chosen_from_apart(town: Deployment) -> None:
    """A sum's long intervals do not lengthen those of the counts beside it."""
    text = "SELECT age, COUNT(*), SUM(age) WITHIN 20 FROM people GROUP BY age WITHIN 20"
    for count, _ in answered(town, text).cells:
        assert count.after_looking is not None
        estimate, high = count.value.estimate, count.after_looking.largest.high
        assert estimate is not None
        assert high is not None
        assert high - estimate == pytest.approx(reach(count)[1], rel=0.2)


@pytest.mark.slow
def test_an_average_that_was_chosen_has_a_longer_interval(town: Deployment) -> None:
    text = "SELECT sex, AVG(age) FROM people GROUP BY sex WITHIN 1 ASSUMING AT LEAST 100"
    plain, found = answered(town, text), answered(town, f"{text} AS LARGEST OF 3")
    # By luck of the noise what is surely known for any choice is what is public.
    for (cell,), (chosen,) in zip(plain.cells[:2], found.cells[:2], strict=True):
        assert cell.after_looking is not None
        short, long = cell.value.interval, chosen.value.interval
        assert None not in (short.low, short.high, long.low, long.high)
        assert long.high - long.low > short.high - short.low


@pytest.mark.slow
def test_a_table_of_one_average_has_nothing_to_choose(town: Deployment) -> None:
    text = "SELECT AVG(age) FROM people WITHIN 1 ASSUMING AT LEAST 100"
    [[cell]] = answered(town, text).cells
    assert cell.after_looking is None


def test_independent_noise_is_bought_each_time(town: Deployment) -> None:
    text = "SELECT COUNT(*) FROM people WHERE age = 23 WITHIN 20"
    answered(town, text)
    price = explained(town, f"{text} INDEPENDENT").price_nano
    assert price > 0
    spent = [town.service().dataset("people").spent_nano]
    for _ in range(2):
        Statements(town.service()).run("people", f"{text} INDEPENDENT", wait_s=0)
        town.work_off()
        spent.append(town.service().dataset("people").spent_nano)
    assert [b - a for a, b in pairwise(spent)] == [price, price]


@pytest.mark.parametrize(
    ("clause", "selection"),
    [
        ("AS LARGEST OF 64", Selection(64, "largest", 1)),
        ("as least 5 of 64 CONFIDENCE 0.9", Selection(64, "least", 5)),
        ("CONFIDENCE 0.9 AS ANY OF 64 ONLY THIS", Selection(64, "any", 1)),
    ],
)
def test_a_choice_is_read_among_other_clauses(clause: str, selection: Selection) -> None:
    text = f"SELECT COUNT(*) AS largest FROM people WITHIN 9 {clause}"
    clauses = parse_statement(text, PEOPLE, dataset="people").clauses
    assert clauses.looking.selected_from == selection


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SELECT COUNT(*) FROM people WITHIN 9 AS LARGEST OF 0", "a number > 0 after OF"),
        ("SELECT COUNT(*) FROM people WITHIN 9 AS LARGEST OF 2.5", "a whole number after OF"),
        ("SELECT COUNT(*) FROM people WITHIN 9 AS LARGEST 5 OF 4", "from 1 to `m`, which is 4"),
        ("SELECT COUNT(*) FROM people WITHIN 9 AS ANY 2 OF 4", "`first` can be left out"),
        ("SELECT COUNT(*) FROM people WITHIN 9 AS LARGEST 5", "among how many"),
        ("SELECT COUNT(*) FROM people WITHIN 9 AS LARGEST OF 5 AS LEAST OF 5", "once"),
        ("SELECT COUNT(*) FROM people WITHIN 9 AS LARGEST OF 5 INDEPENDENT", "not have both"),
        ("SELECT COUNT(*) FROM people WITHIN 9 AS LARGEST OF 5 SIMULTANEOUS", "not have both"),
        ("SELECT COUNT(*) FROM people GROUP BY age WITHIN 9 INDEPENDENT", "one count or sum"),
        ("SELECT AVG(age) FROM people WITHIN 9 INDEPENDENT", "one count or sum"),
        ("SELECT COUNT(*) FROM people GROUP BY age WITHIN 9 AS LARGEST OF 9", "at least 11"),
    ],
)
def test_a_choice_that_means_nothing_is_refused_at_its_place(text: str, message: str) -> None:
    with pytest.raises(SqlError, match=message):
        parse_statement(text, PEOPLE, dataset="people")
