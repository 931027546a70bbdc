"""Workloads end to end, and a crash at every step of one: all is charged once, or nothing."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from qserver.errors import AllowanceExhaustedError, BudgetExhaustedError, DisclosureGuardError
from qserver.query.question import Question, Workload
from qserver.query.requirement import Requirement
from qserver.records.account import Allowance
from qserver.records.answer import JobStatus, WorkloadAnswer
from qserver.records.history import TableMeasurement
from qserver.storage.accounts import AccountBook
from qserver.storage.server.connection import StoreClient
from qserver.storage.store import Store
from tests.deployment import ROWS, Deployment
from tests.sweeps import share
from tests.worker.by_hand import changes, live, spent_nano
from tests.worker.crashes import STEPS, die_at

AGES = [{"age": age} for age in range(20, 30)]
PREFIXES = [{"age": {"below": age}} for age in range(21, 30)]
N_AT = [sum(age == a for age, _ in ROWS) for a in range(20, 30)]


@pytest.fixture
def town(tmp_path: Path, store_url: str) -> Deployment:
    return Deployment.make(tmp_path, store_url, limit="10")


def charged(answers: Sequence[object]) -> list[int]:
    return [answer.charged_nano for answer in answers]  # type: ignore[attr-defined]


def test_all_cells_of_a_marginal_cost_one_alpha_and_are_one_table(town: Deployment) -> None:
    """A GROUP BY: the price of one of its cells asked alone, ln(20) / 20."""
    found = town.ask_workload(town.workload([*AGES, {"age": "other"}]))
    one = town.service().explain(
        "people",
        Question(town.service().parse("people", {"where": {"sex": "Male"}}), Requirement(40, 0.95)),
    )
    assert found.charged_nano == pytest.approx(one.price_nano, rel=1e-6)
    assert spent_nano(town) == found.charged_nano
    assert [type(m) for m in live(town)] == [TableMeasurement]
    assert charged(found.answers) == [found.charged_nano] + 10 * [0]
    assert {a.source for a in found.answers} == {"measured"}
    assert {a.evidence for a in found.answers} == {(0,)}
    for answer, truth in zip(found.answers, [*N_AT, 0], strict=True):
        assert answer.high - answer.low <= 40 * (1 + 1e-9)
        assert abs(answer.estimate - truth) < 200


def test_a_workload_of_two_overlapping_sets_costs_less_than_its_questions_one_by_one(
    tmp_path: Path, store_url: str
) -> None:
    """Their four common parts at one alpha are less than either set for itself, added up."""
    wheres: list[dict[str, object]] = [{"age": {"below": 25}}, {"sex": "Male"}]
    together = Deployment.make(tmp_path, store_url, limit="10")
    quote = together.service().explain_workload("people", together.workload(wheres))
    apart = [
        together.service()
        .explain(
            "people",
            Question(together.service().parse("people", {"where": w}), Requirement(40, 0.95)),
        )
        .price_nano
        for w in wheres
    ]
    assert quote.price_nano < 0.9 * sum(apart)
    assert quote.price_apart_nano == sum(apart)
    assert together.ask_workload(together.workload(wheres)).charged_nano == quote.price_nano


@pytest.mark.slow
def test_an_answered_workload_is_free_and_the_same_again(town: Deployment) -> None:
    for simultaneous in (False, True):
        workload = town.workload(PREFIXES, simultaneous=simultaneous)
        first, again = town.ask_workload(workload), town.submit_workload(workload)
        assert isinstance(again, WorkloadAnswer)
        assert first.charged_nano > 0
        assert again.charged_nano == 0
        assert {a.source for a in again.answers} == {"history"}
        assert [a.estimate for a in again.answers] == [a.estimate for a in first.answers]
        assert [(a.low, a.high) for a in again.answers] == [(a.low, a.high) for a in first.answers]


@pytest.mark.slow
def test_each_question_of_an_answered_workload_is_free_by_itself(town: Deployment) -> None:
    town.ask_workload(town.workload(PREFIXES))
    for where in PREFIXES:
        assert town.ask(where).charged_nano == 0


@pytest.mark.slow
def test_a_simultaneous_workload_stays_free_whatever_else_is_measured(town: Deployment) -> None:
    workload = town.workload(PREFIXES, simultaneous=True)
    first = town.ask_workload(workload)
    assert first.simultaneous is not None
    assert first.simultaneous.confidence >= 0.95
    town.ask({"age": {"below": 27}}, length=4)
    town.ask_workload(town.workload([{"age": a, "sex": "Male"} for a in range(20, 30)], length=9))
    town.ask_workload(town.workload(AGES, length=9))
    again = town.submit_workload(workload)
    assert isinstance(again, WorkloadAnswer)
    assert again.simultaneous is not None
    assert again.simultaneous.confidence >= 0.95


@pytest.mark.slow
def test_a_simultaneous_workload_costs_no_more_than_by_the_union_bound(town: Deployment) -> None:
    """Each of nine alone at 1 - 0.05 / 9 is what the union bound asks for."""
    union = town.workload(PREFIXES, confidence=1 - 0.05 / 9)
    together = town.workload(PREFIXES, simultaneous=True)
    service = town.service()
    by_union = service.explain_workload("people", union).price_nano
    by_joint = service.explain_workload("people", together)
    assert by_joint.price_nano < 0.97 * by_union
    assert by_joint.simultaneous is not None
    assert by_joint.simultaneous.method in ("sampled", "product")
    assert town.ask_workload(together).charged_nano == by_joint.price_nano


def test_a_workload_that_mixes_known_and_new_questions_pays_for_the_new_ones(
    town: Deployment,
) -> None:
    old = town.ask({"age": {"below": 25}})
    mixed = town.workload([{"age": {"below": 25}}, {"sex": "Male"}])
    found = town.ask_workload(mixed)
    assert [a.source for a in found.answers] == ["history", "measured"]
    assert charged(found.answers) == [0, found.charged_nano]
    assert found.answers[0].estimate == old.estimate
    paid = changes(town).paid
    assert [p.price_nano for p in paid] == [old.charged_nano, found.charged_nano]


def test_questions_that_vanish_are_answered_exactly_beside_the_others(town: Deployment) -> None:
    one = town.workload([{"sex": "Male"}]).questions[0]
    zero = Question(one.query.scaled(0), one.requirement)
    found = town.ask_workload(Workload((zero, one), simultaneous=True))
    assert [a.source for a in found.answers] == ["exact", "measured"]
    assert charged(found.answers) == [0, found.charged_nano]
    assert town.ask_workload(Workload((zero,))).charged_nano == 0


def test_a_workload_past_the_limit_is_refused_whole(tmp_path: Path, store_url: str) -> None:
    """One of two could be paid: neither is measured, and what is known is told of each."""
    town = Deployment.make(tmp_path, store_url, limit="0.4")
    town.ask({"sex": "Male"}, length=60)
    before = spent_nano(town)
    workload = town.workload([{"sex": "Male"}, {"age": {"below": 25}}], length=25)
    with pytest.raises(BudgetExhaustedError) as refusal:
        town.ask_workload(workload)
    error = refusal.value
    assert error.price_nano > error.remaining_nano == 400_000_000 - before
    known, unknown = error.free
    assert known.high - known.low == pytest.approx(60, rel=1e-3)
    assert unknown is None
    assert spent_nano(town) == before
    assert len(changes(town).paid) == 1
    half = replace(workload, questions=workload.questions[1:])
    assert town.ask_workload(half).charged_nano > 0


def test_a_workload_past_the_disclosure_guard_is_refused_whole(
    tmp_path: Path, store_url: str
) -> None:
    """Under a cap of 0.1 a cell may lose 0.2: enough for cells, too little for prefixes."""
    town = Deployment.make(tmp_path, store_url, limit="10", disclosure_cap=0.1)
    prefixes, cells = town.workload(PREFIXES), town.workload(AGES)
    explained = town.service().explain_workload("people", prefixes)
    assert not explained.affordable
    assert explained.price_nano < explained.remaining_nano
    with pytest.raises(DisclosureGuardError) as refusal:
        town.ask_workload(prefixes)
    error = refusal.value
    assert (error.price_nano, error.loss_nano) == (explained.price_nano, 0)
    assert error.price_nano > error.allowed_nano
    assert error.free == len(PREFIXES) * (None,)
    assert spent_nano(town) == 0
    assert town.service().explain_workload("people", cells).affordable
    assert town.ask_workload(cells).charged_nano <= error.allowed_nano


@pytest.mark.slow
def test_the_account_that_asks_pays_for_all_of_a_workload_or_for_nothing(town: Deployment) -> None:
    """Its charges bear its name in the log, and its own allowance is foretold."""
    store = Store.open(town.settings)
    book = AccountBook(store.client)
    for name in ("ann", "ben"):
        book.create(name, "analyst")
    workload = town.workload(PREFIXES)
    price = town.service().explain_workload("people", workload, by="ann").price_nano
    book.allow("ann", "town", Allowance(limit_nano=price - 1))
    own = town.service().explain_workload("people", workload, by="ann").own
    assert own is not None
    assert (own.price_nano, own.limit_nano, own.affordable) == (price, price - 1, False)
    with pytest.raises(AllowanceExhaustedError) as refusal:
        town.ask_workload(workload, by="ann")
    assert (refusal.value.price_nano, refusal.value.remaining_nano) == (price, price - 1)
    assert spent_nano(town) == 0
    book.allow("ann", "town", Allowance(limit_nano=price))
    assert town.ask_workload(workload, by="ann").charged_nano == price
    page = town.service().ledger.charges("people", after=-1, limit=100)
    assert {json.loads(entry.text)["by"] for entry in page.entries} == {"ann"}
    assert town.ask_workload(workload, by="ben").charged_nano == 0
    own = town.service().explain_workload("people", town.workload(AGES), by="ann").own
    assert own is not None
    assert own.spent_nano == price


@pytest.mark.slow
def test_identical_workloads_share_one_job_and_others_do_not(town: Deployment) -> None:
    workload = town.workload(PREFIXES)
    jobs = [
        town.submit_workload(w)
        for w in (
            workload,
            town.workload(PREFIXES),
            replace(workload, simultaneous=True),
            replace(workload, questions=workload.questions[::-1]),
            Workload(workload.questions[:1]),
        )
    ]
    single = town.submit(PREFIXES[0])
    ids = [job.id for job in (*jobs, single) if isinstance(job, JobStatus)]
    assert len(ids) == 6
    assert ids[0] == ids[1]
    assert len(set(ids[1:])) == 5
    town.work_off()
    done = [town.service().job(i) for i in ids]
    assert [s.state for s in done] == 6 * ["done"]
    charges = [s.result.charged_nano for s in done if s.result is not None]
    assert spent_nano(town) == sum(charges[1:])


@pytest.mark.slow
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize(("step", "n_charged"), share(STEPS, 3))
def test_a_crash_at_any_step_of_a_workload_charges_all_of_it_or_nothing(
    town: Deployment, redis_client: StoreClient, step: str, n_charged: int, after: bool
) -> None:
    """What is burnt stays charged; what was drawn is published, certified as it was planned."""
    workload = town.workload([*PREFIXES[:5], {"sex": "Male"}], simultaneous=True)
    job = town.submit_workload(workload)
    assert isinstance(job, JobStatus)
    die_at(town, redis_client, step, after=after)
    reserved = bool(n_charged) or after
    price, paid = spent_nano(town), changes(town).paid
    assert (price > 0) == reserved
    assert [p.price_nano for p in paid] == ([price] + 5 * [0] if reserved else [])

    town.work_off()
    status, journal = town.service().job(job.id), town.registry.journal("town", create=False)
    assert len(changes(town).paid) == 6
    assert not reserved or spent_nano(town) == price
    drawn = step in ("_writer.publish", "_writer.acknowledge") or (
        step == "_spends.release" and after
    )
    assert (status.state == "done") == (drawn or not reserved)
    if status.result is None:
        assert job.id in journal.state.burnt
        assert live(town) == []
        return
    found = status.result
    assert journal.state.spent_nano == spent_nano(town)
    assert isinstance(found, WorkloadAnswer)
    assert sum(charged(found.answers)) == found.charged_nano == spent_nano(town)
    assert found.simultaneous is not None
    assert found.simultaneous.confidence >= 0.95
    again = town.submit_workload(workload)
    assert isinstance(again, WorkloadAnswer)
    assert [a.estimate for a in again.answers] == [a.estimate for a in found.answers]
