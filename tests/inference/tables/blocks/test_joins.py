"""Joins of blocks, and the finest of some: against every block of a small lattice."""

from __future__ import annotations

from itertools import product

from qserver.inference.tables.blocks.pattern import BlockKey, finest_of, is_within, join

EVERY: list[BlockKey] = [
    tuple((axis, level) for axis, level in enumerate(levels) if level)
    for levels in product(range(3), range(3), range(2))
]


def test_a_join_is_the_coarsest_block_that_both_lie_within() -> None:
    for one, other in product(EVERY, EVERY):
        above = [b for b in EVERY if is_within(one, b) and is_within(other, b)]
        found = join(one, other)
        assert found in above
        assert all(is_within(found, b) for b in above)


def test_the_finest_blocks_are_those_within_no_other() -> None:
    some = [b for i, b in enumerate(EVERY) if i % 3 != 1]
    kept = finest_of(some)
    assert kept == [b for b in some if sum(is_within(b, o) for o in some) == 1]
    assert all(any(is_within(b, k) for k in kept) for b in some)
    assert finest_of([]) == []
