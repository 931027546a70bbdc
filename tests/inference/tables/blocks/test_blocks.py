"""Closed-form weights on blocks against dense least squares over all cells."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose

from qserver.inference.tables.blocks.nested_partitions import (
    default_chain,
    regular_chain,
    single_values,
)
from qserver.inference.tables.blocks.noisy_blocks import Blocks
from qserver.inference.tables.blocks.pattern import BlockKey, Lattice
from qserver.query.linear_query import LinearQuery, linear_query
from qserver.query.weights import indicator, interval
from tests.inference.tables.blocks.every_block import every_block
from tests.inference.tables.blocks.parts import weights_of_part

CASES: dict[str, dict[int, tuple[int, tuple[int, ...]]]] = {
    "one regular": {0: (12, (1, 3, 12))},
    "two regular": {0: (6, (1, 2, 6)), 1: (4, (1, 4))},
    "three regular": {0: (4, (1, 2, 4)), 1: (3, (1, 3)), 2: (2, (1, 2))},
}


def lattice_of(case: str) -> Lattice:
    return Lattice(
        {a: regular_chain(single_values(a, n), levels) for a, (n, levels) in CASES[case].items()}
    )


def sizes_of(lattice: Lattice) -> tuple[int, ...]:
    return tuple(c.classes.n for c in lattice.chains.values())


def dense(query: LinearQuery) -> np.ndarray:
    cells = product(*(range(s) for s in query.sizes))
    return np.array([float(query.value_at(c)) for c in cells])


def dense_rows(lattice: Lattice, block: BlockKey) -> np.ndarray:
    """The rows of a block's real cells, written down by their indicators."""
    sizes, levels = sizes_of(lattice), dict(block)
    rows = []
    for cell in product(*(range(c.n_parts[levels.get(a, 0)]) for a, c in lattice.chains.items())):
        parts = zip(lattice.chains.items(), cell, strict=True)
        if all(c.is_real[levels.get(a, 0)][p] for (a, c), p in parts):
            axes = {
                a: weights_of_part(c, levels.get(a, 0), p)
                for (a, c), p in zip(lattice.chains.items(), cell, strict=True)
            }
            rows.append(dense(linear_query(sizes, [(1, axes)])))
    return np.array(rows)


def random_query(generator: random.Random, sizes: Sequence[int], n_terms: int) -> LinearQuery:
    terms = []
    for _ in range(n_terms):
        axes = {}
        for axis, size in enumerate(sizes):
            chosen = generator.sample(range(size), generator.randint(1, size))
            axes[axis] = indicator(size, chosen)
        terms.append((generator.choice((-2, 1, 3)), axes))
    return linear_query(sizes, terms)


def random_blocks(generator: random.Random, lattice: Lattice) -> Blocks:
    every = every_block(lattice, list(lattice.chains))
    chosen = generator.sample(every, min(len(every), 4))
    finest = lattice.finest(lattice.chains)
    return Blocks(lattice, {b: generator.uniform(0.3, 2.0) for b in {*chosen, finest}})


def dense_variance(blocks: Blocks, query: LinearQuery) -> float:
    """q (H' R^-1 H)^+ q' for the stacked rows H."""
    rows = [(dense_rows(blocks.lattice, b), a) for b, a in blocks.alphas.items()]
    information = sum(a * a / 2 * h.T @ h for h, a in rows)
    vector = dense(query)
    return float(vector @ np.linalg.pinv(information, rcond=1e-10) @ vector)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("n_terms", [1, 2])
def test_the_variance_is_that_of_dense_least_squares(case: str, seed: int, n_terms: int) -> None:
    generator = random.Random(seed)
    lattice = lattice_of(case)
    blocks = random_blocks(generator, lattice)
    query = random_query(generator, sizes_of(lattice), n_terms)
    pattern = lattice.pattern(query)
    assert pattern is not None
    expected = dense_variance(blocks, query)
    assert_allclose(blocks.variance(pattern), expected, rtol=1e-9)
    assert_allclose(2 * np.sum(blocks.scales(pattern).expanded ** 2), expected, rtol=1e-9)


@pytest.mark.parametrize("seed", range(6))
def test_the_weights_reproduce_the_query_also_where_there_are_phantoms(seed: int) -> None:
    generator = random.Random(seed)
    lattice = Lattice(
        {
            0: regular_chain(single_values(0, 11), (1, 4, 16)),
            1: regular_chain(single_values(1, 3), (1, 2, 4)),
        }
    )
    blocks = random_blocks(generator, lattice)
    query = random_query(generator, (11, 3), 2)
    pattern = lattice.pattern(query)
    assert pattern is not None
    total = np.zeros(33)
    for found in blocks.weights(pattern):
        levels = dict(found.block)
        shape = [c.n_parts[levels.get(a, 0)] for a, c in lattice.chains.items()]
        real = np.ones((), dtype=bool)
        for a, c in lattice.chains.items():
            real = np.logical_and.outer(real, c.is_real[levels.get(a, 0)])
        weights = found.dense.reshape(shape)[real]
        total += weights @ dense_rows(lattice, found.block)
    assert_allclose(total, dense(query), atol=1e-12)
    variance = 2 * np.sum(blocks.scales(pattern).expanded ** 2)
    assert variance <= blocks.variance(pattern) * (1 + 1e-9)
    assert variance >= dense_variance(blocks, query) * (1 - 1e-9)


def test_a_query_is_estimable_just_where_some_block_reaches_each_of_its_components() -> None:
    lattice = lattice_of("two regular")
    blocks = Blocks(lattice, {((0, 1),): 1.0})
    coarse = linear_query((6, 4), [(1, {0: interval(6, 0, 3)})])
    fine = linear_query((6, 4), [(1, {0: interval(6, 0, 2)})])
    for query, expected in ((coarse, True), (fine, False)):
        pattern = lattice.pattern(query)
        assert pattern is not None
        assert blocks.is_estimable(pattern) is expected
        assert np.isfinite(blocks.variance(pattern)) == expected


def test_a_query_that_cuts_a_class_is_not_resolved() -> None:
    coarse = default_chain(single_values(0, 4))
    assert coarse.n_parts == (1, 4)
    lattice = Lattice({0: coarse})
    other = linear_query((4, 3), [(1, {1: interval(3, 0, 1)})])
    assert lattice.pattern(other) is None
