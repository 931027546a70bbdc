"""Marginals of log-potentials: junction trees against all cells, messages against a dual."""

from __future__ import annotations

import tracemalloc
from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.optimize import minimize

from qserver.errors import CapacityError
from qserver.models.marginals.graph.junction_tree import JunctionTree, clique_tree
from qserver.models.marginals.graph.layout import Layout
from tests.models.marginals.local_polytope import local_polytope
from tests.models.marginals.message_passing import BeliefPropagation, factor_graph, saturated

SIZES = (2, 3, 2, 2, 3)


def joint_of(layout: Layout, theta):
    """sum of theta_r over all cells of the whole domain."""
    logs = np.zeros(SIZES)
    for i, scope in enumerate(layout.scopes):
        wide = tuple(n if a in scope else 1 for a, n in enumerate(SIZES))
        logs += layout.table(theta, i).reshape(wide)
    return logs


def marginal_of(joint, scope):
    return joint.sum(axis=tuple(a for a in range(joint.ndim) if a not in scope))


@st.composite
def scope_sets(draw):
    scope = st.sets(st.integers(0, len(SIZES) - 1), min_size=1, max_size=3)
    return [tuple(sorted(draw(scope))) for _ in range(draw(st.integers(1, 6)))]


@given(scope_sets(), st.integers(0, 2**32 - 1), st.sampled_from([0.5, 5.0, 300.0]))
def test_a_junction_tree_gives_the_marginals_of_all_cells(scopes, seed, size):
    """Also where potentials are so large that plain exponentials overflow."""
    oracle = JunctionTree(SIZES, scopes)
    theta = np.random.default_rng(seed).normal(size=oracle.layout.n_cells) * size
    logs = joint_of(oracle.layout, theta)
    joint = np.exp(logs - logs.max())
    # Attributes in no scope are summed over by the table of all cells only.
    free = np.prod([n for a, n in enumerate(SIZES) if not any(a in s for s in scopes)])
    expected_log = np.log(joint.sum() / free) + logs.max()
    joint /= joint.sum()
    found = oracle.run(theta)
    for i, scope in enumerate(oracle.layout.scopes):
        expected = marginal_of(joint, scope)
        assert_allclose(oracle.layout.table(found.tables, i), expected, rtol=1e-8, atol=1e-12)
    assert_allclose(found.log_partition, expected_log, rtol=1e-10, atol=1e-10)
    assert_allclose(oracle.lower_bound(theta), logs.min(), rtol=1e-10, atol=1e-10)


@given(scope_sets(), st.integers(0, 2**32 - 1))
def test_tables_agree_and_have_total_one_where_rounding_of_potentials_is_no_small_part(
    scopes, seed
):
    """Answers that contradict one another by 10^12 times their noise lead to such potentials."""
    oracle, rng = JunctionTree(SIZES, scopes), np.random.default_rng(seed)
    layout, theta = oracle.layout, rng.normal(size=oracle.layout.n_cells)
    for (i, one), (j, other) in combinations(enumerate(layout.scopes), 2):
        for a in set(one) & set(other):
            # What one table adds the other takes away.
            large = 1e13 * rng.normal(size=SIZES[a])
            for k, scope, sign in ((i, one, 1.0), (j, other, -1.0)):
                wide = tuple(SIZES[a] if b == a else 1 for b in scope)
                layout.table(theta, k)[...] += sign * large.reshape(wide)
    tables = oracle.run(theta).tables
    assert_allclose(layout.totals(tables), 1.0, rtol=0, atol=1e-12)
    for (i, one), (j, other) in combinations(enumerate(layout.scopes), 2):
        shared = set(one) & set(other)
        first, second = [
            layout.table(tables, k).sum(axis=tuple(n for n, a in enumerate(s) if a not in shared))
            for k, s in ((i, one), (j, other))
        ]
        assert_allclose(first, second, rtol=0, atol=1e-12)


def test_cliques_of_the_tree_hold_every_scope_and_run_along_it():
    """The running intersection property: what two cliques share lies in all between them."""
    scopes = [tuple(sorted(s)) for s in combinations(range(7), 2) if sum(s) % 3]
    tree = clique_tree((2,) * 7, scopes)
    assert all(any(set(s) <= set(c) for c in tree.cliques) for s in scopes)
    for i, clique in enumerate(tree.cliques):
        before = {a for c in tree.cliques[:i] for a in c}
        assert set(clique) & before == set(tree.separator(i))


