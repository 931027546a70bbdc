"""The best base against a search of all alphas on a grid, and its invariants."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose

from qserver.inference.tables.blocks.nested_partitions import regular_chain, single_values
from qserver.inference.tables.blocks.noisy_blocks import Blocks
from qserver.inference.tables.blocks.pattern import Lattice, Pattern
from qserver.planning.blocks import base
from qserver.planning.blocks.base import BaseProblem, Target, best_base
from qserver.planning.constants import PLANNER
from qserver.planning.effort import Effort
from qserver.query.linear_query import linear_query
from qserver.query.weights import interval
from tests.inference.tables.blocks.every_block import every_block

LATTICE = Lattice({0: regular_chain(single_values(0, 16), (1, 4, 16))})
BLOCKS = every_block(LATTICE, [0])


def patterns(seed: int, n: int) -> list[Pattern]:
    generator = random.Random(seed)
    found = []
    for _ in range(n):
        low, high = sorted(generator.sample(range(17), 2))
        pattern = LATTICE.pattern(linear_query((16,), [(1, {0: interval(16, low, high)})]))
        assert pattern is not None
        found.append(pattern)
    return found


def problem_of(seed: int, floors: list[float]) -> BaseProblem:
    targets = [Target(p.energies, 4.0) for p in patterns(seed, 6)]
    costs = [1.0] * len(BLOCKS)
    return BaseProblem.of(LATTICE, targets, blocks=BLOCKS, costs=costs, floors=floors)


@pytest.mark.parametrize("seed", range(4))
def test_no_alphas_on_a_fine_grid_are_cheaper(seed: int) -> None:
    problem = problem_of(seed, [0.0] * len(BLOCKS))
    found = best_base(problem, [], effort=Effort())
    assert problem.excess(found) <= 1.0 + 1e-6
    shares = [s for s in product(np.linspace(0.0, 1.0, 21), repeat=3) if sum(s) > 0.0]
    grid = np.array([np.array(s) / sum(s) for s in shares])
    prices = [problem.price(problem.scaled(s)) for s in grid if problem.excess(s) < 1e60]
    assert problem.price(found) <= min(prices) * 1.002


@pytest.mark.parametrize("seed", range(4))
def test_what_is_there_already_is_kept_and_never_makes_the_base_dearer(seed: int) -> None:
    free = problem_of(seed, [0.0] * len(BLOCKS))
    floors = [0.0, 0.4, 0.1]
    held = problem_of(seed, floors)
    found = best_base(held, [], effort=Effort())
    assert (found >= np.array(floors)).all()
    assert held.excess(found) <= 1.0 + 1e-6
    assert (
        held.price(found - held.floors) <= free.price(best_base(free, [], effort=Effort())) * 1.002
    )


def test_the_excess_is_the_greatest_variance_over_its_target() -> None:
    problem = problem_of(1, [0.0] * len(BLOCKS))
    alphas = np.array([0.3, 0.9, 0.7])
    blocks = Blocks(LATTICE, dict(zip(BLOCKS, alphas, strict=True)))
    expected = max(blocks.variance(p) for p in patterns(1, 6)) / 4.0
    assert_allclose(problem.excess(alphas), expected, rtol=1e-12)


def test_searches_side_by_side_end_where_each_ends_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that begins nowhere changes nothing for the others, and is no base."""
    # Else each goes on until all are still.
    monkeypatch.setattr(base, "PLANNER", replace(PLANNER, noticeable=-1.0))
    problem = problem_of(2, [0.0, 0.2, 0.0])
    unit, other = np.ones(len(BLOCKS)), np.array([3.0, 0.2, 0.7])
    nowhere = np.full(len(BLOCKS), np.inf)
    found = problem.solve_all([unit, nowhere, other], n_annealed=1)
    assert_allclose(found[0], problem.solve(unit, annealed=True), rtol=1e-9)
    assert_allclose(found[2], problem.solve(other), rtol=1e-9)
    assert np.isinf(found[1]).all()
    assert problem.solve_all([]) == []


def test_searches_that_are_still_end_early_and_cost_hardly_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two steps would not do: the control."""
    problem = problem_of(2, [0.0, 0.2, 0.0])
    starts = [np.ones(len(BLOCKS)), np.array([3.0, 0.2, 0.7])]
    early = problem.solve_all(starts, n_annealed=1)
    hasty = problem.solve_all(starts, n_annealed=1, steps=2)
    monkeypatch.setattr(base, "PLANNER", replace(PLANNER, noticeable=-1.0))
    whole = problem.solve_all(starts, n_annealed=1)
    for i in range(2):
        assert problem.price(early[i]) <= 1.001 * problem.price(whole[i])
        assert problem.price(hasty[i]) > 1.001 * problem.price(whole[i])


def test_blocks_that_reach_no_target_are_no_base() -> None:
    (target,) = (Target(p.energies, 4.0) for p in patterns(1, 1))
    coarse = BaseProblem.of(LATTICE, [target], blocks=[()], costs=[1.0], floors=[0.0])
    assert np.isinf(best_base(coarse, [], effort=Effort())).all()
    assert np.isinf(coarse.least_price(np.inf))


def test_without_blocks_there_is_a_base_of_none_and_no_division_by_nothing() -> None:
    """Where no table may be bought, as of the total alone under replace-one."""
    targets = [Target(p.energies, 4.0) for p in patterns(1, 2)]
    problem = BaseProblem.of(LATTICE, targets, blocks=[], costs=[], floors=[])
    assert best_base(problem, [], effort=Effort()).shape == (0,)
    assert np.isinf(problem.least_price(np.inf))


@pytest.mark.parametrize("seed", range(12))
def test_no_alphas_that_meet_the_targets_are_below_the_least_price(seed: int) -> None:
    """Random reaches, costs and floors, one block that costs nothing; alphas of every kind."""
    generator = np.random.default_rng(seed)
    n_blocks, n_components = 7, 9
    reach = generator.exponential(1.0, (n_blocks, n_components))
    reach *= generator.random(reach.shape) < 0.4
    reach[generator.integers(6, size=n_components), range(n_components)] += 0.1
    energies = generator.exponential(1.0, (4, n_components))
    costs, floors = generator.uniform(0.5, 2.0, n_blocks), np.zeros(n_blocks)
    floors[:3] = generator.uniform(0.0, 2.0, 3)
    if seed % 3 == 0:
        reach[6, 1:] = 0.0
        costs[6], floors[6] = PLANNER.negligible, PLANNER.public_alpha
    problem = BaseProblem(tuple(((0, i),) for i in range(7)), reach, energies, costs, floors)
    least, found = problem.least_price(np.inf), best_base(problem, [], effort=Effort())
    tried = [found, *(problem.scaled(generator.exponential(1.0, 7) ** 3) for _ in range(300))]
    assert max(map(problem.excess, tried)) <= 1.0 + 1e-6
    assert least <= min(map(problem.price, tried)) * (1.0 + 1e-6)
    assert least > 0.5 * problem.price(found)
    assert 0.25 * least < problem.least_price(0.25 * least) <= least
