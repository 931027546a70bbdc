"""Whether a half-width is enough, asked without finding it."""

from __future__ import annotations

import random
from collections.abc import Hashable

import numpy as np
import pytest

from qserver.inference.tables.blocks.noisy_blocks import Blocks, likeness
from qserver.inference.tables.blocks.own_row import RowKnowledge, blocks_and_row
from qserver.inference.tables.blocks.pattern import Pattern
from qserver.inference.tables.measured_tables import MeasuredTables
from qserver.query.linear_query import linear_query
from qserver.query.primitive import primitive
from qserver.query.weights import interval

CONFIDENCES = (0.5, 0.95, 1.0 - 1e-7)


def cases() -> list[RowKnowledge]:
    generator = np.random.default_rng(6)
    found = []
    for n in (1, 3, 40):
        scales = generator.uniform(0.5, 20.0, n)
        found += [
            RowKnowledge(scales, 0.0, 0.01, 0.0),
            RowKnowledge(scales, 0.05, 0.01, 0.02),
            RowKnowledge(scales, 3.0, 0.0, 1e-6),
        ]
    return [*found, RowKnowledge(None, 0.3, 0.0, 0.001)]


@pytest.mark.parametrize("confidence", CONFIDENCES)
def test_the_shortest_half_width_is_within_itself_and_no_less(confidence: float) -> None:
    """The same verdict as the half-width that is found, a part of 1e-12 to either side."""
    for known in cases():
        half_width = known.half_width(confidence)
        assert known.is_within(half_width, confidence)
        assert known.is_within(half_width * (1 + 1e-12), confidence)
        assert not known.is_within(half_width * (1 - 1e-12), confidence)
        assert not known.is_within(0.5 * half_width, confidence)
        assert known.is_within(2.0 * half_width, confidence)


def test_nothing_is_within_anything_where_nothing_is_known() -> None:
    assert not RowKnowledge(None).is_within(1e9, 0.5)


def test_queries_that_are_alike_are_known_alike_by_any_blocks() -> None:
    """Cells of ages in three parts of unequal sizes, and ranges: to the last bit."""
    lattice = MeasuredTables((20, 3)).lattice
    generator = random.Random(2)
    kinds = dict[Hashable, list[Pattern]]()
    asked = [(a, a + 1) for a in range(20)] + [(a, a + 3) for a in range(17)]
    for low, high in asked:
        for other in range(3):
            weights = {0: interval(20, low, high), 1: interval(3, other, other + 1)}
            pattern = lattice.pattern(primitive(linear_query((20, 3), [(1, weights)])).row)
            assert pattern is not None
            kinds.setdefault(likeness(pattern), []).append(pattern)
    assert 2 < len(kinds) < len(asked)
    levels = [range(lattice.chains[axis].n_levels) for axis in (0, 1)]
    for _ in range(8):
        keys = generator.sample([(i, j) for i in levels[0] for j in levels[1]], 3)
        named = [tuple((a, k) for a, k in enumerate(key) if k) for key in keys]
        blocks = Blocks(lattice, {key: generator.uniform(0.01, 1.0) for key in named if key})
        for alike in kinds.values():
            found = [blocks_and_row(blocks, one, 0.1, row_step=0.01).known for one in alike]
            assert len({_told(one) for one in found}) == 1


def _told(known: RowKnowledge) -> tuple[object, ...]:
    scales = None if known.block_scales is None else known.block_scales.tobytes()
    return scales, known.row_alpha, known.block_allowance, known.row_allowance
