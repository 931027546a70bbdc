"""The stated rounding of weights against exact fractions; least variance against dense algebra."""

from __future__ import annotations

import random
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from qserver.inference.tables.blocks.nested_partitions import regular_chain, single_values
from qserver.inference.tables.blocks.noisy_blocks import Blocks
from qserver.inference.tables.blocks.pattern import BlockKey, Lattice
from qserver.query.linear_query import LinearQuery, linear_query
from tests.inference.tables.blocks.test_blocks import (
    CASES,
    dense,
    dense_rows,
    dense_variance,
    lattice_of,
    random_blocks,
    random_query,
    sizes_of,
)
from tests.query.dense_weights import scaled_weights
from tests.sweeps import examples


def solved(matrix: list[list[Fraction]], right: list[Fraction]) -> list[Fraction]:
    """One solution of a consistent system, by elimination in fractions."""
    rows = [[*row, b] for row, b in zip(matrix, right, strict=True)]
    pivots: list[int] = []
    for column in range(len(matrix[0])):
        k = len(pivots)
        found = next((i for i in range(k, len(rows)) if rows[i][column]), None)
        if found is None:
            continue
        rows[k], rows[found] = rows[found], rows[k]
        rows[k] = [v / rows[k][column] for v in rows[k]]
        for i, row in enumerate(rows):
            if i != k and row[column]:
                factor = row[column]
                rows[i] = [v - factor * w for v, w in zip(row, rows[k], strict=True)]
        pivots.append(column)
    assert not any(row[-1] for row in rows[len(pivots) :])
    solution = [Fraction(0)] * len(matrix[0])
    for row, column in zip(rows, pivots, strict=False):
        solution[column] = row[-1]
    return solution


def exact_weights(blocks: Blocks, query: LinearQuery) -> dict[BlockKey, list[Fraction]]:
    """Weights of least variance, alpha^2 / 2 H (H' R^-1 H)^+ q, in fractions of the alphas."""
    cells = list(product(*map(range, query.sizes)))
    vector = [query.value_at(c) for c in cells]
    rows = {b: dense_rows(blocks.lattice, b).astype(int).tolist() for b in blocks.alphas}
    information = [[Fraction(0)] * len(cells) for _ in cells]
    for block, alpha in blocks.alphas.items():
        half = Fraction(alpha) ** 2 / 2
        for row in rows[block]:
            inside = [i for i, v in enumerate(row) if v]
            for i in inside:
                for j in inside:
                    information[i][j] += half
    z = solved(information, vector)
    return {
        b: [Fraction(a) ** 2 / 2 * sum(z[i] for i, v in enumerate(row) if v) for row in rows[b]]
        for b, a in blocks.alphas.items()
    }


def weighty_query(generator: random.Random, sizes: tuple[int, ...], bits: int) -> LinearQuery:
    axes = {
        a: scaled_weights([generator.randrange(1 << bits) - (1 << bits) // 3 for _ in range(n)])
        for a, n in enumerate(sizes)
    }
    return linear_query(sizes, [(1, axes)]) + random_query(generator, sizes, 1)


@pytest.mark.parametrize("case", ["one regular", "two regular"])
@pytest.mark.parametrize(("seed", "bits"), [(0, 2), (1, 12), (2, 38)])
def test_rounding_in_the_weights_stays_within_its_bound(case: str, seed: int, bits: int) -> None:
    """Against the exact weights of least variance; and the bound is no more than 1e-12 of all."""
    generator = random.Random(seed)
    lattice = lattice_of(case)
    blocks = random_blocks(generator, lattice)
    query = weighty_query(generator, sizes_of(lattice), bits)
    pattern = lattice.pattern(query)
    assert pattern is not None
    exact = exact_weights(blocks, query)
    largest = max(abs(float(v)) for v in dense(query))
    for found in blocks.weights(pattern):
        errors = blocks.weight_errors(found.block, pattern)
        for i, cell in enumerate(np.ndindex(*(len(g) for g in found.groups))):
            error = abs(Fraction(found.at(cell)) - exact[found.block][i])
            assert error <= Fraction(float(errors[found.group_of(cell)]))
        assert errors.max() <= 1e-12 * largest


@pytest.mark.parametrize("seed", range(3))
def test_with_phantoms_the_weights_are_unbiased_within_the_bound(seed: int) -> None:
    """Cell by cell of the domain, what weights add up to misses the query by the bound at most."""
    generator = random.Random(seed)
    chains = {0: (11, (1, 4, 16)), 1: (3, (1, 4))}
    lattice = Lattice(
        {a: regular_chain(single_values(a, n), levels) for a, (n, levels) in chains.items()}
    )
    blocks = random_blocks(generator, lattice)
    query = weighty_query(generator, (11, 3), 20)
    pattern = lattice.pattern(query)
    assert pattern is not None
    total, bound = [Fraction(0)] * 33, [Fraction(0)] * 33
    for found in blocks.weights(pattern):
        errors = blocks.weight_errors(found.block, pattern)
        real = product(*(np.flatnonzero(g >= 0).tolist() for g in found.groups))
        for cell, row in zip(real, dense_rows(lattice, found.block), strict=True):
            for i in np.flatnonzero(row):
                total[i] += Fraction(found.at(cell))
                bound[i] += Fraction(float(errors[found.group_of(cell)]))
    for value, got, error in zip(
        (query.value_at(c) for c in product(range(11), range(3))), total, bound, strict=True
    ):
        assert abs(got - value) <= error


@settings(max_examples=examples(25))
@given(seed=st.integers(0, 2**32), n_terms=st.integers(1, 3), case=st.sampled_from(sorted(CASES)))
def test_no_unbiased_weights_have_less_variance(seed: int, n_terms: int, case: str) -> None:
    """The weights' true variance is that of dense least squares, whatever the blocks."""
    generator = random.Random(seed)
    lattice = lattice_of(case)
    blocks = random_blocks(generator, lattice)
    query = random_query(generator, sizes_of(lattice), n_terms)
    pattern = lattice.pattern(query)
    assert pattern is not None
    weights = blocks.weights(pattern)
    total = sum((w.dense.ravel() @ dense_rows(lattice, w.block) for w in weights), np.zeros(()))
    assert_allclose(total, dense(query), atol=1e-11)
    variance = sum(2 * np.sum((w.dense / blocks.alphas[w.block]) ** 2) for w in weights)
    assert_allclose(variance, dense_variance(blocks, query), rtol=1e-8)


def test_a_public_total_takes_all_of_its_component() -> None:
    """As blocks whose total has next to no noise, in the limit."""
    generator = random.Random(5)
    lattice = lattice_of("two regular")
    noisy = random_blocks(generator, lattice).alphas
    query = random_query(generator, (6, 4), 2)
    pattern = lattice.pattern(query)
    assert pattern is not None
    public = Blocks(lattice, {**noisy, (): float("inf")})
    close = Blocks(lattice, {**noisy, (): 1e6})
    expected = {w.block: w.dense for w in close.weights(pattern)}
    for found in public.weights(pattern):
        assert_allclose(found.dense, expected[found.block], atol=1e-9)
    assert_allclose(public.variance(pattern), close.variance(pattern), rtol=1e-9)
    assert_allclose(2 * np.sum(public.scales(pattern).expanded ** 2), public.variance(pattern))
