"""Plans on learnt levels: bought, answered, replayed and free again while the lattice changes."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from qserver.inference.tables.blocks.nested_partitions import default_chain, single_values
from qserver.inference.tables.blocks.pattern import Lattice
from qserver.inference.tables.blocks.placement import (
    chain_through,
    has_levels,
    joined,
    labels_of,
    nested_levels,
)
from qserver.inference.tables.measured_tables import MeasuredTables
from qserver.planning.blocks.levels import Learner, seen_on
from qserver.planning.blocks.needed_part import Answered, Need, need_of
from qserver.planning.blocks.rent_or_buy import RentOrBuy
from qserver.planning.blocks.star import Star
from qserver.planning.effort import Effort
from qserver.planning.planner import paid_question
from qserver.planning.purchase import Purchase
from qserver.query.class_grid import product_partition
from qserver.query.linear_query import linear_query
from qserver.query.primitive import Primitive, primitive
from qserver.query.requirement import Requirement
from qserver.query.weights import Weights, indicator, interval
from qserver.records.charge import NANO, Relation
from qserver.records.history import TableMeasurement
from qserver.records.plan import PlannedTable
from tests.benchmarks.synthetic_noise import Snapshot, question_of
from tests.sweeps import share
from worker.spending.answers_in_force import Live

SIZES = (40, 8)
BANDS = tuple((low, low + 8) for low in range(0, 40, 8))
GROUPS = ((0, 3), (1, 2, 6), (4, 5, 7))
STEP = Fraction(1, 1 << 20)
PHI = 0.6

Asked = tuple[Primitive, Requirement]


def band_question(generator: random.Random) -> Asked:
    axes: dict[int, Weights] = {}
    while not axes:
        if generator.random() < 0.7:
            low, high = generator.choice(BANDS)
            axes[0] = interval(40, low, generator.choice((high, high, 40)))
        if generator.random() < 0.6:
            axes[1] = indicator(8, generator.choice(GROUPS))
    query = primitive(linear_query(SIZES, [(1, axes)]))
    return query, Requirement(generator.choice((40.0, 60.0, 100.0)), 0.95)


def new_levels(snapshot: Snapshot) -> int:
    """How many partitions were bought that are no level of a regular chain."""
    found = set()
    for table in snapshot.live:
        for axis in table.partition.axes if isinstance(table, TableMeasurement) else ():
            regular = default_chain(single_values(axis.axis, SIZES[axis.axis]))
            if not has_levels(regular, [labels_of(axis.dense)]):
                found.add((axis.axis, axis.stops, axis.ids))
    return len(found)


@pytest.mark.slow
@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
def test_learnt_levels_are_bought_and_every_answer_stays_free(relation: Relation) -> None:
    """Also beyond the questions that were asked when the lattice was another one."""
    generator = random.Random(3)
    snapshot = Snapshot(SIZES, relation, rule=RentOrBuy(PHI))
    asked: list[Asked] = []
    for i in range(30):
        query, requirement = band_question(generator)
        plan = snapshot.plan(query, requirement)
        Live(snapshot.live).check((*plan.rows, *plan.tables))
        snapshot.carry_out(plan, query)
        assert snapshot.ledger.spent_nano == plan.spent_after_nano
        asked.append((query, requirement))
        if plan.tables or i % 12 == 0:
            again = snapshot.replayed()
            for old, wanted in asked:
                assert snapshot.plan(old, wanted).kind == "free"
                assert again.plan(old, wanted).kind == "free"
    assert new_levels(snapshot) > 0


def spent_on(questions: Sequence[Asked], *, is_learnt: bool) -> int:
    rule = RentOrBuy(PHI)
    if not is_learnt:
        rule.learner = None
    snapshot = Snapshot(SIZES, rule=rule)
    for asked in questions:
        snapshot.ask(*asked)
    return snapshot.ledger.spent_nano


def cut_question(generator: random.Random) -> Asked:
    """One of 84 rows: between two of six cuts, in one or two of three groups."""
    low, high = sorted(generator.sample(range(0, 41, 8), 2))
    axes: dict[int, Weights] = {} if high - low == 40 else {0: interval(40, low, high)}
    groups = generator.sample(GROUPS, generator.randint(1, 2))
    axes[1] = indicator(8, [value for group in groups for value in group])
    query = primitive(linear_query(SIZES, [(1, axes)]))
    return query, Requirement(generator.choice((40.0, 60.0, 100.0)), 0.95)


@pytest.mark.slow
@pytest.mark.parametrize("seed", share([21, 23], 1))
def test_questions_that_return_cost_less_on_learnt_levels(seed: int) -> None:
    """So many that rows alone cost more than the parts between the cuts do."""
    generator = random.Random(seed)
    questions = [cut_question(generator) for _ in range(60)]
    assert spent_on(questions, is_learnt=True) < 0.9 * spent_on(questions, is_learnt=False)


@pytest.mark.slow
def test_where_every_bound_is_new_the_learner_changes_nothing() -> None:
    generator = random.Random(6)
    questions: list[Asked] = []
    for _ in range(25):
        low, high = sorted(generator.sample(range(41), 2))
        query = primitive(linear_query(SIZES, [(1, {0: interval(40, low, high)})]))
        questions.append((query, Requirement(60.0, 0.95)))
    assert spent_on(questions, is_learnt=True) == spent_on(questions, is_learnt=False)


def test_levels_bought_before_the_questions_were_known_do_not_bind() -> None:
    """A little of a table with other parts first: four of ten values, where bands have eight."""
    snapshot = Snapshot((40,))
    wrong = product_partition((40,), {0: [v // 10 for v in range(40)]})
    snapshot.buy(Purchase(tables=(PlannedTable(wrong, NANO // 100, snapshot.holdings.table_step),)))
    requirement, cuts = Requirement(60.0, 0.95), range(4, 40, 8)
    bands = [interval(40, low, low + 8) for low in cuts[:-1]]
    queries = [primitive(linear_query((40,), [(1, {0: band})])) for band in bands]
    asked = [question_of(q, requirement) for q in queries]
    paid = [paid_question(q, kind="fresh", price_nano=0) for q in 3 * asked]
    chain = Learner().lattice(snapshot.holdings, paid).chains[0]
    levels = [labels_of(chain.part_of(i)[chain.classes.dense]) for i in range(chain.n_levels)]
    ends = [labels_of((np.arange(40) >= cut).astype(np.intp)) for cut in cuts]
    aligned = [level for level in levels if all((joined(level, e) == level).all() for e in ends)]
    assert len(aligned) > 1
    assert not has_levels(chain, [labels_of(wrong.axes[0].dense)])


@pytest.mark.slow
def test_a_process_that_reads_everything_anew_learns_the_same_levels() -> None:
    generator = random.Random(3)
    snapshot = Snapshot(SIZES, rule=RentOrBuy(PHI))
    for i in range(30):
        query, requirement = band_question(generator)
        plan = snapshot.plan(query, requirement)
        if i % 3 == 0:
            again = snapshot.replayed().plan(query, requirement)
            # Rows that came later are combined in another order: the last bits differ.
            assert [i for i, _ in again.weights] == [i for i, _ in plan.weights]
            assert [w for _, w in again.weights] == pytest.approx(
                [w for _, w in plan.weights], rel=1e-12
            )
            assert replace(again, estimate=None, weights=()) == replace(
                plan, estimate=None, weights=()
            )
        snapshot.carry_out(plan, query)
    assert new_levels(snapshot) > 0


@pytest.mark.slow
def test_what_was_planned_on_learnt_levels_is_met_where_it_is_answered() -> None:
    generator = random.Random(5)
    snapshot = Snapshot(SIZES, rule=RentOrBuy(PHI))
    n_blocks = 0
    for _ in range(30):
        query, requirement = band_question(generator)
        plan = snapshot.ask(query, requirement)
        n_blocks += plan.kind == "blocks"
        found = snapshot.engine.estimate_with(
            query,
            plan.weights,
            confidence=requirement.confidence,
            enough=question_of(query, requirement).row_half_width,
            tables_give_rest=plan.tables_give_rest,
        )
        assert found is not None
        assert found.half_width <= question_of(query, requirement).row_half_width
    assert n_blocks > 0
    assert new_levels(snapshot) > 0


def test_a_table_of_parts_that_are_no_regular_level_is_used() -> None:
    """Five parts of four, eight, eight, eight and twelve values; then four parts of ten, which do
    not nest with them: both answer, each by itself."""
    tables = MeasuredTables((40,))
    stops = (4, 12, 20, 28, 40)
    labels = [next(i for i, s in enumerate(stops) if v < s) for v in range(40)]
    uneven = product_partition((40,), {0: labels})
    foreign = product_partition((40,), {0: [v // 10 for v in range(40)]})
    before = tables.lattice
    assert tables.block_of(uneven) is None
    tables.extend([TableMeasurement(0, uneven, NANO, STEP, tuple(i << 20 for i in range(5)))])
    assert tables.lattice is not before
    assert tables.alpha_nano == {((0, 1),): NANO}
    query = primitive(linear_query((40,), [(1, {0: interval(40, 4, 20)})]))
    found = tables.estimate(query, confidence=0.9)
    assert found is not None
    assert found.posterior.estimate == pytest.approx(3.0, abs=1e-9)
    planned = tables.seen_on(tables.lattice_with([foreign]))
    assert planned.block_of(foreign) is not None
    tables.extend([TableMeasurement(1, foreign, NANO, STEP, (1 << 20,) * 4)])
    assert tables.block_of(foreign) is not None
    assert tables.block_of(uneven) is None
    again = tables.estimate(query, confidence=0.9)
    assert again is not None
    assert again.half_width == found.half_width
    assert again.posterior.estimate == found.posterior.estimate


WORSE = 1.04
"""How much longer an interval is, in these tests, on the lattice used for answering."""


@pytest.fixture
def two_lattices(monkeypatch: pytest.MonkeyPatch) -> tuple[Need, Need]:
    """A question planned on one lattice, and the same where answers are given on a worse one.

    Five parts are bought; the plan's lattice has parts of two values below them.
    """
    ends = (4, 12, 20, 28, 40)
    uneven = np.array([next(i for i, s in enumerate(ends) if v < s) for v in range(40)])
    snapshot = Snapshot((40,), rule=None)
    partition = product_partition((40,), {0: uneven.tolist()})
    snapshot.buy(
        Purchase(tables=(PlannedTable(partition, NANO // 5, snapshot.holdings.table_step),))
    )
    answered = snapshot.holdings
    chain = chain_through(0, nested_levels(40, [uneven, labels_of(np.arange(40) // 2)]))
    assert chain is not None
    view = seen_on(answered, Lattice({0: chain}))
    question = question_of(
        primitive(linear_query((40,), [(1, {0: interval(40, 4, 23)})])), Requirement(100.0, 0.95)
    )
    true_width = Answered.half_width
    monkeypatch.setattr(Answered, "half_width", lambda self, *args: WORSE * true_width(self, *args))
    needs = [need_of(question, view, other, Effort()) for other in (view, answered)]
    assert needs[0] is not None
    assert needs[1] is not None
    return needs[0], needs[1]


def test_a_row_beside_tables_is_raised_until_the_answer_is_short_enough(
    two_lattices: tuple[Need, Need],
) -> None:
    planned, found = (need.row({}) for need in two_lattices)
    assert planned is not None
    assert found is not None
    assert found.weights
    assert found.price_nano > planned.price_nano
    need, purchase = two_lattices[1], found.priced.purchase
    width = need.answer(purchase.tables).half_width(purchase, found.weights)
    assert 0.999 * need.want.half_width < width <= need.want.half_width


def test_a_part_of_a_base_is_raised_until_the_answer_is_short_enough(
    two_lattices: tuple[Need, Need],
) -> None:
    planned, answered = two_lattices
    star = Star({((0, 1),): 0.2, ((0, 2),): 0.1, ((0, 3),): 0.1}, 0.4)
    part, raised = planned.part(star), answered.part(star)
    assert part
    assert raised
    assert all(raised[block] > alpha for block, alpha in part.items())
    # What suffices on the plan's lattice alone is no offer without a row.
    offer = answered.row(part)
    assert offer is None or offer.priced.purchase.rows
