"""Tables' cells and blocks' cells are the same cells, however either numbers them."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from qserver.errors import QueryError
from qserver.inference.tables.blocks.nested_partitions import (
    Chain,
    default_chain,
    regular_chain,
    single_values,
)
from qserver.inference.tables.blocks.pattern import Lattice
from qserver.inference.tables.blocks.placement import (
    DefaultChains,
    placement_of_block,
    placement_of_partition,
)
from qserver.query.class_grid import AxisClasses, product_partition
from qserver.query.linear_query import linear_query
from tests.inference.tables.blocks.parts import weights_of_part

# Values 0 and 3 are one class, and the slots take the classes in another order, one phantom among
# them: neither the chain's parts nor its slots stand in the order of first occurrence.
MIXED = Chain(
    AxisClasses(0, (1, 2, 3, 4, 5, 6), (0, 1, 2, 0, 3, 4), 5), (3, 1, -1, 4, 0, 2), (1, 2, 6)
)
LATTICE = Lattice({0: MIXED, 1: regular_chain(single_values(1, 4), (1, 2, 4))})
SIZES = (6, 4)
BLOCKS = [tuple((a, i) for a, i in enumerate(p) if i) for p in product(range(3), range(3))]


@pytest.mark.parametrize("block", BLOCKS)
def test_every_cell_of_the_partition_is_the_block_s_cell_that_it_is_placed_on(block):
    found = placement_of_block(SIZES, LATTICE, block)
    levels = dict(block)
    for i, places in enumerate(np.ndindex(*found.partition.shape)):
        parts = [int(p[place]) for p, place in zip(found.parts, places, strict=True)]
        axes = {
            a: weights_of_part(LATTICE.chains[a], levels[a], part)
            for (a, _), part in zip(block, parts, strict=True)
        }
        assert found.partition.row(i) == linear_query(SIZES, [(1, axes)])
        assert found.cell(parts) == places


@pytest.mark.parametrize("block", BLOCKS)
def test_a_block_s_partition_is_found_again_with_the_same_places(block):
    found = placement_of_block(SIZES, LATTICE, block)
    again = placement_of_partition(LATTICE, found.partition)
    assert again is not None
    assert again.block == block
    for one, other in zip(found.parts, again.parts, strict=True):
        np.testing.assert_array_equal(one, other)


def test_phantoms_have_no_cell():
    found = placement_of_block(SIZES, LATTICE, ((0, 2),))
    assert found.partition.n_cells == 5
    assert sorted(found.parts[0].tolist()) == [0, 1, 3, 4, 5]
    # Values 0 and 3 are class 0, in slot 4.
    assert found.parts[0][0] == 4


def test_a_partition_off_the_lattice_has_no_block():
    assert placement_of_partition(LATTICE, product_partition(SIZES, {1: [0, 0, 0, 1]})) is None
    assert placement_of_partition(LATTICE, product_partition(SIZES, {1: [0, 1, 0, 1]})) is None
    assert placement_of_partition(LATTICE, product_partition(SIZES, {1: [0, 0, 1, 1]})) is not None


def test_a_block_of_too_many_cells_has_no_partition():
    sizes = (300, 300)
    lattice = Lattice(DefaultChains(sizes))
    with pytest.raises(QueryError, match="65536"):
        placement_of_block(sizes, lattice, lattice.finest((0, 1)))


def test_default_chains_are_those_of_single_values_and_end_with_the_domain():
    chains = DefaultChains((3, 40))
    assert chains[1] == default_chain(single_values(1, 40))
    assert list(chains) == [0, 1]
    assert chains.get(2) is None


@pytest.mark.parametrize(
    ("n", "levels", "expected"), [(11, (1, 4, 16), True), (3, (1, 2, 4), False)]
)
def test_a_chain_is_strict_where_no_set_of_values_is_a_part_twice(n, levels, expected):
    chain = regular_chain(single_values(0, n), levels)
    parts = [
        weights_of_part(chain, level, int(p))
        for level, real in enumerate(chain.is_real)
        for p in np.flatnonzero(real)
    ]
    assert chain.is_strict is expected
    assert (len(set(parts)) == len(parts)) is expected
