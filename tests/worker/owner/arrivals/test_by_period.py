"""Questions over several weeks are measured week by week, so that the next ones use it again."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from qserver.query.question import Question, Workload
from qserver.query.requirement import Requirement
from qserver.records.answer import Answer, JobStatus, WorkloadAnswer
from qserver.records.unit import Unit
from tests.growing import Growing, week


def spent(town: Growing) -> int:
    return town.service().dataset("people").spent_nano


@pytest.mark.slow
def test_what_is_asked_so_far_reuses_the_old_answers_and_pays_for_the_new_week(
    tmp_path: Path, store_url: str
) -> None:
    """The total after each of ten arrivals: by rows of its own, each would cost as the first."""
    town = Growing.begin(tmp_path, store_url, n_first=1)
    first = town.ask({}, length=40)
    for i in range(1, 11):
        town.append(i)
        answer = town.ask({}, length=40)
        assert len(answer.evidence) == i + 1
        assert abs(answer.estimate - 200 * (i + 1)) < 80
        assert answer.high - answer.low <= 40.1
    assert spent(town) < 3.5 * first.charged_nano


def test_a_long_past_stays_one_row(tmp_path: Path, store_url: str) -> None:
    """Six weeks at first: their total is one row, to which each new week is added."""
    town = Growing.begin(tmp_path, store_url, n_first=6)
    first = town.ask({}, length=40)
    assert len(first.evidence) == 1
    town.append(6)
    second = town.ask({}, length=40)
    assert len(second.evidence) == 2
    assert second.charged_nano < 0.45 * first.charged_nano
    assert abs(second.estimate - 1400) < 80


@pytest.mark.slow
def test_windows_that_move_on_share_their_weeks(tmp_path: Path, store_url: str) -> None:
    town = Growing.begin(tmp_path, store_url, n_first=4)
    first = town.ask({"week": {"between": [week(0), week(3)]}}, length=60)
    assert len(first.evidence) == 1
    second = 0
    for i in range(4, 12):
        town.append(i)
        answer = town.ask({"week": {"between": [week(i - 3), week(i)]}}, length=60)
        assert len(answer.evidence) == 4
        assert abs(answer.estimate - 800) < 120
        # The second window returns to weeks of the first one, so it is measured week by week.
        second = answer.charged_nano if i == 4 else second
    assert spent(town) == first.charged_nano + second < 3 * first.charged_nano


@pytest.mark.slow
def test_windows_that_never_meet_are_one_row_each(tmp_path: Path, store_url: str) -> None:
    town = Growing.begin(tmp_path, store_url, n_first=4)
    first = town.ask({"week": {"between": [week(0), week(3)]}}, length=60)
    for i in range(4, 8):
        town.append(i)
    answer = town.ask({"week": {"between": [week(4), week(7)]}}, length=60)
    assert len(answer.evidence) == 1
    assert spent(town) == first.charged_nano


def test_a_workload_of_windows_shares_them_too(tmp_path: Path, store_url: str) -> None:
    """Several new rows a question, with ids of their own among those of all questions."""
    town = Growing.begin(tmp_path, store_url, n_first=4)
    wheres = [
        {"sex": "Female"},
        {"week": {"at_least": week(2)}},
        {"week": week(3)},
        {"week": {"at_least": week(1)}, "sex": "Female"},
    ]
    service = town.service()
    asked = tuple(
        Question(service.parse("people", {"where": where}), Requirement(60, 0.95))
        for where in wheres
    )
    found = service.ask_workload("people", Workload(asked), wait_s=0)
    assert isinstance(found, JobStatus)
    town.work_off()
    result = service.job(found.id).result
    assert isinstance(result, WorkloadAnswer)
    for answer, truth in zip(result.answers, (600, 400, 200, 450), strict=True):
        assert abs(answer.estimate - truth) < 120
        assert answer.high - answer.low <= 60.1
    again = service.ask_workload("people", Workload(asked), wait_s=0)
    assert isinstance(again, WorkloadAnswer)
    assert again.charged_nano == 0


def test_weights_that_differ_by_week_are_measured_as_one_row(
    tmp_path: Path, store_url: str
) -> None:
    town = Growing.begin(tmp_path, store_url)
    where = {"week": {"weights": {week(0): 1, week(1): 2, week(2): 3}}}
    answer = town.ask(where, length=60)
    assert isinstance(answer, Answer)
    assert len(answer.evidence) == 1
    assert abs(answer.estimate - 1200) < 120


@pytest.mark.slow
def test_under_zcdp_weeks_are_measured_for_the_rest_of_the_precision(
    tmp_path: Path, store_url: str
) -> None:
    """A total of all weeks costs four records of a person 4^2; a week's row costs one of them."""
    town = Growing.begin(
        tmp_path, store_url, n_first=1, k=4, unit=Unit("person", 1), delta=Fraction(1, 10**9)
    )
    rho = 1.959963984540054**2 / (2 * 40**2) * 1e9
    for n in range(2, 7):
        town.append(n - 1)
        answer = town.ask({}, length=80)
        assert answer.high - answer.low <= 80.001
        assert abs(answer.estimate - 200 * n) < 200
        zcdp = town.service().dataset("people").zcdp
        assert zcdp is not None
        # The row of the first two weeks and those of the others, each raised for each question;
        # by totals the sixth would make it 61 rho.
        assert zcdp.spent_rho_nano <= 6.01 * n * rho
