"""Paid answers that are longer than asked are refined, for their price again at most."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from qserver.errors import NotFoundError
from qserver.query.asking.after_looking import Selection
from qserver.query.question import Question, Workload
from qserver.query.requirement import Requirement
from qserver.query.sql.parser import parse_statement
from qserver.records.answer import Answer, Explanation, JobStatus, WorkloadAnswer
from qserver.service.ask import Idempotency
from qserver.service.cells.answer_cells import step_of
from qserver.service.statements import Statements
from qserver.storage.encoding.jobs import JobRecord, answer_from_json
from qserver.storage.encoding.queued_requests import Request, Tightened
from qserver.storage.keys import MOST_ROUNDS, Keys, all_rounds, next_round
from qserver.storage.queue import Taken
from qserver.storage.server.connection import StoreClient
from qserver.storage.store import Store
from tests.deployment import LOG, PEOPLE, ROWS, Deployment
from tests.statistical.test_noise import SeededEntropy
from tests.worker.crashes import STEPS, Crash, crashing
from worker.owner.restore import restore
from worker.spending.group import job_ends
from worker.spending.spend import Spender

TABLES = (
    "SELECT age, COUNT(*) FROM people GROUP BY age WITHIN 20 ONLY THIS",
    "SELECT age, sex, COUNT(*) FROM people GROUP BY age, sex WITHIN 30 ONLY THIS",
)
FEW = replace(
    PEOPLE,
    attributes=(
        replace(PEOPLE.attributes[0], edges=PEOPLE.attributes[0].edges[:5]),
        PEOPLE.attributes[1],
    ),
)
"""Four ages, so that all is quick."""
SOME: dict[str, object] = {"age": {"between": [21, 22]}}
LENGTH, LONGER = 30.0, 1.2
"""With the noise of the first seed the answer is drawn more than so many times as long as asked."""
SEED, SEED_OF_TABLE = 1, 1


@pytest.fixture
def town(tmp_path: Path, store_url: str) -> Deployment:
    rows = [(20 + i % 4, sex) for i, (_, sex) in enumerate(ROWS)]
    return Deployment.make(tmp_path, store_url, limit="100", domain=FEW, rows=rows)


@pytest.fixture
def noisy(town: Deployment) -> Spender:
    """A worker whose noise makes two tables disagree."""
    found = town.spender(trusted=replace(town.trusted(), entropy=SeededEntropy(SEED)))
    buy_tables(town, found)
    return found


def buy_tables(town: Deployment, spender: Spender) -> None:
    """Buy them without their posteriors, which nobody needs here."""
    for text in TABLES:
        service, statement = town.service(), parse_statement(text, FEW, dataset="people")
        step = step_of(Statements(service).asked("people", statement))
        service.ask_workload("people", step, wait_s=0)
        town.work_off(spender)


def asked(town: Deployment) -> str:
    found = town.submit(SOME, length=LENGTH)
    assert isinstance(found, JobStatus)
    return found.id


def explained(town: Deployment) -> Explanation:
    service = town.service()
    query = service.parse("people", {"where": SOME})
    return service.explain("people", Question(query, Requirement(LENGTH, 0.95)))


def own(town: Deployment, job: str) -> JobRecord | None:
    try:
        return Store.open(town.settings).own_job(job)
    except NotFoundError:
        return None


def spent_nano(town: Deployment) -> int:
    return town.service().dataset("people").spent_nano


def length_of(status: JobStatus) -> float:
    assert isinstance(status.result, Answer), status
    return status.result.high - status.result.low


def first_round(town: Deployment, spender: Spender) -> str:
    """A job whose own answer is there, and the job that refines it waits."""
    job, writer = asked(town), town.writer()
    taken = writer.queue.take(["town"], consumer="test", block_ms=None)
    lease = writer.acquire("town")
    assert taken is not None
    assert lease is not None
    assert spender.work(lease, [taken]) == []
    writer.release(lease)
    return job


@pytest.mark.slow
def test_an_answer_is_refined_until_it_is_as_short_as_asked(
    town: Deployment, noisy: Spender
) -> None:
    before, quote = spent_nano(town), explained(town)
    job = asked(town)
    town.work_off(noisy)
    status = town.service().job(job)
    assert (status.id, status.state) == (job, "done")
    assert length_of(status) <= LENGTH
    assert isinstance(status.result, Answer)
    assert status.result.remarks == ()
    assert quote.price_nano < status.result.charged_nano <= quote.most_nano
    assert status.result.charged_nano == spent_nano(town) - before
    assert quote.most_nano == 2 * quote.price_nano
    rounds = [found for one in all_rounds(job) if (found := own(town, one))]
    assert len(rounds) > 1
    assert {one.state for one in rounds} == {"done"}
    again = town.ask(SOME, length=LENGTH)
    assert again.charged_nano == 0
    assert again.high - again.low <= LENGTH


@pytest.mark.slow
def test_the_asker_waits_for_all_rounds(town: Deployment, noisy: Spender) -> None:
    job = first_round(town, noisy)
    store = Store.open(town.settings)
    first = own(town, job)
    assert first is not None
    assert first.state == "done"
    assert store.job(job).state == store.job_state(job) == "running"
    assert store.job(job).result is None
    assert store.ended([job]) == set()
    town.work_off(noisy)
    assert store.ended([job]) == {job}
    assert length_of(town.service().job(job)) <= LENGTH


@pytest.mark.slow
def test_a_request_sent_again_under_its_key_gets_the_refined_answer(
    town: Deployment, noisy: Spender
) -> None:
    service, key = town.service(), Idempotency("k", "body")
    query, requirement = service.parse("people", {"where": SOME}), Requirement(LENGTH, 0.95)
    first = service.ask("people", Question(query, requirement), wait_s=0, idempotency=key)
    assert isinstance(first, JobStatus)
    town.work_off(noisy)
    found = town.service().ask("people", Question(query, requirement), wait_s=1, idempotency=key)
    assert isinstance(found, Answer)
    assert found == town.service().job(first.id).result


@pytest.mark.slow
def test_no_round_passes_what_was_quoted(
    town: Deployment, noisy: Spender, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the quote leaves a nano for it, the answer stays, and says what the rest costs."""
    monkeypatch.setattr(job_ends, "room_nano", lambda *_, **__: 1)
    before, price = spent_nano(town), explained(town).price_nano
    job = asked(town)
    town.work_off(noisy)
    found, refused = town.service().job(job), own(town, next_round(job))
    assert refused is not None
    assert refused.problem is not None
    assert "over_at_most" in refused.problem
    assert length_of(found) > LENGTH * LONGER
    assert isinstance(found.result, Answer)
    assert found.result.charged_nano == price == spent_nano(town) - before
    assert "longer than asked" in found.result.remarks[0]
    assert found.result.rest_nano


