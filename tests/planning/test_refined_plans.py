"""Plans that refine: their price is the ledger's rise, and the least of what was considered."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
import pytest

from qserver.inference.engine import InferenceEngine
from qserver.inference.law.laplace_sum import LaplaceSum
from qserver.ledger.cell_ledger import CellLedger
from qserver.planning.fresh_row import alpha_nano_up, fresh_alpha_nano
from qserver.planning.holdings import Holdings
from qserver.planning.planner import Plan, plan_answer
from qserver.query.linear_query import LinearQuery, linear_query
from qserver.query.primitive import Primitive, primitive
from qserver.query.requirement import Requirement
from qserver.query.weights import interval
from qserver.records.charge import NANO, Charge, Relation
from qserver.records.history import Estimator, Measurement
from tests.benchmarks.synthetic_noise import question_of
from tests.inference.histories import combined_alpha

SIZES = (12,)
LIMIT = 20 * NANO


@dataclass
class Town:
    """Engine and ledger, grown by plans; released answers are all zero, which prices ignore."""

    relation: Relation = "add-remove"
    k: int = 1
    engine: InferenceEngine = field(init=False)
    ledger: CellLedger = field(init=False)

    def __post_init__(self) -> None:
        self.engine = InferenceEngine(SIZES)
        self.ledger = CellLedger(SIZES, relation=self.relation, records_per_person=self.k)

    def plan(self, query: Primitive, length: float, confidence: float = 0.95) -> Plan:
        requirement = Requirement(length, confidence)
        question = question_of(query, requirement)
        return plan_answer(question, Holdings(self.engine, self.ledger, LIMIT))

    def ask(self, query: Primitive, length: float, confidence: float = 0.95) -> Plan:
        """Plan and carry it out, as the worker would."""
        plan = self.plan(query, length, confidence)
        for row in plan.rows:
            number = self.engine.n_measurements if row.refines is None else row.refines
            found = Measurement(number, row.row, row.key, row.alpha_nano, row.step, 0)
            self.engine.extend([found])
            self.ledger.append(Charge(row.row, row.charge_nano, "test"))
        if plan.rows:
            self.engine.extend([Estimator(query.key, plan.weights)])
        return plan


def part(low: int, high: int) -> Primitive:
    return primitive(linear_query(SIZES, [(1, {0: interval(12, low, high)})]))


def random_part(rng: random.Random, cuts: int = 4) -> Primitive:
    low, high = sorted(rng.sample(range(cuts + 1), 2))
    return part(low * 12 // cuts, high * 12 // cuts)


def losses(charges: list[tuple[LinearQuery, int]], relation: Relation, k: int) -> int:
    """Spent by its definition, cell by cell and pair by pair."""
    cells = [(c,) for c in range(12)]
    values = [[row.value_at(c) for row, _ in charges] for c in cells]
    if relation == "add-remove":
        found = max(sum(abs(v) * a for v, (_, a) in zip(vs, charges, strict=True)) for vs in values)
    else:
        values.append([Fraction(0)] * len(charges))
        found = max(
            sum(abs(v - w) * a for v, w, (_, a) in zip(vs, ws, charges, strict=True))
            for vs in values
            for ws in values
        )
    return int(k * found)


@pytest.mark.parametrize(
    ("relation", "k"), [("add-remove", 1), ("replace-one", 1), ("add-remove", 3)]
)
@pytest.mark.parametrize("seed", range(3))
def test_the_price_is_the_rise_of_the_largest_loss(relation: Relation, k: int, seed: int) -> None:
    """Each spend against the loss by definition over the alphas of the live rows."""
    rng, town = random.Random(seed), Town(relation, k)
    kinds = set()
    for _ in range(12):
        before = town.ledger.spent_nano
        plan = town.ask(random_part(rng), rng.choice((60.0, 40.0, 25.0)))
        kinds.add(plan.kind)
        assert town.ledger.spent_nano == plan.spent_after_nano == before + plan.price_nano
        live = [town.engine.measurement(i) for i in range(town.engine.n_measurements)]
        assert town.ledger.spent_nano == losses([(m.row, m.alpha_nano) for m in live], relation, k)
    assert "refined" in kinds


@pytest.mark.parametrize("seed", range(4))
def test_an_answered_question_meets_its_requirement_and_stays_free(seed: int) -> None:
    rng, town = random.Random(50 + seed), Town()
    asked: list[tuple[Primitive, float, float]] = []
    for _ in range(12):
        question = (random_part(rng), rng.choice((60.0, 40.0, 25.0)), rng.choice((0.8, 0.95)))
        town.ask(*question)
        asked.append(question)
        for query, length, confidence in asked:
            assert town.plan(query, length, confidence).kind == "free"
            assert town.plan(query, length * 1.3, confidence).kind == "free"


@pytest.mark.parametrize("seed", range(3))
def test_a_refining_plan_meets_its_requirement_on_the_scales_that_are_drawn(seed: int) -> None:
    """From the plan's weights alone: half-width of sum Lap(abs(A) 1e9 / alpha) plus the lattice."""
    rng, town = random.Random(seed), Town()
    n_refined = 0
    for _ in range(12):
        query, length = random_part(rng), rng.choice((60.0, 40.0, 25.0))
        plan = town.ask(query, length)
        rows = [town.engine.measurement(i) for i, _ in plan.weights]
        sizes = np.array([abs(w) for _, w in plan.weights])
        noise = LaplaceSum(sizes * [NANO / m.alpha_nano for m in rows]).half_width(0.95)
        assert noise + sizes @ [float(m.step) for m in rows] <= length / 2 * (1 + 1e-9)
        n_refined += plan.kind == "refined"
    assert n_refined > 0


