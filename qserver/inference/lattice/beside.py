"""A query's own row beside the blocks: two independent estimates of one number."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from qserver.inference.classes import FloatArray
from qserver.inference.lattice.blocks import Blocks
from qserver.inference.lattice.pattern import Pattern
from qserver.inference.tail import safe_half_width

_STEPS = 40
_CLOSE = 1e-6
_ALONE = 1e-9


@dataclass(frozen=True)
class Mixed:
    """A half-width in records of the row, and the weight of the query's own row behind it."""

    half_width: float
    row_weight: float


@dataclass(frozen=True, eq=False)
class Known:
    """What is known of one query: blocks, where they give it, and its own row, where measured.

    Args:
        block_scales: scales of the error on the blocks alone, or None.
        row_alpha: 1 / b of the query's own row; 0 without one.
    """

    block_scales: FloatArray | None
    row_alpha: float = 0.0

    def weight_at(self, row_alpha: float) -> float:
        """Weight of least variance of the row at this 1 / b; the blocks have the rest."""
        if self.block_scales is None or row_alpha == 0.0:
            return 1.0 if self.block_scales is None else 0.0
        variance, own = 2.0 * float(self.block_scales @ self.block_scales), 2.0 / row_alpha**2
        return variance / (variance + own)

    def half_width(self, confidence: float, *, row_alpha: float | None = None) -> float:
        """Half-width of the shortest of three: blocks, row, or both by least variance."""
        return self.shortest(confidence, row_alpha=row_alpha).half_width

    def shortest(self, confidence: float, *, row_alpha: float | None = None) -> Mixed:
        """The same with the row's weight."""
        alpha = self.row_alpha if row_alpha is None else row_alpha
        weights = [1.0] if alpha > 0.0 else []
        if self.block_scales is not None:
            weights = [0.0, self.weight_at(alpha), 1.0] if alpha > 0.0 else [0.0]
        found = [Mixed(safe_half_width(self._scales(w, alpha), confidence), w) for w in weights]
        return min(found, key=lambda m: m.half_width, default=Mixed(math.inf, 1.0))

    def _scales(self, weight: float, row_alpha: float) -> FloatArray:
        own = np.array([weight / row_alpha]) if weight else np.zeros(0)
        if self.block_scales is None or weight == 1.0:
            return own
        return np.append((1.0 - weight) * self.block_scales, own)

    def least_row_alpha(self, half_width: float, *, confidence: float) -> float:
        """Least 1 / b of the row with which the target is met; at least what it is now.

        Raised alone it meets the target at ln(1/delta) / half_width.
        """
        high = safe_half_width(np.ones(1), confidence) / half_width
        if self.block_scales is None:
            return max(high, self.row_alpha)
        low = self.row_alpha
        if self.half_width(confidence) <= half_width:
            return low
        for _ in range(_STEPS):
            if high - low <= _CLOSE * high:
                break
            middle = 0.5 * (low + high)
            if self.half_width(confidence, row_alpha=middle) <= half_width:
                high = middle
            else:
                low = middle
        return high


def known_of(blocks: Blocks, pattern: Pattern | None, row_alpha: float) -> Known:
    """What blocks and the query's own row say of it.

    A query that is a cell of a measured block has that cell as its own row, or a finer one that
    replaced it; the rest of the blocks, scaled to give the query without it, is independent.
    """
    if pattern is None or not blocks.alphas:
        return Known(None, row_alpha)
    block_alpha = blocks.alphas.get(pattern.cell_of, 0.0) if pattern.cell_of is not None else 0.0
    own = max(row_alpha, block_alpha)
    if not blocks.is_estimable(pattern):
        return Known(None, own)
    scales = blocks.scales(pattern)
    if not block_alpha:
        return Known(scales.expanded, own)
    weight = blocks.weight_of_itself(pattern)
    if weight > 1.0 - _ALONE:
        return Known(None, own)
    rest = scales.without(abs(weight) / block_alpha).expanded / (1.0 - weight)
    return Known(rest, own)
