"""Linear queries: canonical form, arithmetic, documents, and bounds on their size."""

from __future__ import annotations

import gc
import json
import weakref
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qserver.errors import CapacityError, QueryError
from qserver.query.linear_query import (
    MAX_TERMS,
    LinearQuery,
    linear_query,
    query_from_document,
    total_query,
)
from qserver.query.weights import from_runs, indicator
from tests.query.dense_weights import scaled_weights
from tests.query.small_queries import DenseQuery, cells, dense_queries, small_fractions

pairs = st.lists(st.integers(1, 3), min_size=1, max_size=3).flatmap(
    lambda sizes: st.tuples(dense_queries(tuple(sizes)), dense_queries(tuple(sizes)))
)


def vector(query: LinearQuery) -> dict[tuple[int, ...], Fraction]:
    """Every cell's weight, from the query under test."""
    return {cell: query.value_at(cell) for cell in cells(query.sizes)}


@given(dense_queries())
def test_value_at_every_cell_is_the_sum_of_products(dense: DenseQuery) -> None:
    assert vector(dense.query()) == dense.vector()


@given(dense_queries())
def test_ends_are_those_of_each_terms_cells_parsed_or_not(dense: DenseQuery) -> None:
    """Terms may cancel in a cell, so that a box may be larger than the query's own cells."""
    query = dense.query()
    if query.is_zero:
        return
    alone = [LinearQuery(query.sizes, (term,)) for term in query.terms]
    found = [cell for one in alone for cell, weight in vector(one).items() if weight]
    ends = tuple(zip(*((min(axis), max(axis)) for axis in zip(*found, strict=True)), strict=True))
    later = LinearQuery.later(query.sizes, query.to_document())
    assert query.ends == later.ends == ends
    assert "terms" not in vars(later)


@given(pairs, small_fractions)
def test_sums_differences_and_multiples_act_cell_by_cell(
    pair: tuple[DenseQuery, DenseQuery], by: Fraction
) -> None:
    a, b = pair[0].vector(), pair[1].vector()
    one, other = pair[0].query(), pair[1].query()
    assert vector(one + other) == {c: a[c] + b[c] for c in a}
    assert vector(one - other) == {c: a[c] - b[c] for c in a}
    assert vector(one.scaled(by)) == {c: a[c] * by for c in a}


@given(pairs)
def test_arithmetic_keeps_the_canonical_form(pair: tuple[DenseQuery, DenseQuery]) -> None:
    one, other = pair[0].query(), pair[1].query()
    assert one + other == other + one
    assert hash(one + other) == hash(other + one)
    assert (one + other) - other == one
    assert (one - one).is_zero
    assert one.scaled(Fraction(2, 7)).scaled(Fraction(7, 2)) == one


@given(dense_queries())
def test_terms_are_canonical(dense: DenseQuery) -> None:
    query = dense.query()
    assert all(t.coefficient for t in query.terms)
    assert len({t.factors for t in query.terms}) == len(query.terms)
    for term in query.terms:
        axes = [f.axis for f in term.factors]
        assert axes == sorted(set(axes))
        assert not any(f.weights.is_constant for f in term.factors)


@given(dense_queries(), st.randoms(use_true_random=False))
def test_order_of_terms_does_not_matter(dense: DenseQuery, random: object) -> None:
    shuffled = list(dense.terms)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert DenseQuery(dense.sizes, tuple(shuffled)).query() == dense.query()


@given(dense_queries())
def test_document_comes_back_equal_through_json(dense: DenseQuery) -> None:
    query = dense.query()
    document = json.loads(json.dumps(query.to_document()))
    assert query_from_document(list(query.sizes), document) == query


def test_documents_that_say_the_same_are_one_object_while_it_is_in_use() -> None:
    """A row is a charge, a measurement and a paid question."""
    document = [["1", [[0, [1, 3], [1, 0]]]]]
    first = query_from_document((3, 4), document)
    assert query_from_document([3, 4], json.loads(json.dumps(document))) is first
    assert query_from_document((3, 5), document) is not first
    assert query_from_document((3, 4), [["2", document[0][1]]]) == first.scaled(2)
    place = weakref.ref(first)
    del first
    gc.collect()
    assert place() is None


