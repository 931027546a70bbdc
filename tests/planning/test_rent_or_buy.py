"""The planner of blocks and own rows: what it promises holds, and what it goes by is public."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from qserver.planning.blocks import scopes
from qserver.planning.blocks.demand import want_of
from qserver.planning.blocks.rent_or_buy import RentOrBuy
from qserver.planning.blocks.star import Star, fit_star
from qserver.planning.constants import PLANNER
from qserver.planning.effort import Effort
from qserver.planning.planner import Plan, plan_answer
from qserver.query.linear_query import linear_query
from qserver.query.primitive import Primitive, primitive
from qserver.query.question import Question
from qserver.query.requirement import MAX_LENGTH, Requirement
from qserver.query.weights import Weights, from_points, interval
from qserver.records.charge import NANO, Relation
from qserver.records.history import TableMeasurement
from qserver.records.paid_question import FittedBase, PaidQuestion
from tests.benchmarks.synthetic_noise import Snapshot, question_of
from tests.sweeps import n_of

SIZES = (30, 4)
N_NOISE = n_of(300, share=120)

Asked = tuple[Primitive, Requirement]


def part(low: int, high: int, sizes: tuple[int, ...] = (12,)) -> Primitive:
    return primitive(linear_query(sizes, [(1, {0: interval(sizes[0], low, high)})]))


def random_question(generator: random.Random) -> Asked:
    low, high = sorted(generator.sample(range(31), 2))
    axes: dict[int, Weights] = {0: interval(30, low, high)}
    if generator.random() < 0.5:
        value = generator.randrange(4)
        axes[1] = interval(4, value, value + 1)
    length = generator.choice((60.0, 100.0, 150.0))
    query = primitive(linear_query(SIZES, [(1, axes)]))
    return query, Requirement(length, generator.choice((0.9, 0.95)))


def small_question(generator: random.Random) -> Asked:
    low, high = sorted(generator.sample(range(13), 2))
    return part(low, high), Requirement(generator.choice((100.0, 60.0, 40.0)), 0.95)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("relation", "is_total"), [("add-remove", False), ("replace-one", False), ("replace-one", True)]
)
def test_every_answer_meets_its_requirement_at_the_price_that_was_quoted(
    relation: Relation, is_total: bool
) -> None:
    generator = random.Random(5)
    snapshot = Snapshot(SIZES, relation, is_total=is_total)
    kinds = set()
    for _ in range(30):
        query, requirement = random_question(generator)
        before = snapshot.ledger.spent_nano
        direct = snapshot.plan_by_rows(query, requirement)
        plan = snapshot.ask(query, requirement)
        kinds.add("direct" if plan.kind in ("fresh", "combined", "refined") else plan.kind)
        assert snapshot.ledger.spent_nano == plan.spent_after_nano == before + plan.price_nano
        if plan.kind != "blocks":
            assert plan.price_nano <= direct.price_nano
        found = snapshot.engine.estimate_with(
            query,
            plan.weights,
            confidence=requirement.confidence,
            enough=question_of(query, requirement).row_half_width,
            tables_give_rest=plan.tables_give_rest,
        )
        assert found is not None
        assert found.half_width <= question_of(query, requirement).row_half_width
    assert kinds == {"free", "direct", "blocks"}
    assert snapshot.replayed().ledger.spent_nano == snapshot.ledger.spent_nano


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
def test_an_answered_question_stays_free_at_any_looser_requirement(relation: Relation) -> None:
    generator = random.Random(11)
    snapshot = Snapshot((12,), relation)
    asked: list[Asked] = []
    for _ in range(14):
        asked.append(small_question(generator))
        snapshot.ask(*asked[-1])
        for query, requirement in asked:
            looser = Requirement(requirement.length * 1.3, requirement.confidence - 0.1)
            assert snapshot.plan(query, requirement).kind == "free"
            assert snapshot.plan(query, looser).kind == "free"
    assert any(isinstance(m, TableMeasurement) for m in snapshot.live)


@pytest.mark.slow
@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
def test_a_process_that_reads_everything_anew_proposes_the_same_plans(relation: Relation) -> None:
    """Replay from scratch after every spend against the planner that saw the spends one by one."""
    generator = random.Random(21)
    snapshot = Snapshot(SIZES, relation, is_total=True)
    bases = 0
    for _ in range(14):
        query, requirement = random_question(generator)
        other = random_question(generator)
        plan = snapshot.plan(query, requirement)
        again = snapshot.replayed()
        # Proposals that come to nothing leave no trace.
        again.plan(*other)
        snapshot.plan(*other)
        for found in (again.plan(query, requirement), snapshot.plan(query, requirement)):
            assert replace(found, estimate=None) == replace(plan, estimate=None)
        snapshot.carry_out(plan, query)
        bases += sum(len(p.bases) for p in plan.paid)
    assert bases > 2


def test_counts_that_may_be_off_by_anything_do_not_refuse_a_sum_of_large_weights() -> None:
    """At their precision a sum's length would be above what a requirement can say."""
    snapshot = Snapshot((12,))
    for low in range(6):
        snapshot.ask(part(low, low + 6), Requirement(MAX_LENGTH, 0.95))
    total = linear_query((12,), [(1, {0: from_points(12, {i: 9 * i + 1 for i in range(12)})})])
    plan = snapshot.single(Question(total, Requirement(100.0, 0.95)), Effort(1e9))
    assert 0 < plan.price_nano < 10 * NANO


