"""Statements that are sent again: nothing is computed anew as long as nothing has changed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from qserver.answering import decide
from qserver.answering.replica import Replica
from qserver.answering.smooth_numbers import KnownParts, SmoothOf, known_parts
from qserver.errors import IdempotencyError
from qserver.inference.engine import InferenceEngine
from qserver.query.question import Question, Workload
from qserver.query.requirement import Requirement
from qserver.query.sql.parser import parse_statement
from qserver.query.sql.statement import Statement
from qserver.records.answer import Answer, JobStatus, WorkloadAnswer, WorkloadExplanation
from qserver.service import ask
from qserver.service.ask import Idempotency
from qserver.service.cache import smooth_numbers as numbers
from qserver.service.cache import statements as kept
from qserver.service.service import Service
from qserver.service.statement_answers import StatementAnswer, StatementExplanation
from qserver.service.statements import Statements
from qserver.storage.keys import Keys
from qserver.storage.server.connection import StoreClient
from tests.deployment import Deployment

BY_SEX = "SELECT sex, COUNT(*) FROM people GROUP BY sex WITHIN 20"
Run = Callable[..., StatementAnswer | StatementExplanation]


@pytest.fixture
def town(tmp_path: Path, store_url: str) -> Deployment:
    return Deployment.make(tmp_path, store_url, limit="100")


@pytest.fixture
def service(town: Deployment) -> Service:
    """One process, which the statement was asked of: it is paid for."""
    found = town.service()
    Statements(found).run("people", BY_SEX, wait_s=0)
    town.work_off()
    return found


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts of statements that are computed."""
    texts, compute = list[str](), Statements._run

    def noted(statements: Statements, asked: Any, **more: Any) -> Any:
        texts.append(asked.text)
        return compute(statements, asked, **more)

    monkeypatch.setattr(Statements, "_run", noted)
    return texts


def run(service: Service, text: str = BY_SEX, **more: Any) -> Any:
    return Statements(service).run("people", text, wait_s=0, **more)


def test_what_was_answered_for_nothing_is_not_computed_again(
    service: Service, computed: list[str]
) -> None:
    first = run(service)
    assert isinstance(first, StatementAnswer)
    assert first.charged_nano == 0
    assert run(service) is first
    assert run(service, idempotency=Idempotency("new", "body")) is first
    assert computed == [BY_SEX]
    other = run(service, BY_SEX.replace("20", "25"))
    assert isinstance(other, StatementAnswer)
    assert len(computed) == 2


def test_what_history_says_anew_is_computed_anew(
    town: Deployment, service: Service, computed: list[str]
) -> None:
    before = run(service)
    town.ask({"sex": "Male"}, length=10)
    after = run(service)
    assert len(computed) == 2
    assert after.version > before.version
    [male] = [
        cells
        for row, cells in zip(after.asked.statement.rows, after.cells, strict=True)
        if row.group == ("Male",)
    ]
    assert male[0].value.interval.high - male[0].value.interval.low <= 10


def test_what_was_charged_is_not_said_twice(town: Deployment, computed: list[str]) -> None:
    service, key = town.service(), Idempotency("k", "body")
    run(service, idempotency=key)
    town.work_off()
    paid = run(service, idempotency=key)
    assert paid.charged_nano > 0
    assert run(service).charged_nano == 0
    assert run(service).charged_nano == 0
    assert len(computed) == 3
    # Under its key it says what it was charged, whatever is kept.
    assert run(service, idempotency=key).charged_nano == paid.charged_nano


def test_what_is_free_binds_no_key_and_what_may_be_charged_does(
    town: Deployment, redis_client: StoreClient
) -> None:
    service, key = town.service(), Idempotency("k", "body")
    query, requirement = service.parse("people", {"where": {}}), Requirement(40.0, 0.95)
    bound = Keys("town").idempotency("people", "k")
    town.ask({}, length=40)
    free = service.ask("people", Question(query, requirement), wait_s=0, idempotency=key)
    assert isinstance(free, Answer)
    assert not redis_client.exists(bound)
    shorter = Requirement(30.0, 0.95)
    job = service.ask("people", Question(query, shorter), wait_s=0, idempotency=key)
    assert isinstance(job, JobStatus)
    town.work_off()
    paid = service.ask("people", Question(query, shorter), wait_s=0, idempotency=key)
    assert isinstance(paid, Answer)
    assert paid.charged_nano > 0
    with pytest.raises(IdempotencyError):
        service.ask(
            "people", Question(query, shorter), wait_s=0, idempotency=Idempotency("k", "other")
        )


