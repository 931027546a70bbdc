"""The fit of potentials: most entropy against fitting on all cells, costs that push, its limits."""

from __future__ import annotations

import random
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from qserver.models.marginals.fit.consensus import agree
from qserver.models.marginals.fit.consistency import CliqueAgreement
from qserver.models.marginals.fit.descent import Aim, likeliest
from qserver.models.marginals.fit.observations import NoisyMarginal, Observations
from qserver.models.marginals.graph.junction_tree import JunctionTree
from tests.benchmarks.wide_records import adult_records

SIZES = (2, 3, 2, 3)
SCOPES = [(0, 1), (1, 2), (2, 3), (0, 3)]


def marginals(tree, joint):
    """Of all scopes of the tree, flat."""
    rest = [tuple(a for a in range(joint.ndim) if a not in s) for s in tree.layout.scopes]
    return np.concatenate([joint.sum(axis=axes).ravel() for axes in rest])


def proportional_fit(tree, target, rounds=20_000):
    """Most entropy by proportional fitting on all cells, from the uniform table."""
    joint = np.full(SIZES, 1.0 / np.prod(SIZES))
    for _ in range(rounds):
        for i, scope in enumerate(tree.layout.scopes):
            axes = tuple(a for a in range(joint.ndim) if a not in scope)
            sums = joint.sum(axis=axes, keepdims=True)
            wanted = tree.layout.table(target, i).reshape(sums.shape)
            joint = joint * np.divide(wanted, sums, out=np.zeros_like(sums), where=sums > 0)
        if np.abs(marginals(tree, joint) - target).max() < 1e-13:
            break
    return joint


def aim(target, costs, *, goal):
    return Aim(target, costs, 1e-2, lambda t: float(np.square(t - target).sum()), goal)


def test_the_fit_is_the_table_of_most_entropy_with_these_marginals():
    """A cycle of pairs; the joint table is compared, not its pairs alone."""
    tree = JunctionTree(SIZES, SCOPES)
    truth = np.random.default_rng(4).dirichlet(np.full(36, 0.7)).reshape(SIZES)
    target = marginals(tree, truth)
    expected = proportional_fit(tree, target)
    found = likeliest(tree, aim(target, np.zeros_like(target), goal=1e-18))
    assert found.loss <= 1e-18
    logs = np.zeros(SIZES)
    for i, scope in enumerate(tree.layout.scopes):
        wide = tuple(n if a in scope else 1 for a, n in enumerate(SIZES))
        logs = logs + tree.layout.table(found.theta, i).reshape(wide)
    joint = np.exp(logs - logs.max())
    assert_allclose(joint / joint.sum(), expected, atol=1e-8)
    assert np.abs(truth - expected).max() > 1e-2
    assert_allclose(tree.run(found.theta).tables, found.tables, rtol=0)


def test_costs_that_are_zero_where_cells_may_be_above_zero_change_no_answer():
    tree = JunctionTree(SIZES, SCOPES)
    rng = np.random.default_rng(6)
    costly = rng.random(tree.layout.n_cells) < 0.3
    costs = np.where(costly, 0.02 * rng.random(tree.layout.n_cells), 0.0)
    whole = np.zeros(SIZES)
    for i, scope in enumerate(tree.layout.scopes):
        wide = tuple(n if a in scope else 1 for a, n in enumerate(SIZES))
        whole = whole + tree.layout.table(costs, i).reshape(wide)
    possible = whole == 0.0
    assert 4 <= possible.sum() <= 24
    joint = possible * rng.random(SIZES)
    target = marginals(tree, joint / joint.sum())
    for pushed in (costs, 0.0 * costs):
        found = likeliest(tree, aim(target, pushed, goal=1e-14))
        assert found.loss <= 1e-14
        assert_allclose(found.tables, target, atol=1e-7)


@pytest.mark.slow
def test_costs_of_the_optimum_of_adult_save_most_calls():
    """16 pairs with much noise, many cells zero: without costs twice as many are too few."""
    records = adult_records()
    rng = np.random.default_rng(0)
    pairs = sorted(random.Random(16_000).sample(list(combinations(range(13), 2)), 16))
    noisy = [
        records.counts(s) + rng.laplace(scale=160.0, size=len(records.counts(s))) for s in pairs
    ]
    measured = [NoisyMarginal(s, n, np.array(160.0)) for s, n in zip(pairs, noisy, strict=True)]
    tree = JunctionTree(records.sizes, pairs)
    cliques = CliqueAgreement.of(tree)
    seen = Observations(cliques.layout, measured, total=float(records.n))
    room = 1e-6 * seen.noise_loss
    best = agree(seen, gap=room / 2, polytope=cliques)
    own = Observations(tree.layout, measured, total=float(records.n))
    tables, costs = cliques.measured(best.tables), cliques.measured(best.costs)
    goal = best.value - best.gap + room
    pushed = likeliest(tree, Aim(tables, costs, seen.unit, own.value, goal), max_calls=300)
    plain = likeliest(tree, Aim(tables, 0.0 * costs, seen.unit, own.value, goal), max_calls=600)
    assert pushed.loss <= goal < plain.loss


def test_a_search_that_is_stopped_gives_the_best_that_it_came_by():
    tree = JunctionTree(SIZES, SCOPES)
    target = marginals(tree, np.random.default_rng(5).dirichlet(np.full(36, 0.5)).reshape(SIZES))
    losses = []

    def loss(tables):
        losses.append(float(np.square(tables - target).sum()))
        return losses[-1]

    found = likeliest(tree, Aim(target, 0.0 * target, 1e-2, loss, 0.0), max_calls=30)
    # The stage that is under way ends first: 25 rounds, none with more than 20 calls.
    assert 30 <= found.calls <= 30 + 25 * 21 + 2
    assert found.calls == len(losses) + 1
    assert found.loss == min(losses)
    assert_allclose(np.square(found.tables - target).sum(), found.loss, rtol=1e-9)


@given(st.integers(0, 2**32 - 1))
def test_the_least_cost_over_agreeing_cliques_is_that_of_the_cheapest_cell(seed):
    """Of costs on measured tables; all cells are looked at."""
    cliques = CliqueAgreement.of(JunctionTree(SIZES, SCOPES))
    costs = np.random.default_rng(seed).normal(size=cliques.layout.n_cells)
    whole = np.zeros(SIZES)
    for i, scope in enumerate(cliques.layout.scopes):
        if scope in SCOPES:
            wide = tuple(n if a in scope else 1 for a, n in enumerate(SIZES))
            whole = whole + cliques.layout.table(costs, i).reshape(wide)
    assert_allclose(cliques.least_cost(costs), whole.min(), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("precision", [1.0, 1e-4])
def test_a_clique_counts_by_the_precision_of_what_is_inside_it(precision):
    cliques = CliqueAgreement.of(JunctionTree(SIZES, SCOPES))
    measured = np.array([s in SCOPES for s in cliques.layout.scopes])
    weights = cliques.weights(np.where(measured, precision, 0.0))
    assert_allclose(weights[measured], precision)
    inside = [
        cliques.layout.counts[[i for i, m in enumerate(SCOPES) if set(m) <= set(s)]]
        for s in cliques.layout.scopes
    ]
    assert (~measured).sum() == 2
    assert all(len(i) for i in inside)
    ratio = cliques.layout.counts[~measured].mean() / cliques.layout.counts[measured].mean()
    assert np.all(weights[~measured] > precision)
    assert np.all(weights[~measured] < 2.0 * precision * ratio)