@pytest.mark.slow
def test_a_question_that_cannot_be_paid_is_quoted_and_changes_nothing() -> None:
    generator = random.Random(6)
    snapshot = Snapshot(SIZES, limit_nano=int(0.2 * NANO))
    refused = 0
    for _ in range(20):
        query, requirement = random_question(generator)
        plan = snapshot.ask(query, requirement)
        refused += plan.spent_after_nano > snapshot.limit_nano
        assert snapshot.ledger.spent_nano <= snapshot.limit_nano
    assert refused > 0


@pytest.mark.slow
def test_once_no_row_fits_the_demand_is_not_looked_at_for_a_question_that_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It took most of the time of a refused question, and found nothing that fits."""
    generator, snapshot = random.Random(6), Snapshot(SIZES, limit_nano=int(0.2 * NANO))
    fits, followed = list[int](), scopes.Scope.follow

    def counted(*args: Any, **kwargs: Any) -> Star:
        fits.append(1)
        return fit_star(*args, **kwargs)

    def counted_scope(*args: Any) -> None:
        fits.append(1)
        followed(*args)

    monkeypatch.setattr(scopes, "fit_star", counted)
    monkeypatch.setattr(scopes.Scope, "follow", counted_scope)
    n_refused = n_fits_before = 0
    for _ in range(20):
        query, requirement = random_question(generator)
        by_rows, before = snapshot.plan_by_rows(query, requirement), len(fits)
        plan = snapshot.ask(query, requirement)
        if by_rows.spent_after_nano > snapshot.limit_nano:
            assert len(fits) == before
            n_refused += plan.spent_after_nano > snapshot.limit_nano
        n_fits_before += len(fits) - before
    assert n_refused > 0
    assert n_fits_before > 0


def test_blocks_beyond_what_is_left_are_not_proposed_where_rows_are_within() -> None:
    """What is allowed for the snapshot may be less than the population's limit."""
    snapshot = Snapshot((12,))
    questions = [(part(i, i + 5), Requirement(40.0, 0.95)) for i in range(7)]
    for query, requirement in questions:
        plan = snapshot.plan(query, requirement)
        if plan.kind == "blocks":
            break
        snapshot.carry_out(plan, query)
    assert plan.kind == "blocks"
    direct = snapshot.plan_by_rows(query, requirement)
    assert direct.spent_after_nano < plan.spent_after_nano
    tight = plan_answer(
        question_of(query, requirement),
        snapshot.holdings,
        rule=snapshot.rule,
        allowed_nano=plan.spent_after_nano - 1,
    )
    assert tight.kind != "blocks"
    assert tight.price_nano == direct.price_nano


@dataclass
class _SpentAfter(Effort):
    """An effort that is spent once it was looked at this many times."""

    looks: int = 0

    @property
    def is_spent(self) -> bool:
        self.looks -= 1
        return self.looks < 0


