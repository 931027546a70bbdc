"""Spends end to end, and a crash at every step of one: charged at most once, drawn at most once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from qserver.errors import BudgetExhaustedError, ConfigError, JournalError, StoreBehindError
from qserver.query.class_grid import ProductPartition
from qserver.query.linear_query import LinearQuery
from qserver.query.question import Question
from qserver.query.requirement import Requirement
from qserver.records.answer import Answer, JobStatus
from qserver.storage.histories import Cursor
from qserver.storage.keys import Keys
from qserver.storage.server.connection import StoreClient
from qserver.storage.store import Store
from tests.deployment import LOG, ROWS, Deployment
from tests.worker.crashes import STEPS, die_at
from tests.worker.forge import forge_ledger
from worker.journal.journal import Journal
from worker.journal.sections import Drawn
from worker.noise.randomness import SystemEntropy
from worker.private.record_tables import Tables
from worker.spending.spend import Spender

pytestmark = [
    pytest.mark.promise(
        "Faults and races",
        "no reservation is drawn twice or has two answers",
    ),
]

YOUNG = {"age": {"below": 25}}
N_YOUNG = sum(age < 25 for age, _ in ROWS)


@pytest.fixture
def town(tmp_path: Path, store_url: str) -> Deployment:
    return Deployment.make(tmp_path, store_url)


def n_charges(town: Deployment) -> int:
    store = Store.open(town.settings)
    return len(store.changes(town.meta, Cursor(), shown_only=True).charges)


def spent_nano(town: Deployment) -> int:
    return town.service().dataset("people").spent_nano


def test_a_question_is_measured_once_and_then_free(town: Deployment) -> None:
    first = town.ask(YOUNG)
    again = town.ask(YOUNG)
    assert first.source == "measured"
    assert again.source == "history"
    assert again.estimate == first.estimate
    assert (again.low, again.high) == (first.low, first.high)
    assert abs(first.estimate - N_YOUNG) < 200
    assert first.high - first.low <= 40 * (1 + 1e-9)
    assert first.confidence_attained >= 0.95
    assert spent_nano(town) == first.charged_nano > 0
    assert again.charged_nano == 0


def test_the_charge_is_the_closed_form_of_the_fresh_row(town: Deployment) -> None:
    """alpha = ln(1/delta) / (L/2 - g), within the lattice step's room and a nano."""
    from math import log

    answer = town.ask(YOUNG, length=40, confidence=0.95)
    assert answer.charged_nano == pytest.approx(log(20) / 20 * 1e9, rel=1e-5)


def test_disjoint_questions_share_the_same_budget(town: Deployment) -> None:
    first = town.ask(YOUNG)
    other = town.ask({"age": {"at_least": 25}})
    assert first.charged_nano > 0
    assert other.charged_nano == 0
    assert other.source == "measured"
    assert n_charges(town) == 2


def test_a_sum_of_measured_parts_is_free_at_a_longer_interval(town: Deployment) -> None:
    town.ask({"age": {"below": 25}, "sex": "Male"})
    town.ask({"age": {"below": 25}, "sex": "Female"})
    town.ask({"age": {"below": 25}, "sex": "other"})
    free = town.ask(YOUNG, length=200)
    assert free.source == "history"
    assert sorted(free.evidence) == [0, 1, 2]


def test_a_tighter_question_costs_less_with_history_than_without(town: Deployment) -> None:
    first = town.ask(YOUNG, length=40)
    second = town.ask(YOUNG, length=30)
    fresh = first.charged_nano * 40 / 30
    assert second.source == "refined"
    assert second.charged_nano < fresh * 0.95
    assert second.evidence == first.evidence == (0,)


def test_a_question_past_the_limit_is_refused_and_charges_nothing(
    tmp_path: Path, store_url: str
) -> None:
    town = Deployment.make(tmp_path, store_url, limit="0.2")
    town.ask(YOUNG, length=60)
    before = spent_nano(town)
    with pytest.raises(BudgetExhaustedError) as refusal:
        town.ask(YOUNG, length=10)
    assert refusal.value.price_nano > refusal.value.remaining_nano
    assert refusal.value.free.high - refusal.value.free.low == pytest.approx(60, rel=1e-3)
    assert spent_nano(town) == before


@pytest.mark.limit("budget_exhausted")
def test_a_worker_refuses_what_the_online_side_should_have_refused(
    tmp_path: Path, store_url: str
) -> None:
    """Two dear questions are queued while both still fit; only one is paid."""
    town = Deployment.make(tmp_path, store_url, limit="0.2")
    first = town.submit(YOUNG, length=40)
    second = town.submit({"age": {"below": 26}}, length=40)
    assert isinstance(first, JobStatus)
    assert isinstance(second, JobStatus)
    town.work_off()
    states = [town.service().job(job.id) for job in (first, second)]
    assert [s.state for s in states] == ["done", "failed"]
    assert states[1].problem is not None
    assert states[1].problem["code"] == "budget_exhausted"
    assert n_charges(town) == 1


