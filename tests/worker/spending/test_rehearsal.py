"""A plan that no answer comes of is never charged, wherever that fails; others are answered."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qserver.errors import BudgetExhaustedError, CapacityError, InputError
from qserver.query.class_grid import product_partition
from qserver.query.linear_query import linear_query, total_query
from qserver.query.primitive import primitive
from qserver.query.question import AnyAsked, Question, Workload
from qserver.query.requirement import Requirement
from qserver.query.weights import indicator
from qserver.records.answer import JobStatus, WorkloadAnswer
from qserver.records.charge import NANO
from qserver.records.plan import PlannedRow, PlannedTable
from qserver.storage.encoding.jobs import answer_from_json
from qserver.storage.queue import Outcome
from tests.deployment import Deployment
from tests.query.small_queries import dense_queries
from tests.sweeps import n_of, share
from tests.worker.by_hand import spent_nano
from tests.worker.spending.dry import DryTown
from worker.spending import reservation as reservations
from worker.spending.answers_in_force import Origin
from worker.spending.group import planner
from worker.spending.group.spends import Placeholders, Rehearsed, rehearse

PREFIXES: list[dict[str, object]] = [{"age": {"below": age}} for age in range(21, 30)]
EDGE = {"network": {"edges": [["sex", "age"]]}, "allocation": "arxiv"}
N_TOWNS = n_of(10, share=5)


@pytest.fixture
def town(tmp_path: Path, store_url: str) -> Deployment:
    return Deployment.make(tmp_path, store_url, limit="10")


@pytest.mark.slow
def test_a_simultaneous_workload_with_a_public_total_is_answered(
    tmp_path: Path, store_url: str
) -> None:
    """The total is the cell of a block without noise: it was charged, published and then failed."""
    town = Deployment.make(tmp_path, store_url, limit="10", relation="replace-one")
    found = town.ask_workload(town.workload([{}, *PREFIXES], simultaneous=True))
    assert found.charged_nano == spent_nano(town) > 0
    assert found.simultaneous is not None
    assert found.simultaneous.confidence >= 0.95
    total, *others = found.answers
    assert (total.estimate, total.source, total.evidence) == (500.0, "history", (0,))
    assert {a.source for a in others} == {"measured"}
    again = town.submit_workload(town.workload([{}, *PREFIXES], simultaneous=True))
    assert isinstance(again, WorkloadAnswer)
    assert [a.estimate for a in again.answers] == [a.estimate for a in found.answers]


def fails(*_args: Any, **_named: Any) -> Any:
    raise ZeroDivisionError("a fault in what forms the answer")


Submit = Callable[[Deployment], JobStatus]


def question(town: Deployment) -> JobStatus:
    found = town.submit({"sex": "Male"})
    assert isinstance(found, JobStatus)
    return found


def workload(town: Deployment) -> JobStatus:
    found = town.submit_workload(town.workload(PREFIXES, simultaneous=True))
    assert isinstance(found, JobStatus)
    return found


def model(town: Deployment) -> JobStatus:
    found = town.service().models.learn("people", "network", EDGE, NANO // 2, wait_s=0)
    assert isinstance(found, JobStatus)
    return found


STAGES: list[tuple[Submit, Any, str]] = [
    (question, "qserver.inference.engine.InferenceEngine", "estimate_with"),
    (question, "qserver.inference.engine.InferenceEngine", "_planned"),
    (question, "qserver.storage.encoding.jobs", "_measurement"),
    (question, "worker.spending.reservation", "answer_from"),
    (question, "worker.spending.group.spends", "measurement_json"),
    (question, "worker.spending.group.spends", "answer_json"),
    (question, "worker.journal.sections.Drawn", "to_journal"),
    (question, "worker.spending.answers_in_force.Live", "origin_of_row"),
    (workload, "qserver.inference.engine.InferenceEngine", "estimate_after"),
    (workload, "qserver.inference.tables.weights.WeightChoice", "answer"),
    (workload, "qserver.storage.encoding.queued_requests.Reservation", "sources"),
    (workload, "qserver.answering.workload", "answer_from"),
    (workload, "worker.spending.reservation", "answer_workload"),
    (workload, "worker.spending.answers_in_force.Live", "origins_of_cells"),
    (model, "qserver.answering.models.kinds.network_kind.NetworkKind", "shares"),
    (model, "qserver.answering.models.kinds.network_kind.NetworkKind", "used"),
    (model, "worker.spending.reservation", "learnt"),
    (model, "worker.spending.two_stages", "divided_nano"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("submit", "owner", "name"), share(STAGES, 6))
def test_a_fault_wherever_the_answer_is_formed_is_found_before_anything_is_charged(
    town: Deployment,
    monkeypatch: pytest.MonkeyPatch,
    submit: Submit,
    owner: str,
    name: str,
) -> None:
    job = submit(town)
    with monkeypatch.context() as patch:
        patch.setattr(f"{owner}.{name}", fails)
        town.work_off()
    status = town.service().job(job.id)
    assert status.problem is not None
    assert status.problem["code"] == "unanswerable"
    assert "fault" not in str(status.problem)
    assert spent_nano(town) == 0
    assert town.registry.journal("town", create=False).state.last_reserved_job is None
    # The queue goes on, and the very same is answered once the fault is gone.
    again = submit(town)
    town.work_off()
    assert town.service().job(again.id).state == "done"
    assert spent_nano(town) > 0


def test_without_the_rehearsal_the_same_fault_is_charged(
    town: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Control."""
    outcome = Outcome("done", "{}", "", 0, 0)
    monkeypatch.setattr(
        planner, "rehearse", lambda _, replica: Rehearsed(outcome, replica.tried([]))
    )
    monkeypatch.setattr(reservations, "answer_from", fails)
    job = question(town)
    town.work_off()
    assert town.service().job(job.id).state == "failed"
    assert spent_nano(town) > 0


