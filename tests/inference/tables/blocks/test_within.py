"""Whether a half-width is enough, asked without finding it."""

from __future__ import annotations

import numpy as np
import pytest

from qserver.inference.tables.blocks.own_row import RowKnowledge

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
