"""Spends that refine measured rows: only the difference is charged, whatever crashes."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from qserver.answering.replica import Replica
from qserver.errors import StaleVersionError
from qserver.planning.fresh_row import fresh_alpha_nano
from qserver.planning.planner import Plan
from qserver.query.question import Question
from qserver.query.requirement import Requirement
from qserver.records.answer import JobStatus
from qserver.records.history import Measurement
from qserver.storage.charging import Publishing
from qserver.storage.histories import Cursor
from qserver.storage.server.connection import StoreClient
from qserver.storage.store import Store
from tests.deployment import Deployment, Relation
from tests.worker.crashes import STEPS, die_at
from worker.spending.spend import Spender

pytestmark = [
    pytest.mark.promise(
        "Privacy",
        "a crash in the middle of a refinement wastes its difference at most",
    ),
]

YOUNG: dict[str, object] = {"age": {"below": 25}}
SURE = Requirement(40, 0.95)


@pytest.fixture
def town(tmp_path: Path, store_url: str) -> Deployment:
    return Deployment.make(tmp_path, store_url)


def spent_nano(town: Deployment) -> int:
    return town.service().dataset("people").spent_nano


def live(town: Deployment) -> tuple[Measurement, ...]:
    """The rows in force, as a new reader finds them."""
    replica = Replica(town.meta, town.settings, shown_only=True)
    replica.refresh(Store.open(town.settings))
    return tuple(m for m in replica.measurements if isinstance(m, Measurement))


def charges(town: Deployment) -> list[int]:
    texts = Store.open(town.settings).changes(town.meta, Cursor(), shown_only=True).charges
    return [json.loads(text)["alpha"] for text in texts]


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
@pytest.mark.parametrize("k", [1, 3])
def test_asking_ever_tighter_costs_what_the_tightest_alone_costs(
    tmp_path: Path, store_url: str, relation: Relation, k: int
) -> None:
    """L, L/2, L/4 in turn: k * alpha(L/4), by the closed form of the fresh row."""
    town = Deployment.make(tmp_path, store_url, limit="8", relation=relation, k=k)
    answers = [town.ask(YOUNG, length=length) for length in (40, 20, 10)]
    assert [a.source for a in answers] == ["measured", "refined", "refined"]
    row = live(town)[answers[0].evidence[0]]
    alone = fresh_alpha_nano(Requirement(10, 0.95), multiplier=Fraction(1), step=row.step)
    assert sum(a.charged_nano for a in answers) == spent_nano(town) == k * row.alpha_nano
    # The half-width is evaluated to the long side: a few nano more than the closed form.
    assert alone <= row.alpha_nano <= alone * (1 + 2e-8)
    assert answers[2].high - answers[2].low <= 10
    assert len({a.evidence for a in answers}) == 1


def test_a_refinement_keeps_id_and_lattice_step_and_moves_the_answer(town: Deployment) -> None:
    first = town.ask(YOUNG)
    before = live(town)
    second = town.ask(YOUNG, length=10)
    after = live(town)
    assert len(before) == len(after) == 1
    assert (after[0].id, after[0].row, after[0].step) == (
        before[0].id,
        before[0].row,
        before[0].step,
    )
    assert after[0].alpha_nano > before[0].alpha_nano
    assert second.estimate == float(after[0].value)
    assert second.version == first.version + 1 == 2


def test_the_history_shows_the_rows_in_force(town: Deployment) -> None:
    town.ask(YOUNG)
    town.ask({"sex": "Male"})
    town.ask(YOUNG, length=10)
    page = town.service().history.page("people", after=-1, limit=10)
    assert [row.id for row in page.rows] == [0, 1]
    assert [row.alpha_nano for row in page.rows] == [m.alpha_nano for m in live(town)]
    assert page.version == 3
    rest = town.service().history.page("people", after=0, limit=10)
    assert [row.id for row in rest.rows] == [1]


def test_the_quote_of_a_refinement_is_its_price(town: Deployment) -> None:
    town.ask(YOUNG)
    service = town.service()
    query = service.parse("people", {"where": YOUNG})
    quote = service.explain("people", Question(query, Requirement(15, 0.95)))
    assert quote.kind == "refined"
    assert [row.refines for row in quote.rows] == [0]
    answer = town.ask(YOUNG, length=15)
    assert answer.charged_nano == quote.price_nano == quote.rows[0].charge_nano


def test_answers_stay_free_after_rows_behind_them_are_refined(town: Deployment) -> None:
    parts: list[dict[str, object]] = [{**YOUNG, "sex": sex} for sex in ("Female", "Male", "other")]
    for part in parts:
        town.ask(part)
    town.ask(YOUNG, length=75)
    town.ask(parts[0], length=20)
    for where, length in ((YOUNG, 75.0), (YOUNG, 80.0), (parts[0], 20.0), (parts[1], 40.0)):
        answer = town.ask(where, length=length)
        assert (answer.source, answer.charged_nano) == ("history", 0)


def test_a_sum_of_parts_may_refine_the_parts(town: Deployment) -> None:
    """Disjoint parts cost the largest of their charges: cheaper than the sum measured anew."""
    parts: list[dict[str, object]] = [{**YOUNG, "sex": sex} for sex in ("Female", "Male", "other")]
    for part in parts:
        town.ask(part)
    before = spent_nano(town)
    answer = town.ask(YOUNG, length=60)
    alone = fresh_alpha_nano(Requirement(60, 0.95), multiplier=Fraction(1), step=live(town)[0].step)
    assert 0 < answer.charged_nano < alone
    assert answer.high - answer.low <= 60
    assert spent_nano(town) == before + answer.charged_nano


def test_the_journal_holds_the_differences(town: Deployment) -> None:
    for length in (40, 20, 10):
        town.ask(YOUNG, length=length)
    journal = town.registry.journal("town", create=False)
    assert (
        journal.state.spent_nano
        == spent_nano(town)
        == sum(charges(town))
        == live(town)[0].alpha_nano
    )
    assert tuple(journal.state.open_jobs) == ()


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize(("step", "charged"), STEPS)
def test_a_crash_at_any_step_of_a_refinement_loses_the_difference_at_worst(
    town: Deployment, redis_client: StoreClient, step: str, charged: int, after: bool
) -> None:
    """A burnt refinement leaves the old row in force; its difference stays charged."""
    first = town.ask(YOUNG)
    old = live(town)[0]
    found = town.submit(YOUNG, length=20)
    assert isinstance(found, JobStatus)
    die_at(town, redis_client, step, after=after)

    town.work_off()
    status = town.service().job(found.id)
    reserved = charged or (step == "_writer.reserve" and after)
    drawn = step in ("_writer.publish", "_writer.acknowledge") or (
        step == "_spends.release" and after
    )
    new = sum(charges(town)[:2])
    alone = fresh_alpha_nano(Requirement(20, 0.95), multiplier=Fraction(1), step=old.step)
    assert charges(town) == [old.alpha_nano, new - old.alpha_nano]
    assert alone <= new <= alone * (1 + 2e-8)
    assert spent_nano(town) == new
    journal = town.registry.journal("town", create=False)
    if drawn or not reserved:
        assert status.result is not None
        assert status.result.source == "refined"
        released = journal.state.released.get(found.id)
        assert released is not None
        refined = replace(old, alpha_nano=new, index=released.rows[0].indices[0])
        assert live(town) == (refined,)
        assert status.result.estimate == float(refined.value)
    else:
        assert status.state == "failed"
        assert found.id in journal.state.burnt
        assert live(town) == (old,)
        free = town.ask(YOUNG)
        assert (free.source, free.estimate) == ("history", first.estimate)
        # The same question again pays the difference again, from the row that is in force.
        assert town.ask(YOUNG, length=20).charged_nano == new - old.alpha_nano
    assert town.work_off() == 0


def test_publishing_a_refinement_twice_refines_once(
    town: Deployment, redis_client: StoreClient
) -> None:
    town.ask(YOUNG)
    found = town.submit(YOUNG, length=20)
    assert isinstance(found, JobStatus)
    die_at(town, redis_client, "_writer.publish", after=True)
    writer = town.writer()
    reservation = writer.reservation("town", found.id)
    assert reservation is not None
    lease = writer.acquire("town")
    assert lease is not None
    again = writer.publish(lease, [Publishing(reservation, [[123]])])
    writer.release(lease)
    assert again == ["published before"]
    town.work_off()
    assert town.writer().n_history("town", town.meta.snapshot) == 2
    assert live(town)[0].index != 123


def test_a_plan_on_a_row_that_was_refined_meanwhile_is_refused_before_it_is_charged(
    town: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It cannot happen under the lease; if it did, the old noise would be spent twice."""
    town.ask(YOUNG)
    town.submit(YOUNG, length=20)
    spender: Spender = town.spender()
    plan = Replica.plan

    def outdated(self: Replica, *args: object) -> Plan:
        found = plan(self, *args)  # type: ignore[arg-type]
        row = found.rows[0]
        return replace(found, rows=(replace(row, old_alpha_nano=row.old_alpha_nano - 1),))

    monkeypatch.setattr(Replica, "plan", outdated)
    before = spent_nano(town)
    with pytest.raises(StaleVersionError):
        town.work_off(spender)
    assert spent_nano(town) == before
    assert len(charges(town)) == 1


def test_a_reader_that_was_there_before_and_one_that_comes_later_agree(town: Deployment) -> None:
    early = town.service()
    query = early.parse("people", {"where": YOUNG})
    town.ask(YOUNG)
    early.ask("people", Question(query, SURE), wait_s=0)
    town.ask(YOUNG, length=10)
    one = early.ask("people", Question(query, SURE), wait_s=0)
    other = town.service().ask("people", Question(query, SURE), wait_s=0)
    assert one == other
    assert town.ask(YOUNG).estimate == float(live(town)[0].value)
