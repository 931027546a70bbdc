"""Weights: run-length coding, primitive form, and the bound on their common divisor."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import gcd

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qserver.errors import QueryError
from qserver.query.weights import (
    MAX_WEIGHT,
    Weights,
    common_denominator,
    common_factor,
    from_points,
    from_runs,
    indicator,
    interval,
)
from tests.query.dense_weights import scaled_weights
from tests.query.small_queries import small_fractions

vectors = st.lists(small_fractions | st.integers(-4, 4), min_size=1, max_size=12)


@given(vectors)
def test_factor_times_primitive_weights_is_the_vector(vector: list[Fraction]) -> None:
    scaled = scaled_weights(vector)
    assert [scaled.factor * int(w) for w in scaled.weights.dense] == vector
    assert scaled.weights.size == len(vector)


@given(vectors)
def test_weights_are_primitive_with_the_first_one_positive(vector: list[Fraction]) -> None:
    dense = scaled_weights(vector).weights.dense.tolist()
    nonzero = [w for w in dense if w]
    if any(vector):
        assert gcd(*dense) == 1
        assert nonzero[0] > 0
    else:
        assert not nonzero
        assert scaled_weights(vector).weights.is_zero


@given(vectors, small_fractions.filter(bool))
def test_multiples_of_a_vector_have_equal_weights(vector: list[Fraction], by: Fraction) -> None:
    one, other = scaled_weights(vector), scaled_weights([v * by for v in vector])
    assert one.weights == other.weights
    assert hash(one.weights) == hash(other.weights)
    assert other.factor == one.factor * by


@given(vectors, vectors)
def test_vectors_that_are_no_multiples_have_different_weights(
    one: list[Fraction], other: list[Fraction]
) -> None:
    """Two vectors are parallel when all their 2 x 2 minors vanish."""
    shortest = min(len(one), len(other))
    one, other = one[:shortest], other[:shortest]
    parallel = all(
        a * other[j] == b * one[j] for a, b in zip(one, other, strict=True) for j in range(shortest)
    )
    same = scaled_weights(one).weights == scaled_weights(other).weights
    assert same == (parallel and any(one) == any(other))


@given(vectors)
def test_flags_and_single_weights_agree_with_the_dense_vector(vector: list[Fraction]) -> None:
    weights = scaled_weights(vector).weights
    dense = weights.dense.tolist()
    assert [weights.at(i) for i in range(weights.size)] == dense
    assert weights.is_constant == (len(set(dense)) == 1)
    assert weights.is_indicator == (set(dense) <= {0, 1})


@given(st.lists(st.tuples(st.integers(1, 5), small_fractions), min_size=1, max_size=6))
def test_runs_with_equal_neighbours_are_joined(runs: list[tuple[int, Fraction]]) -> None:
    stops = np.cumsum([n for n, _ in runs]).tolist()
    written_out = [v for n, v in runs for _ in range(n)]
    assert from_runs(stops, [v for _, v in runs]) == scaled_weights(written_out)


@given(st.integers(1, 12), st.dictionaries(st.integers(0, 11), small_fractions))
def test_points_are_the_vector_with_zeros_elsewhere(size: int, points: dict[int, Fraction]) -> None:
    points = {i: v for i, v in points.items() if i < size}
    written_out = [points.get(i, Fraction(0)) for i in range(size)]
    assert from_points(size, points) == scaled_weights(written_out)


@given(st.integers(1, 9), st.integers(0, 9), st.integers(0, 9))
def test_interval_and_indicator_are_ones_on_what_was_chosen(size: int, a: int, b: int) -> None:
    start, stop = min(a, size), min(b, size)
    expected = [int(start <= i < stop) for i in range(size)]
    assert interval(size, start, stop).dense.tolist() == expected
    assert indicator(size, range(start, stop)).dense.tolist() == expected


def test_indicator_of_everything_is_constant() -> None:
    assert indicator(3, [0, 1, 2]) == Weights((3,), (1,))


def test_dense_weights_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="read-only"):
        interval(4, 1, 2).dense[0] = 5


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([0, 0], Fraction(0)),
        ([], Fraction(0)),
        ([6, 4], Fraction(2)),
        ([0, -6, 4], Fraction(-2)),
        ([Fraction(1, 2), Fraction(1, 3)], Fraction(1, 6)),
        ([Fraction(-2, 3), Fraction(4, 9)], Fraction(-2, 9)),
    ],
)
def test_common_factor_is_the_largest_and_signed_like_the_first(
    values: Sequence[Fraction | int], expected: Fraction
) -> None:
    assert common_factor(values) == expected


def test_common_denominator_is_the_least_common_multiple() -> None:
    assert common_denominator([Fraction(1, 4), Fraction(5, 6), Fraction(2)]) == 12
    assert common_denominator([]) == 1


def test_weights_up_to_the_bound_are_accepted_and_above_it_refused() -> None:
    assert scaled_weights([1, MAX_WEIGHT]).weights.values == (1, MAX_WEIGHT)
    with pytest.raises(QueryError, match=r"`weights` must be within a factor of 2\^40"):
        scaled_weights([1, MAX_WEIGHT + 1])
    with pytest.raises(QueryError, match=r"`weights`"):
        scaled_weights([1, -MAX_WEIGHT - 1])


def test_many_unrelated_fractions_are_refused_before_their_factor_grows() -> None:
    """The least common multiple of these denominators has some 600,000 digits."""
    vector = [Fraction(1, 10**9 - i) for i in range(70_000)]
    with pytest.raises(QueryError, match=r"`weights` must be within a factor"):
        scaled_weights(vector)


@pytest.mark.parametrize(
    ("stops", "values"),
    [
        ((), ()),
        ((2,), (1, 0)),
        ((0,), (1,)),
        ((2, 2), (1, 0)),
        ((3, 2), (1, 0)),
        ((1, 2), (1, 1)),
        ((1, 2), (2, 4)),
        ((1, 2), (-1, 1)),
        ((2,), (3,)),
    ],
)
def test_weights_that_are_not_in_canonical_form_cannot_be_built(
    stops: tuple[int, ...], values: tuple[int, ...]
) -> None:
    with pytest.raises(QueryError, match=r"^`weights` must"):
        Weights(stops, values)
