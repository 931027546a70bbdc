"""Workloads that history answers, and whose laws take long: jobs, like what is measured."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from qserver.portal import numbers
from qserver.query.question import Workload
from qserver.records.answer import JobStatus, WorkloadAnswer
from qserver.service import ask
from qserver.service.service import Service
from qserver.service.statement_answers import StatementAnswer
from qserver.service.statements import Statements
from qserver.storage.keys import Keys
from qserver.storage.server.connection import StoreClient
from qserver.storage.store import Store
from tests.deployment import Deployment
from tests.service.test_statements import answered as by_itself

AGES = [{"age": {"between": [20, 22]}}, {"age": {"between": [23, 25]}}]


@pytest.fixture
def town(tmp_path: Path, store_url: str, monkeypatch: pytest.MonkeyPatch) -> Deployment:
    """Three released counts that disagree, and laws that are taken for slow."""
    found = Deployment.make(tmp_path, store_url, limit="100")
    for ends in ("20 AND 25", "20 AND 22", "23 AND 25"):
        by_itself(
            found, f"SELECT COUNT(*) FROM people WHERE age BETWEEN {ends} WITHIN 10 ONLY THIS"
        )
    monkeypatch.setattr(ask, "_LAWS_A_SECOND", 1.0)
    return found


@pytest.fixture
def asked(town: Deployment) -> Workload:
    return town.workload(AGES, length=30)


def answered(
    service: Service, asked: Workload, *, wait_s: float = 0.0
) -> WorkloadAnswer | JobStatus:
    return service.ask_workload("people", asked, wait_s=wait_s)


def here(town: Deployment, asked: Workload, monkeypatch: pytest.MonkeyPatch) -> WorkloadAnswer:
    """What a process computes by itself."""
    with monkeypatch.context() as patched:
        patched.setattr(ask, "_LAWS_A_SECOND", math.inf)
        found = answered(town.service(), asked)
    assert isinstance(found, WorkloadAnswer)
    return found


def test_what_takes_long_is_a_job_and_then_the_same_free_answer_for_every_process(
    town: Deployment, asked: Workload, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = town.service().dataset("people")
    job = answered(town.service(), asked)
    assert isinstance(job, JobStatus)
    # One job for all who ask the same.
    again = answered(town.service(), asked)
    assert isinstance(again, JobStatus)
    assert again.id == job.id
    town.work_off()
    monkeypatch.setattr(ask, "to_answer", lambda *_: pytest.fail("computed again"))
    found = answered(town.service(), asked)
    assert isinstance(found, WorkloadAnswer)
    assert found.charged_nano == 0
    assert {one.source for one in found.answers} == {"history"}
    assert any(one.statement.disagreements for one in found.answers)
    assert town.service().dataset("people").spent_nano == before.spent_nano
    monkeypatch.undo()
    alone = here(town, asked, monkeypatch)
    for one, other in zip(found.answers, alone.answers, strict=True):
        assert [one.estimate, one.low, one.high] == pytest.approx(
            [other.estimate, other.low, other.high], abs=1e-9
        )


def test_whoever_waits_long_enough_is_answered_at_once(town: Deployment, asked: Workload) -> None:
    assert isinstance(answered(town.service(), asked, wait_s=60.0), WorkloadAnswer)


def test_a_process_with_a_bound_lets_a_worker_compute_however_long_its_asker_waits(
    town: Deployment, asked: Workload, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two laws; whoever waits sees the worker work."""
    monkeypatch.setattr(Store, "bound", lambda *_, **__: "")  # it finds nothing shared
    worked = list[float]()

    def sleep(seconds: float) -> None:
        if not worked:
            town.work_off()
        worked.append(seconds)

    def service(most_laws: float) -> Service:
        store = Store.open(town.settings)
        return Service(store, town.settings, most_laws=most_laws, sleep=sleep)

    assert isinstance(answered(service(2.0), asked, wait_s=60.0), WorkloadAnswer)
    assert not worked
    assert isinstance(answered(service(1.0), asked, wait_s=60.0), WorkloadAnswer)
    assert worked


def test_without_a_worker_it_is_answered_at_once(
    town: Deployment, asked: Workload, redis_client: StoreClient
) -> None:
    redis_client.delete(Keys("town").alive)
    assert isinstance(answered(town.service(), asked), WorkloadAnswer)


