"""What people look at, on a real store: it agrees with the answers, and spends nothing."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from qserver.errors import NotEstimableError, NotFoundError
from qserver.query.question import Question
from qserver.query.requirement import Requirement
from qserver.records.account import Caller
from qserver.service.datasets import OpenDatasets
from qserver.service.free_answers import Known
from qserver.service.ledger import LedgerViews
from qserver.storage.store import Store
from tests.deployment import Deployment

OWNER = Caller("", "owner", "")
AGE = {"age": {"between": [22, 24]}}


@pytest.fixture
def town(store_url: str, tmp_path: Path) -> Deployment:
    return Deployment.make(tmp_path / "state", store_url)


def ledger_at(town: Deployment, now: int) -> LedgerViews:
    store = Store.open(town.settings)
    return LedgerViews(store, OpenDatasets(store, town.settings), wall_clock=lambda: now)


def known(town: Deployment, where: Mapping[str, object], *, length: float = 40) -> Known:
    service = town.service()
    query = service.parse("people", {"where": where})
    return service.insight.known("people", Question(query, Requirement(length, 0.95)))


def test_what_is_known_is_what_asking_again_answers_and_its_curve_fits(town: Deployment) -> None:
    town.ask(AGE)
    again = town.ask(AGE)
    found = known(town, AGE)
    assert found.answer == again
    assert found.answer.charged_nano == 0
    xs = [p.x for p in found.curve]
    assert xs == sorted(xs)
    assert xs[0] < again.low < again.estimate < again.high < xs[-1]
    service = town.service()
    query = service.parse("people", {"where": AGE})
    for point in found.curve[::20]:
        asked = service.insight.probability("people", query, low=point.x, high=float("inf"))
        assert point.at_least == pytest.approx(asked.probability, abs=1e-9)


def test_with_more_rows_than_needed_the_posterior_is_that_of_all(
    town: Deployment,
) -> None:
    """Three rows give the sum two ways. Whatever is made of them, the posterior is the same."""
    both = {"age": {"between": [22, 23]}}
    for where, length in ((both, 90), ({"age": 22}, 60), ({"age": 23}, 70)):
        town.ask(where, length=length)
    query = town.service().parse("people", {"where": both})
    found = {
        confidence: town.service().insight.known(
            "people", Question(query, Requirement(90, confidence))
        )
        for confidence in (0.3, 0.95)
    }
    # Asking takes the first weights that suffice; looking takes the best. The posterior given all
    # that was released is one and the same.
    asked, best = town.ask(both, length=90), found[0.95].answer
    assert (asked.charged_nano, asked.statement.disagreements) == (0, 1)
    assert best.interval == pytest.approx(asked.interval, rel=1e-7)
    assert best.estimate == pytest.approx(found[0.3].answer.estimate, rel=1e-7)
    assert best.low < best.estimate < best.high


def test_a_tighter_wish_gets_the_best_that_is_known_and_spends_nothing(town: Deployment) -> None:
    measured = town.ask(AGE)
    found = known(town, AGE, length=1)
    assert found.answer.high - found.answer.low == pytest.approx(measured.high - measured.low)
    assert town.service().dataset("people").spent_nano == measured.charged_nano


def test_of_what_was_never_asked_nothing_is_known(town: Deployment) -> None:
    with pytest.raises(NotEstimableError):
        known(town, AGE)


def test_a_question_that_is_zero_is_exact_and_has_no_curve(town: Deployment) -> None:
    service = town.service()
    query = service.parse("people", {"terms": [{"coefficient": 0, "where": {}}]})
    found = service.insight.known("people", Question(query, Requirement(1, 0.95)))
    assert (found.answer.source, found.curve) == ("exact", ())


def test_a_job_is_shown_with_its_question(town: Deployment) -> None:
    job = town.submit(AGE, length=30)
    asked = town.service().insight.asked(job.id, OWNER)
    assert (asked.status.state, asked.status.result) == ("queued", None)
    query = town.service().parse("people", {"where": AGE})
    assert asked.asked == Question(query, Requirement(30, 0.95))
    assert asked.snapshot == town.meta.snapshot
    town.work_off()
    done = town.service().insight.asked(job.id, OWNER)
    assert done.status == town.service().job(job.id)
    assert done.status.result is not None
    with pytest.raises(NotFoundError):
        town.service().insight.asked("town~nothing", OWNER)


def test_the_burn_down_ends_at_what_was_spent_and_is_read_on(town: Deployment) -> None:
    first = town.ask({"age": 22})
    ledger = ledger_at(town, 2_000_000_000)
    one = ledger.burn_down("people")
    assert [p.spent_nano for p in one.points] == [first.charged_nano]
    # A disjoint question of the same price loads other people: nothing rises.
    town.ask({"age": 23})
    overlapping = town.ask({"age": {"between": [22, 23]}, "sex": "Male"}, length=20)
    two = ledger.burn_down("people")
    spent = first.charged_nano + overlapping.charged_nano
    assert [p.spent_nano for p in two.points][-1] == spent == two.spent_nano
    assert two.limit_nano == 10**9
    # Long ago: no pace.
    assert two.forecast.days_left is None


def test_the_forecast_divides_what_remains_by_the_pace(town: Deployment) -> None:
    answer = town.ask({"age": 22})
    at = ledger_at(town, 2_000_000_000).burn_down("people").points[0].at
    found = ledger_at(town, at + 3600).burn_down("people").forecast
    remaining = 10**9 - answer.charged_nano
    assert found.days_left == pytest.approx(remaining / answer.charged_nano)


def test_a_dataset_that_is_not_there_has_no_burn_down(town: Deployment) -> None:
    with pytest.raises(NotFoundError):
        town.service().ledger.burn_down("nowhere")
