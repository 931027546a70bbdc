"""Many questions planned as one."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from math import inf

import pytest
from numpy.testing import assert_allclose

from qserver.inference.tables.blocks.pattern import BlockKey
from qserver.planning.blocks.rent_or_buy import RentOrBuy
from qserver.planning.effort import Effort
from qserver.planning.holdings import Holdings
from qserver.planning.planner import Plan
from qserver.planning.purchase import Purchase
from qserver.planning.workloads.one_by_one import Single, one_by_one
from qserver.planning.workloads.workload import WorkloadPlan, plan_workload, simultaneous
from qserver.planning.workloads.workload_base import Scaling
from qserver.query.linear_query import linear_query
from qserver.query.primitive import Primitive, primitive
from qserver.query.question import Question
from qserver.query.requirement import Requirement
from qserver.query.weights import interval
from qserver.records.charge import Relation
from tests.benchmarks.synthetic_noise import Snapshot, question_of
from tests.sweeps import share

SIZES = (30, 4)
Raises = Mapping[BlockKey, int]


def bins_and_prefixes() -> list[Question]:
    ends = [(i, i + 1) for i in range(30)] + [(0, i + 1) for i in range(30)]
    return [question_of(_range(*e), Requirement(80.0, 0.95)) for e in ends]


def _range(low: int, high: int) -> Primitive:
    return primitive(linear_query(SIZES, [(1, {0: interval(30, low, high)})]))


def plan_of(
    snapshot: Snapshot, questions: Sequence[Question], *, single: Single | None = None
) -> WorkloadPlan:
    return plan_workload(
        questions,
        snapshot.holdings,
        single=single,
    )


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
def test_a_workload_costs_no_more_than_its_own_rows_and_meets_every_question(
    relation: Relation,
) -> None:
    snapshot, alone = Snapshot(SIZES, relation), Snapshot(SIZES, relation)
    questions = bins_and_prefixes()
    for q in questions:
        row = alone.holdings.own_row(q)
        assert row is not None
        alone.buy(Purchase((row,)))
    plan = plan_of(snapshot, questions)
    assert plan.kind == "blocks"
    assert plan.price_nano < 0.7 * alone.ledger.spent_nano
    snapshot.carry_out(plan)
    assert snapshot.ledger.spent_nano == plan.spent_after_nano
    assert all(snapshot.holdings.is_met(q) for q in questions)
    assert plan_of(snapshot, questions).kind == "free"


def test_the_first_question_of_a_workload_bears_its_price() -> None:
    snapshot, questions = Snapshot(SIZES), bins_and_prefixes()
    plan = plan_of(snapshot, questions)
    assert [p.price_nano for p in plan.paid] == [plan.price_nano] + 59 * [0]
    assert [p.row for p in plan.paid] == [q.row.row for q in questions]
    assert {p.kind for p in plan.paid} == {"blocks"}


def test_bins_asked_together_are_one_table_at_the_price_of_one_row() -> None:
    snapshot, bins = Snapshot(SIZES), bins_and_prefixes()[:30]
    plan = plan_of(snapshot, bins)
    one = snapshot.holdings.own_row(bins[0])
    assert one is not None
    assert plan.kind == "blocks"
    assert [t.partition.n_cells for t in plan.tables] == [30]
    assert plan.price_nano == one.alpha_nano


def test_a_question_asked_twice_is_measured_once_at_its_tightest() -> None:
    snapshot, query = Snapshot(SIZES), _range(3, 17)
    asked = [question_of(query, Requirement(length, 0.95)) for length in (90.0, 30.0, 60.0)]
    plan = plan_of(snapshot, asked)
    alone = snapshot.holdings.own_row(question_of(query, Requirement(30.0, 0.95)))
    assert plan.rows == (alone,)


def test_simultaneous_confidence_divides_delta_by_the_number_of_questions() -> None:
    found = simultaneous(bins_and_prefixes())
    for q in found:
        assert_allclose(1 - q.confidence, 0.05 / 60, rtol=1e-9)


@pytest.mark.parametrize("seed", share(range(12), 4))
def test_a_workload_costs_at_most_what_its_questions_cost_apart(seed: int) -> None:
    """On a uniform loss the rise of a maximum of sums is at most the sum of the rises.

    History is the total, and tables of every other seed; a nano-epsilon per question is rounding.
    """
    generator = random.Random(seed)
    sizes = (6, 4)
    snapshot = Snapshot(sizes, rule=None)
    snapshot.ask(primitive(linear_query(sizes, [(1, {})])), Requirement(20.0, 0.95))
    if seed % 2:
        cells = [{0: interval(6, i, i + 1)} for i in range(6)]
        asked = [question_of(primitive(linear_query(sizes, [(1, c)])), LOOSE) for c in cells]
        snapshot.carry_out(plan_of(snapshot, asked))
    questions = [_box(sizes, generator) for _ in range(generator.randint(1, 5))]
    apart = [snapshot.plan(q.row, q.requirement).price_nano for q in questions]
    plan = plan_of(snapshot, questions)
    assert plan.price_nano <= sum(apart) + len(apart)
    snapshot.carry_out(plan)
    for q, estimator in zip(questions, plan.estimators, strict=True):
        if estimator is not None:
            snapshot.engine.keep(estimator)
        assert snapshot.holdings.is_met(q)


def test_a_base_that_is_too_dear_is_given_up_and_leaves_the_same_plan(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Against the search that goes to its end; with few questions rows are often cheaper."""
    generator, sizes = random.Random(9), (12, 8, 6)
    snapshot, given_up, to_the_end = Snapshot(sizes, rule=None), Effort(), Effort()

    def searching(
        holdings: Holdings, part_of: Callable[[float], Raises], effort: Effort, _is_dear: object
    ) -> Scaling:
        return Scaling(holdings, part_of, effort)

    for _ in range(6):
        questions = [_box(sizes, generator) for _ in range(generator.randint(1, 5))]
        plan = plan_workload(questions, snapshot.holdings, effort=given_up)
        with monkeypatch.context() as patched:
            patched.setattr("qserver.planning.workloads.workload_base.Scaling", searching)
            other = plan_workload(questions, snapshot.holdings, effort=to_the_end)
        assert plan == other
        snapshot.carry_out(plan)
    assert given_up.done < 0.8 * to_the_end.done


