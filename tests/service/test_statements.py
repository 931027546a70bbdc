"""Statements of SQL on a real deployment: what they say, what they cost, what is free after."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path

import pytest

from qserver.errors import BudgetExhaustedError
from qserver.query.sql.cells import cell_value
from qserver.query.sql.statistics.smooth_functions import QuotientOf
from qserver.query.sql.tables.cell_intervals import CellInterval
from qserver.records.answer import JobStatus
from qserver.records.problem import error_from_problem
from qserver.service.ask import Idempotency
from qserver.service.cells.answer_cells import workload_of
from qserver.service.statement_answers import StatementAnswer, StatementExplanation
from qserver.service.statements import Statements
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
    for _ in range(20):
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


def remark_with(found: StatementAnswer, part: str) -> str:
    """The one remark that says it: by luck of the noise others may stand beside it."""
    [remark] = [each for each in found.asked.statement.remarks if part in each]
    return remark


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
    text = f"SELECT sex, COUNT(*), SUM(age) WITHIN 100 FROM people GROUP BY sex WITHIN 100 {SURE}"
    price = explained(town, text)
    found = answered(town, text)
    assert [row.group for row in found.asked.statement.rows] == [
        ("Female",),
        ("Male",),
        (None,),
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


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.parametrize("item", ["AVG(age)", "COUNT_IF(age < 23) / COUNT(*)"])
def test_the_ends_of_a_quotient_are_quantiles_by_the_posterior_of_both_parts(
    town: Deployment, item: str
) -> None:
    """N - t D is above 0 as probably as N / D is above t; no longer than by the union bound."""
    # So exactly that no public bound cuts an end.
    text = f"SELECT {item} FROM people WITHIN 0.1 CONFIDENCE 0.9"
    found = answered(town, f"{text} ASSUMING AT LEAST 300")
    questions = found.asked
    over, under = questions.questions
    numbers = town.service().insight.known_numbers("people", workload_of(questions))
    known = dict(enumerate(k.answer for k in numbers if k is not None))
    parts = {i: CellInterval(one.low, one.high) for i, one in known.items()}
    union = cell_value(questions.cells[0][0], dict.fromkeys(parts, 0.0), parts).interval
    low, high = interval(found)
    assert union.low is not None
    assert union.high is not None
    # The interval is centred, as far as its farther end; draws tell that within a tenth.
    middle = (low + high) / 2
    assert (high - low) / 2 < 1.1 * max(union.high - middle, middle - union.low)
    assert found.cells[0][0].statement is not None
    assert found.cells[0][0].statement.law == "posterior"
    function = questions.cells[0][0].function
    assert isinstance(function, QuotientOf)
    beyond = list[float]()
    for end, ends in ((low, (-math.inf, 0.0)), (high, (0.0, math.inf))):
        query = over.query - under.query.scaled(Fraction(end) - function.middle)
        missed = town.service().insight.probability("people", query, low=ends[0], high=ends[1])
        beyond.append(missed.probability)
    # 4,000 draws tell 5 percent with a standard error of about .005; the farther end counts.
    assert 0.02 < max(beyond) < 0.07


def test_intervals_that_hold_at_once_are_all_that_those_of_the_sums_allow(
    town: Deployment,
) -> None:
    """By the same sums the average alone, which needs but their joint law, is shorter and free."""
    text = "SELECT AVG(age) FROM people WITHIN 0.5 CONFIDENCE 0.9"
    at_once = answered(town, f"{text} SIMULTANEOUS ASSUMING AT LEAST 300")
    before = spent(town)
    alone = answered(town, f"{text} ASSUMING AT LEAST 300")
    assert spent(town) == before
    assert half(alone) < half(at_once) <= 0.5


@pytest.mark.slow
def test_what_is_known_of_the_denominator_needs_not_be_assumed(town: Deployment) -> None:
    text = f"SELECT COUNT_IF(sex = 'Female') / COUNT(*) FROM people WITHIN 0.1 {SURE}"
    # With nothing known it is asked for 1000 records, of which there are fewer: it still holds.
    low, high = interval(answered(town, text))
    assert low <= Fraction(len(WOMEN), N) <= high
    answered(town, f"SELECT COUNT(*) FROM people WITHIN 20 {SURE}")
    low, high = interval(answered(town, f"{text} ASSUMING AT LEAST 1"))
    assert low <= Fraction(len(WOMEN), N) <= high
    assert high - low <= 0.2


def half(found: StatementAnswer, row: int = 0, column: int = 0) -> float:
    low, high = interval(found, row, column)
    return (high - low) / 2


AVERAGE = "SELECT AVG(age) FROM people WITHIN {} CONFIDENCE 0.95 ASSUMING AT LEAST {}"


@pytest.mark.slow
def test_an_average_that_is_known_well_enough_is_free(town: Deployment) -> None:
    """However little is assumed: the interval that history gives is what counts."""
    known = half(answered(town, AVERAGE.format(0.5, 100)))
    before = spent(town)
    for width, least in ((1.02 * known, 100), (1.5 * known, 20), (4.0, 1)):
        text = AVERAGE.format(f"{width:.6f}", least)
        price = explained(town, text)
        assert (price.price_nano, price.is_most) == (0, False)
        found = answered(town, text)
        assert found.charged_nano == 0
        assert half(found) <= width
    assert spent(town) == before


@pytest.mark.slow
def test_an_average_is_as_exact_as_asked_and_not_much_more(town: Deployment) -> None:
    """A fifth of the records is assumed; the price at the most is for no more than these."""
    text = AVERAGE.format(0.1, 100)
    price = explained(town, text)
    found = answered(town, text)
    assert price.is_most
    assert 0 < spent(town) < price.price_nano / 2
    assert 0.1 / 1.35 <= half(found) <= 0.1
    finer = AVERAGE.format(0.04, 100)
    at_most, before = explained(town, finer), spent(town)
    assert half(answered(town, finer)) <= 0.04
    # What was paid before counts: the rest of what the finer average costs is left.
    assert 0 < spent(town) - before <= at_most.price_nano < 2.5 * price.price_nano - before


def test_a_known_denominator_counts_where_it_is_better_than_the_typed_one(
    town: Deployment,
) -> None:
    text = AVERAGE.format(0.5, 20)
    before = explained(town, text).price_nano
    answered(town, f"SELECT COUNT(age) FROM people WITHIN 5 {SURE}")
    now = explained(town, text).price_nano
    # 495 records are known, 20 were typed.
    assert now < before / 20


@pytest.mark.slow
def test_groups_of_averages_cost_no_more_than_quoted_and_small_groups_no_more_than_typed(
    town: Deployment,
) -> None:
    text = "SELECT sex, AVG(age) AS mean FROM people GROUP BY sex WITHIN 0.5 ASSUMING AT LEAST 100"
    price = explained(town, text)
    found = answered(town, text)
    assert spent(town) <= price.price_nano
    assert max(half(found, 0), half(found, 1)) <= 0.5
    # Nobody is in `other`: whatever the noise says of it stays within the public bounds.
    low, high = interval(found, 2)
    assert 20 <= low <= high <= 30
    before = spent(town)
    assert answered(town, text).charged_nano == 0
    assert spent(town) == before


def test_a_quotient_that_the_budget_cannot_pay_in_full_takes_no_step(
    tmp_path: Path, store_url: str
) -> None:
    """Its first step alone could be paid."""
    town = Deployment.make(tmp_path, store_url, limit="0.4")
    text = AVERAGE.format(0.5, 100)
    assert not explained(town, text).affordable
    with pytest.raises(BudgetExhaustedError):
        answered(town, text)
    assert spent(town) == 0


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


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        AVERAGE.format(0.1, 100),
        "SELECT MEDIAN(age) FROM people WITHIN 1",
        "SELECT COUNT(*) FROM people WITHIN 5 PERCENT",
    ],
)
def test_a_statement_that_waits_for_each_of_its_steps_says_what_all_of_them_cost(
    town: Deployment, text: str
) -> None:
    """Each step is a job here; its key brings them together, however often it is sent again."""
    found = answered(town, text, key="k")
    assert found.charged_nano == spent(town) > 0
    assert answered(town, text, key="k").charged_nano == spent(town)
    assert answered(town, text, key="another").charged_nano == 0


def test_a_statement_that_the_budget_cannot_pay_spends_nothing(
    tmp_path: Path, store_url: str
) -> None:
    town = Deployment.make(tmp_path, store_url, limit="0.1")
    text = "SELECT sex, COUNT(*) FROM people GROUP BY sex WITHIN 1"
    assert not explained(town, text).affordable
    with pytest.raises(BudgetExhaustedError):
        answered(town, text)
    assert spent(town) == 0