@pytest.mark.slow
def test_history_may_answer_a_round_for_nothing(town: Deployment, noisy: Spender) -> None:
    job = first_round(town, noisy)
    charged = own(town, job)
    assert charged is not None
    waiting = town.writer().queue.take(["town"], consumer="later", block_ms=None)
    assert waiting is not None
    assert waiting.job == next_round(job)
    town.ask(SOME, length=5)
    before = spent_nano(town)
    writer = town.writer()
    lease = writer.acquire("town")
    assert lease is not None
    assert town.spender().work(lease, [waiting]) == []
    writer.release(lease)
    found = town.service().job(job)
    assert length_of(found) <= LENGTH
    assert isinstance(found.result, Answer)
    assert spent_nano(town) == before
    assert found.result.charged_nano == charge_of(charged)
    assert found.result.source == "measured"


def charge_of(record: JobRecord) -> int:
    assert record.result is not None
    return answer_from_json(record.result).charged_nano


@pytest.mark.slow
def test_a_table_is_refined_as_a_whole_and_its_first_paid_number_bears_the_price(
    town: Deployment,
) -> None:
    noisy = town.spender(trusted=replace(town.trusted(), entropy=SeededEntropy(SEED_OF_TABLE)))
    buy_tables(town, noisy)
    service = town.service()
    questions = tuple(
        Question(service.parse("people", {"where": where}), Requirement(LENGTH, 0.95))
        for where in (SOME, {"sex": "Male"}, {"age": {"at_least": 99}})  # the last is exact
    )
    price = service.explain_workload("people", Workload(questions))
    before = spent_nano(town)
    job = service.ask_workload("people", Workload(questions), wait_s=0)
    assert isinstance(job, JobStatus)
    town.work_off(noisy)
    found = town.service().job(job.id).result
    assert isinstance(found, WorkloadAnswer)
    assert own(town, next_round(job.id)) is not None
    assert all(one.high - one.low <= LENGTH for one in found.answers)
    assert price.price_nano < found.charged_nano <= price.most_nano
    assert found.charged_nano == spent_nano(town) - before
    assert sum(one.charged_nano for one in found.answers) == found.charged_nano


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["together", "chosen", "as drawn"])
def test_what_is_longer_for_another_reason_is_not_refined(
    town: Deployment, noisy: Spender, kind: str
) -> None:
    service = town.service()
    questions = tuple(
        Question(service.parse("people", {"where": where}), Requirement(LENGTH, 0.95))
        for where in (SOME, {"sex": "Male"})
    )
    workload = {
        "together": Workload(questions, simultaneous=True),
        "chosen": Workload(questions, selected_from=Selection(2)),
        "as drawn": Workload(questions, as_drawn=True),
    }[kind]
    quote = service.explain_workload("people", workload)
    assert quote.most_nano == quote.price_nano > 0
    job = service.ask_workload("people", workload, wait_s=0)
    assert isinstance(job, JobStatus)
    town.work_off(noisy)
    assert own(town, next_round(job.id)) is None


