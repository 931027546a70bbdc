"""Class grids: exact vectors, canonical reduction, and sound bounds where they are too large."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qserver.errors import CapacityError
from qserver.query.class_grid import (
    AxisClasses,
    GridValues,
    axis_classes,
    bounded_extremes,
    class_grid,
    fits_int64,
)
from qserver.query.linear_query import linear_query, total_query
from qserver.query.weights import MAX_WEIGHT, Weights, from_runs, indicator, interval
from tests.query.dense_weights import scaled_weights
from tests.query.small_queries import DenseQuery, cells, dense_queries

vectors = st.lists(st.lists(st.integers(-2, 2), min_size=6, max_size=6), min_size=1, max_size=4)


def reduced(dense: DenseQuery) -> GridValues:
    grid = class_grid(dense.query())
    return grid.reduced(grid.values(dense.query()))


@given(vectors)
def test_values_share_a_class_exactly_when_every_vector_agrees(
    rows: list[list[int]],
) -> None:
    """Found again by comparing columns."""
    weights = [scaled_weights(row).weights for row in rows]
    classes = axis_classes(3, weights)
    columns = list(zip(*(w.dense.tolist() for w in weights), strict=True))
    first = {c: i for i, c in reversed(list(enumerate(columns)))}
    numbers = {c: n for n, c in enumerate(sorted(first, key=lambda c: first[c]))}
    assert classes.dense.tolist() == [numbers[c] for c in columns]
    assert classes.n == len(numbers)
    for w in weights:
        assert classes.on_classes(w)[classes.dense].tolist() == w.dense.tolist()


def test_classes_found_in_chunks_are_the_classes_found_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    weights = [interval(40, a, b) for a, b in [(0, 9), (3, 30), (9, 20), (20, 40), (5, 6)]]
    at_once = axis_classes(0, weights)
    monkeypatch.setattr("qserver.query.class_grid._CHUNK", 1)
    assert axis_classes(0, weights) == at_once
    assert at_once.n == len(set(zip(*(w.dense.tolist() for w in weights), strict=True)))


def test_too_many_classes_are_refused_before_they_are_written_down(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("qserver.query.class_grid.MAX_SIGNATURES", 11)
    assert axis_classes(0, [interval(9, 1, 3), interval(9, 2, 3)]).n == 3
    with pytest.raises(CapacityError, match="tells too many values"):
        axis_classes(0, [interval(9, 1, 3), interval(9, 2, 5), interval(9, 4, 6)])


@given(dense_queries())
def test_grid_values_are_the_cell_values(dense: DenseQuery) -> None:
    query = dense.query()
    grid = class_grid(query)
    values = grid.values(query)
    assert values.shape == grid.shape
    for cell, expected in dense.vector().items():
        place = tuple(int(a.dense[cell[a.axis]]) for a in grid.axes)
        assert Fraction(int(values[place]), query.denominator) == expected


@given(dense_queries())
def test_reduced_grid_is_the_vector_with_no_two_equal_slices(dense: DenseQuery) -> None:
    query, small = dense.query(), reduced(dense)
    for cell, expected in dense.vector().items():
        place = tuple(int(a.dense[cell[a.axis]]) for a in small.axes)
        assert Fraction(int(small.values[place]), query.denominator) == expected
    for i, classes in enumerate(small.axes):
        slices = [tuple(np.take(small.values, [j], axis=i).flat) for j in range(classes.n)]
        assert len(set(slices)) == classes.n > 1
        assert list(dict.fromkeys(classes.ids)) == list(range(classes.n))
        assert all(a != b for a, b in zip(classes.ids, classes.ids[1:], strict=False))


@given(dense_queries(), dense_queries(), st.data())
def test_common_grid_tells_apart_what_any_query_does(
    one: DenseQuery, other: DenseQuery, data: st.DataObject
) -> None:
    other = data.draw(dense_queries(one.sizes))
    grid = class_grid(one.query(), other.query())
    for dense in (one, other):
        values, query = grid.values(dense.query()), dense.query()
        for cell, expected in dense.vector().items():
            place = tuple(int(a.dense[cell[a.axis]]) for a in grid.axes)
            assert Fraction(int(values[place]), query.denominator) == expected


@given(dense_queries(), st.integers(1, 70))
def test_bounded_extremes_hold_every_cell_value(dense: DenseQuery, max_grid: int) -> None:
    """Sound at any size of the grid, and exact where the grid fits."""
    query = dense.query()
    values = list(dense.vector().values())
    bounds = bounded_extremes(query, max_grid=max_grid)
    assert bounds.low <= min(values)
    assert max(values) <= bounds.high
    if class_grid(query).n_cells <= max_grid:
        assert (bounds.low, bounds.high) == (min(values), max(values))


def test_bounded_extremes_stay_exact_beyond_64_bits() -> None:
    """2^63 + 1 against -1 is where NumPy would compare as floats and lose the last bit."""
    for low, high in [(-1, 2**63 + 1), (3, 2**63 + 1), (-(2**80), 1)]:
        terms = [(high, {0: indicator(2, [0])}), (low, {0: indicator(2, [1])})]
        bounds = bounded_extremes(linear_query((2,), terms), max_grid=1)
        assert bounds.low <= min(low, 0)
        assert bounds.high == max(high, 0) + max(low, 0)


def test_values_beyond_64_bits_are_exact_python_integers() -> None:
    sizes = (2, 2, 2)
    wide = scaled_weights([1, MAX_WEIGHT])
    query = linear_query(sizes, [(3, {0: wide, 1: wide, 2: wide}), (-1, {})])
    values = class_grid(query).values(query)
    assert values.dtype == object
    assert not fits_int64(query)
    for cell in cells(sizes):
        expected = 3 * MAX_WEIGHT ** sum(cell) - 1
        assert values[cell] == expected


def test_values_that_fit_are_64_bit_integers() -> None:
    query = linear_query((2, 2), [(3, {0: scaled_weights([1, MAX_WEIGHT])})])
    assert fits_int64(query)
    assert class_grid(query).values(query).dtype == np.int64


def test_grid_of_a_query_over_a_trillion_cells_is_tiny() -> None:
    sizes = (1 << 20, 1 << 20, 1000)
    query = linear_query(sizes, [(1, {0: interval(1 << 20, 5, 99), 1: interval(1 << 20, 0, 7)})])
    grid = class_grid(query)
    assert grid.shape == (2, 2)
    assert grid.n_cells == 4
    assert grid.values(query).tolist() == [[0, 0], [1, 0]]


def test_grid_of_the_total_and_of_zero_has_one_cell() -> None:
    for query, value in [(total_query((4, 5)), 1), (total_query((4, 5)).scaled(0), 0)]:
        grid = class_grid(query)
        assert grid.shape == ()
        assert grid.values(query).tolist() == value
        assert bounded_extremes(query, max_grid=1).high == value


def test_reduction_merges_classes_that_only_the_terms_told_apart() -> None:
    """x in {0} plus x in {1} is x in {0, 1}; the second axis cancels altogether."""
    one = indicator(2, [1])
    terms: list[tuple[int, dict[int, Weights]]] = [
        (1, {0: indicator(4, [0])}),
        (1, {0: indicator(4, [1]), 1: one}),
        (1, {0: indicator(4, [1]), 1: indicator(2, [0])}),
    ]
    query = linear_query((4, 2), terms)
    grid = class_grid(query)
    small = grid.reduced(grid.values(query))
    assert small.axes == (AxisClasses(0, (2, 4), (0, 1), 2),)
    assert small.values.tolist() == [1, 0]


def test_alternating_weights_reduce_to_two_classes() -> None:
    size = 1 << 12
    query = linear_query((size,), [(1, {0: from_runs(range(1, size + 1), [0, 1] * (size // 2))})])
    grid = class_grid(query)
    assert grid.shape == (2,)
    assert grid.axes[0].dense.tolist() == [i % 2 for i in range(size)]


def test_bounds_use_the_extremes_of_the_axes_left_out() -> None:
    """(x - 1)(y - 2) over 0..3 each, by brute force and with no axis on the grid."""
    sizes = (4, 4)
    terms = [(1, {0: scaled_weights([-1, 0, 1, 2]), 1: scaled_weights([-2, -1, 0, 1])})]
    values = [(x - 1) * (y - 2) for x, y in product(range(4), repeat=2)]
    bounds = bounded_extremes(linear_query(sizes, terms), max_grid=1)
    assert (bounds.low, bounds.high) == (min(values), max(values))
