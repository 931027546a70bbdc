"""Parts of a chain as weights on values: what its levels mean."""

from __future__ import annotations

import numpy as np

from qserver.inference.tables.blocks.nested_partitions import Chain
from qserver.query.weights import Weights, indicator


def weights_of_part(chain: Chain, level: int, part: int) -> Weights:
    """The indicator of one part's values, value by value."""
    lengths = np.diff([0, *chain.classes.stops])
    class_of_value = np.repeat(chain.classes.ids, lengths)
    inside = chain.part_of(level)[class_of_value] == part
    return indicator(len(inside), np.flatnonzero(inside).tolist())