def a_town(seed: int, chance: random.Random) -> DryTown:
    return DryTown.make(
        tuple(chance.randint(2, 4) for _ in range(chance.randint(1, 2))),
        relation=chance.choice(["add-remove", "replace-one"]),
        k=chance.choice([1, 1, 2, 3]),
        is_total=chance.random() < 0.8,
        phi=chance.choice([0.02, 1e9]),
        seed=seed,
    )


@st.composite
def asked(draw: st.DrawFn, sizes: tuple[int, ...]) -> AnyAsked:
    """A question, or a workload of a level, its prefixes or random ones, perhaps with the total."""
    confidence = draw(st.sampled_from([0.9, 0.99]))
    axis = draw(st.integers(0, len(sizes) - 1))
    kind = draw(st.sampled_from(["level", "prefixes", "random"]))
    queries = [draw(dense_queries(sizes, max_terms=2)).query() for _ in range(2)]
    if kind != "random":
        first = 0 if kind == "prefixes" else None
        queries = [
            linear_query(
                sizes,
                [(1, {axis: indicator(sizes[axis], range(i if first is None else 0, i + 1))})],
            )
            for i in range(sizes[axis])
        ]
    if draw(st.booleans()):
        queries.insert(draw(st.integers(0, len(queries))), total_query(sizes))
    lengths = st.sampled_from([3.0, 20.0, 100.0])
    questions = [Question(q, Requirement(draw(lengths), confidence)) for q in queries]
    if draw(st.integers(0, 4)) == 0:
        return questions[0]
    return Workload(tuple(questions), simultaneous=draw(st.booleans()))


def shape(answer: Any) -> list[tuple[object, ...]]:
    """All of an answer but what noise decides."""
    parts = answer.answers if isinstance(answer, WorkloadAnswer) else [answer]
    return [(a.source, a.evidence, a.weights, a.charged_nano, a.confidence) for a in parts]


@pytest.mark.slow
@settings(max_examples=N_TOWNS)
@given(st.data(), st.integers(0, 10**6))
def test_whatever_is_charged_is_answered_as_it_was_rehearsed(
    data: st.DataObject, seed: int
) -> None:
    town = a_town(seed, random.Random(seed))
    sizes = town.meta.domain.sizes
    rehearsed: list[str] = []

    def noting(*args: Any) -> Any:
        found = rehearse(*args)
        rehearsed.append(found.outcome.text)
        return found

    town.rehearsal = noting
    for _ in range(data.draw(st.integers(1, 3))):
        before = town.n_charged
        try:
            found = town.ask(data.draw(asked(sizes)))
        except (BudgetExhaustedError, CapacityError):
            assert town.n_charged == before
            continue
        if town.n_charged > before:
            assert shape(found.answer) == shape(answer_from_json(rehearsed[-1]))


@pytest.mark.slow
def test_a_rehearsal_changes_nothing_and_says_the_same_twice(town: Deployment) -> None:
    """Two replicas, one of which rehearses all the time, come to the same answers."""
    towns = [
        DryTown.make((5, 3), relation="replace-one", k=1, is_total=True, phi=0.02, seed=3)
        for _ in range(2)
    ]
    towns[0].rehearsal = lambda *args: (rehearse(*args), rehearse(*args))
    towns[1].rehearsal = lambda *_: None
    sizes, seen = towns[0].meta.domain.sizes, []
    level = [linear_query(sizes, [(1, {0: indicator(5, range(i + 1))})]) for i in range(4)]
    for length in (30.0, 20.0, 8.0):
        questions = tuple(Question(q, Requirement(length, 0.95)) for q in level)
        seen.append([town.ask(Workload(questions)).answer for town in towns])
        seen.append([town.ask(Question(level[0], Requirement(2.0, 0.95))).answer for town in towns])
    assert all(one == other for one, other in seen)
    assert towns[0].store == replace(towns[1].store, meta=towns[0].meta)


def test_placeholders_follow_from_what_is_public() -> None:
    """One scale of noise from what is continued; what has less noise already is taken over."""
    step = Fraction(1, 4)
    row = product_partition((3,), {0: [0, 1, 2]}).row(0)
    planned = PlannedRow(row, primitive(row).key, NANO // 10, step)
    assert Placeholders().of_row(planned, None) == 40
    assert Placeholders().of_row(planned, Origin(7, NANO // 20)) == 47
    assert Placeholders().of_row(planned, Origin(7, NANO // 5)) == 7
    table = PlannedTable(product_partition((3,), {0: [0, 1, 2]}), NANO // 10, step)
    assert Placeholders().of_table(table, {1: Origin(5, NANO)}) == (40, 5, 40)


@pytest.mark.parametrize(
    "wrong", [{"step": Fraction(2)}, {"step": Fraction(2, 3)}, {"alpha_nano": 0}]
)
def test_what_could_not_be_drawn_for_some_data_is_refused(wrong: dict[str, Any]) -> None:
    """A step that does not divide the unit fails where the truth is off the lattice."""
    partition = product_partition((3,), {0: [0, 1, 2]})
    row = PlannedRow(partition.row(0), "k", NANO, Fraction(1, 4))
    with pytest.raises(InputError):
        Placeholders().of_row(replace(row, **wrong), None)
    if "step" in wrong:
        with pytest.raises(InputError):
            Placeholders().of_table(replace(PlannedTable(partition, NANO, row.step), **wrong), {})