def test_a_price_is_kept_for_nobody_in_particular(service: Service, computed: list[str]) -> None:
    text = BY_SEX.replace("20", "10")
    first = run(service, text, explain=True)
    assert isinstance(first, StatementExplanation)
    assert run(service, text, explain=True) is first
    for _ in range(2):
        assert run(service, text, explain=True, by="ann") is not first
    assert len(computed) == 3


WORKLOAD = {
    "questions": [
        {"query": {"where": {"sex": sex}}, "length": 40, "confidence": 0.95}
        for sex in ("Female", "Male")
    ]
}


@pytest.fixture
def workloads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many questions each workload asks that is computed."""
    sizes, compute = list[int](), Service.ask_workload

    def noted(service: Service, name: str, workload: Workload, **more: Any) -> Any:
        sizes.append(len(workload.questions))
        return compute(service, name, workload, **more)

    monkeypatch.setattr(Service, "ask_workload", noted)
    return sizes


def test_a_known_workload_over_http_is_computed_once_and_under_new_keys_too(
    town: Deployment, service: Service, workloads: list[int]
) -> None:
    assert service.state("people").n_shown
    web, path = town.web(), "/v1/datasets/people/workload"
    first = web.post(path, json=WORKLOAD)
    replies = [web.post(path, json=WORKLOAD, headers={"Idempotency-Key": k}) for k in "abab"]
    assert {reply.data for reply in replies} == {first.data}
    assert first.json is not None
    assert first.json["epsilon_charged"] == 0
    assert len(workloads) == 1


def test_a_workload_is_computed_anew_once_anything_was_bought(
    town: Deployment, service: Service, workloads: list[int]
) -> None:
    assert service.state("people").n_shown
    web, path = town.web(), "/v1/datasets/people/workload"
    before = web.post(path, json=WORKLOAD).json
    town.ask({"sex": "Male"}, length=10)
    after = web.post(path, json=WORKLOAD).json
    assert before is not None
    assert after is not None
    assert len(workloads) == 2
    assert after["epsilon_remaining"] < before["epsilon_remaining"]


def test_what_a_workload_was_charged_under_a_key_is_said_again_under_it(
    town: Deployment, workloads: list[int]
) -> None:
    web, path, key = town.web(), "/v1/datasets/people/workload", {"Idempotency-Key": "k"}
    assert web.post(path, json=WORKLOAD, headers=key).status_code == 202
    town.work_off()
    free = [web.post(path, json=WORKLOAD).json for _ in range(2)]
    paid = web.post(path, json=WORKLOAD, headers=key).json
    assert paid is not None
    assert paid["epsilon_charged"] > 0
    assert [found and found["epsilon_charged"] for found in free] == [0, 0]
    assert len(workloads) == 3


def test_the_table_of_a_form_is_computed_once_for_a_state(
    town: Deployment, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    computed, compute = list[str](), Service.free_workload

    def noted(asked: Service, name: str, workload: Workload, **more: Any) -> Any:
        computed.append(name)
        return compute(asked, name, workload, **more)

    monkeypatch.setattr(Service, "free_workload", noted)
    assert service.state("people").n_shown
    web, fields = town.web(), urlencode({"text": BY_SEX, "length": "40", "confidence": "95"})
    page = f"/portal/datasets/people/answer?{fields}"
    first, again = web.get(page), web.get(page)
    assert first.status_code == 200
    assert again.data == first.data
    assert len(computed) == 1
    other = web.get(page.replace("length=40", "length=50"))
    assert other.status_code == 200
    assert len(computed) == 2
    town.ask({"sex": "Male"}, length=10)
    assert web.get(page).data != first.data
    assert len(computed) == 3


def test_what_was_bought_is_computed_by_no_process_again(
    town: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever process saw its job; once anything else is bought, history says it anew."""
    asker = town.service()
    job = run(asker)
    town.work_off()
    bought = asker.job(job.id).result
    assert isinstance(bought, WorkloadAnswer)
    assert bought.charged_nano > 0
    with monkeypatch.context() as patched:
        for name in ("to_answer", "still_to_do"):
            patched.setattr(ask, name, lambda *_: pytest.fail("computed again"))
        for service in (asker, town.service()):
            found = run(service)
            assert isinstance(found, StatementAnswer)
            assert found.charged_nano == 0
            assert {cell.source for (cell,) in found.cells} == {"history"}
            shown = [cell.value.estimate for (cell,) in found.cells]
            assert shown == [one.estimate for one in bought.answers]
    town.ask({"sex": "Male"}, length=10)
    with monkeypatch.context() as patched:
        computed = list[object]()
        answer = decide.to_answer
        patched.setattr(ask, "to_answer", lambda *of: computed.append(of) or answer(*of))
        later = run(town.service())
    assert computed
    assert later.version > bought.version
    assert later.charged_nano == 0


