"""Statements of SQL on a real deployment: what they say, what they cost, what is free after."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from qserver.answer import JobStatus
from qserver.asking import Idempotency
from qserver.errors import BudgetExhaustedError, SqlError
from qserver.problems import error_from_problem
from qserver.statements import StatementAnswer, StatementExplanation, Statements
from tests.deployment import ROWS, Deployment

# An interval that misses at this confidence would be a fault, not bad luck.
SURE = "CONFIDENCE 0.999999"
N = len(ROWS)
WOMEN = [age for age, sex in ROWS if sex == "Female"]


@pytest.fixture
def town(tmp_path: Path, store_url: str) -> Deployment:
    return Deployment.make(tmp_path, store_url, limit="1000")


def answered(town: Deployment, text: str, *, key: str = "") -> StatementAnswer:
    """The table of a text, its job worked off."""
    for _ in range(2):
        found = Statements(town.service()).run(
            "people", text, wait_s=0, idempotency=Idempotency(key, "d") if key else None
        )
        if isinstance(found, StatementAnswer):
            return found
        assert isinstance(found, JobStatus)
        town.work_off()
        if problem := town.service().job(found.id).problem:
            raise error_from_problem(problem)
    raise AssertionError("A statement whose questions were answered must be free.")


def explained(town: Deployment, text: str) -> StatementExplanation:
    found = Statements(town.service()).run("people", f"EXPLAIN {text}", wait_s=0)
    assert isinstance(found, StatementExplanation)
    return found


def interval(found: StatementAnswer, row: int = 0, column: int = 0) -> tuple[float, float]:
    ends = found.cells[row][column].value.interval
    assert ends.low is not None
    assert ends.high is not None
    return ends.low, ends.high


def spent(town: Deployment) -> int:
    return town.service().dataset("people").spent_nano


def test_a_count_is_answered_within_its_half_width_and_then_free(town: Deployment) -> None:
    text = f"SELECT COUNT(*) FROM people WHERE sex = 'Female' WITHIN 20 {SURE}"
    price = explained(town, text)
    found = answered(town, text)
    low, high = interval(found)
    assert low <= len(WOMEN) <= high
    assert high - low <= 40
    assert spent(town) == price.price_nano > 0
    assert found.cells[0][0].source == "history"
    assert explained(town, text).price_nano == 0
    assert explained(town, text).known[0][0] == found.cells[0][0].value.interval


def test_groups_are_one_workload_and_each_holds_its_truth(town: Deployment) -> None:
    text = f"SELECT sex, COUNT(*), SUM(age) FROM people GROUP BY sex WITHIN 100 {SURE}"
    price = explained(town, text)
    found = answered(town, text)
    assert [row.group for row in found.asked.statement.rows] == [
        ("Female",),
        ("Male",),
        ("other",),
    ]
    for i, sex in enumerate(("Female", "Male", "other")):
        ages = [age for age, own in ROWS if own == sex]
        for column, truth in enumerate((len(ages), sum(ages))):
            low, high = interval(found, i, column)
            assert low <= truth <= high
            assert high - low <= 200
    assert spent(town) == price.price_nano
    assert price.price_apart_nano is not None
    assert price.price_nano <= price.price_apart_nano


def test_an_average_is_as_exact_as_asked_where_the_denominator_is_as_large(
    town: Deployment,
) -> None:
    text = f"SELECT AVG(age) FROM people WHERE sex = 'Female' WITHIN 0.5 {SURE} ASSUMING AT LEAST"
    truth = sum(WOMEN) / len(WOMEN)
    found = answered(town, f"{text} 200")
    low, high = interval(found)
    assert low <= truth <= high
    assert high - low <= 1.0
    # What is assumed decides the price, never whether the interval holds.
    rash = answered(town, f"{text.replace('0.5', '0.1')} 100000")
    low, high = interval(rash)
    assert low <= truth <= high


def test_what_is_known_of_the_denominator_needs_not_be_assumed(town: Deployment) -> None:
    text = f"SELECT COUNT_IF(sex = 'Female') / COUNT(*) FROM people WITHIN 0.1 {SURE}"
    with pytest.raises(SqlError, match="ASSUMING AT LEAST"):
        answered(town, text)
    answered(town, f"SELECT COUNT(*) FROM people WITHIN 20 {SURE}")
    low, high = interval(answered(town, text))
    assert low <= Fraction(len(WOMEN), N) <= high
    assert high - low <= 0.2


def test_all_intervals_hold_at_once_where_asked(town: Deployment) -> None:
    text = "SELECT age, COUNT(*) FROM people GROUP BY age WITHIN 20 CONFIDENCE 0.9 SIMULTANEOUS"
    found = answered(town, text)
    assert found.simultaneous is not None
    assert found.simultaneous.confidence >= 0.9
    assert len(found.cells) == 11


def test_a_key_that_comes_again_gives_the_same_table(town: Deployment) -> None:
    text = "SELECT sex, COUNT(*) FROM people GROUP BY sex WITHIN 20"
    first = answered(town, text, key="k")
    before = spent(town)
    again = answered(town, text, key="k")
    assert again.cells == first.cells
    assert spent(town) == before


def test_a_statement_that_the_budget_cannot_pay_spends_nothing(
    tmp_path: Path, store_url: str
) -> None:
    town = Deployment.make(tmp_path, store_url, limit="0.1")
    text = "SELECT sex, COUNT(*) FROM people GROUP BY sex WITHIN 1"
    assert not explained(town, text).affordable
    with pytest.raises(BudgetExhaustedError):
        answered(town, text)
    assert spent(town) == 0
