"""Blocks together with a measurement of the query itself: two independent estimates.

The measurement is a row, or a cell of a measured block that is the query. If there are both, one
may continue the noise of the other. So only the one with less noise counts, and the other is left
out. The remaining cells, scaled to give the query alone, are independent of both.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np

from qserver.inference.arrays import FloatArray
from qserver.inference.law.laplace_sum import LaplaceSum, Verdict
from qserver.inference.law.normal_sum import sum_of
from qserver.inference.rows.shortest_interval import safe_half_width
from qserver.inference.tables.blocks.noisy_blocks import Blocks, CellWeights
from qserver.inference.tables.blocks.pattern import BlockKey, Pattern
from qserver.records.privacy.noise_law import LAPLACE, NoiseLaw

_CLOSE = 1e-6
_ALONE = 1e-6
_CLEAR = 1e-6
"""Relative distance of a tail from delta that means a half-width error above that of
`safe_half_width`."""
FLOAT_ROOM = 2.0
"""Factor on the lattices' allowance that leaves room for floats. With it the half-width of given
weights does not depend on the released answers."""


@dataclass(frozen=True)
class Mixed:
    """A half-width in records, and the weight of the row that gives it."""

    half_width: float
    row_weight: float


@dataclass(frozen=True, eq=False)
class RowKnowledge:
    """The knowledge of one query: from blocks, if they give it, and from its row, if measured.

    Args:
        block_scales: scales of the error on the blocks alone, or None.
        row_alpha: one over the scale of the query's row; 0 without one.
        block_allowance: bound on the error from lattice and floats on the blocks, in records.
        row_allowance: the same bound for the row.
        law: of the noise.
    """

    block_scales: FloatArray | None
    row_alpha: float = 0.0
    block_allowance: float = 0.0
    row_allowance: float = 0.0
    law: NoiseLaw = LAPLACE

    def weight_at(self, row_alpha: float) -> float:
        """The row's weight of least variance at this 1 / b; the blocks have the remainder."""
        if self.block_scales is None or row_alpha == 0.0:
            return 1.0 if self.block_scales is None else 0.0
        variance, own = 2.0 * float(self.block_scales @ self.block_scales), 2.0 / row_alpha**2
        return variance / (variance + own)

    def half_width(self, confidence: float, *, row_alpha: float | None = None) -> float:
        """Half-width of the shortest interval: by blocks, by the row, or by both together."""
        return self.shortest(confidence, row_alpha=row_alpha).half_width

    def shortest(self, confidence: float, *, row_alpha: float | None = None) -> Mixed:
        """The shortest interval's half-width and the row's weight in it."""
        alpha = self.row_alpha if row_alpha is None else row_alpha
        weights = [1.0] if alpha > 0.0 else []
        if self.block_scales is not None:
            weights = [0.0, self.weight_at(alpha), 1.0] if alpha > 0.0 else [0.0]
        found = [self.at(w, confidence, row_alpha=alpha) for w in weights]
        return min(found, key=lambda m: m.half_width, default=Mixed(math.inf, 1.0))

    def is_within(self, half_width: float, confidence: float) -> bool:
        """Whether the half-width is at most `half_width`; cheaper than computing it."""
        alpha = self.row_alpha
        weights = [1.0] if alpha > 0.0 else []
        if self.block_scales is not None:
            weights = [*weights, 0.0] + ([self.weight_at(alpha)] if weights else [])
        return any(self._is_within(w, alpha, half_width, confidence) for w in weights)

    def _is_within(
        self, row_weight: float, row_alpha: float, half_width: float, confidence: float
    ) -> bool:
        room = half_width - self._allowance(row_weight)
        if not room > 0.0:
            return False
        error = sum_of(self.scales(row_weight, row_alpha), self.law)
        if (
            isinstance(error, LaplaceSum)
            and error.certainly_within(room, confidence=confidence) is Verdict.NO
        ):
            return False
        over = error.log_tail(room) - math.log1p(-confidence)
        if abs(over) > _CLEAR:
            return over < 0.0
        return self.at(row_weight, confidence, row_alpha=row_alpha).half_width <= half_width

    def _allowance(self, row_weight: float) -> float:
        own = row_weight * self.row_allowance
        return own if row_weight == 1.0 else own + (1.0 - row_weight) * self.block_allowance

    def at(self, row_weight: float, confidence: float, *, row_alpha: float) -> Mixed:
        """The half-width with this weight of the row."""
        noise = safe_half_width(self.scales(row_weight, row_alpha), confidence, self.law)
        return Mixed(noise + self._allowance(row_weight), row_weight)

    def scales(self, row_weight: float, row_alpha: float) -> FloatArray:
        """Scales of the error with this weight of the row, shape (n,)."""
        own = np.array([row_weight / row_alpha]) if row_weight else np.zeros(0)
        if self.block_scales is None or row_weight == 1.0:
            return own
        return np.append((1.0 - row_weight) * self.block_scales, own)

    def least_row_alpha(self, half_width: float, *, confidence: float) -> float:
        """Least 1 / b of the row that meets the target; at least its present value.

        The row alone meets the target at ln(1/delta) over the half-width less its allowance.
        Infinite if the target is finer than the row's lattice.
        """
        scales = None if self.block_scales is None else self.block_scales.tobytes()
        known = self.row_alpha, self.block_allowance, self.row_allowance, self.law
        return _least_row_alpha(scales, known, half_width, confidence)

    def searched_row_alpha(self, half_width: float, confidence: float) -> float:
        """`least_row_alpha`, whether or not it was found before."""
        if self.half_width(confidence) <= half_width:
            return self.row_alpha
        room = half_width - self.row_allowance
        high = safe_half_width(np.ones(1), confidence, self.law) / room if room > 0.0 else math.inf
        if self.block_scales is None or math.isinf(high):
            return max(high, self.row_alpha)
        if self._over(high, half_width, confidence) >= 0.0:
            return high  # The row alone meets the target there.
        from scipy.optimize import brentq  # loads long, and not at a start

        over = partial(self._over, half_width=half_width, confidence=confidence)
        # The blocks alone miss the target, so the tail is too large at the present value.
        found = brentq(over, self.row_alpha, high, xtol=_CLOSE * high / 4.0)
        while found < high:
            found *= 1.0 + _CLOSE / 4.0
            if self._is_within(self.weight_at(found), found, half_width, confidence):
                return float(found)
        return high

    def _over(self, row_alpha: float, half_width: float, confidence: float) -> float:
        """Log of the tail beyond the half-width, over that of delta; it falls as alpha rises."""
        weight, delta = self.weight_at(row_alpha), math.log1p(-confidence)
        room = half_width - self._allowance(weight)
        if room <= 0.0:
            return -delta
        return sum_of(self.scales(weight, row_alpha), self.law).log_tail(room) - delta


