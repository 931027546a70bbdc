"""Corner vectors, against the value of every cell."""

from __future__ import annotations

import itertools
import random
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qserver.inference.corners.vectors import CornerNames, CornerVector
from qserver.inference.limits import MOST_CORNERS
from qserver.query.linear_query import LinearQuery, linear_query, total_query
from qserver.query.weights import indicator, interval
from tests.inference.histories import random_query
from tests.query.dense_weights import scaled_weights
from tests.sweeps import examples

SIZES = (3, 2, 4)


def _corners(sizes: tuple[int, ...]) -> list[LinearQuery]:
    """All corners of a domain: a stop per attribute, or no condition."""
    choices = [[None, *range(1, size)] for size in sizes]
    found = []
    for stops in itertools.product(*choices):
        axes = {a: interval(sizes[a], 0, s) for a, s in enumerate(stops) if s is not None}
        found.append(linear_query(sizes, [(1, axes)]))
    return found


def _by_name(names: CornerNames, sizes: tuple[int, ...]) -> dict[int, LinearQuery]:
    found = {}
    for corner in _corners(sizes):
        vector = names.of_row(corner)
        assert vector.values.tolist() == [1.0]
        found[int(vector.ids[0])] = corner
    return found


@given(st.integers(0, 10**9))
@settings(max_examples=examples(60))
def test_a_row_is_the_sum_of_its_corners(seed):
    rng, names = random.Random(seed), CornerNames()
    corners = _by_name(names, SIZES)
    query = random_query(rng, SIZES, n_terms=3)
    vector = names.of_row(query)
    total = query.scaled(0)
    for number, value in zip(vector.ids.tolist(), vector.values.tolist(), strict=True):
        total = total + corners[number].scaled(Fraction(value) / Fraction(vector.unit))
    for cell in itertools.product(*(range(s) for s in SIZES)):
        assert total.value_at(cell) == query.value_at(cell)


def test_different_corners_have_different_names_and_one_corner_has_one():
    names = CornerNames()
    assert len(_by_name(names, SIZES)) == 3 * 2 * 4
    before = len(names)
    _by_name(names, SIZES)
    assert len(names) == before


def test_names_follow_from_the_order_of_the_rows_alone():
    rng = random.Random(2)
    rows = [random_query(rng, SIZES) for _ in range(20)]
    one, other = CornerNames(), CornerNames()
    for row in rows:
        other.of_query(rng.choice(rows))
        assert one.of_row(row).ids.tolist() == other.of_row(row).ids.tolist()


def test_a_query_names_nothing_and_its_new_corners_are_told_apart():
    names = CornerNames()
    names.of_row(linear_query((10,), [(1, {0: interval(10, 0, 5)})]))
    before = len(names)
    found = names.of_query(linear_query((10,), [(1, {0: interval(10, 3, 7)})]))
    assert len(names) == before
    assert (found.ids < 0).all()
    assert len(set(found.ids.tolist())) == 2


def test_the_number_of_cells_does_not_matter():
    sizes = (1000,) * 12
    axes = {a: indicator(1000, [5]) for a in range(4)}
    vector = CornerNames().of_row(total_query(sizes) - linear_query(sizes, [(1, axes)]))
    assert len(vector.ids) == 2**4 + 1
    assert set(np.abs(vector.values).tolist()) == {1.0}


def test_a_row_with_too_many_corners_is_one_corner_by_itself():
    sizes = (40,) * 4
    odd = {a: indicator(40, range(1, 40, 2)) for a in range(4)}
    row, names = linear_query(sizes, [(1, odd)]), CornerNames()
    assert MOST_CORNERS < 39**4
    first = names.of_row(row)
    assert len(first.ids) == 1
    assert names.of_row(row).ids.tolist() == first.ids.tolist()
    assert names.of_query(row).ids.tolist() == first.ids.tolist()
    other = names.of_query(linear_query(sizes, [(1, {**odd, 0: indicator(40, range(0, 40, 2))})]))
    assert other.ids.tolist() == [-1]
    assert names.of_row(total_query(sizes)).ids.tolist() != first.ids.tolist()


@pytest.mark.parametrize("large", [2**33, 2**40])
def test_values_beyond_floats_are_rounded_once_and_said_to_be_large(large):
    weights = {0: scaled_weights([1, large, 3]), 1: scaled_weights([large, 1])}
    query = linear_query((3, 2), [(Fraction(1, 3), weights), (Fraction(2, 7), {})])
    vector = CornerNames().of_row(query)
    assert not vector.is_small
    assert vector.largest == float((1 - large) * (large - 1) * -7) or vector.largest >= large**2
    assert _small(total_query((3, 2))).is_small


def _small(query: LinearQuery) -> CornerVector:
    return CornerNames().of_row(query)
