"""At an equal price, tables are bought only where the questions are about all of their cells."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import product

import numpy as np
import pytest

from qserver.planning.effort import Effort
from qserver.planning.workloads.workload import WorkloadPlan, plan_workload
from qserver.planning.workloads.workload_base import are_about_all
from qserver.query.linear_query import linear_query
from qserver.query.primitive import primitive
from qserver.query.question import Question
from qserver.query.requirement import Requirement
from qserver.query.weights import Weights, indicator, interval
from tests.benchmarks.synthetic_noise import Snapshot, question_of
from tests.inference.tables.blocks.test_blocks import dense

SIZES = (5, 12)
LOOSE = Requirement(100.0, 0.95)


def question(axes: dict[int, Weights], sizes: Sequence[int] = SIZES) -> Question:
    return question_of(primitive(linear_query(sizes, [(1, axes)])), LOOSE)


def groups(where: dict[int, Weights]) -> list[Question]:
    """GROUP BY the first attribute under a condition."""
    return [question({0: interval(5, v, v + 1), **where}) for v in range(5)]


def bought(snapshot: Snapshot, asked: Sequence[Question]) -> WorkloadPlan:
    plan = plan_workload(
        asked, snapshot.holdings, rule=snapshot.rule, single=snapshot.single, effort=Effort()
    )
    snapshot.carry_out(plan)
    return plan


def test_groups_under_one_of_many_conditions_leave_room_for_the_next_condition() -> None:
    """The table of 60 cells costs as much now, and the second condition as much again."""
    snapshot = Snapshot(SIZES)
    first = bought(snapshot, groups({1: interval(12, 3, 4)}))
    assert first.rows
    assert not first.tables
    assert bought(snapshot, groups({1: interval(12, 7, 8)})).price_nano == 0


def test_groups_of_all_records_are_one_table() -> None:
    """It weighs on no other cells than the groups do, and unions of groups are then free."""
    snapshot = Snapshot(SIZES)
    plan = bought(snapshot, groups({}))
    assert len(plan.tables) == 1
    assert not plan.rows


def test_groups_under_every_condition_are_one_table() -> None:
    asked = [q for c in range(12) for q in groups({1: interval(12, c, c + 1)})]
    assert len(bought(Snapshot(SIZES), asked).tables) == 1


@pytest.mark.parametrize("seed", range(12))
def test_all_cells_are_asked_about_where_the_rows_say_so_cell_by_cell(seed: int) -> None:
    generator, sizes = random.Random(seed), (3, 4, 2)
    holdings, found = Snapshot(sizes).holdings, set[bool]()
    for n, _ in product((1, 3, 6, 10), range(6)):
        asked = []
        for _ in range(n):
            axes = {
                a: indicator(s, generator.sample(range(s), generator.randint(1, s)))
                for a, s in enumerate(sizes)
                if generator.random() < 0.6
            }
            asked.append(question(axes, sizes))
        inside = np.any([dense(q.row.row) != 0 for q in asked], axis=0)
        assert are_about_all(holdings, asked) == bool(inside.all())
        found.add(bool(inside.all()))
    assert found == {True, False}


def test_tables_weigh_on_sealed_periods_alone() -> None:
    """Three of six periods have their data: groups of these three are about all there is."""
    snapshot = Snapshot((2, 6), period_axis=1, n_sealed=3)
    sealed = [question({0: interval(2, v, v + 1), 1: interval(6, 0, 3)}, (2, 6)) for v in range(2)]
    assert are_about_all(snapshot.holdings, sealed)
    assert not are_about_all(snapshot.holdings, sealed[:1])
    last = [question({0: interval(2, v, v + 1), 1: interval(6, 2, 3)}, (2, 6)) for v in range(2)]
    assert not are_about_all(snapshot.holdings, last)
