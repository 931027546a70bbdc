"""What a snapshot begins with of earlier questions: rotated, attached, restored, doctor."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from qserver.errors import ConfigError, NotFoundError
from qserver.planning.constants import PLANNER
from qserver.query.domain import Attribute, Domain
from qserver.query.question import Question
from qserver.query.requirement import Requirement
from qserver.records.answer import JobStatus
from qserver.records.dataset import DatasetMeta
from qserver.storage.keys import Keys
from qserver.storage.store import Store
from tests.deployment import LOG, PEOPLE, Deployment, write_people
from worker.owner.attach import AttachRequest, attach
from worker.owner.checks.audit import examine
from worker.owner.restore import restore
from worker.owner.rotate import RotateRequest
from worker.owner.snapshot_line import demand_of

pytestmark = [
    pytest.mark.promise(
        "Guard rails",
        "a new snapshot plans for the questions paid for on the old one, also after a restore; a "
        "demand that nobody attached is found",
    ),
]

YOUNG, OLD = {"age": {"below": 25}}, {"age": {"at_least": 25}}
RANGES = [{"age": {"between": [a, b]}} for a in range(20, 29) for b in range(a + 1, 30, 2)]
PHI = 0.4


@pytest.fixture
def town(tmp_path: Path, store_url: str) -> Deployment:
    return Deployment.make(tmp_path, store_url, limit="20", phi=PHI)


def turn(town: Deployment, *, without_demand: bool = False) -> DatasetMeta:
    request = RotateRequest(
        "people", town.data, same_data_other_people=True, without_demand=without_demand
    )
    return town.rotated(request)


def week(town: Deployment) -> int:
    """Ask all ranges; what they cost, in nano-epsilon."""
    service, spender = town.service(), town.spender()
    before = service.dataset("people").spent_nano
    for where in RANGES:
        query = service.parse("people", {"where": where})
        found = service.ask("people", Question(query, Requirement(40, 0.95)), wait_s=0)
        if isinstance(found, JobStatus):
            town.work_off(spender)
    return service.dataset("people").spent_nano - before


def price(town: Deployment, where: Mapping[str, object]) -> int:
    service = town.service()
    query = service.parse("people", {"where": where})
    return service.explain("people", Question(query, Requirement(40, 0.95))).price_nano


def faults(town: Deployment) -> list[str]:
    return [
        f.text for f in examine(town.registry, town.settings) if not f.ok and "BLAS" not in f.check
    ]


def other(town: Deployment, **options: Any) -> AttachRequest:
    request = AttachRequest(
        name="other",
        data=write_people(town.settings.state_dir / "other.csv", [(25, "Male")]),
        domain=PEOPLE,
        limit=Fraction(20),
        relation="add-remove",
        population="town",
        records_per_person=1,
        phi=PHI,
        demand_of="people",
    )
    return replace(request, **options)


@pytest.mark.slow
def test_a_week_that_returns_after_a_rotation_costs_less(town: Deployment) -> None:
    """The first week learns by rows; the second buys the tables for it at its beginning."""
    first = week(town)
    paid = Store.open(town.settings).n_paid(town.meta)
    meta = turn(town)
    assert meta.demand_of == ((town.meta.snapshot, paid),)
    assert Store.open(town.settings).meta("people") == meta
    assert week(town) < 0.9 * first
    assert faults(town) == []


@pytest.mark.slow
def test_without_demand_the_second_week_is_planned_as_the_first(
    town: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What refines an answer depends on its noise.
    monkeypatch.setattr("worker.spending.group.job_ends.next_request", lambda *_: None)
    first = week(town)
    assert turn(town, without_demand=True).demand_of == ()
    assert week(town) == first


def test_the_demand_of_two_weeks_counts_in_the_third(town: Deployment) -> None:
    """Else what the second week's tables answered at no cost would be forgotten."""
    town.ask(YOUNG)
    second = turn(town)
    town.ask(OLD)
    third = turn(town)
    assert [snapshot for snapshot, _ in third.demand_of] == [town.meta.snapshot, second.snapshot]
    questions = Store.open(town.settings).earlier_questions(third)
    assert tuple(len(asked) for asked in questions) == tuple(n for _, n in third.demand_of)


def test_snapshots_before_the_last_questions_that_count_are_left_out(
    town: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = Store.open(town.settings)
    monkeypatch.setattr(Store, "n_paid", lambda _self, _meta: PLANNER.most_fitted - 1)
    before = replace(town.meta, demand_of=(("a", 3), ("b", 1), ("c", 0)))
    assert demand_of(before, reader) == (("b", 1), (town.meta.snapshot, PLANNER.most_fitted - 1))
    monkeypatch.setattr(Store, "n_paid", lambda _self, _meta: 0)
    assert demand_of(before, reader) == (("a", 3), ("b", 1))


def test_another_dataset_of_the_same_people_begins_with_the_demand_so_far(
    town: Deployment,
) -> None:
    """What is asked of the first dataset later changes nothing."""
    town.ask(YOUNG)
    meta = attach(
        other(town), settings=town.settings, registry=town.registry, progress=lambda _text: None
    )
    assert meta.demand_of == ((town.meta.snapshot, 1),)
    town.ask(OLD)
    questions = Store.open(town.settings).earlier_questions(meta)
    assert [len(asked) for asked in questions] == [1]
    assert faults(town) == []


def test_the_dataset_named_must_be_of_the_population_and_domain(town: Deployment) -> None:
    def fails(request: AttachRequest, error: type[Exception]) -> None:
        with pytest.raises(error):
            attach(
                request, settings=town.settings, registry=town.registry, progress=lambda _text: None
            )

    fails(other(town, demand_of="nobody"), NotFoundError)
    fails(other(town, population="village"), ConfigError)
    sex = Attribute("sex", "labels", ("Male", "Female"), outside="other", missing="other")
    fails(other(town, domain=Domain((PEOPLE.attributes[0], sex))), ConfigError)


@pytest.mark.slow
def test_a_store_that_forgot_everything_plans_as_before(town: Deployment) -> None:
    """The journal has both the fact and the earlier paid questions."""
    week(town)
    turn(town)
    town.ask(RANGES[0], length=40)
    before = price(town, RANGES[7])
    client = Store.open(town.settings).client
    client.flushall()
    assert restore(
        town.settings, registry=town.registry, accept_loss=(), log=LOG, say=lambda _text: None
    )
    assert price(town, RANGES[7]) == before
    assert faults(town) == []


def test_a_demand_that_was_not_attached_is_found(town: Deployment) -> None:
    """It could make the planner buy tables that nobody needs."""
    town.ask(YOUNG)
    town.ask(OLD)
    meta = turn(town)
    client = Store.open(town.settings).client
    key = Keys("town").dataset("people")
    text = str(client.hget(key, "meta"))
    forged = replace(meta, demand_of=((town.meta.snapshot, 1),))
    client.hset(key, "meta", text.replace(meta.to_json(), forged.to_json()))
    assert faults(town)


def test_facts_without_a_demand_are_written_as_before(town: Deployment) -> None:
    assert "demand_of" not in json.loads(town.meta.to_json())
    meta = replace(town.meta, demand_of=(("a", 3), ("b", 1)))
    assert DatasetMeta.from_json(meta.to_json()) == meta
