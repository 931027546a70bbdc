"""Rows beside blocks against dense least squares over all cells."""

from __future__ import annotations

import random

import numpy as np
import pytest
from inference.lattice.test_blocks import (
    CASES,
    dense,
    dense_rows,
    lattice_of,
    random_query,
    sizes_of,
)
from numpy.testing import assert_allclose

from qserver.inference.lattice.blocks import Blocks, combinations_below
from qserver.inference.lattice.pattern import Lattice
from qserver.inference.lattice.rows_beside import MeasuredRow, joint_estimate
from qserver.query import LinearQuery


def stacked(blocks: Blocks, rows: list[tuple[LinearQuery, float]]) -> tuple[np.ndarray, np.ndarray]:
    """All measured rows and their 1 / variance."""
    parts = [dense_rows(blocks.lattice, b) for b in blocks.alphas]
    alphas = [np.full(len(p), a) for p, a in zip(parts, blocks.alphas.values(), strict=True)]
    parts += [dense(q)[None] for q, _ in rows]
    alphas += [np.array([a]) for _, a in rows]
    return np.vstack(parts), np.concatenate(alphas) ** 2 / 2


def case_of(seed: int, case: str) -> tuple[Lattice, Blocks, list[tuple[LinearQuery, float]]]:
    generator = random.Random(seed)
    lattice = lattice_of(case)
    every = combinations_below(lattice, list(lattice.chains))
    chosen = generator.sample(every, min(3, len(every) - 1))
    blocks = Blocks(lattice, {b: generator.uniform(0.3, 2.0) for b in chosen})
    rows = [
        (random_query(generator, sizes_of(lattice), 1), generator.uniform(0.3, 2.0))
        for _ in range(5)
    ]
    return lattice, blocks, rows


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("seed", range(6))
def test_rows_and_blocks_together_are_dense_least_squares(case: str, seed: int) -> None:
    """Estimable or not, variance: both by the pseudo-inverse."""
    lattice, blocks, rows = case_of(seed, case)
    matrix, precision = stacked(blocks, rows)
    information = matrix.T @ (precision[:, None] * matrix)
    measured = [MeasuredRow(p, a) for q, a in rows for p in [lattice.pattern(q)] if p is not None]
    generator = random.Random(seed + 100)
    extra = [rows[0][0] + rows[1][0].scaled(2), rows[2][0]]
    for query in [*extra, *(random_query(generator, sizes_of(lattice), 1) for _ in range(4))]:
        pattern = lattice.pattern(query)
        assert pattern is not None
        vector = dense(query)
        coefficients = np.linalg.pinv(information, rcond=1e-10) @ vector
        is_given = np.allclose(information @ coefficients, vector, atol=1e-8)
        found = joint_estimate(blocks, measured, pattern)
        assert (found is not None) == is_given
        if found is not None:
            assert_allclose(found.variance, vector @ coefficients, rtol=1e-7)


def test_without_rows_it_is_what_the_blocks_give() -> None:
    lattice, _, _ = case_of(0, "two regular")
    blocks = Blocks(lattice, {lattice.finest([0, 1]): 1.0, ((0, 1),): 0.5})
    pattern = lattice.pattern(random_query(random.Random(1), sizes_of(lattice), 1))
    assert pattern is not None
    found = joint_estimate(blocks, [], pattern)
    assert found is not None
    assert_allclose(found.variance, blocks.variance(pattern), rtol=1e-12)
