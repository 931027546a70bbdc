"""Tables of SQL over released answers that disagree."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path

import pytest

from qserver.client.tables import Table
from qserver.portal.pages.sql import known_view
from qserver.query.sql.parser import parse_statement
from qserver.service.cells.answer_cells import workload_of
from tests.deployment import PEOPLE, Deployment
from tests.service.test_statements import answered, explained

BY_AGE = "SELECT age, COUNT(*) FROM people WHERE age < 26 GROUP BY age WITHIN 30"
AVERAGE = "SELECT AVG(age) FROM people WITHIN 1 ASSUMING AT LEAST 300"


@pytest.fixture
def town(tmp_path: Path, store_url: str) -> Deployment:
    """Ages below 26 counted one by one, and in ranges by themselves."""
    found = Deployment.make(tmp_path, store_url, limit="1000")
    for ends in ("20 AND 22", "22 AND 25", "20 AND 25", "21 AND 24"):
        condition = f"WHERE age BETWEEN {ends} WITHIN 30 ONLY THIS"
        answered(found, f"SELECT COUNT(*) FROM people {condition}")
    answered(found, f"{BY_AGE} ONLY THIS")
    return found


@pytest.mark.slow
def test_the_numbers_of_a_table_are_posteriors_and_stay_free(town: Deployment) -> None:
    found = answered(town, BY_AGE)
    assert found.charged_nano == explained(town, BY_AGE).price_nano == 0
    numbers = town.service().insight.known_numbers("people", workload_of(found.asked))
    statements = [one.answer.statement for one in numbers if one is not None]
    assert {s.law for s in statements} == {"posterior"}
    assert max(s.disagreements for s in statements) > 0
    for (cell,), one in zip(found.cells, numbers, strict=True):
        assert one is not None
        ends = cell.value.interval
        assert [cell.value.estimate, ends.low, ends.high] == pytest.approx(
            [one.answer.estimate, one.answer.low, one.answer.high], rel=1e-9
        )


@pytest.mark.slow
def test_the_portal_shows_the_same_table(town: Deployment) -> None:
    found = answered(town, BY_AGE)
    statement = parse_statement(BY_AGE, PEOPLE, dataset="people")
    view = known_view(town.service(), "people", statement, query="")
    assert [c.value for (c,) in view.answer.cells] == [c.value for (c,) in found.cells]
    assert [c.after_looking for (c,) in view.answer.cells] == [
        c.after_looking for (c,) in found.cells
    ]


@pytest.mark.slow
def test_a_quotient_is_made_of_estimates_and_stays_free(town: Deployment) -> None:
    first = answered(town, AVERAGE)
    again = answered(town, AVERAGE)
    assert again.charged_nano == explained(town, AVERAGE).price_nano == 0
    assert again.cells[0][0].value == first.cells[0][0].value
    assert workload_of(again.asked).for_quotients == (0, 1)
    numbers = town.service().insight.known_numbers("people", workload_of(again.asked))
    assert {one.answer.statement.law for one in numbers if one is not None} <= {
        "estimator",
        "exact",
    }


@pytest.mark.slow
def test_a_table_says_what_its_intervals_are_statements_of(town: Deployment) -> None:
    average, counts = answered(town, AVERAGE), answered(town, BY_AGE)
    laws = [cell.statement for (cell,) in counts.cells]
    assert {law.law for law in laws if law is not None} == {"posterior"}
    assert average.cells[0][0].statement is not None
    assert average.cells[0][0].statement.law == "posterior"
    most = max(law.disagreements for law in laws if law is not None)
    statement = parse_statement(BY_AGE, PEOPLE, dataset="people")
    view = known_view(town.service(), "people", statement, query="")
    assert view.laws.startswith(f"Up to {most} disagreement")
    reply = town.web().post("/v1/datasets/people/sql", json={"sql": BY_AGE}).get_json()
    table = Table.of(reply["table"])
    assert f"Up to {most} disagreement" in "\n".join(table.notes())
    assert [c.statement and c.statement.error for (c,) in table.cells] == [
        law and law.error for law in laws
    ]


@pytest.mark.slow
def test_a_probability_in_a_table_says_its_law(town: Deployment) -> None:
    text = "SELECT PROBABILITY(COUNT(*) >= 30) FROM people WHERE age BETWEEN 20 AND 25"
    ((cell,),) = answered(town, text).cells
    assert cell.statement is not None
    assert (cell.statement.law, cell.statement.disagreements > 0) == ("posterior", True)
    reply = town.web().post("/v1/datasets/people/sql", json={"sql": text}).get_json()
    cost, law = Table.of(reply["table"]).notes()
    assert cost.startswith("cost 0")
    assert law.startswith("Up to ")


SHARE = (
    "SELECT COUNT_IF(age BETWEEN 20 AND 22) / COUNT_IF(age BETWEEN 20 AND 25) AS young FROM people "
    "WITHIN 0.5"
)


@pytest.mark.slow
def test_a_share_is_its_posterior_where_answers_disagree(town: Deployment) -> None:
    asked, again = answered(town, SHARE), answered(town, SHARE)
    ((cell,),), ((same,),) = asked.cells, again.cells
    assert again.charged_nano == explained(town, SHARE).price_nano == 0
    assert cell.value == same.value
    assert cell.statement is not None
    assert (cell.statement.law, cell.statement.disagreements > 0) == ("posterior", True)
    # As by the posterior of the numerator less an end times the denominator, at 0.
    service, missed = town.service(), list[float]()
    for end, far in ((cell.value.interval.low, -1), (cell.value.interval.high, 1)):
        assert end is not None
        over = service.parse("people", {"where": {"age": {"between": [20, 22]}}})
        under = service.parse("people", {"where": {"age": {"between": [20, 25]}}})
        query = over - under.scaled(Fraction(end))
        passed = service.insight.probability(
            "people", query, low=0.0 if far > 0 else -math.inf, high=math.inf if far > 0 else 0.0
        )
        missed.append(passed.probability)
    # The interval is as long to both sides as the farther end is off.
    assert 0.005 < sum(missed) <= 0.05
    statement = parse_statement(SHARE, PEOPLE, dataset="people")
    view = known_view(service, "people", statement, query="")
    assert view.answer.cells[0][0].value == cell.value


@pytest.mark.slow
def test_a_quotient_that_is_chosen_has_a_quarter_of_what_may_be_missed(town: Deployment) -> None:
    ((alone,),) = answered(town, SHARE).cells
    ((cell,),) = answered(town, f"{SHARE} AS LARGEST OF 4").cells
    assert cell.statement is not None
    assert alone.statement is not None
    assert (cell.statement.law, cell.after_looking) == ("posterior", None)
    assert cell.statement.disagreements == alone.statement.disagreements > 0
    ((strict,),) = answered(town, f"{SHARE} CONFIDENCE 0.9875").cells
    ends, same = cell.value.interval, strict.value.interval
    assert ends.low is not None
    assert ends.high is not None
    assert (ends.low, ends.high) == pytest.approx((same.low, same.high), abs=2e-3)
    assert ends.low < (alone.value.interval.low or 0) < (alone.value.interval.high or 0) < ends.high


@pytest.mark.slow
def test_quotients_of_a_table_say_what_holds_at_once_by_their_posteriors(town: Deployment) -> None:
    of = "COUNT_IF(age BETWEEN {} AND {}) / COUNT_IF(age BETWEEN 20 AND 25)"
    pairs = [of.format(20, 22), of.format(21, 24)]
    (cells,) = answered(town, f"SELECT {', '.join(pairs)} FROM people WITHIN 0.5").cells
    for cell, pair in zip(cells, pairs, strict=True):
        text = f"SELECT {pair} FROM people WITHIN 0.5 CONFIDENCE 0.975"
        ((strict,),) = answered(town, text).cells
        looked, same = cell.after_looking, strict.value.interval
        assert looked is not None
        assert looked.at_once == looked.largest == looked.least
        ends = [looked.at_once.low, looked.at_once.high]
        assert ends == pytest.approx([same.low, same.high], abs=2e-3)


@pytest.mark.slow
def test_an_extreme_is_by_the_law_of_the_noise_whatever_answers_disagree_about(
    town: Deployment,
) -> None:
    for age in range(20, 26):
        answered(town, f"SELECT COUNT(*) FROM people WHERE age <= {age} WITHIN 30 ONLY THIS")
    text = "SELECT MIN(age) FROM people WHERE age < 26 WITHIN 25"
    ((cell,),) = answered(town, text).cells
    assert cell.statement is not None
    assert cell.statement.law == "estimator"
    ((known,),) = explained(town, text).known
    assert known == cell.value.interval


@pytest.mark.slow
def test_a_count_beside_a_share_is_its_posterior(town: Deployment) -> None:
    share = SHARE.removeprefix("SELECT ").removesuffix(" WITHIN 0.5")
    found = answered(town, f"SELECT COUNT(*), {share} WHERE age < 26 WITHIN 30")
    count, ratio = (cell.statement for cell in found.cells[0])
    assert count is not None
    assert ratio is not None
    assert (count.law, ratio.law) == ("posterior", "posterior")
    assert count.disagreements > 0
