"""Balanced rows under Gaussian noise: what they cost, when they are measured, what they answer."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.stats import chi2

from qserver.inference.engine import RowEstimate
from qserver.planning.balanced_row import BalancedDemand
from qserver.planning.blocks.own_rows import Own, OwnRows
from qserver.planning.blocks.rent_or_buy import RentOrBuy
from qserver.planning.planner import plan_answer
from qserver.query.linear_query import linear_query, total_query
from qserver.query.primitive import Primitive, primitive
from qserver.query.requirement import Requirement
from qserver.query.weights import indicator
from qserver.records.charge import NANO
from qserver.records.privacy.noise_law import GAUSSIAN, LAPLACE
from tests.benchmarks.synthetic_noise import Snapshot, question_of

SIZES = (6, 5, 4, 4)
TOTAL = primitive(total_query(SIZES)).key
N_HISTORIES = 100


def some(rng: random.Random, most: int = 3) -> Primitive:
    """A predicate on one attribute or more, true of about half of its values."""
    axes = {
        axis: indicator(SIZES[axis], rng.sample(range(SIZES[axis]), SIZES[axis] // 2))
        for axis in rng.sample(range(len(SIZES)), rng.randint(1, most))
    }
    return primitive(linear_query(SIZES, [(1, axes)]))


def is_balanced(row: Any, sizes: tuple[int, ...] = SIZES) -> bool:
    values = {abs(value) for value in dense(primitive(row), sizes).ravel().tolist()}
    return bool(row.scope) and values == {1.0}


def dense(query: Primitive, sizes: tuple[int, ...] = SIZES) -> np.ndarray:
    found = np.zeros(sizes)
    for term in query.row.terms:
        part = np.full(sizes, float(term.coefficient))
        for axis, weights in term.by_axis.items():
            shape = [-1 if a == axis else 1 for a in range(len(sizes))]
            part = part * np.asarray(weights.dense, dtype=float).reshape(shape)
        found += part
    return found


@dataclass
class Played:
    """A stream of predicates that weigh on many cells."""

    snapshot: Snapshot
    alone: OwnRows = field(default_factory=OwnRows)

    @classmethod
    def of(cls, seed: int, *, n: int = 30, most: int = 3, **facts: Any) -> Played:
        rng = random.Random(seed)
        # Tables are never bought: what rows cost is to be seen.
        snapshot = Snapshot(SIZES, **{"rule": RentOrBuy(1e6), "law": GAUSSIAN, **facts})
        found = cls(snapshot)
        for _ in range(n):
            found.ask(some(rng, most), 40.0 * 2.0 ** rng.choice((0, 0, 1, -1)))
        return found

    def ask(self, query: Primitive, length: float) -> RowEstimate:
        """The estimate that the question's plan leads to; the truth is 0."""
        requirement = Requirement(length, 0.95)
        question = question_of(query, requirement)
        own = Own(question.row, question.roomy_half_width, 0.95)
        self.alone.add(own, self.snapshot.ledger.neighbours)
        plan = self.snapshot.ask(query, requirement)
        found = self.snapshot.engine.estimate_with(
            query,
            plan.weights,
            confidence=0.95,
            enough=question.row_half_width,
            tables_give_rest=plan.tables_give_rest,
        )
        assert found is not None
        assert found.half_width <= question.row_half_width
        return found

    @property
    def alone_nano(self) -> int:
        """What own rows alone would have cost."""
        return self.alone.price_nano(self.snapshot.ledger.neighbours)

    @property
    def rows(self) -> list[Any]:
        return [m.row for m in self.snapshot.live]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_questions_on_many_cells_cost_less_than_their_own_rows(seed: int) -> None:
    found = Played.of(seed)
    spent, alone = found.snapshot.ledger.spent_nano, found.alone_nano
    assert spent < alone
    assert sum(map(is_balanced, found.rows)) >= 10
    assert any(primitive(row).key == TOTAL for row in found.rows)
    # The ledger's figure is the loss of the worst cell, row by row.
    lost = np.zeros(SIZES)
    for one in found.snapshot.live:
        lost += one.alpha_nano * dense(primitive(one.row)) ** 2
    assert spent == lost.max()


@pytest.mark.slow
def test_errors_are_as_large_as_is_stated() -> None:
    """One question of each of many histories: squares of errors in stated deviations add up."""
    squares = []
    for seed in range(N_HISTORIES):
        played = Played.of(seed, n=10, generator=np.random.default_rng(seed))
        assert any(map(is_balanced, played.rows))
        error = played.ask(some(random.Random(-1 - seed)), 20.0).posterior
        squares.append(error.estimate**2 / error.error.variance)
    assert 1e-6 < chi2.cdf(sum(squares), N_HISTORIES) < 1.0 - 1e-6


