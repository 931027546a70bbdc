"""Workloads whose intervals hold at once: what is certified, what it costs, what is drawn."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from numpy.testing import assert_allclose

from qserver.errors import RequirementError
from qserver.planning.planner import Plan
from qserver.planning.workloads.shared_noise import answers_with
from qserver.planning.workloads.simultaneous import free_together, plan_together
from qserver.planning.workloads.workload import WorkloadPlan, plan_workload, simultaneous
from qserver.query.linear_query import linear_query
from qserver.query.primitive import Primitive, primitive
from qserver.query.question import Question
from qserver.query.requirement import Requirement
from qserver.query.weights import interval
from qserver.records.history import Estimator
from tests.benchmarks.synthetic_noise import Snapshot, question_of
from tests.sweeps import share

SIZES = (12, 3)
DELTA = 0.2
N_RUNS = 250
MOST_MISSES = int(N_RUNS * DELTA + 5.0 * math.sqrt(N_RUNS * DELTA * (1.0 - DELTA)))
"""Five deviations above the rate claimed: a false alarm once in 3,000,000."""


def row(low: int, high: int) -> Primitive:
    return primitive(linear_query(SIZES, [(1, {0: interval(12, low, high)})]))


def prefixes(*, length: float = 40.0, delta: float = DELTA) -> list[Question]:
    return [question_of(row(0, i + 1), Requirement(length, 1.0 - delta)) for i in range(11)]


def plan_of(snapshot: Snapshot, questions: Sequence[Question]) -> WorkloadPlan:
    return plan_together(
        questions,
        snapshot.holdings,
    )


def by_union(snapshot: Snapshot, questions: Sequence[Question]) -> Plan:
    return plan_workload(
        simultaneous(questions),
        snapshot.holdings,
    )


def carry_out(snapshot: Snapshot, plan: WorkloadPlan, questions: Sequence[Question]) -> None:
    snapshot.carry_out(plan)
    for estimator in plan.estimators:
        if estimator is not None:
            snapshot.engine.keep(estimator)


def errors_of(
    snapshot: Snapshot, questions: Sequence[Question], estimators: Sequence[Estimator | None]
) -> list[float]:
    """The errors of the answers in parts of their half-widths; all counts are zero."""
    found = []
    for q, estimator in zip(simultaneous(questions), estimators, strict=True):
        assert estimator is not None
        confidence = q.confidence
        estimate = snapshot.engine.estimate_after(q.row, estimator, confidence=confidence)
        assert estimate is not None
        room = q.roomy_half_width + estimate.unforeseen
        found.append(abs(estimate.posterior.estimate) / room)
    return found


def before_it(seed: int) -> Snapshot:
    """A snapshot with a row of little noise that is a cell of what will be bought."""
    snapshot = Snapshot(SIZES, rule=None, generator=np.random.default_rng(seed))
    snapshot.ask(row(0, 1), Requirement(20.0, 0.99))
    return snapshot


@pytest.mark.slow
@pytest.mark.parametrize("has_rows", share([True, False], 1))
def test_all_intervals_of_a_workload_hold_at_once_as_often_as_claimed(has_rows: bool) -> None:
    """N_RUNS draws of one plan; intervals a fifth shorter are caught by the same count."""
    questions, plan, worst = prefixes(), None, []
    for seed in range(N_RUNS):
        snapshot = (
            before_it(seed)
            if has_rows
            else Snapshot(SIZES, rule=None, generator=np.random.default_rng(seed))
        )
        plan = plan_of(snapshot, questions) if plan is None else plan
        snapshot.carry_out(plan)
        worst.append(max(errors_of(snapshot, questions, plan.estimators)))
    assert plan is not None
    assert plan.simultaneous is not None
    assert plan.simultaneous.method == "sampled"
    assert sum(w > 1.0 for w in worst) <= MOST_MISSES
    assert sum(w > 0.8 for w in worst) > MOST_MISSES


@pytest.mark.slow
def test_what_is_answered_has_the_errors_that_were_certified() -> None:
    """Scales of every answer, planned and released: the same weights on the same noise."""
    questions, snapshot = prefixes(), before_it(1)
    plan = plan_of(snapshot, questions)
    raises = {snapshot.engine.tables.block_of(t.partition): t.alpha_nano for t in plan.tables}
    assert None not in raises
    planned = answers_with(snapshot.holdings, simultaneous(questions), raises)  # type: ignore[arg-type]
    assert planned is not None
    assert planned.estimators == plan.estimators
    expected = [
        sorted(np.abs(part[part != 0.0]))
        for p in planned.planned
        for part in [planned._errors([p]).ratios[0] * (p.half_width - p.error.allowance)]
    ]
    snapshot.carry_out(plan)
    for q, estimator, scales in zip(
        simultaneous(questions), plan.estimators, expected, strict=True
    ):
        assert estimator is not None
        found = snapshot.engine.estimate_after(q.row, estimator, confidence=q.confidence)
        assert found is not None
        known = found.posterior.scales
        assert_allclose(sorted(known[known > 0.0]), scales, rtol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("length", [10.0, 40.0])
def test_the_joint_bound_never_costs_more_than_the_union_bound(length: float) -> None:
    snapshot = Snapshot(SIZES)
    questions = prefixes(length=length, delta=0.01)
    joint, union = plan_of(snapshot, questions), by_union(snapshot, questions)
    assert joint.price_nano < 0.97 * union.price_nano
    assert joint.simultaneous is not None
    assert joint.simultaneous.confidence >= 0.99


def test_independent_cells_gain_little_by_the_joint_bound() -> None:
    """The product rule is exact for them: delta / n and 1 - (1 - delta)^(1/n) are all but one."""
    snapshot = Snapshot(SIZES)
    cells = [question_of(row(i, i + 1), Requirement(40.0, 0.8)) for i in range(12)]
    joint, union = plan_of(snapshot, cells), by_union(snapshot, cells)
    exact = math.log(1.0 - 0.8 ** (1.0 / 12)) / math.log(0.2 / 12)
    assert exact - 1e-5 < joint.price_nano / union.price_nano <= 1.0


@pytest.mark.slow
def test_a_workload_that_was_met_at_once_is_free_whatever_comes_after() -> None:
    snapshot, questions = Snapshot(SIZES), prefixes()
    carry_out(snapshot, plan_of(snapshot, questions), questions)
    for length in (12.0, 30.0):
        other = [question_of(row(i, i + 2), Requirement(length, 0.9)) for i in range(0, 12, 2)]
        carry_out(snapshot, plan_of(snapshot, other), other)
        free = free_together(snapshot.holdings, questions)
        assert free is not None
        assert free.price_nano == 0
        assert free.simultaneous is not None
        assert free.simultaneous.confidence >= 1.0 - DELTA


def test_answers_on_a_row_and_on_the_cell_that_it_is_are_counted_apart() -> None:
    """Their noise is shared, so only the union bound holds: the tail of one is added."""
    snapshot = before_it(1)
    cells = [question_of(row(i, i + 1), Requirement(60.0, 0.9)) for i in (0, 6)]
    block = snapshot.holdings.pattern(cells[0].row).cell_of
    assert block is not None
    found = answers_with(snapshot.holdings, simultaneous(cells), {block: 150_000_000})
    assert found is not None
    assert found.twins == (True, False)
    alone = [float(found._errors([p]).tails()[0]) for p in found.planned]
    certified = found.certified(0.9, work=0, n_before=0)
    assert_allclose(1.0 - certified.confidence, sum(alone), rtol=1e-6)


def test_several_confidences_have_no_one_confidence() -> None:
    questions = [question_of(row(0, 3), Requirement(9.0, c)) for c in (0.9, 0.95)]
    with pytest.raises(RequirementError, match="`confidence` must be the same"):
        plan_of(Snapshot(SIZES), questions)