def test_a_query_that_vanishes_is_answered_exactly_for_nothing(town: Deployment) -> None:
    answer = town.ask({"age": {"at_least": 99}})
    assert (answer.source, answer.estimate, answer.charged_nano) == ("exact", 0.0, 0)


def test_under_replace_one_the_total_is_public_and_complements_are_free(
    tmp_path: Path, store_url: str
) -> None:
    town = Deployment.make(tmp_path, store_url, relation="replace-one")
    total = town.ask({}, length=1e-6)
    assert (total.source, total.estimate, total.charged_nano) == ("history", 500, 0)
    assert 500 - 1e-9 < total.low <= 500 <= total.high < 500 + 1e-9
    town.ask(YOUNG)
    rest = town.ask({"age": {"not": {"below": 25}}})
    assert rest.source == "history"
    assert spent_nano(town) > 0


def test_changed_data_are_refused_and_charge_nothing(town: Deployment) -> None:
    town.change_seal()
    found = town.submit(YOUNG)
    assert isinstance(found, JobStatus)
    town.work_off()
    status = town.service().job(found.id)
    assert status.problem is not None
    assert status.problem["code"] == "measurement_failed"
    assert n_charges(town) == 0


class Exploding:
    """A table whose counting fails, with a message that would tell the data."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def answer(self, query: LinearQuery) -> Any:
        raise self.error

    def counts(self, partition: ProductPartition) -> list[int]:
        raise self.error


@pytest.mark.parametrize(
    "error", [ValueError("secret value 424242"), ConfigError("data", "be no 424242")]
)
def test_a_failing_count_burns_the_reservation_and_says_nothing(
    town: Deployment, error: Exception
) -> None:
    """Whatever it says of itself, also if it is an error whose text is public elsewhere."""
    tables: dict[str, Tables] = {town.meta.snapshot: Exploding(error)}
    spender = town.spender(trusted=replace(town.trusted(), tables=tables))
    found = town.submit(YOUNG)
    assert isinstance(found, JobStatus)
    town.work_off(spender)
    status = town.service().job(found.id)
    assert status.problem is not None
    assert status.problem["code"] == "measurement_failed"
    assert "424242" not in str(status.problem)
    assert n_charges(town) == 1
    # The budget is gone, the question can be asked again, and is then charged anew.
    assert town.ask(YOUNG).source == "measured"
    assert n_charges(town) == 2


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize(("step", "charged"), STEPS)
def test_a_crash_at_any_step_loses_budget_at_worst(
    town: Deployment, redis_client: StoreClient, step: str, charged: int, after: bool
) -> None:
    """After recovery the job has ended; what was shown was charged and was drawn once."""
    found = town.submit(YOUNG)
    assert isinstance(found, JobStatus)
    die_at(town, redis_client, step, after=after)

    town.work_off()
    status = town.service().job(found.id)
    reserved = charged or (step == "_writer.reserve" and after)
    assert status.state in ("done", "failed")
    assert n_charges(town) == 1
    if not reserved:
        assert status.state == "done"
    drawn = step in ("_writer.publish", "_writer.acknowledge") or (
        step == "_spends.release" and after
    )
    assert (status.state == "done") == (drawn or not reserved)
    journal = town.registry.journal("town", create=False)
    if status.result is not None:
        released = journal.state.released.get(found.id)
        assert released is not None
        rows = Store.open(town.settings).changes(town.meta, Cursor(), shown_only=True).measurements
        assert [m.index for m in rows] == [i for row in released.rows for i in row.indices]
        # The answer stands bit for bit when it is asked for again.
        again = town.ask(YOUNG)
        assert again.source == "history"
        assert again.estimate == status.result.estimate
    else:
        assert found.id in journal.state.burnt
    assert town.work_off() == 0


def test_a_worker_that_lost_its_lease_while_measuring_throws_its_draw_away(
    town: Deployment, redis_client: StoreClient
) -> None:
    """The next holder burns the reservation; the slow worker may then release nothing."""
    found = town.submit(YOUNG)
    assert isinstance(found, JobStatus)
    slow = town.spender()
    draw = slow._spends.draw

    def overtaken(*args: Any) -> list[Drawn]:
        drawn = draw(*args)
        redis_client.delete(Keys("town").lease)
        town.work_off()
        return drawn

    slow._spends.draw = overtaken  # type: ignore[assignment, method-assign]
    town.work_off(slow)
    status = town.service().job(found.id)
    assert status.state == "failed"
    journal = town.registry.journal("town", create=False)
    assert found.id in journal.state.burnt
    assert journal.state.released.get(found.id) is None
    assert town.writer().n_history("town", town.meta.snapshot) == 0


def test_a_store_that_forgot_is_refused(town: Deployment, redis_client: StoreClient) -> None:
    town.ask(YOUNG)
    keys = Keys("town")
    forge_ledger(redis_client, {"version": "0"})
    with pytest.raises(StoreBehindError):
        town.work_off()
    forge_ledger(redis_client, {"version": "7"})
    redis_client.delete(keys.reservations)
    with pytest.raises(StoreBehindError):
        town.work_off()


def test_a_lost_journal_is_refused(town: Deployment) -> None:
    (town.registry.folder / "journals" / "town.journal").unlink()
    with pytest.raises(JournalError):
        town.trusted()


def test_attaching_to_a_store_that_lost_the_population_is_refused(
    town: Deployment, redis_client: StoreClient
) -> None:
    from tests.deployment import PEOPLE
    from worker.owner.attach import AttachRequest, attach

    town.ask(YOUNG)
    redis_client.flushall()
    request = AttachRequest("other", town.data, PEOPLE, 1, "add-remove", "town", 1)  # type: ignore[arg-type]
    with pytest.raises(StoreBehindError):
        attach(request, settings=town.settings, registry=town.registry, progress=lambda _line: None)


def test_the_same_job_twice_charges_once(town: Deployment) -> None:
    """Two workers are handed the same job, as after a takeover."""
    found = town.submit(YOUNG)
    assert isinstance(found, JobStatus)
    writer = town.writer()
    taken = writer.queue.take(["town"], consumer="a", block_ms=None)
    assert taken is not None
    for spender in (town.spender(), town.spender()):
        lease = writer.acquire("town")
        assert lease is not None
        spender.work(lease, [taken])
        writer.release(lease)
    assert n_charges(town) == 1
    assert town.service().job(found.id).state == "done"


def test_an_answer_stays_free_at_any_looser_requirement(town: Deployment) -> None:
    town.ask(YOUNG, length=40, confidence=0.95)
    town.ask(YOUNG, length=30, confidence=0.95)
    for length, confidence in ((30, 0.95), (31, 0.95), (30, 0.9), (400, 0.999)):
        answer = town.ask(YOUNG, length=length, confidence=confidence)
        assert (answer.source, answer.charged_nano) == ("history", 0)


def test_noise_comes_from_the_operating_system(town: Deployment) -> None:
    assert isinstance(town.trusted().entropy, SystemEntropy)


def test_the_quote_is_the_price(town: Deployment) -> None:
    service = town.service()
    query = service.parse("people", {"where": YOUNG})
    for length in (60.0, 50.0, 40.0):
        quote = service.explain("people", Question(query, Requirement(length, 0.9)))
        answer = town.ask(YOUNG, length=length, confidence=0.9)
        assert isinstance(answer, Answer)
        assert answer.charged_nano == quote.price_nano


def test_the_journal_holds_every_charge(town: Deployment) -> None:
    town.ask(YOUNG)
    town.ask(YOUNG, length=20)
    journal: Journal = town.registry.journal("town", create=False)
    assert journal.state.spent_nano == spent_nano(town)
    assert tuple(journal.state.open_jobs) == ()


@pytest.mark.parametrize(("took_ms", "waited_ms"), [(0, 5), (3.1, 1.9), (4.9, 0.1), (12.3, 2.7)])
def test_counting_and_sampling_take_a_whole_number_of_slots(
    town: Deployment, caplog: pytest.LogCaptureFixture, took_ms: float, waited_ms: float
) -> None:
    """The worker's own log says when one slot was not enough."""
    ends: list[float] = []
    ended = 100.0 + took_ms / 1000
    times = iter([100.0, ended])
    spender = Spender(
        reader=Store.open(town.settings),
        writer=town.writer(),
        trusted=town.trusted(),
        settings=replace(town.settings, slot_ms=5),
        log=LOG,
        clock=lambda: next(times),
        wait_until=ends.append,
    )
    town.submit(YOUNG)
    town.work_off(spender)
    assert [end - ended for end in ends] == [pytest.approx(waited_ms / 1000, abs=1e-9)]
    assert ("longer than their slot" in caplog.text) == (took_ms > 5)


def test_a_fresh_answer_says_that_it_stands_on_one_measurement(town: Deployment) -> None:
    assert town.ask(YOUNG).weights == "direct"