@pytest.mark.parametrize(
    "facts",
    [{"law": LAPLACE}, {"relation": "replace-one", "is_total": False}, {"rule": None}],
    ids=["laplace", "replace-one", "no rule"],
)
def test_elsewhere_every_row_is_a_question_s_own(facts: dict[str, Any]) -> None:
    assert not any(map(is_balanced, Played.of(1, n=12, **facts).rows))


def test_cells_that_never_meet_are_measured_by_their_own_rows() -> None:
    found = Played.of(0, n=0)
    for first in range(SIZES[0]):
        for second in range(SIZES[1]):
            axes = {0: indicator(SIZES[0], [first]), 1: indicator(SIZES[1], [second])}
            found.ask(primitive(linear_query(SIZES, [(1, axes)])), 40.0)
    assert not any(map(is_balanced, found.rows))
    assert found.snapshot.ledger.spent_nano == found.alone_nano


@pytest.mark.parametrize("seed", range(4))
def test_they_are_measured_where_they_would_have_cost_less_from_the_first_question(
    seed: int,
) -> None:
    found = Played.of(seed, n=12)
    rule = found.snapshot.rule
    assert rule is not None
    course = rule.scopes.all(found.snapshot.holdings).course
    charges = [0.5 * Own.of(p).sharpness ** 2 for p in course.paid]
    least = {
        p.row: max(c for q, c in zip(course.paid, charges, strict=True) if q.row == p.row)
        for p in course.paid
    }
    each = np.array(list(least.values()))

    def price(log_total: float) -> float:
        total = np.exp(log_total)
        if total <= each.max() / 4.0:
            return np.inf
        return total + float((1.0 / (4.0 / each - 1.0 / total)).sum())

    solve: Any = minimize_scalar
    low = np.log(each.max() / 4.0)
    best = solve(price, bounds=(low, low + 6.0), method="bounded")
    total = BalancedDemand().total(rule.scopes, found.snapshot.holdings)
    rent = course.rent_nano(found.snapshot.holdings) / NANO
    if total is None:
        assert rent <= 1.001 * best.fun + 1e-7
    else:
        assert best.fun < rent
        assert price(np.log(total)) == pytest.approx(best.fun, rel=2e-3)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_the_price_never_rises_with_the_length_where_rows_are_balanced(seed: int) -> None:
    found, rng = Played.of(seed, n=14), random.Random(100 + seed)
    kinds = set()
    for _ in range(6):
        query = some(rng)
        lengths = [Requirement(40.0 * 2.0 ** (n / 4), 0.95) for n in range(-8, 9)]
        plans = [found.snapshot.plan(query, length) for length in lengths]
        kinds |= {is_balanced(row.row) for plan in plans for row in plan.rows}
        for shorter, longer in pairwise(plans):
            assert longer.price_nano <= shorter.price_nano
        found.ask(query, 40.0)
    assert True in kinds


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_at_most_three_times_own_rows_are_spent(seed: int) -> None:
    """One stream after the other: first predicates on many cells, then cells that never meet."""
    found = Played.of(seed, n=8)
    for first in range(SIZES[0]):
        for second in range(SIZES[1]):
            axes = {0: indicator(SIZES[0], [first]), 1: indicator(SIZES[1], [second])}
            found.ask(primitive(linear_query(SIZES, [(1, axes)])), 20.0)
            spent, alone = found.snapshot.ledger.spent_nano, found.alone_nano
            assert spent <= 3 * alone


def test_a_total_that_is_due_refuses_no_row_that_can_be_paid() -> None:
    """What a snapshot may spend can be less than the limit of its population."""
    rng, played = random.Random(0), Played.of(0, n=0)
    asked = [(some(rng), 40.0 * 2.0 ** rng.choice((0, 0, 1, -1))) for _ in range(3)]
    for query, length in asked[:2]:
        played.ask(query, length)
    holdings, rule = played.snapshot.holdings, played.snapshot.rule
    question = question_of(asked[2][0], Requirement(40.0, 0.95))
    own, due = (plan_answer(question, holdings, rule=one) for one in (None, rule))
    assert own.spent_after_nano < due.spent_after_nano
    plan = plan_answer(question, holdings, rule=rule, allowed_nano=due.spent_after_nano - 1)
    assert plan.spent_after_nano == own.spent_after_nano


def test_the_plan_is_the_same_in_every_process() -> None:
    snapshot = Played.of(2, n=14).snapshot
    rng = random.Random(5)
    for _ in range(4):
        query, requirement = some(rng), Requirement(30.0, 0.95)
        mine, other = (s.plan(query, requirement) for s in (snapshot, snapshot.replayed()))
        assert [(r.key, r.alpha_nano) for r in mine.rows] == [
            (r.key, r.alpha_nano) for r in other.rows
        ]
        snapshot.ask(query, requirement)
