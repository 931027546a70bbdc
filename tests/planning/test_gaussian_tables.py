"""The planner under Gaussian noise: the least base, what is bought when, and what is proven."""

from __future__ import annotations

import random
from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy.optimize import LinearConstraint, minimize

from qserver.inference.tables.blocks.pattern import BlockKey
from qserver.inference.tables.pieces import lattice_of
from qserver.planning.blocks.base import BaseProblem, Target, best_base
from qserver.planning.blocks.demand import want_of
from qserver.planning.blocks.earlier_questions import EarlierDemand
from qserver.planning.blocks.own_rows import Own, OwnRows
from qserver.planning.blocks.rent_or_buy import RentOrBuy
from qserver.planning.blocks.star import fit_star
from qserver.planning.blocks.wants import Wants
from qserver.planning.constants import PLANNER
from qserver.planning.effort import Effort
from qserver.query.linear_query import linear_query
from qserver.query.primitive import Primitive, primitive
from qserver.query.requirement import DEFAULT_PHI, Requirement
from qserver.query.weights import indicator, interval
from qserver.records.charge import NANO
from qserver.records.history import GaussianTable
from qserver.records.plan import PlannedTable
from qserver.records.privacy.noise_law import GAUSSIAN
from tests.benchmarks.play import snapshot_for
from tests.benchmarks.streams import Asked
from tests.benchmarks.synthetic_noise import Snapshot, question_of

SIZES = (6, 4, 3)
BLOCKS: list[BlockKey] = [
    tuple((a, 1) for a in range(3) if inside[a]) for inside in product((0, 1), repeat=3)
]


def problem_of(seed: int) -> BaseProblem:
    rng = random.Random(seed)
    targets = [
        Target({b: rng.random() for b in rng.sample(BLOCKS, 3)}, 10 ** rng.uniform(1, 3))
        for _ in range(rng.randint(1, 6))
    ]
    floors = [rng.choice([0.0, 0.0, rng.random() * 1e-2]) for _ in BLOCKS]
    lattice = lattice_of(SIZES, None)
    costs = [rng.choice([1.0, 2.0]) for _ in BLOCKS]
    return BaseProblem.of(lattice, targets, blocks=BLOCKS, costs=costs, floors=floors, law=GAUSSIAN)


@pytest.mark.parametrize("seed", range(12))
def test_the_base_is_the_least_of_a_convex_problem(seed: int) -> None:
    problem = problem_of(seed)
    found = best_base(problem, [], effort=Effort(1e9))
    price = problem.price(found)
    assert problem.excess(found) <= 1 + 1e-6
    assert (found >= problem.floors).all()
    # The bound by duality holds, and a general solver finds no base that costs less.
    assert problem.least_price(np.inf) <= price * (1 + 1e-9)
    reach = 4.0 * problem.reach

    def over(x: np.ndarray) -> np.ndarray:
        return np.asarray(1.0 - problem.energies @ (1.0 / np.maximum(x @ reach, 1e-30)))

    limits: list[Any] = [
        {"type": "ineq", "fun": over},
        LinearConstraint(np.eye(len(found)), lb=problem.floors),
    ]
    least: Any = minimize
    best = least(
        lambda x: float(problem.costs @ x) / price,
        1.5 * found + 1e-6,
        jac=lambda _: problem.costs / price,
        constraints=limits,
        method="SLSQP",
        options={"maxiter": 500, "ftol": 1e-10},
    )
    assert problem.excess(best.x) <= 1 + 1e-6
    assert price <= 1.01 * best.fun * price


def some(rng: random.Random, sizes: tuple[int, ...]) -> Primitive:
    axes = {}
    for axis, size in enumerate(sizes):
        if size > 10:
            low, high = sorted(rng.sample(range(size + 1), 2))
            axes[axis] = interval(size, low, high)
        elif rng.random() < 0.7:
            axes[axis] = indicator(size, rng.sample(range(size), rng.randint(1, size - 1)))
    return primitive(linear_query(sizes, [(1, axes)]))