@pytest.mark.slow
def test_the_draws_of_a_statement_serve_all_of_its_numbers(
    town: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By themselves, after looking at all of them, and in its steps."""
    text = "SELECT sex, AVG(age) FROM people GROUP BY sex WITHIN 2 ASSUMING AT LEAST 100"
    drawn = list[int]()

    def counted(engine: InferenceEngine, ones: Sequence[SmoothOf], *, seed: str) -> KnownParts:
        drawn.append(len(ones))
        return known_parts(engine, ones, seed=seed)

    while isinstance(run(town.service(), text), JobStatus):
        town.work_off()
    monkeypatch.setattr(numbers, "known_parts", counted)
    found = run(town.service(), text)
    assert isinstance(found, StatementAnswer)
    assert found.charged_nano == 0
    assert len(drawn) == 1
    assert drawn[0] == len(found.cells) > 1


def test_a_workload_is_planned_once_for_its_price_in_one_state(
    town: Deployment, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another length, and a state in which something was bought, are planned anew."""
    planned, plan = list[Workload](), Replica.plan_workload

    def noted(replica: Replica, workload: Workload, **more: Any) -> Any:
        planned.append(workload)
        return plan(replica, workload, **more)

    monkeypatch.setattr(Replica, "plan_workload", noted)

    def explained(length: float, by: Service = service) -> WorkloadExplanation:
        queries = [by.parse("people", {"where": {"age": age}}) for age in (21, 22, 23)]
        asked = Workload(tuple(Question(q, Requirement(length, 0.95)) for q in queries))
        return by.explain_workload("people", asked)

    first, n_plans = explained(20), len(planned)
    assert (explained(20), len(planned)) == (first, n_plans)
    assert explained(10).price_nano > first.price_nano
    assert len(planned) == 2 * n_plans
    town.ask({"age": 21}, length=15)
    later = explained(20)
    # A curve of prices takes more plans, and is left out where one takes long.
    n_later = len(planned) - 2 * n_plans
    assert (explained(20, town.service()), len(planned)) == (later, 2 * n_plans + 2 * n_later)
    assert n_later > 0
    assert later.version > first.version


def test_a_text_is_read_once_whatever_is_bought_meanwhile(
    town: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, service = list[str](), town.service()

    def counted(text: str, *args: Any, **more: Any) -> Statement:
        read.append(text)
        return parse_statement(text, *args, **more)

    monkeypatch.setattr(kept, "parse_statement", counted)
    text = "SELECT sex, COUNT(*) FROM people GROUP BY sex WITHIN 40"
    for bought in (text, "SELECT COUNT(*) FROM people WITHIN 30"):
        Statements(service).run("people", bought, wait_s=0)
        town.work_off()
        Statements(service).run("people", text, wait_s=0)
    assert read.count(text) == 1
