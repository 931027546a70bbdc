"""A plan outlives the worker that found it, and is only ever a help."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from qserver.answering.checkpoint import CheckpointFolder
from qserver.answering.decide import decide
from qserver.query.question import Question
from qserver.query.requirement import Requirement
from qserver.records.answer import Answer, JobStatus
from qserver.records.state import State
from qserver.storage.encoding.queued_requests import Reservation
from qserver.storage.spend import SpendingStore
from tests.deployment import Deployment
from worker.constants import WORKER
from worker.spending.group import planner

pytestmark = [
    pytest.mark.promise(
        "Faults and races",
        "a worker that goes on for a dead one uses its plan for the same request on the same "
        "state alone, and rehearses and judges it like one just made; one that is damaged or "
        "sealed by another is made anew",
    ),
]


class DiedError(BaseException):
    """As if the process were killed there."""


@pytest.fixture
def town(tmp_path: Any, store_url: str, monkeypatch: pytest.MonkeyPatch) -> Deployment:
    """A deployment whose worker keeps every plan."""
    monkeypatch.setattr("worker.spending.group.plan.WORKER", replace(WORKER, long_plan_s=0.0))
    return Deployment.make(tmp_path, store_url)


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A mark for each time that a worker plans."""
    marks = list[str]()

    def counted(*of: Any) -> Any:
        marks.append("plan")
        return decide(*of)

    monkeypatch.setattr(planner, "decide", counted)
    return marks


def killed_before_its_charge(town: Deployment, age: int = 20) -> str:
    """A job whose worker dies once its plan is there."""
    job = town.submit({"age": age})
    assert isinstance(job, JobStatus)

    def dies(*_of: Any, **_named: Any) -> None:
        raise DiedError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SpendingStore, "reserve", dies)
        with pytest.raises(DiedError):
            town.work_off()
    return job.id


def ended(town: Deployment, job: str) -> JobStatus:
    """How the next worker brings it to its end."""
    town.work_off()
    return town.service().job(job)


def test_the_next_worker_goes_on_with_the_plan_of_a_dead_one(
    town: Deployment, planned: list[str]
) -> None:
    service = town.service()
    query = service.parse("people", {"where": {"age": 20}})
    quoted = service.explain("people", Question(query, Requirement(40, 0.95))).price_nano
    job = killed_before_its_charge(town)
    assert planned == ["plan"]
    found = ended(town, job)
    assert planned == ["plan"]
    assert isinstance(found.result, Answer)
    assert found.result.charged_nano == quoted
    assert town.registry.plans().path.stat().st_mode & 0o077 == 0


def test_a_plan_is_of_no_use_for_another_question_or_once_the_state_moved_on(
    town: Deployment, planned: list[str]
) -> None:
    killed_before_its_charge(town, 20)
    other = town.submit({"age": 21})
    assert isinstance(other, JobStatus)
    writer = town.writer()
    lease = writer.acquire("town")
    assert lease is not None
    [taken] = writer.queue.more("town", consumer="test", most=1)
    town.spender().work(lease, [taken])
    writer.release(lease)
    assert planned == ["plan", "plan"]
    town.work_off()
    assert planned == ["plan", "plan", "plan"]


def _cut(folder: CheckpointFolder) -> None:
    [file] = folder.path.iterdir()
    file.write_bytes(file.read_bytes()[:-7])


def _changed(**head: object) -> Callable[[CheckpointFolder, str], None]:
    def change(folder: CheckpointFolder, snapshot: str) -> None:
        state = folder.load(snapshot)
        assert state is not None
        folder.keep(snapshot, "0", State({**state.head, **head}))

    return change


def _of_another_key(folder: CheckpointFolder, snapshot: str) -> None:
    state = folder.load(snapshot)
    assert state is not None
    replace(folder, key=b"another").keep(snapshot, "0", state)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda folder, _: _cut(folder),
        _of_another_key,
        _changed(of={"code": "another"}),
        _changed(plan="{}"),
        _changed(plan=7),
        _changed(place="of another state"),
    ],
)
def test_a_plan_that_is_not_the_workers_own_or_whole_is_made_anew(
    town: Deployment, planned: list[str], spoil: Callable[[CheckpointFolder, str], None]
) -> None:
    job = killed_before_its_charge(town)
    spoil(town.registry.plans(), town.meta.snapshot)
    assert isinstance(ended(town, job).result, Answer)
    assert planned == ["plan", "plan"]


def test_the_books_judge_a_plan_of_a_dead_worker_like_any_other(
    town: Deployment, planned: list[str]
) -> None:
    """Sealed by the worker's own key, and a nano-epsilon too cheap."""
    job = killed_before_its_charge(town)
    folder, snapshot = town.registry.plans(), town.meta.snapshot
    state = folder.load(snapshot)
    assert state is not None
    plan = Reservation.from_json(state.head["plan"])
    after = plan.before.after(plan.after.share_nano - 1)
    _changed(plan=replace(plan, after=after).to_json())(folder, snapshot)
    problem = ended(town, job).problem
    assert problem is not None
    assert problem["code"] == "books_differ"
    assert planned == ["plan"]
    assert town.service().dataset("people").spent_nano == 0


def test_a_plan_that_took_no_time_is_not_written(
    town: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("worker.spending.group.plan.WORKER", replace(WORKER, long_plan_s=1e9))
    killed_before_its_charge(town)
    assert not town.registry.plans().path.exists()


def test_a_full_disk_costs_the_plan_alone(
    town: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_of: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(CheckpointFolder, "keep", full)
    assert town.ask({"age": 20}).charged_nano > 0
