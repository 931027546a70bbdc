"""Which components of a query vanish, exactly; and queries that are boxes in disguise."""

from __future__ import annotations

import random
from collections.abc import Sequence
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qserver.inference.tables.blocks.nested_partitions import Chain, regular_chain, single_values
from qserver.inference.tables.blocks.noisy_blocks import Blocks
from qserver.inference.tables.blocks.pattern import BlockKey, ExactSupport, Lattice, as_box
from qserver.query.linear_query import LinearQuery, linear_query
from qserver.query.primitive import primitive
from qserver.query.weights import ScaledWeights, indicator, interval
from tests.inference.tables.blocks.test_blocks import random_query
from tests.query.dense_weights import scaled_weights
from tests.sweeps import examples

SIZES = (11, 6)
LATTICE = Lattice(
    {
        0: regular_chain(single_values(0, 11), (1, 4, 16)),
        1: regular_chain(single_values(1, 6), (1, 3, 6)),
    }
)


def level_means(values: Sequence[Fraction], axis: int, level: int) -> list[Fraction]:
    """The mean of means of real parts, written out on the values of the axis."""
    chain = LATTICE.chains[axis]
    slots = [values[s] if s >= 0 else None for s in chain.slots]
    for k in reversed(chain.n_parts[level:-1]):
        n = len(slots) // k
        groups = [[v for v in slots[i * n : (i + 1) * n] if v is not None] for i in range(k)]
        slots = [sum(g, Fraction(0)) / len(g) if g else None for g in groups]
    width = len(chain.slots) // len(slots)
    found = (slots[chain.slots.index(c) // width] for c in range(len(values)))
    return [mean for mean in found if mean is not None]


def brute_support(query: LinearQuery) -> set[BlockKey]:
    """Components by projecting the dense vector axis by axis, in fractions."""
    array = np.array(
        [query.value_at(c) for c in product(*map(range, SIZES))], dtype=object
    ).reshape(SIZES)

    def mean(a: np.ndarray, axis: int, level: int) -> np.ndarray:
        found = np.apply_along_axis(lambda v: np.array(level_means(list(v), axis, level)), axis, a)
        return found if level >= 0 else 0 * a

    support = set()
    for levels in product(range(3), range(3)):
        part = array
        for axis, level in enumerate(levels):
            coarser = mean(part, axis, level - 1) if level else 0 * part
            part = mean(part, axis, level) - coarser
        if (part != 0).any():
            support.add(tuple((a, i) for a, i in enumerate(levels) if i))
    return support


@pytest.mark.parametrize("seed", range(8))
def test_the_support_is_that_of_exact_projections(seed):
    generator = random.Random(seed)
    query = random_query(generator, SIZES, 1 + seed % 3)
    assert ExactSupport(LATTICE).of(query) == brute_support(query)


def test_parts_of_several_terms_that_cancel_leave_nothing():
    """[0, 3) and the two parts it shares with [1, 6): the middle cancels to a union of parts."""
    one = linear_query(SIZES, [(1, {1: interval(6, 0, 3)})])
    other = linear_query(SIZES, [(1, {1: interval(6, 3, 4)})])
    support = ExactSupport(LATTICE)
    assert support.of(one + other) == {(), ((1, 1),)}
    assert support.of(one) == {(), ((1, 1),), ((1, 2),)}


def tiny_part() -> LinearQuery:
    """2^40 on the first half, and 1 on a single value: primitive weights, as allowed."""
    return linear_query(SIZES, [(1, {1: scaled_weights([2**40, 2**40, 0, 0, 0, 1])})])


def test_a_part_of_two_to_the_minus_forty_is_seen_where_floats_see_none():
    query = tiny_part()
    blocks = Blocks(LATTICE, {((1, 1),): 1.0})
    by_floats = LATTICE.pattern(query)
    exact = LATTICE.pattern(query, exact=ExactSupport(LATTICE).of(query))
    assert by_floats is not None
    assert exact is not None
    assert blocks.is_estimable(by_floats)
    assert not blocks.is_estimable(exact)


def test_a_tiny_part_in_one_of_several_terms_is_seen():
    """Each term has a fine part of its own; they cancel but for 1 in 2^40."""
    axes = {1: scaled_weights([2**40, 0, 0, 0, 0, 0])}
    close = {1: scaled_weights([0, 2**40, 0, 0, 0, 1])}
    query = linear_query(SIZES, [(1, axes), (1, close)])
    blocks = Blocks(LATTICE, {((1, 1),): 1.0})
    found = ExactSupport(LATTICE).of(query)
    assert found == brute_support(query)
    by_floats, exact = LATTICE.pattern(query), LATTICE.pattern(query, exact=found)
    assert by_floats is not None
    assert exact is not None
    assert blocks.is_estimable(by_floats)
    assert not blocks.is_estimable(exact)


def test_coefficients_of_any_denominator_are_exact():
    half = linear_query(SIZES, [(Fraction(1, 3**100), {1: interval(6, 0, 2)})])
    assert ExactSupport(LATTICE).of(half) == {(), ((1, 1),)}


@pytest.mark.parametrize("seed", range(6))
def test_a_box_in_several_terms_is_found(seed):
    generator = random.Random(seed)
    axes = [sorted(generator.sample(range(n), generator.randint(2, n - 1))) for n in SIZES]
    cut = generator.randint(1, len(axes[0]) - 1)
    parts = [axes[0][:cut], axes[0][cut:]]
    second = indicator(6, axes[1])
    terms = [(1, {0: indicator(11, p), 1: second}) for p in parts]
    box = linear_query(SIZES, [(1, {0: indicator(11, axes[0]), 1: second})])
    assert as_box(linear_query(SIZES, terms)) == box
    assert primitive(linear_query(SIZES, terms)).key == primitive(box).key


def test_what_is_no_box_stays_as_it_is():
    corner = [(1, {0: interval(11, 0, 2), 1: interval(6, 0, 2)}), (1, {0: interval(11, 4, 5)})]
    twice = [(1, {0: interval(11, 0, 2)}), (2, {0: interval(11, 3, 5)})]
    for terms in (corner, twice):
        query = linear_query(SIZES, terms)
        assert as_box(query) == query


@settings(max_examples=examples(40))
@given(st.integers(0, 2**32), st.integers(1, 4), st.sampled_from([1, 20, 40]))
def test_the_support_is_exact_whatever_the_weights(seed: int, n_terms: int, bits: int) -> None:
    """Also where means times their common denominators pass 64 bits, and terms cancel in part."""
    generator = random.Random(seed)

    def weights(n: int) -> ScaledWeights:
        parts = [generator.choice((0, 1, -1, (1 << bits) - 1)) for _ in range(n)]
        return scaled_weights([*parts[:-1], parts[0]])

    terms = [
        (Fraction(generator.choice((1, -1, 2)), 3), {a: weights(n) for a, n in enumerate(SIZES)})
        for _ in range(n_terms)
    ]
    query = linear_query(SIZES, [*terms, (-terms[0][0], terms[0][1])])
    if query.terms:
        assert ExactSupport(LATTICE).of(query) == brute_support(query)


def test_denominators_beyond_64_bits_are_whole() -> None:
    """Uneven parts: the means divide by all numbers from 1 to 23, and the weights have 40 bits."""
    sizes = tuple(range(1, 24))
    slots = [i if i < n else -1 for n in sizes for i in range(23)]
    placed = np.full(len(slots), -1)
    placed[np.array(slots) >= 0] = np.arange(sum(sizes))
    chain = Chain(single_values(0, sum(sizes)), tuple(placed.tolist()), (1, 23, 23 * 23))
    support = ExactSupport(Lattice({0: chain}))
    even = [(1 << 40) - n for n in sizes for _ in range(n)]
    assert support.of(one_axis(even)) == {(), ((0, 1),)}
    assert support.of(one_axis([*even[:-1], even[-1] + 1])) == {(), ((0, 1),), ((0, 2),)}


def one_axis(weights: list[int]) -> LinearQuery:
    return linear_query((len(weights),), [(1, {0: scaled_weights(weights)})])


def test_parts_whose_sizes_have_a_multiple_beyond_64_bits_are_told_exactly() -> None:
    """The first 16 primes as sizes of parts: their least common multiple is about 3e19."""
    primes = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53)
    size, slots = sum(primes), list[int]()
    for n in primes:
        first = sum(s >= 0 for s in slots)
        slots += [*range(first, first + n), *[-1] * (primes[-1] - n)]
    chain = Chain(single_values(0, size), tuple(slots), (1, len(primes), len(slots)))
    support = ExactSupport(Lattice({0: chain}))
    parts = linear_query((size,), [(1, {0: interval(size, 2, 10)})])
    cut = linear_query((size,), [(1, {0: interval(size, 2, 9)})])
    assert support.of(parts) == {(), ((0, 1),)}
    assert support.of(cut) == {(), ((0, 1),), ((0, 2),)}
