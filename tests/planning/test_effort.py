"""Work counted in place of time ends a search at the same place wherever it runs."""

from __future__ import annotations

import random
from dataclasses import replace
from math import inf

import pytest

from qserver.planning.blocks.rent_or_buy import RentOrBuy
from qserver.planning.constants import PLANNER
from qserver.planning.effort import Effort, work_of_steps
from qserver.planning.planner import Plan, plan_answer
from qserver.query.linear_query import linear_query
from qserver.query.primitive import Primitive, primitive
from qserver.query.requirement import DEFAULT_PHI, Requirement
from qserver.query.weights import interval
from tests.benchmarks.many_streams import MANY_STREAMS, ManyStream
from tests.benchmarks.play import snapshot_for
from tests.benchmarks.synthetic_noise import Snapshot, question_of
from tests.sweeps import share

SIZES = (30, 6)
NARROW = (12, 8, 6, 5, 4)


def question(generator: random.Random) -> tuple[Primitive, Requirement]:
    axes = {a: interval(n, *sorted(generator.sample(range(n + 1), 2))) for a, n in enumerate(SIZES)}
    query = primitive(linear_query(SIZES, [(1, axes)]))
    return query, Requirement(generator.choice((40.0, 60.0, 90.0)), 0.95)


def of_scope(generator: random.Random, axes: list[int]) -> tuple[Primitive, Requirement]:
    """A question about these attributes."""
    ends = {a: sorted(generator.sample(range(NARROW[a] + 1), 2)) for a in axes}
    query = linear_query(NARROW, [(1, {a: interval(NARROW[a], *ends[a]) for a in axes})])
    return primitive(query), Requirement(generator.choice((40.0, 60.0)), 0.95)


def planned(snapshot: Snapshot, asked: tuple[Primitive, Requirement], effort: Effort) -> Plan:
    plan = plan_answer(
        question_of(*asked),
        snapshot.holdings,
        rule=snapshot.rule,
        effort=effort,
    )
    return replace(plan, estimate=None)


@pytest.mark.slow
@pytest.mark.parametrize("limit", [4_000.0, 20_000.0, PLANNER.question_work])
def test_a_process_that_reads_everything_anew_stops_at_the_same_work(limit: float) -> None:
    """Its caches are cold, so it takes longer; what it finds and how much it counts is the same."""
    generator, n_ended = random.Random(12), 0
    snapshot = Snapshot(SIZES, rule=RentOrBuy(0.3))
    for i in range(14):
        asked, effort = question(generator), Effort(limit)
        plan = planned(snapshot, asked, effort)
        if i % 3 == 1:
            # By another process, and by this one, which knows the bases of this state now.
            for other in (snapshot.replayed(), snapshot):
                again = Effort(limit)
                assert planned(other, asked, again) == plan
                assert again.done == effort.done
        n_ended += effort.is_spent
        snapshot.carry_out(plan, asked[0])
    assert (n_ended > 0) is (limit < PLANNER.question_work)


@pytest.mark.slow
def test_what_was_asked_before_of_the_same_scope_changes_no_count() -> None:
    """Bases of a part of the questions are fitted for one, and are at hand for the next."""
    generator, snapshot = random.Random(23), Snapshot(NARROW, rule=RentOrBuy(0.3))
    for _ in range(60):
        axes = sorted(generator.sample(range(len(NARROW)), generator.randint(1, 3)))
        asked, others = of_scope(generator, axes), [of_scope(generator, axes) for _ in range(3)]
        cold = Effort(PLANNER.question_work)
        plan = planned(snapshot.replayed(), asked, cold)
        for other in others:
            planned(snapshot, other, Effort(PLANNER.question_work))
        warm = Effort(PLANNER.question_work)
        again = planned(snapshot, asked, warm)
        assert (again.price_nano, again.rows, again.tables) == (
            plan.price_nano,
            plan.rows,
            plan.tables,
        )
        assert warm.done == cold.done
        snapshot.carry_out(plan, asked[0])


@pytest.mark.slow
@pytest.mark.parametrize("stream", share(MANY_STREAMS, 2), ids=lambda s: s.name)
def test_a_plan_counts_little_more_than_its_budget(stream: ManyStream) -> None:
    """Where many bases are looked at; what is over is the price of what was found."""
    asked, counts = stream.questions(31, 40), list[float]()
    snapshot = snapshot_for(stream.sizes, relation="add-remove", phi=DEFAULT_PHI, seed=31)
    for one in asked:
        effort = Effort()
        plan = snapshot.plan(one.query, one.requirement, effort)
        counts.append(effort.done)
        snapshot.carry_out(plan, one.query)
    assert max(counts) <= 1.4 * (PLANNER.question_work + PLANNER.fit_work)


def test_work_is_counted_by_an_effort_and_by_no_clock() -> None:
    effort = Effort(10.0)
    effort.add(10.0)
    assert not effort.is_spent
    effort.add(0.5)
    assert effort.is_spent


def test_work_of_a_part_is_counted_in_the_whole() -> None:
    whole = Effort(10.0)
    part = Effort(inf, whole)
    part.add(11.0)
    assert whole.is_spent
    assert part.is_spent


def test_steps_on_larger_problems_are_more_work() -> None:
    sizes = {"blocks": 10, "components": 20, "targets": 30}
    work = work_of_steps(100, **sizes)
    assert all(work_of_steps(100, **{**sizes, k: 2 * v}) > work for k, v in sizes.items())
    assert work_of_steps(200, **sizes) == 2.0 * work


def test_the_plan_by_rows_alone_is_counted_and_never_ended() -> None:
    """Without any work left nothing else is searched for."""
    snapshot, generator = Snapshot(SIZES, rule=RentOrBuy(0.3)), random.Random(12)
    for _ in range(4):
        asked = question(generator)
        snapshot.carry_out(planned(snapshot, asked, Effort()), asked[0])
    asked, none, counted = question(generator), Effort(0.0), Effort()
    by_rows = replace(snapshot.plan_by_rows(*asked), estimate=None)
    assert planned(snapshot, asked, none).rows == by_rows.rows
    planned(snapshot, asked, counted)
    assert counted.done >= PLANNER.evaluation_work
    assert PLANNER.evaluation_work <= none.done <= counted.done