def test_a_job_that_failed_keeps_nobody_from_the_answer(
    town: Deployment, asked: Workload, redis_client: StoreClient
) -> None:
    job = answered(town.service(), asked)
    assert isinstance(job, JobStatus)
    redis_client.hset(Keys("town").job(job.id), "state", "failed")
    assert isinstance(answered(town.service(), asked), WorkloadAnswer)


@pytest.mark.slow
def test_an_answer_of_an_earlier_state_is_not_taken_for_that_of_a_later_one(
    town: Deployment, asked: Workload
) -> None:
    answered(town.service(), asked)
    town.work_off()
    first = answered(town.service(), asked)
    town.ask(AGES[0], length=5)
    assert isinstance(answered(town.service(), asked), JobStatus)
    town.work_off()
    later = answered(town.service(), asked)
    assert isinstance(first, WorkloadAnswer)
    assert isinstance(later, WorkloadAnswer)
    assert later.version > first.version
    assert later.remaining_nano < first.remaining_nano


def test_accounts_have_jobs_of_their_own(town: Deployment, asked: Workload) -> None:
    """A job is shown to the account that asked, and to owners."""
    jobs = [town.service().ask_workload("people", asked, wait_s=0, by=by) for by in ("ann", "bob")]
    ids = {job.id for job in jobs if isinstance(job, JobStatus)}
    assert len(ids) == 2


BOTH = "SELECT COUNT_IF(age BETWEEN 20 AND 22), COUNT_IF(age BETWEEN 23 AND 25) FROM people"


def run(service: Service, text: str, *, wait_s: float) -> Any:
    return Statements(service).run("people", text, wait_s=wait_s)


def values(found: StatementAnswer) -> list[float | None]:
    numbers = [cell.value for row in found.cells for cell in row]
    return [x for n in numbers for x in (n.estimate, n.interval.low, n.interval.high)]


def test_a_statement_without_a_length_is_a_job_where_it_takes_long(
    town: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its numbers are as exact as they are known, however long that is."""
    before = town.service().dataset("people")
    job = run(town.service(), BOTH, wait_s=0.0)
    assert isinstance(job, JobStatus)
    town.work_off()
    found = run(town.service(), BOTH, wait_s=0.0)
    assert isinstance(found, StatementAnswer)
    assert town.service().dataset("people").spent_nano == before.spent_nano
    monkeypatch.setattr(ask, "_LAWS_A_SECOND", math.inf)
    assert values(found) == pytest.approx(values(run(town.service(), BOTH, wait_s=0.0)), abs=1e-9)


def test_a_statement_without_a_length_is_answered_where_its_asker_waits(town: Deployment) -> None:
    assert isinstance(run(town.service(), BOTH, wait_s=60.0), StatementAnswer)


@pytest.mark.slow
def test_a_page_of_a_table_that_takes_long_leads_to_its_job(
    town: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    fields = urlencode({"text": f"{BOTH} WITHIN 15", "length": "30", "confidence": "95"})
    page = f"/portal/datasets/people/answer?{fields}"
    web = town.web()
    sent = web.get(page)
    assert sent.status_code == 303
    assert sent.location.startswith("/portal/jobs/")
    town.work_off()
    shown = web.get(sent.location)
    assert shown.status_code == 200
    # What the job computed is not computed again by another process.
    monkeypatch.setattr(ask, "to_answer", lambda *_: pytest.fail("computed again"))
    assert town.web().get(page).status_code == 200
    monkeypatch.undo()
    monkeypatch.setattr(ask, "_LAWS_A_SECOND", math.inf)
    assert town.web().get(page).status_code == 200


def test_a_page_shows_the_table_that_was_just_bought_by_sql(
    town: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker computed its laws, and this process kept them: nobody computes them again."""
    store, text = Store.open(town.settings), f"{BOTH} WITHIN 5"

    def sleep(_: float) -> None:
        town.work_off()

    service = Service(store, town.settings, sleep=sleep)
    bought = run(service, text, wait_s=60.0)
    assert isinstance(bought, StatementAnswer)
    assert bought.charged_nano > 0
    monkeypatch.setattr(ask, "still_to_do", lambda *_: pytest.fail("left to a job again"))
    monkeypatch.setattr(ask, "to_answer", lambda *_: pytest.fail("computed again"))
    fields = urlencode({"text": text, "confidence": "95"})
    shown = town.web(service).get(f"/portal/datasets/people/answer?{fields}")
    assert shown.status_code == 200
    estimate = bought.cells[0][0].value.estimate
    assert estimate is not None
    assert numbers.number(estimate, 1) in shown.get_data(as_text=True)