def test_a_tree_that_is_too_large_is_refused_with_its_size():
    pairs = list(combinations(range(20), 2))
    with pytest.raises(CapacityError, match=r"would hold 95,367,431,640,625 cells; 1,000 are"):
        JunctionTree((5,) * 20, pairs, max_cells=1_000)


@pytest.mark.parametrize(("graph", "on"), [(saturated, "shared"), (factor_graph, "singles")])
def test_messages_find_the_tables_that_a_dense_search_of_the_dual_finds(graph, on):
    """All counting numbers one; the dense dual has a multiplier per equality and no messages."""
    regions = graph(SIZES, [(0, 1, 2), (1, 2, 3), (0, 3), (3, 4), (2, 4)])
    layout = regions.layout
    theta = np.random.default_rng(5).normal(size=layout.n_cells)
    polytope = local_polytope(layout, on=on)

    def dual(nu):
        logs = theta + polytope.matrix.T @ nu
        starts = layout.offsets[:-1]
        sums = np.add.reduceat(np.exp(logs), starts)
        beliefs = np.exp(logs) / layout.per_cell(sums)
        gradient = polytope.matrix @ beliefs - polytope.right
        return np.log(sums).sum() - nu @ polytope.right, gradient

    found = minimize(
        dual, np.zeros(len(polytope.right)), jac=True, method="BFGS", options={"gtol": 1e-9}
    )
    logs = theta + polytope.matrix.T @ found.x
    expected = np.exp(logs) / layout.per_cell(np.add.reduceat(np.exp(logs), layout.offsets[:-1]))
    beliefs = BeliefPropagation(regions).run(theta, tolerance=1e-10, max_passes=5_000)
    assert beliefs.inconsistency <= 1e-10
    assert_allclose(beliefs.tables, expected, atol=1e-6)
    assert_allclose(beliefs.log_partition, found.fun, rtol=1e-9)


@given(scope_sets(), st.integers(0, 2**32 - 1))
def test_no_pass_makes_the_dual_worse(scopes, seed):
    """What makes the damping safe without tuning it: the dual falls from pass to pass."""
    graph = saturated(SIZES, scopes)
    theta = 4.0 * np.random.default_rng(seed).normal(size=graph.layout.n_cells)
    propagation = BeliefPropagation(graph)
    duals = [propagation.run(theta, tolerance=0.0, max_passes=1).log_partition for _ in range(15)]
    assert all(b <= a + 1e-9 * abs(a) for a, b in pairwise(duals))


def test_messages_go_on_from_where_the_last_call_left_them():
    graph = saturated(SIZES, [(0, 1, 2), (1, 2, 3), (0, 3)])
    theta = np.random.default_rng(2).normal(size=graph.layout.n_cells)
    propagation = BeliefPropagation(graph)
    first = propagation.run(theta, tolerance=1e-8, max_passes=1_000)
    again = propagation.run(theta, tolerance=1e-8, max_passes=1_000)
    assert first.passes > 5
    assert again.passes == 0


def test_a_large_clique_with_many_parts_takes_memory_of_its_size_and_sums_as_written_out():
    """28 pairs of one table of 6,561 cells: less than a float per cell and pair."""
    sizes, rng = (3,) * 8, np.random.default_rng(3)
    pairs = list(combinations(range(8), 2))
    tracemalloc.start()
    tree = JunctionTree(sizes, [tuple(range(8)), *pairs])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8 * len(pairs) * 3**8
    theta = rng.normal(size=tree.layout.n_cells)
    joint = np.exp(tree.layout.table(theta, tree.layout.index[tuple(range(8))]))
    for pair in pairs:
        wide = [3 if a in pair else 1 for a in range(8)]
        joint = joint * np.exp(tree.layout.table(theta, tree.layout.index[pair])).reshape(wide)
    joint /= joint.sum()
    tables = tree.run(theta).tables
    for pair in pairs:
        expected = joint.sum(axis=tuple(a for a in range(8) if a not in pair))
        assert_allclose(tree.layout.table(tables, tree.layout.index[pair]), expected, rtol=1e-9)
