"""The disclosure guard on a real store: what would carry a cell past it is refused, no more."""

from __future__ import annotations

from pathlib import Path

import pytest

from qserver.errors import BudgetExhaustedError, DisclosureGuardError
from qserver.query.question import Question
from qserver.records.answer import Guard, JobStatus
from qserver.records.claim import known_at_most
from qserver.storage.keys import Keys
from qserver.storage.server.connection import StoreClient
from tests.deployment import Deployment

pytestmark = [
    pytest.mark.promise(
        "Guard rails",
        "nobody with a flat prior knows a count better than the cap; the bound is attained",
    ),
]

YOUNG = {"age": {"below": 25}}
OLD = {"age": {"at_least": 25}}
CAP = 0.1
ALLOWED = 200_670_695  # floor of 2 atanh(0.1) in nano-epsilon


@pytest.fixture
def town(tmp_path: Path, store_url: str) -> Deployment:
    return Deployment.make(tmp_path, store_url, disclosure_cap=CAP)


def guard(town: Deployment) -> Guard:
    found = town.service().dataset("people").guard
    assert found is not None
    return found


def test_a_spend_past_the_guard_is_refused_with_its_facts_though_budget_is_left(
    town: Deployment,
) -> None:
    first = town.ask(YOUNG, length=40)
    with pytest.raises(DisclosureGuardError) as refused:
        town.ask(YOUNG, length=20)
    error = refused.value
    assert error.loss_nano == first.charged_nano == guard(town).loss_nano
    assert error.allowed_nano == ALLOWED == guard(town).allowed_nano
    assert error.loss_nano + error.price_nano > ALLOWED
    assert error.price_nano < town.service().dataset("people").remaining_nano
    assert error.free.high - error.free.low == pytest.approx(40, rel=1e-3)
    assert guard(town).known == known_at_most(first.charged_nano) < CAP
    assert guard(town).binds


def test_cells_that_have_lost_less_are_still_answered(town: Deployment) -> None:
    """The guard is about each cell: others may reach it too, at no price to the population."""
    first = town.ask(YOUNG, length=31)
    assert first.charged_nano < ALLOWED < 2 * first.charged_nano
    other = town.ask(OLD, length=31)
    assert (other.source, other.charged_nano) == ("measured", 0)
    assert town.ask(YOUNG, length=31).source == "history"


@pytest.mark.limit("disclosure_guard")
def test_the_worker_refuses_what_the_online_side_could_not_foresee(town: Deployment) -> None:
    """Two questions are queued while each still fits; the second would pass the guard."""
    jobs = [town.submit(where, length=40) for where in (YOUNG, {"age": {"below": 26}})]
    town.work_off()
    states = []
    for job in jobs:
        assert isinstance(job, JobStatus)
        states.append(town.service().job(job.id))
    assert [s.state for s in states] == ["done", "failed"]
    assert states[1].problem is not None
    assert states[1].problem["code"] == "disclosure_guard"
    assert guard(town).loss_nano <= ALLOWED


def test_the_store_itself_refuses_a_worker_that_forgot_the_guard(
    town: Deployment, redis_client: StoreClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("qserver.answering.decide.refusal", lambda *_args, **_kwargs: None)
    job = town.submit(YOUNG, length=20)
    assert isinstance(job, JobStatus)
    town.work_off()
    assert town.service().job(job.id).state == "failed"
    assert redis_client.llen(Keys("town").charges) == 0
    assert guard(town).loss_nano == 0


def test_a_guard_that_cannot_bind_says_so_and_the_limit_refuses(
    tmp_path: Path, store_url: str
) -> None:
    town = Deployment.make(tmp_path, store_url, limit="0.2", disclosure_cap=CAP)
    assert not guard(town).binds
    with pytest.raises(BudgetExhaustedError):
        town.ask(YOUNG, length=20)


def test_explain_says_that_a_guarded_answer_cannot_be_had(town: Deployment) -> None:
    from qserver.query.requirement import Requirement

    service = town.service()
    query = service.parse("people", {"where": YOUNG})
    assert service.explain("people", Question(query, Requirement(40, 0.95))).affordable
    found = service.explain("people", Question(query, Requirement(20, 0.95)))
    assert not found.affordable
    assert found.price_nano < found.remaining_nano


def test_pairs_are_guarded_under_replace_one(tmp_path: Path, store_url: str) -> None:
    """A record that moves between two cells: a row and its complement cost twice the row."""
    town = Deployment.make(tmp_path, store_url, relation="replace-one", disclosure_cap=CAP)
    first = town.ask(YOUNG, length=40)
    assert guard(town).loss_nano == first.charged_nano
    with pytest.raises(DisclosureGuardError):
        town.ask({"sex": "Male"}, length=40)