@pytest.mark.parametrize("n_allowed", [0, 1, 3, 8])
def test_once_the_effort_is_spent_there_is_still_a_plan_that_meets_the_requirement(
    n_allowed: int,
) -> None:
    generator = random.Random(31)
    snapshot = Snapshot(SIZES)
    for _ in range(10):
        query, requirement = random_question(generator)
        plan = plan_answer(
            question_of(query, requirement),
            snapshot.holdings,
            rule=snapshot.rule,
            effort=_SpentAfter(looks=n_allowed),
        )
        assert n_allowed or plan.kind != "blocks"
        snapshot.carry_out(plan, query)
        assert snapshot.plan(query, requirement).kind == "free"


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
def test_a_first_question_costs_no_more_than_the_ratio_times_its_own_row(
    relation: Relation,
) -> None:
    for seed in range(25):
        generator = random.Random(seed)
        snapshot = Snapshot(SIZES, relation)
        query, requirement = random_question(generator)
        direct = snapshot.plan_by_rows(query, requirement)
        plan = snapshot.plan(query, requirement)
        assert plan.price_nano <= PLANNER.most_ratio * direct.price_nano
        # Nor where it takes much of a limit: nothing was rented that a base could have saved.
        snapshot.limit_nano = 3 * direct.price_nano
        assert (
            snapshot.plan(query, requirement).price_nano <= PLANNER.most_ratio * direct.price_nano
        )


@pytest.mark.slow
def test_early_blocks_keep_the_spend_within_the_ratio_of_own_rows() -> None:
    """Own rows priced by a ledger of their own; they overlap in one value, so they add up."""
    snapshot, alone = Snapshot((60,)), 0
    n_blocks = 0
    for high in range(32, 44):
        query, requirement = part(30, high, (60,)), Requirement(60.0, 0.95)
        alone += Snapshot((60,)).plan_by_rows(query, requirement).price_nano
        plan = snapshot.ask(query, requirement)
        n_blocks += plan.kind == "blocks"
        if plan.kind == "blocks" and n_blocks == 1:
            assert plan.spent_after_nano <= PLANNER.most_ratio * alone * (1.0 + 1e-6)
    assert n_blocks > 0


@pytest.mark.slow
def test_bases_are_fitted_for_the_same_classes_whatever_the_unit_of_records() -> None:
    """Twice the lengths are one class looser; class 0 is the tightest one in the middle."""
    fitted: list[list[list[tuple[int, int]]]] = []
    for shift in range(-2, 3):
        generator, snapshot = random.Random(3), Snapshot((60,))
        fitted.append([])
        for length in (3.0, *([6.0] * 8)):
            low, high = sorted(generator.sample(range(61), 2))
            plan = snapshot.ask(part(low, high, (60,)), Requirement(length * 2.0**-shift, 0.95))
            bases = [b for paid in plan.paid for b in paid.bases]
            fitted[-1].append([(b.octave - shift, b.depth) for b in bases])
    assert {octave for bases in fitted[0] for octave, _ in bases} == {-1, 0}
    assert fitted == [fitted[0]] * len(fitted)


@pytest.mark.slow
def test_rows_of_what_blocks_leave_are_rented_and_their_answers_stay_free() -> None:
    """Ranges on 60 values; every rounded answer is stored, and checked after each later spend."""
    generator = random.Random(3)
    snapshot = Snapshot((60,))
    rounded: list[Asked] = []
    for _ in range(25):
        low, high = sorted(generator.sample(range(61), 2))
        query, requirement = part(low, high, (60,)), Requirement(100.0, 0.95)
        direct = snapshot.plan_by_rows(query, requirement)
        plan = snapshot.ask(query, requirement)
        if plan.tables_give_rest:
            assert plan.kind in ("combined", "refined", "blocks")
            assert plan.tables or plan.price_nano < direct.price_nano
            rounded.append((query, requirement))
        assert all(snapshot.plan(*asked).kind == "free" for asked in rounded)
    assert len(rounded) > 1
    again = snapshot.replayed()
    assert all(again.plan(*asked).kind == "free" for asked in rounded)


def test_a_query_of_ten_attributes_is_measured_directly() -> None:
    """Its components are far too many to fit a base to."""
    sizes = (10,) * 10
    snapshot = Snapshot(sizes)
    axes = {a: interval(10, 2, 7) for a in range(10)}
    query = primitive(linear_query(sizes, [(1, axes)]))
    plan = snapshot.ask(query, Requirement(40.0, 0.95))
    assert plan.kind == "fresh"
    assert plan.paid[0].bases == ()
    assert snapshot.plan(query, Requirement(20.0, 0.95)).kind == "refined"


