"""AT MOST: what a statement may be charged, which no job of it passes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from qserver.errors import AtMostError, BudgetExhaustedError, SqlError
from qserver.query.question import Question, Workload
from qserver.query.requirement import Requirement
from qserver.records.answer import Answer, JobStatus
from qserver.service.statements import Statements
from tests.deployment import Deployment
from tests.service.test_statements import answered, explained, remark_with, spent
from tests.until_tables import next_that_buys

COUNT = "SELECT COUNT(*) FROM people WHERE sex = 'Male' WITHIN 20"
AVERAGE = "SELECT AVG(age) FROM people WITHIN 0.1 ASSUMING AT LEAST 100"
DEVIATION = "SELECT STDDEV(age) FROM people WITHIN 0.5 ASSUMING AT LEAST 100"


@pytest.fixture
def town(tmp_path: Path, store_url: str) -> Deployment:
    return Deployment.make(tmp_path, store_url, limit="1000")


def test_a_count_that_costs_more_than_it_may_is_refused_with_its_price(town: Deployment) -> None:
    price = explained(town, COUNT).price_nano
    found = explained(town, f"{COUNT} AT MOST 0.01")
    assert (found.price_nano, found.affordable) == (price, False)
    with pytest.raises(AtMostError, match=r"and it may cost 0\.01 \(AT MOST\)") as refused:
        answered(town, f"{COUNT} AT MOST 0.01")
    assert (refused.value.price_nano, refused.value.remaining_nano) == (price, 10**7)
    assert spent(town) == 0
    answered(town, f"{COUNT} AT MOST {price / 1e9:.9f}")
    assert spent(town) == price
    # What history answers costs nothing, and may cost next to nothing.
    answered(town, f"{COUNT} AT MOST 0.000001")


@pytest.mark.limit("over_at_most")
def test_every_face_names_what_it_may_cost(town: Deployment) -> None:
    text = f"{COUNT} AT MOST 0.01"
    with pytest.raises(AtMostError):
        answered(town, text)
    found = Statements(town.service()).run("people", text, wait_s=0)
    assert not isinstance(found, Answer)
    town.work_off()
    job = town.web().get(f"/v1/jobs/{found.id}").get_json()
    assert job["problem"]["code"] == "over_at_most"
    assert (job["problem"]["at_most"], job["problem"]["free"]) == (0.01, None)


@pytest.mark.slow
def test_what_may_be_charged_replaces_the_quote_of_a_statement_in_steps(
    tmp_path: Path, store_url: str
) -> None:
    """Its worst case is far above the limit, and what it takes far below."""
    town = Deployment.make(tmp_path, store_url, limit="0.5")
    with pytest.raises(BudgetExhaustedError, match="Or add AT MOST and a number of epsilon"):
        answered(town, DEVIATION)
    found = explained(town, f"{DEVIATION} AT MOST 0.4")
    assert (found.price_nano, found.affordable) == (400_000_000, True)
    [[cell]] = answered(town, f"{DEVIATION} AT MOST 0.4").cells
    assert cell.value.interval.low is not None
    assert cell.value.interval.high is not None
    assert cell.value.interval.high - cell.value.interval.low <= 1.0
    assert spent(town) <= 400_000_000


@pytest.mark.slow
@pytest.mark.parametrize("most", ["0.02", "0.1"])
def test_steps_stop_at_what_they_may_cost_and_say_what_was_reached(
    town: Deployment, most: str
) -> None:
    found = answered(town, f"{AVERAGE} AT MOST {most}")
    assert 0 < spent(town) <= float(most) * 1e9
    remark_with(found, "longer than asked")
    before = spent(town)
    answered(town, f"{AVERAGE} AT MOST {most}")
    assert spent(town) == before
    # Who allows more is answered further.
    answered(town, f"{AVERAGE} AT MOST 900")
    assert spent(town) > before


@pytest.mark.slow
def test_a_statement_that_may_cost_less_than_its_first_step_is_refused(town: Deployment) -> None:
    with pytest.raises(AtMostError):
        answered(town, f"{AVERAGE} AT MOST 0.0001")
    assert spent(town) == 0


@pytest.mark.slow
def test_nothing_is_bought_for_later_where_that_would_pass_what_may_be_charged(
    tmp_path: Path, store_url: str
) -> None:
    """The plan that buys a table costs more; the question alone is measured in its place."""
    town = Deployment.make(tmp_path, store_url, limit="1000", phi=0.4)
    where = next_that_buys(town)
    service = town.service()
    question = Question(service.parse("people", {"where": where}), Requirement(40, 0.95))
    wide = service.explain("people", Question(question.query, question.requirement))
    alone = wide.measure.only_this_nano
    assert alone < wide.price_nano
    found = service.ask_workload("people", Workload((question,)), wait_s=0, most_nano=alone)
    before = spent(town)
    town.work_off()
    assert town.service().job(found.id).problem is None
    assert spent(town) - before <= alone


@pytest.mark.parametrize(
    ("clause", "why"),
    [
        ("AT MOST 0", "a number > 0 of epsilon after AT MOST"),
        ("AT MOST", "after AT MOST"),
        ("AT MOST 1 AT MOST 2", "say AT MOST once"),
    ],
)
def test_what_may_be_charged_is_one_number_above_nothing(
    town: Deployment, clause: str, why: str
) -> None:
    with pytest.raises(SqlError, match=why):
        explained(town, f"{COUNT} {clause}")


def test_a_job_is_shared_by_those_alone_who_need_the_same_of_it(town: Deployment) -> None:
    """Whoever needs no posterior is not given the job of one who does, nor one of another cap."""
    whole = town.workload([{"sex": "Male"}, {"sex": "Female"}])
    others = [whole, replace(whole, for_quotients=(0,)), replace(whole, as_drawn=True)]
    jobs = [town.submit_workload(one) for one in (*others, whole)]
    assert all(isinstance(job, JobStatus) for job in jobs)
    assert len({job.id for job in jobs if isinstance(job, JobStatus)}) == len(others)
    capped = town.service().ask_workload("people", whole, wait_s=0, most_nano=10**9)
    assert isinstance(capped, JobStatus)
    assert capped not in jobs