def test_the_first_question_of_a_history_costs_what_is_quoted(town: Deployment) -> None:
    quote = explained(town)
    assert quote.most_nano == quote.price_nano > 0


@pytest.mark.slow
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("after", [False, True])
def test_a_round_that_dies_is_finished_or_burnt_and_the_answer_stays(
    town: Deployment,
    noisy: Spender,
    redis_client: StoreClient,
    step: tuple[str, int],
    *,
    after: bool,
) -> None:
    job, before = first_round(town, noisy), spent_nano(town)
    crashing(noisy, step[0], after=after)
    with pytest.raises(Crash):
        town.work_off(noisy)
    redis_client.delete(Keys("town").lease)
    town.work_off()
    found = town.service().job(job)
    assert found.state == "done"
    round_ = own(town, next_round(job))
    assert round_ is not None
    assert round_.state in ("done", "failed")
    assert isinstance(found.result, Answer)
    if round_.state == "failed":  # charged, never drawn
        assert length_of(found) > LENGTH * LONGER
    else:  # what another worker finishes has no more rounds
        assert length_of(found) < LENGTH * LONGER
        assert spent_nano(town) > before


@pytest.mark.slow
@pytest.mark.parametrize("after", [False, True])
def test_a_job_that_dies_at_its_end_is_refined_once(
    town: Deployment, noisy: Spender, redis_client: StoreClient, *, after: bool
) -> None:
    job = asked(town)
    crashing(noisy, "_writer.endings.show", after=after)
    with pytest.raises(Crash):
        town.work_off(noisy)
    redis_client.delete(Keys("town").lease)
    town.work_off(town.spender(trusted=replace(town.trusted(), entropy=SeededEntropy(1))))
    found = town.service().job(job)
    assert length_of(found) <= LENGTH
    rounds = [done for one in all_rounds(job) if (done := own(town, one))]
    assert len(rounds) > 1


@pytest.mark.slow
def test_a_store_that_lost_everything_has_the_refined_answer_again(
    town: Deployment, noisy: Spender, redis_client: StoreClient
) -> None:
    job = asked(town)
    town.work_off(noisy)
    before, spent = town.service().job(job), spent_nano(town)
    redis_client.flushall()
    assert restore(
        town.settings,
        registry=town.registry,
        accept_loss=(),
        log=LOG,
        say=lambda _text: None,
    )
    town.writer().queue.beat(["town"], worker="test", ttl_ms=600_000)
    found = town.service().job(job)
    assert length_of(found) <= LENGTH
    assert isinstance(found.result, Answer)
    assert isinstance(before.result, Answer)
    assert found.result.charged_nano == before.result.charged_nano
    assert spent_nano(town) == spent
    town.work_off()
    assert spent_nano(town) == spent


def test_a_request_says_what_it_refines_and_others_are_as_ever(town: Deployment) -> None:
    query = town.service().parse("people", {"where": SOME})
    plain = Request("people", "s", Question(query, Requirement(LENGTH, 0.95)), "ann")
    assert "tightened" not in plain.to_json()
    found = replace(plain, tightened=Tightened((20.5,), ("measured",), 7, 9))
    assert Request.from_json(found.to_json()) == found
    [planned] = found.to_plan.questions
    assert planned.requirement == Requirement(20.5, 0.95)
    assert planned.measure == "only_this"
    assert plain.to_plan == plain.asked


def test_the_rounds_of_a_job_are_few_and_have_none_of_their_own() -> None:
    job, names = "a.b~0f", list[str]()
    while job:
        names.append(job)
        job = next_round(job)
    assert names == all_rounds("a.b~0f")
    assert len(names) == MOST_ROUNDS + 1
    assert all_rounds(names[1]) == [names[1]]


@pytest.mark.slow
def test_taken_twice_a_round_is_charged_once(town: Deployment, noisy: Spender) -> None:
    job = first_round(town, noisy)
    town.work_off(noisy)
    spent, found = spent_nano(town), town.service().job(job)
    again = Taken("town", next_round(job), "0-0", "people")
    writer = town.writer()
    lease = writer.acquire("town")
    assert lease is not None
    assert town.spender().work(lease, [again]) == []
    writer.release(lease)
    assert (spent_nano(town), town.service().job(job)) == (spent, found)
