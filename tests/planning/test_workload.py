"""Many questions planned as one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from benchmarks.synthetic_noise import Snapshot
from numpy.testing import assert_allclose

from qserver.inference.lattice.pattern import BlockKey
from qserver.planning.bought import Bought
from qserver.planning.planner import Plan
from qserver.planning.purchase import Purchase
from qserver.planning.workload import Question, each_alone, plan_workload, simultaneous
from qserver.primitive import Primitive, primitive
from qserver.query import linear_query
from qserver.requirement import Requirement
from qserver.weights import interval

SIZES = (30, 4)


def bins_and_prefixes() -> list[Question]:
    ends = [(i, i + 1) for i in range(30)] + [(0, i + 1) for i in range(30)]
    return [Question(_range(*e), Requirement(80.0, 0.95)) for e in ends]


def _range(low: int, high: int) -> Primitive:
    return primitive(linear_query(SIZES, [(1, {0: interval(30, low, high)})]))


def plan_of(snapshot: Snapshot, questions: Sequence[Question]) -> Plan:
    return plan_workload(
        questions,
        engine=snapshot.engine,
        ledger=snapshot.ledger,
        limit_nano=snapshot.limit_nano,
    )


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
def test_a_workload_costs_no_more_than_its_own_rows_and_meets_every_question(
    relation: str,
) -> None:
    snapshot, alone = Snapshot(SIZES, relation), Snapshot(SIZES, relation)
    questions = bins_and_prefixes()
    for q in questions:
        row = alone.bought.own_row(q.query, q.requirement)
        assert row is not None
        alone.buy(Purchase((row,)))
    plan = plan_of(snapshot, questions)
    assert plan.kind == "blocks"
    assert plan.price_nano < 0.7 * alone.ledger.spent_nano
    snapshot.carry_out(plan)
    assert snapshot.ledger.spent_nano == plan.spent_after_nano
    assert all(snapshot.bought.is_met(q.query, q.requirement) for q in questions)
    assert plan_of(snapshot, questions).kind == "free"


def test_the_first_question_of_a_workload_bears_its_price() -> None:
    snapshot, questions = Snapshot(SIZES), bins_and_prefixes()
    plan = plan_of(snapshot, questions)
    assert [p.price_nano for p in plan.paid] == [plan.price_nano] + 59 * [0]
    assert [p.row for p in plan.paid] == [q.query.row for q in questions]
    assert {p.kind for p in plan.paid} == {"blocks"}


def test_bins_asked_together_are_one_table_at_the_price_of_one_row() -> None:
    snapshot, bins = Snapshot(SIZES), bins_and_prefixes()[:30]
    plan = plan_of(snapshot, bins)
    one = snapshot.bought.own_row(bins[0].query, bins[0].requirement)
    assert one is not None
    assert plan.kind == "blocks"
    assert [t.partition.n_cells for t in plan.tables] == [30]
    assert plan.price_nano == one.alpha_nano


def test_a_question_asked_twice_is_measured_once_at_its_tightest() -> None:
    snapshot, query = Snapshot(SIZES), _range(3, 17)
    asked = [Question(query, Requirement(length, 0.95)) for length in (90.0, 30.0, 60.0)]
    plan = plan_of(snapshot, asked)
    alone = snapshot.bought.own_row(query, Requirement(30.0, 0.95))
    assert plan.rows == (alone,)


def test_a_verdict_of_ones_own_decides_how_much_of_the_base_is_bought() -> None:
    """Each half-width at most half of what was asked costs about twice as much."""

    def half(bought: Bought, questions: Sequence[Question], raises: Mapping[BlockKey, int]) -> bool:
        tighter = [
            Question(q.query, Requirement(q.requirement.length / 2, q.requirement.confidence))
            for q in questions
        ]
        return each_alone(bought, tighter, raises)

    snapshot, questions = Snapshot((30,)), bins_and_prefixes()[30:]
    questions = [
        Question(primitive(linear_query((30,), [(1, {0: interval(30, 0, i + 1)})])), q.requirement)
        for i, q in enumerate(questions)
    ]
    known = {"engine": snapshot.engine, "ledger": snapshot.ledger}
    plain = plan_workload(questions, **known, limit_nano=snapshot.limit_nano)
    twice = plan_workload(
        [Question(q.query, Requirement(40.0, 0.95)) for q in questions],
        **known,
        limit_nano=snapshot.limit_nano,
    )
    assert plain.kind == twice.kind == "blocks"
    strict = plan_workload(questions, **known, limit_nano=snapshot.limit_nano, verdict=half)
    assert strict.kind in ("blocks", "fresh")
    assert strict.price_nano >= plain.price_nano
    assert_allclose(twice.price_nano, 2 * plain.price_nano, rtol=0.05)


def test_simultaneous_confidence_divides_delta_by_the_number_of_questions() -> None:
    found = simultaneous(bins_and_prefixes())
    for q in found:
        assert_allclose(1 - q.requirement.confidence, 0.05 / 60, rtol=1e-9)