BY_THE_RULE = {2: "row", 0: "row; tables and row", 8: "tables; row", 13: "tables; tables and row"}


@pytest.mark.slow
@pytest.mark.parametrize("seed", share(BY_THE_RULE, 2))
def test_single_plans_by_the_rule_are_an_upper_bound_and_can_be_bought_at_once(seed: int) -> None:
    """The rule buys tables, or tables and a row of what they leave, or a row.

    Against it stands the price of all charges of the single plans, on whatever loss there is.
    """
    generator = random.Random(seed)
    snapshot = Snapshot((60,), rule=RentOrBuy())
    for _ in range(14):
        q = _range_of(60, generator, shortest=20.0, spread=2.0)
        snapshot.ask(q.row, q.requirement)
    asked = [_range_of(60, generator, shortest=6.0, spread=8.0) for _ in range(_few(generator))]
    asked = [q for q in asked if not snapshot.holdings.is_met(q)]
    plans = [snapshot.plan(q.row, q.requirement) for q in asked]
    ways = {" and ".join(["tables"] * bool(p.tables) + ["row"] * bool(p.rows)) for p in plans}
    assert ways == set(BY_THE_RULE[seed].split("; "))
    charges = [c for p in plans for c in Purchase(p.rows, p.tables).charges]
    apart = snapshot.ledger.spent_after(charges) - snapshot.ledger.spent_nano
    found = one_by_one(snapshot.holdings, asked, below_nano=inf, single=snapshot.single)
    assert found is not None
    assert found.priced.price_nano <= apart + len(plans)
    assert plan_of(snapshot, asked, single=snapshot.single).price_nano <= found.priced.price_nano
    snapshot.buy(found.priced.purchase)
    for q, estimator in zip(asked, found.estimators, strict=True):
        if estimator is not None:
            snapshot.engine.keep(estimator)
        assert snapshot.holdings.is_met(q)


def _few(generator: random.Random) -> int:
    return generator.randint(2, 4)


def _range_of(size: int, generator: random.Random, *, shortest: float, spread: float) -> Question:
    low, high = sorted(generator.sample(range(size + 1), 2))
    query = primitive(linear_query((size,), [(1, {0: interval(size, low, high)})]))
    return question_of(query, Requirement(shortest * spread ** generator.random(), 0.95))


LOOSE = Requirement(50.0, 0.95)


def _box(sizes: tuple[int, ...], generator: random.Random) -> Question:
    axes = {
        axis: interval(size, *sorted(generator.sample(range(size + 1), 2)))
        for axis, size in enumerate(sizes)
        if generator.random() < 0.8
    }
    length = 10.0 * 4.0 ** generator.random()
    confidence = generator.choice((0.9, 0.99))
    return question_of(primitive(linear_query(sizes, [(1, axes)])), Requirement(length, confidence))


@pytest.mark.slow
def test_of_a_thousand_questions_the_planning_is_bounded() -> None:
    """No time at all: the own rows, each raised by itself, are still a plan."""
    snapshot = Snapshot((200, 50))
    generator = random.Random(5)
    questions = [_box((200, 50), generator) for _ in range(300)]
    plan = plan_workload(
        questions,
        snapshot.holdings,
        effort=Effort(-1.0),
    )
    assert plan.kind == "fresh"
    assert len(plan.rows) == len({q.row.key for q in questions})
    snapshot.carry_out(plan)
    assert all(snapshot.holdings.is_met(q) for q in questions)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_of_many_questions_the_dear_alone_are_planned_and_all_cost_as_much(seed: int) -> None:
    """Cells share none, so all cost what the dearest does; overlapping ones are all planned."""
    generator, size = random.Random(seed), 80
    snapshot, asked = Snapshot((size,)), list[Question]()
    for _ in range(12):
        q = _range_of(size, generator, shortest=20.0, spread=2.0)
        snapshot.ask(q.row, q.requirement)
    for low in range(size):
        cell = primitive(linear_query((size,), [(1, {0: interval(size, low, low + 1)})]))
        asked.append(question_of(cell, Requirement(60.0, 0.95)))
    own = [row for q in asked if (row := snapshot.holdings.own_row_alone(q)) is not None]
    planned = list[Question]()

    def single(question: Question, _effort: Effort) -> Plan:
        planned.append(question)
        return snapshot.plan(question.row, question.requirement)

    whole = one_by_one(snapshot.holdings, asked, below_nano=inf, single=single)
    n_whole = len(planned)
    found = one_by_one(snapshot.holdings, asked, below_nano=inf, single=single, rows=own)
    assert whole is not None
    assert found is not None
    assert_allclose(found.priced.price_nano, whole.priced.price_nano, rtol=1e-4)
    assert len(planned) - n_whole < n_whole == size
    snapshot.buy(found.priced.purchase)
    for q, estimator in zip(asked, found.estimators, strict=True):
        if estimator is not None:
            snapshot.engine.keep(estimator)
        assert snapshot.holdings.is_met(q)