# The cells of a GROUP BY are known in a few ways, in turn.
@lru_cache(maxsize=16)
def _least_row_alpha(
    scales: bytes | None,
    known: tuple[float, float, float, NoiseLaw],
    half_width: float,
    confidence: float,
) -> float:
    of_blocks = None if scales is None else np.frombuffer(scales)
    return RowKnowledge(of_blocks, *known).searched_row_alpha(half_width, confidence)


@dataclass(frozen=True, eq=False)
class Rest:
    """The query on the blocks without the cell that is the query itself.

    Args:
        weights: weights on cells of blocks. That cell is left out, and the others are scaled up.
        left: 1 less the weight of that cell; the others were divided by it.
    """

    weights: tuple[CellWeights, ...]
    left: float

    def scales(self, alphas: Mapping[BlockKey, float]) -> FloatArray:
        """Scales of the error, zeros left out, shape (n,)."""
        parts = [np.zeros(0)]
        for found in self.weights:
            values = np.abs(found.values).ravel() / alphas[found.block]
            used = values > 0.0
            parts.append(np.repeat(values[used], found.counts.ravel()[used]))
        return np.concatenate(parts)

    def allowance(self, steps: Mapping[BlockKey, float]) -> float:
        """Sum over cells of abs(weight) times lattice step, plus room for floats, in records."""
        return FLOAT_ROOM * sum(w.size * steps.get(w.block, 0.0) for w in self.weights)


def whole_of(blocks: Blocks, pattern: Pattern) -> Rest | None:
    """The query on the blocks, all cells included; None if the blocks do not give it."""
    if not blocks.alphas or not blocks.is_estimable(pattern):
        return None
    return Rest(tuple(blocks.weights(pattern)), 1.0)


def rest_of(blocks: Blocks, pattern: Pattern) -> Rest | None:
    """The query on the blocks without its cell; None if these do not give it."""
    if not blocks.alphas or not blocks.is_estimable(pattern):
        return None
    weights = tuple(blocks.weights(pattern))
    own = pattern.cell_of
    if own is None or own not in blocks.alphas:
        return Rest(weights, 1.0)
    parts = pattern.cell_parts
    cell = tuple(parts[axis] for axis, _ in own)
    left = 1.0 - next((w.at(cell) for w in weights if w.block == own), 0.0)
    if left < _ALONE:
        return None
    factor = 1.0 / left
    return Rest(
        tuple(
            w.without(cell, factor=factor) if w.block == own else w.scaled(factor) for w in weights
        ),
        left,
    )


@dataclass(frozen=True, eq=False)
class BlocksAndRow:
    """The query on the blocks without its cell, together with its measurement.

    Args:
        rest: None if the blocks without the query's cell do not give the query.
        own_cell: whether the measurement is the cell of a block; else it is a row.
        known: the knowledge from both.
    """

    rest: Rest | None
    own_cell: bool
    known: RowKnowledge


def blocks_and_row(
    blocks: Blocks,
    pattern: Pattern | None,
    row_alpha: float,
    *,
    steps: Mapping[BlockKey, float] | None = None,
    row_step: float = 0.0,
) -> BlocksAndRow:
    """The query on blocks, with its row or its cell, whichever has less noise.

    Args:
        row_alpha: one over the scale of the row if it was measured; else 0.
        steps: lattice step per block; 0 for blocks that are not named.
        row_step: lattice step of the row.
    """
    steps = steps or {}
    cell = None if pattern is None else pattern.cell_of
    own, own_step, own_cell = row_alpha, row_step, False
    if cell is not None and cell in blocks.alphas and blocks.alphas[cell] > row_alpha:
        own, own_step, own_cell = blocks.alphas[cell], steps.get(cell, 0.0), True
    rest = None if pattern is None else rest_of(blocks, pattern)
    room = FLOAT_ROOM * own_step
    if rest is None:
        return BlocksAndRow(None, own_cell, RowKnowledge(None, own, 0.0, room, blocks.law))
    known = RowKnowledge(rest.scales(blocks.alphas), own, rest.allowance(steps), room, blocks.law)
    return BlocksAndRow(rest, own_cell, known)