def test_a_block_of_more_cells_than_a_table_may_have_is_not_bought() -> None:
    """Four attributes of 40 values have 2.56 million cells, any two of them 1,600."""
    sizes = (40, 40, 40, 40)
    holdings = Snapshot(sizes).holdings
    for n_axes, is_wanted in [(2, True), (4, False)]:
        axes = {a: interval(40, 3, 38) for a in range(n_axes)}
        row = primitive(linear_query(sizes, [(1, axes)]))
        want = want_of(holdings, row, half_width=20.0, confidence=0.95)
        assert (want is not None) == is_wanted
        assert holdings.is_candidate(holdings.lattice.finest(range(n_axes))) == is_wanted


def test_paid_questions_survive_their_text_form() -> None:
    snapshot = Snapshot((12,))
    for low, high in [(0, 3), (2, 9), (5, 12)]:
        plan = snapshot.ask(part(low, high), Requirement(60.0, 0.95))
        for paid in plan.paid:
            assert PaidQuestion.from_json(paid.to_json(), (12,)) == paid
    assert any(paid.bases for paid in snapshot.paid)


def test_a_base_of_blocks_that_the_lattice_lacks_is_passed_over() -> None:
    snapshot = Snapshot((12,))
    query, requirement = part(2, 9), Requirement(60.0, 0.95)
    (paid,) = snapshot.plan(query, requirement).paid
    foreign = replace(paid, bases=(FittedBase(-5, 1, ((((0, 7),), 0.5),)),))
    for rule in (RentOrBuy(), RentOrBuy()):
        rule.take_in(foreign)
        snapshot.rule = rule
        plan = snapshot.plan(part(0, 5), requirement)
        assert plan.price_nano > 0
        assert not rule.scopes.all(snapshot.holdings).demand.stars


@pytest.mark.slow
def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    """One stream, its noise drawn many times: rows, blocks, refinements and taken-over cells.

    With 300 draws a coverage of 0.95 fails below 0.90 once in 3,000 times per question, and one
    of 0.85 is caught nearly always.
    """
    generator = random.Random(7)
    planned = Snapshot((12,))
    copies = [
        Snapshot((12,), rule=None, generator=np.random.default_rng([9, i])) for i in range(N_NOISE)
    ]
    kinds, linked = set(), 0
    for low, high in [(0, 1), (3, 4), (0, 12), (2, 9), (0, 7), (3, 4), (5, 11), (1, 10), (0, 1)]:
        query = part(low, high)
        requirement = Requirement(generator.choice((100.0, 60.0, 40.0)), 0.95)
        plan = planned.ask(query, requirement)
        kinds.add(plan.kind)
        linked += sum(row.cell is not None for row in plan.rows)
        linked += sum(len(table.sources) for table in plan.tables)
        for copy in copies:
            copy.carry_out(plan, query)
        errors = np.abs([copy.error(query, plan, requirement) for copy in copies])
        assert np.mean(errors <= question_of(query, requirement).row_half_width) >= 0.9
    assert kinds >= {"fresh", "blocks"}
    assert linked > 0


@pytest.mark.slow
def test_intervals_of_rounded_answers_hold_the_truth_as_often_as_they_say() -> None:
    """As above, on ranges that blocks of coarse parts and rows of the rest answer together.

    Each interval is looked at once more in the end, when tables and rows have been raised.
    """
    generator = random.Random(3)
    planned = Snapshot((60,))
    copies = [
        Snapshot((60,), rule=None, generator=np.random.default_rng([8, i])) for i in range(N_NOISE)
    ]
    rounded: list[tuple[Primitive, Plan]] = []
    requirement = Requirement(100.0, 0.95)
    for _ in range(12):
        low, high = sorted(generator.sample(range(61), 2))
        query = part(low, high, (60,))
        plan = planned.ask(query, requirement)
        for copy in copies:
            copy.carry_out(plan, query)
        if plan.tables_give_rest:
            rounded.append((query, plan))
            errors = np.abs([copy.error(query, plan, requirement) for copy in copies])
            assert np.mean(errors <= question_of(query, requirement).row_half_width) >= 0.9
    assert rounded
    for query, plan in rounded:
        free = replace(plan, weights=(), tables_give_rest=False)
        errors = np.abs([copy.error(query, free, requirement) for copy in copies])
        assert np.mean(errors <= question_of(query, requirement).row_half_width) >= 0.9
