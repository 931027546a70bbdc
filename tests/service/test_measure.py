"""The asker decides what is measured; quote, worker and log follow the same choice."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from qserver.query.question import Question
from qserver.query.requirement import MEASURES, Requirement
from qserver.records.answer import JobStatus
from qserver.storage.histories import Cursor
from qserver.storage.store import Store
from tests.deployment import Deployment
from tests.sweeps import share
from tests.until_tables import LENGTH, asked, explained, next_that_buys, ranges

pytestmark = [
    pytest.mark.promise(
        "Privacy",
        "the worker measures under the choice that was quoted, only this question or later ones "
        "too, also if the owner's default changes meanwhile",
    ),
]


def kinds(town: Deployment) -> list[str]:
    changes = Store.open(town.settings).changes(town.meta, Cursor(), shown_only=False)
    return [paid.measure for paid in changes.paid]


@pytest.fixture
def town(tmp_path: Path, store_url: str) -> Deployment:
    """Data whose planner buys tables once a few ranges were asked."""
    return Deployment.make(tmp_path, store_url, limit="1000", phi=0.4)


@pytest.mark.slow
def test_the_worker_measures_what_was_quoted_under_either_choice(town: Deployment) -> None:
    where = next_that_buys(town)
    both = explained(town, where).measure
    only, auto = (explained(town, where, m) for m in ("only_this", "auto"))
    assert (only.measure.chosen, auto.measure.chosen) == ("only_this", "auto")
    assert not only.tables
    assert auto.tables
    assert (only.price_nano, auto.price_nano) == (both.only_this_nano, both.auto_nano)
    assert only.price_nano != auto.price_nano
    assert "table" in both.buys
    assert "age" in both.buys
    assert asked(town, where, "only_this") == only.price_nano
    assert kinds(town)[-1] == "only_this"


@pytest.mark.slow
def test_the_worker_buys_what_auto_was_quoted_for(town: Deployment) -> None:
    where = next_that_buys(town)
    quoted = explained(town, where).measure.auto_nano
    assert asked(town, where, "auto") == quoted
    assert kinds(town)[-1] == "auto"


@pytest.mark.slow
def test_no_shorter_interval_is_offered_for_less(town: Deployment) -> None:
    """Where the next purchase is of tables, and after it, for several questions."""
    where, kinds, steps = next_that_buys(town), set(), share(range(-6, 7), 5)
    for asking in (None, where):
        if asking is not None:
            asked(town, asking)
        for other in [where, *ranges()[-3:]]:
            found = [explained(town, other, length=LENGTH * 1.3**n) for n in steps]
            prices = [plan.price_nano for plan in found]
            assert prices == sorted(prices, reverse=True)
            kinds |= {plan.kind for plan in found}
    assert "blocks" in kinds


def test_both_choices_cost_the_same_where_no_table_would_be_bought(town: Deployment) -> None:
    found = explained(town, ranges()[0])
    assert found.measure.buys == ""
    assert found.measure.only_this_nano == found.measure.auto_nano == found.price_nano


@pytest.mark.slow
def test_what_only_this_was_answered_stays_free_under_both_choices(town: Deployment) -> None:
    where = next_that_buys(town)
    asked(town, where, "only_this")
    for measure in ("only_this", "auto"):
        assert explained(town, where, measure).kind == "free"


@pytest.mark.slow
def test_only_this_uses_the_tables_that_there_are(town: Deployment) -> None:
    """Once tables are bought, most ranges cost less than their own row alone, or nothing."""
    asked(town, next_that_buys(town))
    prices = [explained(town, where, "only_this") for where in share(ranges(), 12)]
    assert all(not found.tables for found in prices)
    assert any(found.kind == "free" or found.kind == "combined" for found in prices)


def test_the_same_question_under_another_choice_is_another_job(town: Deployment) -> None:
    service = town.service()
    query = service.parse("people", {"where": {"age": 25}})
    jobs = {
        measure: service.ask(
            "people", Question(query, Requirement(LENGTH, 0.95), measure=measure), wait_s=0
        )
        for measure in ("auto", "only_this", None)
    }
    ids = [job.id for job in jobs.values() if isinstance(job, JobStatus)]
    assert len(ids) == 3
    assert ids[0] == ids[2] != ids[1]


@pytest.mark.slow
def test_a_workload_buys_nothing_for_others_so_both_choices_cost_the_same(
    town: Deployment,
) -> None:
    asked(town, next_that_buys(town))
    workload = town.workload([{"age": {"between": [23, 27]}}, {"sex": "Female"}])
    auto, only = (
        town.service().explain_workload("people", workload.with_measure(measure))
        for measure in ("auto", "only_this")
    )
    assert auto.price_nano == only.price_nano
    assert only.measure.only_this_nano == only.measure.auto_nano == only.price_nano
    charged = town.ask_workload(workload.with_measure("only_this")).charged_nano
    assert only.price_nano <= charged <= only.most_nano


def test_a_request_of_an_earlier_version_is_read_and_written_as_it_was(town: Deployment) -> None:
    found = town.submit({"age": 25})
    assert isinstance(found, JobStatus)
    text = Store.open(town.settings).job(found.id).request
    assert "measure" not in json.loads(text)


def test_an_explained_workload_names_the_choice_that_was_made(town: Deployment) -> None:
    """Where nothing is said it is that of the dataset."""
    workload = town.workload([{"age": 25}, {"sex": "Female"}])
    chosen = [workload, *(workload.with_measure(measure) for measure in MEASURES)]
    found = [town.service().explain_workload("people", one).measure.chosen for one in chosen]
    assert found == ["auto", "auto", "only_this"]
