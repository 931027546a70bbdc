"""What a purchase gives on the lattice used for answering.

The answering lattice has only measured levels. Different padding of parts gives slightly different
weights, so an offer that is planned on learnt levels can miss the target by a little.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import inf

import numpy as np

from qserver.inference.rows.refinement import Weights
from qserver.inference.rows.tail import safe_half_width
from qserver.inference.tables.blocks.box import remainder
from qserver.inference.tables.blocks.noisy_blocks import Blocks
from qserver.inference.tables.blocks.own_row import FLOAT_ROOM, whole_of
from qserver.inference.tables.blocks.pattern import BlockKey
from qserver.planning.holdings import Holdings
from qserver.planning.purchase import Purchase
from qserver.query.partition import ProductPartition
from qserver.query.primitive import Primitive, primitive
from qserver.records.charge import NANO
from qserver.records.plan import PlannedRow


class Answered:
    """The answer after these partitions are bought, on the lattice used for answering then."""

    def __init__(
        self,
        holdings: Holdings,
        query: Primitive,
        confidence: float,
        partitions: Iterable[ProductPartition],
    ) -> None:
        self._holdings, self._query, self._confidence = holdings, query, confidence
        tables = holdings.engine.tables
        self._tables = tables.seen_on(tables.lattice_with(list(partitions)))

    def half_width(self, purchase: Purchase, weights: Weights = ()) -> float:
        """The answer's half-width, in records; infinite if there is no answer.

        Args:
            weights: of the planned rows, where tables give the rest; else empty.
        """
        tables, step = self._tables, self._holdings.table_step
        blocks = [(tables.block_of(t.partition), t.alpha_nano) for t in purchase.tables]
        raises = {block: alpha for block, alpha in blocks if block is not None}
        if weights:
            return self._beside(purchase.rows, [w for _, w in weights], raises)
        own, alpha = self._holdings.own(self._query), None
        if purchase.rows:
            alpha = purchase.rows[0].alpha_nano
        known = tables.known(self._query, own, alphas_nano=raises, row_alpha_nano=alpha, step=step)
        return known.half_width(self._confidence)

    def _beside(
        self,
        rows: Sequence[PlannedRow],
        weights: Sequence[float],
        raises: Mapping[BlockKey, int],
    ) -> float:
        """The half-width with weighted rows, by the weights on tables that inference then finds."""
        tables, pairs = self._tables, zip(rows, weights, strict=True)
        asked = remainder(self._query.row, ((row.row, weight) for row, weight in pairs))
        blocks = tables.blocks_with(raises)
        pattern = tables.pattern(asked) if asked.multiplier == 1 else None
        rest = None if pattern is None else whole_of(blocks, pattern)
        if rest is None or not self._holdings.covers(asked):
            return inf
        if any(self._is_cell(row, blocks) for row in rows):
            return inf
        own = [abs(w) * NANO / r.alpha_nano for r, w in zip(rows, weights, strict=True)]
        allowance = rest.allowance(tables.steps_with(raises, float(self._holdings.table_step)))
        allowance += sum(
            FLOAT_ROOM * abs(w) * float(r.step) for r, w in zip(rows, weights, strict=True)
        )
        scales = np.append(rest.scales(blocks.alphas), own)
        return safe_half_width(scales, self._confidence) + allowance

    def _is_cell(self, row: PlannedRow, blocks: Blocks) -> bool:
        """Whether the row is a cell of a block, so that its noise depends on the block's."""
        pattern = self._tables.pattern(primitive(row.row))
        return pattern is not None and pattern.cell_of in blocks.alphas
