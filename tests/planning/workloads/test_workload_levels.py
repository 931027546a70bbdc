"""Workloads on levels that end where questions do: prices, answers, the same plan everywhere."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Sequence

import pytest
from numpy.testing import assert_allclose

from qserver.planning.blocks.levels import Learner
from qserver.planning.blocks.rent_or_buy import RentOrBuy
from qserver.planning.constants import PLANNER
from qserver.planning.effort import Effort
from qserver.planning.holdings import Holdings
from qserver.planning.purchase import Purchase
from qserver.planning.workloads.simultaneous import free_together, plan_together
from qserver.planning.workloads.workload import WorkloadPlan, plan_workload, simultaneous
from qserver.planning.workloads.workload_base import places_of, view_of
from qserver.query.linear_query import linear_query
from qserver.query.primitive import primitive
from qserver.query.question import Question
from qserver.query.requirement import Requirement
from qserver.query.weights import indicator, interval
from qserver.records.charge import Relation
from tests.benchmarks.synthetic_noise import Snapshot, question_of

SIZES = (40, 8)
BANDS = tuple((low, low + 8) for low in range(0, 40, 8))
GROUPS = ((0, 3), (1, 2, 6), (4, 5, 7))
Find = Callable[..., WorkloadPlan]


def question(generator: random.Random, *, banded: float) -> Question:
    """A question on one or two attributes; with this chance on a band, on a group of labels."""
    axes = {}
    while not axes:
        if generator.random() < 0.7:
            some = sorted(generator.sample(range(41), 2))
            ends = generator.choice(BANDS) if generator.random() < banded else some
            axes[0] = interval(40, *ends)
        if generator.random() < 0.6:
            axes[1] = indicator(8, generator.choice(GROUPS))
    requirement = Requirement(generator.choice((20.0, 40.0, 100.0)), generator.choice((0.9, 0.99)))
    return question_of(primitive(linear_query(SIZES, [(1, axes)])), requirement)


def asked_before(
    generator: random.Random, n: int, relation: Relation, *, banded: float
) -> Snapshot:
    snapshot = Snapshot(SIZES, relation, rule=RentOrBuy(0.6))
    for _ in range(n):
        q = question(generator, banded=banded)
        snapshot.ask(q.row, q.requirement)
    return snapshot


def plan_of(
    snapshot: Snapshot,
    questions: Sequence[Question],
    *,
    find: Find = plan_workload,
    effort: Effort | None = None,
) -> WorkloadPlan:
    return find(
        questions,
        snapshot.holdings,
        rule=snapshot.rule,
        single=snapshot.single,
        effort=effort or Effort(PLANNER.workload_work),
    )


def carry_out(snapshot: Snapshot, plan: WorkloadPlan) -> None:
    snapshot.carry_out(plan)
    for estimator in plan.estimators:
        if estimator is not None:
            snapshot.engine.keep(estimator)


@pytest.mark.slow
@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
@pytest.mark.parametrize(
    ("seed", "n_before", "banded"), [(1, 0, 1.0), (2, 12, 1.0), (4, 0, 0.5), (6, 20, 0.7)]
)
def test_a_workload_costs_at_most_the_sum_of_its_single_prices(
    seed: int, n_before: int, banded: float, relation: Relation
) -> None:
    """The single plans come from the same rule on the same learnt levels.

    Where cells lost different amounts, what the single plans cost if they are bought together is
    the bound: one at a time each may be free below the maximum. A nano-epsilon each is rounding.
    """
    generator = random.Random(seed)
    snapshot = asked_before(generator, n_before, relation, banded=banded)
    asked = [question(generator, banded=banded) for _ in range(8)]
    singles = [snapshot.plan(q.row, q.requirement) for q in asked]
    charges = [c for p in singles for c in Purchase(p.rows, p.tables).charges]
    apart = snapshot.ledger.spent_after(charges) - snapshot.ledger.spent_nano
    plan = plan_of(snapshot, asked)
    assert plan.price_nano <= apart + len(asked)
    if not n_before:
        assert plan.price_nano <= sum(p.price_nano for p in singles)
    carry_out(snapshot, plan)
    assert snapshot.ledger.spent_nano == plan.spent_after_nano
    for q in asked:
        assert snapshot.holdings.is_met(q)
        assert snapshot.replayed().holdings.is_met(q)


def banded_workload() -> list[Question]:
    """Every union of neighbouring bands that begins with the first, and every band."""
    ends = [*BANDS, *((0, high) for _, high in BANDS[:-1])]
    return [
        question_of(primitive(linear_query(SIZES, [(1, {0: interval(40, *e)})])), LOOSE)
        for e in ends
    ]


LOOSE = Requirement(40.0, 0.95)


@pytest.mark.slow
@pytest.mark.parametrize("find", [plan_workload, plan_together])
def test_levels_that_end_where_the_questions_do_make_a_workload_cheaper(find: Find) -> None:
    """Nothing was asked before: the levels are those of the workload's own conditions."""
    learnt, regular = Snapshot(SIZES), Snapshot(SIZES)
    assert regular.rule is not None
    regular.rule.learner = None
    plan, other = (plan_of(s, banded_workload(), find=find) for s in (learnt, regular))
    assert plan.price_nano < 0.8 * other.price_nano
    parts = {len(set(axis.ids)) for t in plan.tables for axis in t.partition.axes}
    assert parts <= {2, 3, 5}
    carry_out(learnt, plan)
    assert all(learnt.holdings.is_met(q) for q in banded_workload())


