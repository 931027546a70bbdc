"""Tables of weeks that arrive: bought for sealed weeks, and extended to those that come."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import pytest

from qserver.query.calendar import PeriodRetiredError
from qserver.query.question import Question, Workload
from qserver.query.requirement import Requirement
from qserver.records.answer import Answer, WorkloadAnswer
from qserver.records.history import HistoryTable
from qserver.service.statement_answers import StatementAnswer, StatementExplanation
from qserver.service.statements import Statements
from tests.growing import Growing, week
from tests.sweeps import n_of

SEXES = {"Female": 150, "Male": 50, "other": 0}
"""All that a table tells apart: at an equal price it is taken for nothing less."""


def by_week_and_sex(town: Growing, n: int, *, length: float = 60) -> Workload:
    """GROUP BY week, sex over the first n weeks."""
    service = town.service()
    wheres = [{"week": week(i), "sex": sex} for i, sex in product(range(n), SEXES)]
    return Workload(
        tuple(
            Question(service.parse("people", {"where": where}), Requirement(length, 0.95))
            for where in wheres
        )
    )


def tables(town: Growing) -> list[HistoryTable]:
    rows = town.service().history.page("people", after=-1, limit=100).rows
    return [row for row in rows if isinstance(row, HistoryTable)]


def spent(town: Growing) -> int:
    return town.service().dataset("people").spent_nano


def figures(answers: WorkloadAnswer) -> list[tuple[float, float, float]]:
    return [(float(a.estimate), float(a.low), float(a.high)) for a in answers.answers]


@pytest.fixture
def town(tmp_path: Path, store_url: str) -> Growing:
    return Growing.begin(tmp_path, store_url)


def test_a_group_by_of_weeks_is_bought_as_one_table_of_the_sealed_weeks(town: Growing) -> None:
    found = town.ask_workload(by_week_and_sex(town, 3))
    (table,) = tables(town)
    assert table.n_cells == 9
    assert table.axes[0] == [0, [1, 2, 3, 60], [0, 1, 2, -1]]
    for answer, truth in zip(found.answers, list(SEXES.values()) * 3, strict=True):
        assert abs(answer.estimate - truth) < 100
        assert answer.high - answer.low <= 60.1


@pytest.mark.slow
def test_a_table_goes_on_as_weeks_arrive_and_nothing_released_changes(town: Growing) -> None:
    first = town.ask_workload(by_week_and_sex(town, 3))
    before = spent(town)
    assert before == first.charged_nano > 0
    (old,) = tables(town)
    for i in range(3, 7):
        town.append(i)
        assert figures(town.ask_workload(by_week_and_sex(town, 3))) == figures(first)
        assert spent(town) == before
        later = town.ask_workload(by_week_and_sex(town, i + 1))
        assert figures(later)[:9] == figures(first)
        assert later.answers[-1].as_of == week(i)
        # A record is of one week, and no week has lost more than the first ones.
        assert spent(town) == before
        assert tables(town)[0] == old
        assert [t.n_cells for t in tables(town)] == [9] + [3] * (i - 2)
        assert {t.alpha_nano for t in tables(town)} == {old.alpha_nano}
    for answer, truth in zip(later.answers, list(SEXES.values()) * 7, strict=True):
        assert abs(answer.estimate - truth) < 100


def test_groups_of_other_attributes_are_answered_when_the_last_week_has_come(
    town: Growing,
) -> None:
    """Then a question about all weeks mentions none, and tables tell the weeks apart still."""
    town.append(59, empty=True)
    service = town.service()
    asked = [
        Question(service.parse("people", {"where": {"sex": sex}}), Requirement(100, 0.95))
        for sex in SEXES
    ]
    found = town.ask_workload(Workload(tuple(asked)))
    for answer, truth in zip(found.answers, SEXES.values(), strict=True):
        assert abs(answer.estimate - 4 * truth) < 300
    assert all(len(t.axes) == 2 for t in tables(town))


@pytest.mark.slow
def test_windows_use_the_cells_of_all_their_weeks(town: Growing) -> None:
    """Sums of cells cost nothing, whatever weeks they are about, and hold at their length."""
    town.ask_workload(by_week_and_sex(town, 3))
    for i in range(3, 6):
        town.append(i)
    town.ask_workload(by_week_and_sex(town, 6))
    before = spent(town)
    for first, last in ((0, 5), (2, 4), (3, 5)):
        n = last - first + 1
        answer = town.ask({"week": {"between": [week(first), week(last)]}}, length=320)
        assert abs(answer.estimate - 200 * n) < 300
        female = town.ask(
            {"week": {"between": [week(first), week(last)]}, "sex": "Female"}, length=320
        )
        assert abs(female.estimate - 150 * n) < 300
    assert spent(town) == before


def test_a_single_question_of_a_new_week_extends_the_table(town: Growing) -> None:
    town.ask_workload(by_week_and_sex(town, 3))
    before = spent(town)
    town.append(3)
    answer = town.ask({"week": week(3), "sex": "Male"}, length=60)
    assert isinstance(answer, Answer)
    assert abs(answer.estimate - 50) < 100
    assert [t.n_cells for t in tables(town)] == [9, 3]
    assert spent(town) == before
    assert town.ask({"week": week(3)}, length=100).charged_nano == 0


@pytest.mark.slow
def test_a_raised_table_is_raised_in_all_its_weeks(town: Growing) -> None:
    town.ask_workload(by_week_and_sex(town, 3))
    town.append(3)
    town.ask_workload(by_week_and_sex(town, 4))
    before = spent(town)
    found = town.ask_workload(by_week_and_sex(town, 4, length=30))
    assert all(a.high - a.low <= 30.1 for a in found.answers)
    assert [t.n_cells for t in tables(town)] == [9, 3]
    assert len({t.alpha_nano for t in tables(town)}) == 1
    # Half the length costs twice as much in all, as the chains go on.
    assert spent(town) == pytest.approx(2 * before, rel=0.05)


@pytest.mark.slow
def test_known_answers_stay_free_and_the_same_through_many_arrivals(
    tmp_path: Path, store_url: str
) -> None:
    town = Growing.begin(tmp_path, store_url, n_first=1)
    wheres: list[dict[str, Any]] = [
        {"sex": "Female"},
        {"week": week(0)},
        {"week": week(0), "sex": "Male"},
    ]
    known: dict[str, tuple[dict[str, Any], tuple[object, ...]]] = {}
    for i in range(1, n_of(53, share=15)):
        town.append(i, rows=[(week(i), "Female", f"w{i}"), (week(i), "Male", f"m{i}")])
        before = spent(town)
        for at, (where, first) in known.items():
            again = town.ask(where, length=60)
            assert (again.charged_nano, again.estimate, again.low, again.high) == first, at
        assert spent(town) == before
        if i % 13 == 1:
            for where in wheres:
                asked = {**where, "week": where.get("week", {"between": [week(0), week(i)]})}
                answer = town.ask(asked, length=60)
                figures = (0, answer.estimate, answer.low, answer.high)
                known[f"{asked}"] = (asked, figures)
    assert len(known) == n_of(6, share=4)


@pytest.mark.slow
def test_tables_go_on_after_old_weeks_are_retired(town: Growing) -> None:
    """Their cells of retired weeks stay as they are; what comes is measured beside them."""
    first = town.ask_workload(by_week_and_sex(town, 3))
    town.retire(1)
    town.append(3)
    later = town.ask_workload(by_week_and_sex(town, 4))
    assert figures(later)[:9] == figures(first)
    assert [t.n_cells for t in tables(town)] == [9, 3]
    # A table with retired cells is raised no more, so a shorter length is measured by rows.
    finer = town.ask({"week": week(3), "sex": "Female"}, length=30)
    assert abs(finer.estimate - 150) < 60
    assert len({t.alpha_nano for t in tables(town)}) == 1
    with pytest.raises(PeriodRetiredError):
        town.ask({"week": week(0), "sex": "Female"}, length=30)


@pytest.mark.slow
def test_a_week_that_came_has_a_price_at_every_length(town: Growing) -> None:
    """Each of the questions that a longer table asks for extends the same table of weeks."""
    text = "SELECT week, COUNT(*) AS n FROM people GROUP BY week WITHIN 40"
    Statements(town.service()).run("people", text, wait_s=0)
    town.work_off()
    town.append(3)
    found = Statements(town.service()).run("people", f"EXPLAIN {text}", wait_s=0)
    assert isinstance(found, StatementExplanation)
    prices = [point.price_nano for point in found.curve if point.price_nano is not None]
    assert len(prices) == len(found.curve)
    assert prices == sorted(prices, reverse=True)
    Statements(town.service()).run("people", text, wait_s=0)
    town.work_off()
    answer = Statements(town.service()).run("people", text, wait_s=0)
    assert isinstance(answer, StatementAnswer)
    assert len(answer.cells) == 4
    assert answer.charged_nano == 0
