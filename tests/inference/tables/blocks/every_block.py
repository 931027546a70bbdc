"""Every block over some axes, for tests that go through all of them."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product

from qserver.inference.tables.blocks.pattern import BlockKey, Lattice


def every_block(lattice: Lattice, scope: Iterable[int]) -> list[BlockKey]:
    """Every block over some of these axes, at every level."""
    axes = list(scope)
    levels = [range(lattice.chains[a].n_levels) for a in axes]
    return [
        tuple((a, i) for a, i in zip(axes, picked, strict=True) if i) for picked in product(*levels)
    ]