@pytest.mark.slow
@pytest.mark.parametrize("n_before", [0, 12])
def test_all_hold_at_once_on_learnt_levels_as_certified(n_before: int) -> None:
    """The half-width that each answer then has by itself is what the plan reckoned with."""
    generator = random.Random(5)
    snapshot = asked_before(generator, n_before, "add-remove", banded=1.0)
    asked = [question_of(q.row, Requirement(30.0, 0.95)) for q in banded_workload()]
    plan = plan_of(snapshot, asked, find=plan_together)
    assert plan.simultaneous is not None
    assert plan.simultaneous.method == "sampled"
    assert plan.simultaneous.confidence >= 0.95
    carry_out(snapshot, plan)
    tails = []
    for q, estimator in zip(simultaneous(asked), plan.estimators, strict=True):
        assert estimator is not None
        confidence = q.confidence
        found = snapshot.engine.estimate_after(q.row, estimator, confidence=confidence)
        assert found is not None
        tails.append(found.posterior.confidence_of(q.roomy_half_width))
    # Each alone holds at least as surely as all at once, and by the union bound they would not.
    assert min(tails) >= plan.simultaneous.confidence
    assert sum(1.0 - t for t in tails) > 0.05
    free = free_together(Holdings(snapshot.engine, snapshot.ledger, snapshot.limit_nano), asked)
    assert free is not None
    assert free.price_nano == 0


def test_blocks_of_a_plan_are_found_on_the_lattice_that_answers_are_given_on() -> None:
    """Before they are measured they have as many cells there, and the same partition."""
    snapshot = Snapshot(SIZES)
    now = snapshot.holdings
    view = view_of(now, banded_workload(), snapshot.rule, Effort())
    assert view is not now
    blocks = [b for q in banded_workload() if (b := _cell_of(view, q))]
    places = places_of(now, view, blocks)
    assert places is not None
    assert places.holdings.lattice is not now.lattice
    for block, place in places.by_block.items():
        here, there = view.engine.tables, places.holdings.engine.tables
        assert here.partition_of(block) == there.partition_of(place)


def _cell_of(view: Holdings, q: Question) -> tuple[tuple[int, int], ...] | None:
    pattern = view.pattern(q.row)
    return None if pattern is None else pattern.cell_of


def test_of_a_workload_nothing_is_guessed() -> None:
    """Cuts that were seen once are no sign of more to come where all questions are known."""
    generator, learner = random.Random(8), Learner()
    low, high = sorted(generator.sample(range(1, 40), 2))
    snapshot = Snapshot(SIZES, rule=RentOrBuy(0.6, learner=learner))
    query = primitive(linear_query(SIZES, [(1, {0: interval(40, low, high)})]))
    snapshot.ask(query, LOOSE)
    assert learner.lattice(snapshot.holdings, snapshot.paid) is snapshot.holdings.lattice
    (paid,) = snapshot.paid
    assert len(learner.views(snapshot.holdings, snapshot.paid, [paid], Effort())) > 1


@pytest.mark.slow
@pytest.mark.parametrize("find", [plan_workload, plan_together])
@pytest.mark.parametrize("limit", [20_000.0, 300_000.0, PLANNER.workload_work])
def test_a_process_with_cold_caches_and_another_clock_plans_alike(
    limit: float, find: Find, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be as slow as it likes: a clock that leaps an hour at each look changes nothing."""
    generator = random.Random(11)
    snapshot = asked_before(generator, 6, "add-remove", banded=0.7)
    drawn = [question(generator, banded=0.7).row for _ in range(6)]
    asked = [question_of(query, Requirement(25.0, 0.95)) for query in drawn]
    other, efforts = snapshot.replayed(), (Effort(limit), Effort(limit))
    plan = plan_of(snapshot, asked, find=find, effort=efforts[0])
    now = [0.0]

    def leap() -> float:
        now[0] += 3600.0
        return now[0]

    for clock in ("monotonic", "perf_counter", "process_time", "thread_time", "time"):
        monkeypatch.setattr(time, clock, leap)
    again = plan_of(other, asked, find=find, effort=efforts[1])
    monkeypatch.undo()
    assert again == plan
    assert efforts[0].done == efforts[1].done
    assert plan.price_nano > 0


def test_less_work_never_finds_a_cheaper_plan_than_all_that_is_wanted() -> None:
    generator = random.Random(12)
    snapshot = asked_before(generator, 4, "add-remove", banded=1.0)
    asked = [question(generator, banded=1.0) for _ in range(10)]
    prices = [plan_of(snapshot, asked, effort=Effort(w)).price_nano for w in (0.0, math.inf)]
    assert prices[0] >= prices[1]
    assert_allclose(plan_of(snapshot, asked).price_nano, prices[1], rtol=0.02)
