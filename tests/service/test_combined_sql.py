"""Medians and other functions of several sums on a real deployment: hold, cost, are free after."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from qserver.query.domain import Attribute, Domain
from qserver.query.linear_query import LinearQuery
from qserver.query.sql.parser import parse_statement
from qserver.query.sql.tables.unconfirmed import UnconfirmedError
from qserver.service.cells.answer_cells import step_of, workload_of
from qserver.service.statements import Statements
from qserver.service.steps.statement import StatementSteps
from tests.deployment import ROWS, Deployment
from tests.service.test_statements import SURE, answered, explained, interval, remark_with, spent

# 20 to 24 among men and women alike, in equal numbers, so that every quantile is known.
AGES = sorted(age for age, _ in ROWS)
PAIRS = Domain(
    tuple(
        Attribute(name, "integer", edges=tuple(map(Fraction, range(11))), outside="clamp")
        for name in ("x", "y")
    )
)
PAIR_ROWS = [(i % 10, (i % 10 + i % 7) * 5 // 8) for i in range(500)]


@pytest.fixture
def town(tmp_path: Path, store_url: str) -> Deployment:
    return Deployment.make(tmp_path, store_url, limit="1000")


@pytest.mark.slow
def test_a_median_holds_and_every_other_quantile_is_then_free(town: Deployment) -> None:
    text = f"SELECT MEDIAN(age) FROM people WITHIN 0.6 {SURE} ASSUMING AT LEAST 400"
    price = explained(town, text)
    found = answered(town, text)
    low, high = interval(found)
    assert low <= (AGES[249] + AGES[250]) / 2 <= high
    assert high - low <= 1.2
    assert price.is_most
    assert 0 < spent(town) <= price.price_nano
    before = spent(town)
    assert answered(town, text).cells == found.cells
    quarter = f"SELECT QUANTILE(age, 0.25) AS q FROM people {SURE}"
    low, high = interval(answered(town, quarter))
    assert low <= AGES[125] <= high
    assert spent(town) == before


@pytest.fixture
def wide(tmp_path: Path, store_url: str) -> Deployment:
    """More values than a table of free posteriors may have, with six records each."""
    ages = Attribute("x", "integer", edges=tuple(map(Fraction, range(67))))
    domain, rows = Domain((ages, PAIRS.attributes[1])), [(i % 66, 0) for i in range(396)]
    return Deployment.make(tmp_path, store_url, domain=domain, rows=rows, limit="1000")


GROUPS = "SELECT COUNT(*) FROM (SELECT x FROM people GROUP BY x HAVING COUNT(*) > 3) AS g "


def test_a_number_of_groups_needs_no_posterior_and_one_count_of_each(wide: Deployment) -> None:
    statement = parse_statement(f"{GROUPS} WITHIN 2", wide.meta.domain, dataset="people")
    questions = Statements(wide.service()).asked("people", statement)
    all_of_them = tuple(range(len(questions.questions)))
    assert len(all_of_them) == 66
    assert workload_of(questions).for_quotients == all_of_them
    assert step_of(questions).for_quotients == all_of_them


def test_a_median_needs_no_posterior_and_no_count_of_every_value(wide: Deployment) -> None:
    text = "SELECT MEDIAN(x) FROM people WITHIN 2"
    statement = parse_statement(text, wide.meta.domain, dataset="people")
    questions = Statements(wide.service()).asked("people", statement)
    all_of_them = tuple(range(len(questions.questions)))
    assert 1 < len(all_of_them) < 20
    assert workload_of(questions).for_quotients == all_of_them
    # The number of values follows from the counts.
    assert len(step_of(questions).questions) == len(all_of_them) - 1


def test_a_median_asks_no_more_exactly_for_the_count_that_an_average_shares(
    wide: Deployment,
) -> None:
    def first_step(items: str) -> dict[LinearQuery, float]:
        text, domain = f"SELECT {items} FROM people WITHIN 2", wide.meta.domain
        statement = parse_statement(text, domain, dataset="people")
        steps = StatementSteps(wide.service(), "people", statement)
        asked = step_of(steps.next_step()).questions
        return {one.query: one.requirement.length for one in asked}

    alone = first_step("AVG(x)")
    assert len(alone) == 2
    assert alone.items() <= first_step("MEDIAN(x), AVG(x)").items()


@pytest.mark.slow
def test_a_number_of_many_groups_holds_by_the_law_of_the_noise(wide: Deployment) -> None:
    text = f"{GROUPS} WITHIN 4 {SURE}"
    price = explained(wide, text)
    found = answered(wide, text)
    (cell,) = found.cells[0]
    assert cell.statement.law == "estimator"
    low, high = interval(found)
    assert low <= 66 <= high
    assert high - low <= 8
    assert 0 < spent(wide) <= price.price_nano


@pytest.mark.slow
def test_medians_of_groups_hold_and_an_empty_group_does_not_cost_the_most(
    town: Deployment,
) -> None:
    text = (
        "SELECT sex, MEDIAN(age) WITHIN 1, COUNT(*) FROM people GROUP BY sex "
        f"WITHIN 1 {SURE} ASSUMING AT LEAST 150"
    )
    price = explained(town, text)
    found = answered(town, text)
    for i, sex in enumerate(("Female", "Male")):
        ages = sorted(age for age, own in ROWS if own == sex)
        low, high = interval(found, i)
        assert low <= ages[len(ages) // 2] <= high
        # The median lies between two values here, and no step tells them apart for certain.
        assert high - low <= 3
    assert interval(found, 2) == (20, 29)  # nobody: every value may be
    assert spent(town) <= price.price_nano
    assert found.cells[0][0].after_looking is not None
    at_once = found.cells[0][0].after_looking.at_once
    assert at_once.low is not None
    assert at_once.low <= interval(found)[0]


@pytest.mark.slow
def test_a_choice_by_medians_and_all_at_once_allow_for_that(town: Deployment) -> None:
    text = f"SELECT sex, MEDIAN(age) AS m FROM people GROUP BY sex {{}} WITHIN 2 {SURE} {{}}"
    chosen = answered(town, text.format("ORDER BY m DESC LIMIT 1", "ASSUMING AT LEAST 100"))
    assert len(chosen.cells) == 1
    together = answered(town, text.format("", "ASSUMING AT LEAST 100 SIMULTANEOUS"))
    assert together.simultaneous is not None
    low, high = interval(together)
    assert low <= 24 <= high


def test_what_a_median_needs_to_be_measured_is_said(town: Deployment) -> None:
    stated = explained(town, "SELECT MEDIAN(age) FROM people WITHIN 1")
    typed = explained(town, "SELECT MEDIAN(age) FROM people WITHIN 1 ASSUMING AT LEAST 1000")
    assert stated.price_nano == typed.price_nano > 0
    with pytest.raises(UnconfirmedError) as caught:
        Statements(town.service()).run("people", "SELECT MEDIAN(age) FROM people", wait_s=0)
    assert "ASSUMING AT LEAST 1000" in caught.value.words
    assert spent(town) == 0


@pytest.mark.slow
def test_a_deviation_holds_and_the_variance_is_then_free(town: Deployment) -> None:
    text = f"SELECT STDDEV_POP(age) AS s FROM people WITHIN 0.3 {SURE} ASSUMING AT LEAST 400"
    price = explained(town, text)
    found = answered(town, text)
    low, high = interval(found)
    assert low <= float(np.std(AGES)) <= high
    assert high - low <= 0.6
    assert price.is_most
    assert 0 < spent(town) <= price.price_nano
    before = spent(town)
    assert answered(town, text).cells == found.cells
    low, high = interval(answered(town, f"SELECT VARIANCE(age) FROM people {SURE}"))
    assert low <= float(np.var(AGES, ddof=1)) <= high
    assert spent(town) == before


@pytest.mark.slow
def test_deviations_of_groups_hold_and_one_without_records_may_be_anything(
    town: Deployment,
) -> None:
    text = (
        f"SELECT sex, STDDEV(age), AVG(age) FROM people GROUP BY sex WITHIN 0.6 {SURE} "
        "ASSUMING AT LEAST 150"
    )
    found = answered(town, text)
    for i, sex in enumerate(("Female", "Male")):
        ages = [age for age, own in ROWS if own == sex]
        low, high = interval(found, i)
        assert low <= float(np.std(ages, ddof=1)) <= high
        assert high - low <= 1.2
    low, high = interval(found, 2)
    assert (low, high) == pytest.approx((0, 4.5 * 2**0.5))


@pytest.mark.slow
def test_extremes_hold_within_the_price_that_was_said_and_are_then_free(town: Deployment) -> None:
    """Fifty people have each age."""
    text = f"SELECT MIN(age), MAX(age) FROM people WITHIN 10 {SURE}"
    price = explained(town, text)
    found = answered(town, text)
    assert price.is_most
    assert 0 < spent(town) <= price.price_nano
    assert interval(found) == (20, 20)
    assert interval(found, column=1) == (29, 29)
    assert [cell.value.estimate for cell in found.cells[0]] == [20, 29]
    before = spent(town)
    assert answered(town, text).cells == found.cells
    # Of a difference each may miss with half: noise decides whether its end is then surely told.
    halves = answered(town, "SELECT MIN(age), MAX(age) FROM people CONFIDENCE 0.9999995")
    (low, high), (least, most) = interval(halves), interval(halves, column=1)
    found = answered(town, f"SELECT MAX(age) - MIN(age) FROM people {SURE}")
    assert interval(found) == (least - high, most - low)
    assert interval(found)[1] == 9
    assert spent(town) == before


@pytest.mark.slow
def test_an_extreme_that_what_may_be_charged_does_not_tell_says_so(town: Deployment) -> None:
    text = f"SELECT MIN(age) FROM people WITHIN 0.5 {SURE} AT MOST 0.28"
    found = answered(town, text)
    low, high = interval(found)
    assert low == 20 <= high
    remark = remark_with(found, "less exact than WITHIN asks")
    assert "the rest would cost" in remark
    assert spent(town) <= 280_000_000


@pytest.mark.slow
def test_extremes_of_groups_have_no_value_where_nobody_surely_is(town: Deployment) -> None:
    with pytest.raises(UnconfirmedError) as caught:
        Statements(town.service()).run("people", "SELECT MIN(age) FROM people", wait_s=0)
    assert caught.value.words == "WITHIN 100"
    text = f"SELECT sex, MAX(age) AS m FROM people GROUP BY sex WITHIN 4 {SURE}"
    found = answered(town, text)
    assert [row[0].value.estimate for row in found.cells] == [29, 29, None]
    assert [interval(found, i) for i in range(3)] == [(29, 29), (29, 29), (20, 29)]


@pytest.mark.slow
def test_extremes_that_hold_at_once_are_asked_by_all_their_counts(town: Deployment) -> None:
    text = f"SELECT MIN(age), COUNT(DISTINCT age) FROM people WITHIN 20 {SURE} SIMULTANEOUS"
    price = explained(town, text)
    found = answered(town, text)
    assert not price.is_most
    assert spent(town) == price.price_nano
    assert found.simultaneous is not None
    assert [interval(found, column=k) for k in range(2)] == [(20, 20), (10, 10)]


@pytest.mark.slow
def test_the_number_of_groups_holds_and_is_then_free(town: Deployment) -> None:
    """Each of ten ages has 16, 17 men or 33, 34 women."""
    text = (
        "SELECT COUNT(*) FROM (SELECT age, sex, COUNT(*) AS n FROM people GROUP BY age, sex "
        f"HAVING COUNT(*) >= 25) AS g WITHIN 1 {SURE}"
    )
    price = explained(town, text)
    found = answered(town, text)
    assert price.is_most
    low, high = interval(found)
    assert low <= 10 <= high
    assert high - low <= 2
    assert 0 < spent(town) <= price.price_nano
    before = spent(town)
    assert answered(town, text).cells == found.cells
    free = answered(town, f"SELECT COUNT(DISTINCT age) FROM people {SURE}")
    low, high = interval(free)
    assert low <= 10 <= high
    assert spent(town) == before


@pytest.mark.slow
def test_a_correlation_holds_at_most_at_its_price_and_is_then_free(
    tmp_path: Path, store_url: str
) -> None:
    pairs = Deployment.make(tmp_path, store_url, limit="100000", rows=PAIR_ROWS, domain=PAIRS)
    x, y = (np.array([row[i] for row in PAIR_ROWS], dtype=float) for i in (0, 1))
    text = f"SELECT CORR(x, y) FROM people WITHIN 0.2 {SURE} ASSUMING AT LEAST 400"
    price = explained(pairs, text)
    found = answered(pairs, text)
    low, high = interval(found)
    assert low <= float(np.corrcoef(x, y)[0, 1]) <= high
    # Where sums disagree, their posteriors may be longer than was asked of them.
    assert high - low <= 0.5
    assert price.is_most
    assert 0 < spent(pairs) <= price.price_nano
    before = spent(pairs)
    low, high = interval(answered(pairs, f"SELECT STDDEV_POP(y) FROM people {SURE}"))
    assert low <= float(y.std()) <= high
    assert spent(pairs) == before


@pytest.mark.slow
def test_a_difference_of_averages_holds_costs_no_more_than_quoted_and_is_then_free(
    town: Deployment,
) -> None:
    old, young = "AVG(age) FILTER (WHERE age >= 25)", "AVG(age) FILTER (WHERE age < 25)"
    text = f"SELECT {old} - {young} AS gap FROM people WITHIN 0.5 {SURE} ASSUMING AT LEAST 200"
    price = explained(town, text)
    found = answered(town, text)
    low, high = interval(found)
    assert low <= 5.0 <= high  # 27 less 22
    assert high - low <= 1.0
    assert 0 < spent(town) <= price.price_nano
    before = spent(town)
    assert answered(town, text).cells == found.cells
    assert spent(town) == before