def test_tightening_a_question_costs_the_tightest_alone() -> None:
    town, query = Town(), part(0, 6)
    for length in (40.0, 20.0, 10.0, 5.0):
        town.ask(query, length)
    row = town.engine.measurement(0)
    alone = fresh_alpha_nano(Requirement(5.0, 0.95), multiplier=Fraction(1), step=row.step)
    assert alone <= town.ledger.spent_nano <= alone * (1 + 2e-8)
    assert town.engine.n_measurements == 1


@pytest.mark.parametrize("seed", range(4))
def test_a_plan_never_costs_more_than_fresh_or_combined(seed: int) -> None:
    rng, town = random.Random(seed), Town()
    for _ in range(12):
        query, length = random_part(rng), rng.choice((60.0, 40.0, 25.0))
        plan = town.plan(query, length)
        if plan.kind != "free":
            requirement = Requirement(length, 0.95)
            step = plan.rows[0].step
            alphas = [fresh_alpha_nano(requirement, multiplier=query.multiplier, step=step)]
            target = length / 2 / float(query.sensitivity)
            combined = combined_alpha(
                town.engine, query, half_width=target, confidence=0.95, step=step
            )
            if combined is not None:
                alphas.append(alpha_nano_up(combined))
            dearest = min(
                town.ledger.spent_after([Charge(query.row, alpha, "test")]) for alpha in alphas
            )
            assert plan.spent_after_nano <= dearest + 4 + 1e-6 * max(alphas)
        town.ask(query, length)


def test_raising_the_rows_behind_an_answer_can_beat_measuring_it() -> None:
    """Twelve disjoint cells, each short of what their sum needs: raising all costs one cell."""
    town = Town()
    for i in range(12):
        town.ask(part(i, i + 1), 20.0)
    before = town.ledger.spent_nano
    whole = part(0, 12)
    now = town.plan(whole, 1000.0).estimate
    assert now is not None
    plan = town.ask(whole, 1.9 * now.half_width)
    assert plan.kind == "refined"
    assert all(row.refines is not None for row in plan.rows)
    assert plan.price_nano < 0.12 * before
    after = town.engine.estimate(whole, confidence=0.95)
    assert after is not None
    target = question_of(whole, Requirement(1.9 * now.half_width, 0.95)).row_half_width
    assert after.half_width <= target


def test_a_quote_stays_good_until_something_is_spent() -> None:
    town = Town()
    town.ask(part(0, 6), 40.0)
    first, second = town.plan(part(0, 6), 17.0), town.plan(part(0, 6), 17.0)
    assert first.kind == "refined"
    assert first == second