def played(seed: int, sizes: tuple[int, ...], n: int) -> tuple[Snapshot, list[Asked]]:
    rng = random.Random(seed)
    asked = [Asked(some(rng, sizes), Requirement(40.0, 0.95)) for _ in range(n)]
    snapshot = snapshot_for(
        sizes, relation="add-remove", phi=DEFAULT_PHI, seed=seed, law=GAUSSIAN, is_total=False
    )
    return snapshot, asked


def best_tables(sizes: tuple[int, ...], asked: list[Asked]) -> float:
    """Rho of the least tables that meet all of these questions, with nothing bought before."""
    empty = played(0, sizes, 0)[0].holdings
    wants = Wants()
    for one in asked:
        half_width = question_of(one.query, one.requirement).row_half_width
        want = want_of(empty, one.query, half_width=half_width, confidence=0.95)
        assert want is not None
        wants.add(want)
    return fit_star(empty, wants.wants, effort=Effort(1e9)).price


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [(8, 6), (40,), (4, 3, 2)])
@pytest.mark.parametrize("seed", range(3))
def test_tables_are_bought_and_the_first_base_costs_at_most_twice_the_better(
    seed: int, sizes: tuple[int, ...]
) -> None:
    snapshot, asked = played(seed, sizes, 60)
    alone, first, neighbours = OwnRows(), None, snapshot.ledger.neighbours
    for n, one in enumerate(asked, start=1):
        half_width = question_of(one.query, one.requirement).row_half_width
        alone.add(Own(one.query, half_width, one.requirement.confidence), neighbours)
        plan = snapshot.ask(one.query, one.requirement)
        assert all(row.refines is None and row.cell is None for row in plan.rows)
        assert all(isinstance(t, PlannedTable) and t.refines is None for t in plan.tables)
        found = snapshot.engine.estimate(one.query, confidence=0.95, enough=half_width)
        assert found is not None
        assert found.half_width <= half_width
        if plan.tables and first is None:
            first = n
            spent = snapshot.ledger.spent_nano / NANO
            # Own rows alone, in full, and the best tables for just these questions.
            rows = alone.price_nano(neighbours) / NANO
            base = best_tables(sizes, asked[:n])
            last = OwnRows().price_nano(neighbours, Own(one.query, half_width, 0.95)) / NANO
            assert spent <= PLANNER.convex_ratio * min(rows, base) + last
    assert first is not None
    tables = [m for m in snapshot.live if isinstance(m, GaussianTable)]
    # The same cells, measured once more, count as one table of the sum.
    by_key = {t.key: sum(o.alpha_nano for o in tables if o.key == t.key) for t in tables}
    held = {t.partition.key: t.alpha_nano for t in snapshot.engine.tables.measured}
    assert {key: by_key[key] for key in held} == held
    again = [snapshot.plan(one.query, one.requirement).price_nano for one in asked]
    assert again == [0] * len(asked)


@pytest.mark.slow
def test_earlier_questions_are_planned_for_with_gaussian_noise_too() -> None:
    sizes, spent = (40,), list[float]()
    first, asked = played(1, sizes, 40)
    for one in asked:
        first.ask(one.query, one.requirement)
    for earlier in (None, EarlierDemand((tuple(first.paid),), DEFAULT_PHI)):
        again, _ = played(2, sizes, 0)
        again.earlier = earlier
        for one in reversed(asked):
            again.ask(one.query, one.requirement)
        spent.append(again.ledger.spent_nano / NANO)
    anew, known = spent
    assert known <= 1.25 * best_tables(sizes, asked)
    assert known <= 0.9 * anew


def test_for_several_records_a_person_the_same_tables_cost_their_square() -> None:
    rho, tables = list[int](), list[int]()
    for k in (1, 2):
        snapshot = Snapshot((40,), k=k, rule=RentOrBuy(DEFAULT_PHI), law=GAUSSIAN)
        rng = random.Random(3)
        for _ in range(40):
            snapshot.ask(some(rng, (40,)), Requirement(40.0, 0.95))
        rho.append(snapshot.ledger.spent_nano)
        tables.append(sum(isinstance(one, GaussianTable) for one in snapshot.live))
    assert tables[0] == tables[1] > 0
    assert rho[1] == pytest.approx(4 * rho[0], rel=1e-3)
