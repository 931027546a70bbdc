"""Roundings: a query is its coarser form and the weighted rest, exactly, cell by cell."""

from __future__ import annotations

import random
from itertools import product

import numpy as np
import pytest

from qserver.inference.tables.blocks.pattern import Lattice
from qserver.planning.blocks.rounding import Rounded, roundings
from qserver.query.linear_query import LinearQuery, linear_query
from qserver.query.primitive import primitive
from qserver.query.weights import indicator, interval
from tests.benchmarks.synthetic_noise import Snapshot
from tests.inference.tables.blocks.test_blocks import dense
from tests.inference.tables.table_cases import SIZES, tables_of


def random_product(generator: random.Random) -> LinearQuery:
    axes = {}
    for axis, size in enumerate(SIZES):
        if generator.random() < 0.8:
            chosen = generator.sample(range(size), generator.randint(1, size))
            axes[axis] = indicator(size, sorted(chosen))
    return linear_query(SIZES, [(1, axes)])


def of(lattice: Lattice, query: LinearQuery) -> list[Rounded]:
    return roundings(lattice, primitive(query))


@pytest.mark.parametrize("seed", range(20))
def test_a_rounded_query_and_the_weighted_rest_add_up_to_the_query(seed: int) -> None:
    query = random_product(random.Random(seed))
    found = of(tables_of().lattice, query)
    assert found
    for rounded in found:
        assert rounded.weight in (-1.0, 0.0, 1.0)
        rest = 0.0 if rounded.rest.is_zero else rounded.weight * dense(rounded.rest.row)
        assert (dense(rounded.coarse) + rest == dense(query)).all()


def test_a_range_is_rounded_to_the_unions_of_parts_nearest_outside_and_inside() -> None:
    """13 values stand on levels of 1, 4 and 16 parts: brute force over unions of these parts."""
    lattice = tables_of().lattice
    low, high = 2, 9
    found = of(lattice, linear_query(SIZES, [(1, {0: interval(13, low, high)})]))
    chain = lattice.chains[0]
    wanted = set()
    for level, side in product(range(3), ("nearest", "outer", "inner")):
        parts = [np.flatnonzero(chain.part_of(level) == p) for p in range(chain.n_parts[level])]
        taken: set[int] = set()
        for part in parts:
            inside = [v for v in part.tolist() if low <= v < high]
            is_taken = {
                "nearest": 2 * len(inside) >= len(part) > 0,
                "outer": bool(inside),
                "inner": len(inside) == len(part) > 0,
            }[side]
            taken.update(part.tolist() if is_taken else [])
        wanted.add(tuple(sorted(taken)))
    wanted.discard(())
    codes = [tuple(np.flatnonzero(dense(r.coarse).reshape(SIZES)[:, 0]).tolist()) for r in found]
    assert set(codes) == wanted
    assert len(codes) == len(wanted)


def test_what_is_no_product_of_sets_has_no_roundings() -> None:
    lattice = Snapshot((12,)).holdings.lattice
    two = linear_query((12,), [(2, {0: interval(12, 0, 3)}), (1, {0: interval(12, 3, 6)})])
    assert of(lattice, two) == []
