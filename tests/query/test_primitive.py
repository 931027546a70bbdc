"""Primitive form: exact sensitivity and extremes, one key per function up to multiples."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from itertools import product

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import qserver.query.primitive as primitive_module
from qserver.errors import QueryError
from qserver.query.linear_query import linear_query, total_query
from qserver.query.primitive import primitive
from qserver.query.weights import Weights, from_runs, indicator, interval
from tests.query.dense_weights import scaled_weights
from tests.query.small_queries import (
    Cell,
    DenseQuery,
    cells,
    dense_queries,
    rewritings,
    small_fractions,
)
from tests.sweeps import examples


def direction(vector: Mapping[Cell, Fraction]) -> dict[Cell, Fraction]:
    """The vector divided by its first non-zero entry: the same for all its multiples."""
    first = next((v for v in vector.values() if v), Fraction(1))
    return {c: v / first for c, v in vector.items()}


@given(dense_queries())
def test_sensitivity_and_extremes_are_those_of_the_cells(dense: DenseQuery) -> None:
    vector = dense.vector()
    form = primitive(dense.query())
    assert form.exact
    assert form.sensitivity == max(abs(v) for v in vector.values())
    row = {c: form.row.value_at(c) for c in vector}
    assert (form.low, form.high) == (min(row.values()), max(row.values()))
    assert {c: v * form.multiplier for c, v in row.items()} == vector


@given(dense_queries())
def test_row_has_greatest_size_one_and_a_first_entry_above_zero(dense: DenseQuery) -> None:
    vector = dense.vector()
    form = primitive(dense.query())
    row = [form.row.value_at(c) for c in vector]
    if any(vector.values()):
        assert max(map(abs, row)) == 1
        assert next(v for v in row if v) > 0
        assert not form.is_zero
    else:
        assert form.is_zero
        assert form.row.is_zero


@given(dense_queries())
def test_unit_divides_every_cell_of_the_row(dense: DenseQuery) -> None:
    form = primitive(dense.query())
    assert form.unit > 0
    assert all((form.row.value_at(c) / form.unit).denominator == 1 for c in dense.vector())


@given(dense_queries())
def test_primitive_form_of_a_row_is_the_row(dense: DenseQuery) -> None:
    form = primitive(dense.query())
    again = primitive(form.row)
    assert again.row == form.row
    assert again.key == form.key
    assert again.multiplier == (0 if form.is_zero else 1)
    assert (again.low, again.high) == (form.low, form.high)


@given(dense_queries(), st.data())
def test_two_ways_of_writing_a_function_share_the_key(
    dense: DenseQuery, data: st.DataObject
) -> None:
    other = data.draw(rewritings(dense))
    assert other.vector() == dense.vector()
    one, two = primitive(dense.query()), primitive(other.query())
    assert one.key == two.key
    assert one.multiplier == two.multiplier


@given(dense_queries(), small_fractions.filter(bool))
def test_multiples_share_row_and_key(dense: DenseQuery, by: Fraction) -> None:
    one, two = primitive(dense.query()), primitive(dense.query().scaled(by))
    assert (one.row, one.key) == (two.row, two.key)
    assert two.multiplier == one.multiplier * by


@settings(max_examples=examples(200))
@given(st.sampled_from([(2, 2), (3,), (2, 1, 2)]), st.data())
def test_functions_share_a_key_only_when_they_are_multiples(
    sizes: tuple[int, ...], data: st.DataObject
) -> None:
    one, two = (data.draw(dense_queries(sizes, max_terms=2)) for _ in range(2))
    same = direction(one.vector()) == direction(two.vector())
    assert (primitive(one.query()).key == primitive(two.query()).key) == same


@pytest.mark.parametrize("sizes", [(5,), (2, 2), (4, 1), (1, 2, 2)])
def test_keys_of_all_small_vectors_are_one_per_direction(sizes: tuple[int, ...]) -> None:
    """Every vector of -1, 0 and 1: a key shared by two functions would answer one by the other."""
    found: dict[str, dict[Cell, Fraction]] = {}
    places = list(cells(sizes))
    for vector in product((-1, 0, 1), repeat=len(places)):
        points: list[tuple[int, dict[int, Weights]]] = [
            (v, {a: indicator(n, [i]) for a, (n, i) in enumerate(zip(sizes, cell, strict=True))})
            for cell, v in zip(places, vector, strict=True)
        ]
        key = primitive(linear_query(sizes, points)).key
        line = direction(dict(zip(places, map(Fraction, vector), strict=True)))
        assert found.setdefault(key, line) == line
    assert len(found) == (3 ** len(places) - 1) // 2 + 1


@given(dense_queries(), st.integers(0, 10**6))
def test_changing_one_cell_changes_the_key(dense: DenseQuery, pick: int) -> None:
    vector = dense.vector()
    cell = list(vector)[pick % len(vector)]
    point = {a: indicator(n, [i]) for a, (n, i) in enumerate(zip(dense.sizes, cell, strict=True))}
    changed = dense.query() + linear_query(dense.sizes, [(1, point)])
    moved = {**vector, cell: vector[cell] + 1}
    assume(direction(moved) != direction(vector))
    assert primitive(changed).key != primitive(dense.query()).key


def test_terms_that_cancel_cell_by_cell_have_sensitivity_zero() -> None:
    """All, minus each value: no two terms agree, yet every cell weighs nothing."""
    sizes = (3, 2)
    parts = [(-1, {0: indicator(3, [i])}) for i in range(3)]
    query = linear_query(sizes, [(1, {}), *parts])
    assert len(query.terms) == 4
    form = primitive(query)
    assert form.sensitivity == 0
    assert form.is_zero
    assert form.exact
    assert form.key == primitive(total_query(sizes).scaled(0)).key


def test_total_has_sensitivity_one_and_equal_extremes() -> None:
    form = primitive(total_query((4, 5)).scaled(Fraction(-7, 2)))
    assert form.multiplier == Fraction(-7, 2)
    assert (form.low, form.high, form.unit) == (1, 1, 1)


def test_query_over_a_trillion_cells_is_exact_while_its_grid_is_small() -> None:
    n = 1 << 20
    terms = [(2, {0: interval(n, 0, 9)}), (-3, {1: interval(n, 5, 6)})]
    form = primitive(linear_query((n, n), terms))
    assert form.exact
    assert form.sensitivity == 3
    assert (form.low, form.high) == (-1, Fraction(2, 3))


@given(dense_queries())
def test_bounds_in_place_of_the_grid_are_on_the_safe_side(dense: DenseQuery) -> None:
    """The sensitivity is charged for: it may be too large, never too small."""
    query, values = dense.query(), dense.vector()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("qserver.query.primitive.MAX_GRID", 0)
        form = primitive_module._primitive(query)
        again = primitive_module._primitive(form.row)
        doubled = primitive_module._primitive(query.scaled(Fraction(-2, 3)))
    row = {c: form.row.value_at(c) for c in values}
    assert form.sensitivity >= max(abs(v) for v in values.values())
    assert {c: v * form.multiplier for c, v in row.items()} == values
    assert -1 <= form.low <= min(row.values())
    assert max(row.values()) <= form.high <= 1
    assert again.multiplier == (0 if form.is_zero else 1)
    assert doubled.key == again.key == form.key
    assert doubled.multiplier == form.multiplier * Fraction(-2, 3)


def test_grid_beyond_its_bound_gives_bounds_and_says_so() -> None:
    """Twenty-three axes of two classes; the product of the axes has sensitivity 1."""
    sizes = (2,) * 23
    query = linear_query(sizes, [(1, {a: indicator(2, [0]) for a in range(23)})])
    form = primitive(query)
    assert not form.exact
    assert form.sensitivity == 1
    assert (form.low, form.high) == (0, 1)
    assert primitive(query.scaled(-5)).key == form.key


def test_many_terms_on_a_large_grid_are_bounded_instead_of_written_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("qserver.query.primitive.MAX_WORK", 11)
    one = linear_query((3, 4), [(1, {0: indicator(3, [0]), 1: indicator(4, [1])})])
    three = one + linear_query((3, 4), [(1, {0: indicator(3, [1])}), (1, {1: indicator(4, [3])})])
    assert primitive_module._primitive(one).exact
    assert not primitive_module._primitive(three).exact


@pytest.mark.slow
def test_keys_above_the_key_grid_still_join_multiples() -> None:
    """2^17 classes: the key is made from the terms."""
    n = 1 << 17
    weights = from_runs(range(1, n + 1), range(1, n + 1))
    query = linear_query((n,), [(3, {0: weights})])
    form = primitive(query)
    assert form.exact
    assert form.sensitivity == 3 * n
    assert primitive(query.scaled(Fraction(-1, 7))).key == form.key
    assert primitive(query + total_query((n,))).key != form.key


def test_key_of_many_classes_does_not_depend_on_how_they_are_written() -> None:
    """60,000 classes, all different: comparing every two of them would take minutes."""
    n = 60_000
    shuffled = [(i * 7919) % n + 1 for i in range(n)]
    query = linear_query((n,), [(1, {0: from_runs(range(1, n + 1), shuffled)})])
    halves = [(1, {0: interval(n, 0, n // 2)}), (1, {0: interval(n, n // 2, n)})]
    other = query + linear_query((n,), halves) - total_query((n,))
    assert len(other.terms) == 4
    assert primitive(other).key == primitive(query).key
    assert primitive(query).sensitivity == n


def test_row_whose_coefficients_outgrow_the_bound_is_refused() -> None:
    """S is about 2^250 and prime to the small coefficient's denominator."""
    query = linear_query(
        (2,),
        [(2**250 + 1, {0: indicator(2, [0])}), (Fraction(1, 2**200), {0: indicator(2, [1])})],
    )
    with pytest.raises(QueryError, match=r"`coefficient` must have"):
        primitive(query)


def test_weights_next_to_the_bound_keep_their_exact_extremes() -> None:
    wide = scaled_weights([1, -(1 << 40)])
    form = primitive(linear_query((2, 2), [(1, {0: wide, 1: wide})]))
    assert form.sensitivity == 1 << 80
    assert form.low == Fraction(-1, 1 << 40)
    assert form.high == 1
