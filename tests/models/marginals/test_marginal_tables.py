"""Sums of many tables at once, region graphs, and the projection onto agreement."""

from __future__ import annotations

from itertools import combinations, pairwise, product

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from qserver.errors import CapacityError, InputError
from qserver.models.marginals.fit.consistency import Consistency
from qserver.models.marginals.graph.junction_tree import Edge, Summation
from qserver.models.marginals.graph.layout import Layout, layout_of, with_intersections
from tests.models.marginals.local_polytope import indicator, local_polytope
from tests.models.marginals.message_passing import factor_graph, saturated

SIZES = (2, 3, 2, 4, 2)


@st.composite
def scopes(draw, most=4):
    n = draw(st.integers(1, 12))
    scope = st.sets(st.integers(0, len(SIZES) - 1), min_size=1, max_size=most)
    return [tuple(sorted(draw(scope))) for _ in range(n)]


@given(scopes(), st.integers(0, 2**32 - 1))
def test_sums_are_marginals_and_spreading_is_their_transpose(found, seed):
    """Batches by shape and the sparse rest give what numpy gives table by table."""
    rng = np.random.default_rng(seed)
    # Twelve copies make batches of equal shapes beside single tables.
    source = layout_of(SIZES, found * 3 + found[:1] * 9)
    edges = [
        Edge(i, part)
        for i, scope in enumerate(source.scopes)
        for part in combinations(scope, int(rng.integers(len(scope) + 1)))
        if rng.random() < 0.8
    ]
    summation = Summation(source, edges)
    x, y = rng.normal(size=source.n_cells), rng.normal(size=summation.target.n_cells)
    sums = summation.sums(x)
    for e, edge in enumerate(summation.edges):
        scope = source.scopes[edge.source]
        axes = tuple(k for k, a in enumerate(scope) if a not in edge.scope)
        expected = source.table(x, edge.source).sum(axis=axes)
        assert_allclose(summation.target.table(sums, e), expected, rtol=1e-12, atol=1e-12)
    onto = np.zeros(source.n_cells)
    summation.spread(y, onto)
    assert sorted(edges, key=repr) == sorted(summation.edges, key=repr)
    assert_allclose(onto @ x, y @ sums, rtol=1e-9, atol=1e-9)


def test_a_saturated_graph_holds_all_intersections_and_only_covering_edges():
    """The example of figure 1: ABC, AD, BCD, DE share A, BC and D."""
    graph = saturated((2,) * 5, [(0, 1, 2), (0, 3), (1, 2, 3), (3, 4)])
    edges = {(graph.layout.scopes[e.source], e.scope) for e in graph.edges}
    assert set(graph.layout.scopes) == {
        (0, 1, 2), (0, 3), (1, 2, 3), (3, 4), (0,), (1, 2), (3,),
    }  # fmt: skip
    assert edges == {
        ((0, 1, 2), (0,)), ((0, 1, 2), (1, 2)), ((0, 3), (0,)), ((0, 3), (3,)),
        ((1, 2, 3), (1, 2)), ((1, 2, 3), (3,)), ((3, 4), (3,)),
    }  # fmt: skip


def test_a_saturated_graph_holds_intersections_of_intersections():
    graph = saturated((2,) * 5, [(0, 1, 2), (0, 1, 3), (0, 2, 3)])
    assert {s for s in graph.layout.scopes if len(s) < 3} == {(0, 1), (0, 2), (0, 3), (0,)}


def test_a_factor_graph_ties_tables_by_single_attributes():
    graph = factor_graph((2,) * 3, [(0, 1), (1, 2), (2,)])
    edges = {(graph.layout.scopes[e.source], e.scope) for e in graph.edges}
    assert edges == {((0, 1), (0,)), ((0, 1), (1,)), ((1, 2), (1,)), ((1, 2), (2,))}


def test_a_scope_of_too_many_attributes_is_refused():
    with pytest.raises(CapacityError, match="17 attributes; 16 are the most"):
        saturated((2,) * 20, [tuple(range(17))])


def test_a_scope_that_does_not_rise_is_refused():
    with pytest.raises(InputError, match="`scope` must be a rising tuple"):
        Layout((2, 2), ((1, 0),))


@given(scopes())
def test_intersections_are_those_of_every_subfamily(found):
    expected = set()
    families = [set(f) for f in found]
    for n in range(1, 1 << len(families)):
        chosen = [f for i, f in enumerate(families) if n >> i & 1]
        expected.add(tuple(sorted(set.intersection(*chosen))))
    assert set(with_intersections(found)) == expected - {()}


def test_too_many_intersections_are_refused():
    """All parts of eight attributes but the empty one, from those that lack one attribute."""
    lacking = list(combinations(range(8), 7))
    assert len(with_intersections(lacking)) == 2**8 - 2
    with pytest.raises(CapacityError, match="more than 100 intersections"):
        with_intersections(lacking, most=100)


@given(scopes(), st.integers(0, 2**32 - 1))
def test_the_closed_form_serves_any_parts_with_their_intersections(found, seed):
    """Against a dense solve: all tables that hold a part, or what two parts share, agree on it."""
    rng = np.random.default_rng(seed)
    found = found[:7]
    layout = layout_of(SIZES, found)
    given_parts = [s for s in found if rng.random() < 0.7]
    given_parts += [s[:k] for s in found for k in range(1, len(s)) if rng.random() < 0.2]
    weights = 0.2 + rng.random(len(layout.scopes))
    point = rng.normal(size=layout.n_cells)
    matrix, right = agreement_on(layout, with_intersections(given_parts))
    spread = 1.0 / layout.per_cell(weights)
    lift = spread[:, None] * matrix.T @ np.linalg.pinv((matrix * spread) @ matrix.T, rcond=1e-10)
    expected = point - lift @ (matrix @ point - right)
    found_point = Consistency(layout, on=given_parts, weights=weights).project(point)
    assert_allclose(found_point, expected, atol=1e-8)


def agreement_on(layout, given_parts):
    """Every table has total one, and those that hold a part agree on it."""
    lines, right = [], []
    for i in range(len(layout.scopes)):
        lines.append(indicator(layout, i, (), ()))
        right.append(1.0)
    for part in given_parts:
        holders = [i for i, s in enumerate(layout.scopes) if set(part) <= set(s)]
        for i, j in pairwise(holders):
            for values in product(*(range(SIZES[a]) for a in part)):
                lines.append(
                    indicator(layout, i, part, values) - indicator(layout, j, part, values)
                )
                right.append(0.0)
    return np.array(lines), np.array(right)


@pytest.mark.parametrize("agreement", ["shared", "singles"])
@given(scopes(most=3), st.integers(0, 2**32 - 1))
@example(found=[(1, 2, 3)] * 4, seed=4)
def test_the_closed_form_is_the_weighted_nearest_point_of_all_that_agree(agreement, found, seed):
    """Against a dense solve with the constraints written out one by one."""
    rng = np.random.default_rng(seed)
    layout = layout_of(SIZES, found)
    weights = 0.2 + rng.random(len(found))
    point = rng.normal(size=layout.n_cells)
    dense = local_polytope(layout, on=agreement)
    spread = 1.0 / layout.per_cell(weights)
    lift = (
        spread[:, None]
        * dense.matrix.T
        @ np.linalg.pinv((dense.matrix * spread) @ dense.matrix.T, rcond=1e-10)
    )
    expected = point - lift @ (dense.matrix @ point - dense.right)
    found_point = Consistency(layout, agreement=agreement, weights=weights).project(point)
    assert_allclose(found_point, expected, atol=1e-8)