@given(dense_queries())
def test_denominator_makes_every_cell_value_whole(dense: DenseQuery) -> None:
    query = dense.query()
    assert all((v * query.denominator).denominator == 1 for v in dense.vector().values())


def test_scope_names_the_axes_that_matter_in_order() -> None:
    sizes = (2, 3, 2, 4)
    first = {3: indicator(4, [1]), 1: indicator(3, [0, 1, 2])}
    query = linear_query(sizes, [(1, first), (2, {0: indicator(2, [0])})])
    assert query.scope == (0, 3)
    assert total_query(sizes).scope == ()


def test_total_weighs_every_cell_one() -> None:
    assert set(vector(total_query((2, 3))).values()) == {Fraction(1)}
    assert total_query((2, 3)) == linear_query((2, 3), [(1, {})])


def test_constant_and_zero_weights_leave_no_factor() -> None:
    sizes = (2, 3)
    assert linear_query(sizes, [(1, {0: scaled_weights([5, 5])})]) == total_query(sizes).scaled(5)
    assert linear_query(sizes, [(1, {0: scaled_weights([0, 0]), 1: indicator(3, [1])})]).is_zero


def test_queries_of_two_domains_do_not_add() -> None:
    with pytest.raises(QueryError, match=r"`query` must be on the same domain"):
        total_query((2, 3)) + total_query((3, 2))


@pytest.mark.parametrize(("axis", "size"), [(-1, 2), (2, 2), (0, 3), (1, 2)])
def test_weights_that_do_not_fit_the_domain_are_refused(axis: int, size: int) -> None:
    with pytest.raises(QueryError, match=r"`weights` must have one number per value"):
        linear_query((2, 3), [(1, {axis: indicator(size, [0])})])


@pytest.mark.limit("4,096")
def test_terms_up_to_the_bound_are_accepted_and_above_it_refused() -> None:
    sizes = (MAX_TERMS + 2,)
    terms = [(1, {0: indicator(sizes[0], [i])}) for i in range(MAX_TERMS + 1)]
    assert len(linear_query(sizes, terms[:-1]).terms) == MAX_TERMS
    with pytest.raises(CapacityError, match="at most 4,096 terms, this one 4,097"):
        linear_query(sizes, terms)


def test_runs_up_to_the_bound_are_accepted_and_above_it_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("qserver.query.linear_query.MAX_RUNS", 6)
    terms = [(1, {0: indicator(9, [i])}) for i in range(2, 5)]
    assert linear_query((9,), terms[:2]).n_runs == 6
    with pytest.raises(CapacityError, match=r"at most 6 runs"):
        linear_query((9,), terms)


@pytest.mark.parametrize("coefficient", [2**256, -(2**256), Fraction(1, 2**256)])
def test_coefficients_beyond_256_bits_are_refused(coefficient: Fraction | int) -> None:
    with pytest.raises(QueryError, match=r"`coefficient` must have .* below 2\^256"):
        linear_query((2,), [(coefficient, {})])
    assert linear_query((2,), [(2**256 - 1, {})]).value_at((0,)) == 2**256 - 1


def test_coefficients_without_a_small_common_denominator_are_refused() -> None:
    """Their cell values, as integers, would have thousands of digits each."""
    terms = [(Fraction(1, 10**9 - i), {0: indicator(1000, [i])}) for i in range(999)]
    assert len(linear_query((1000,), terms[:10]).terms) == 10
    with pytest.raises(QueryError, match=r"`coefficient` must have a common denominator"):
        linear_query((1000,), terms)


def test_queries_over_huge_domains_stay_small() -> None:
    sizes = (1 << 20,) * 256
    query = linear_query(sizes, [(3, {7: from_runs([5, 9, 1 << 20], [0, 1, 0])})])
    assert query.n_runs == 3
    assert query.value_at((6,) * 256) == 3
    assert query.value_at(((1 << 20) - 1,) * 256) == 0
