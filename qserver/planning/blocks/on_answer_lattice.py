"""Raise an offer until it also meets the requirement on the lattice used for answering.

The answering lattice has only measured levels. Different padding of parts gives slightly different
weights, so the target can be missed by a little.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import inf

import numpy as np

from qserver.inference.rows.tail import safe_half_width
from qserver.inference.tables.blocks.box import remainder
from qserver.inference.tables.blocks.noisy_blocks import Blocks
from qserver.inference.tables.blocks.own_row import FLOAT_ROOM, whole_of
from qserver.inference.tables.blocks.pattern import BlockKey
from qserver.planning.blocks.needed_part import PurchaseOffer
from qserver.planning.blocks.wants import Want
from qserver.planning.constants import PLANNER
from qserver.planning.holdings import Holdings
from qserver.planning.purchase import Purchase
from qserver.query.primitive import Primitive, primitive
from qserver.records.charge import NANO
from qserver.records.plan import PlannedRow


def confirmed(
    holdings: Holdings, query: Primitive, want: Want, offer: PurchaseOffer
) -> PurchaseOffer | None:
    """The offer, raised until it meets the requirement on the lattice used for answering.

    Args:
        holdings: on the lattice used for answering.
        offer: on any lattice.

    Returns:
        None where that takes more than twice the alphas.
    """
    purchase = offer.priced.purchase
    answer = _Answered(holdings, query, want, offer)
    for _ in range(PLANNER.raises):
        if answer.half_width(purchase) <= want.half_width:
            return replace(offer, priced=holdings.priced(purchase))
        growth = PLANNER.raise_growth
        rows = tuple(replace(r, alpha_nano=int(r.alpha_nano * growth)) for r in purchase.rows)
        tables = tuple(replace(t, alpha_nano=int(t.alpha_nano * growth)) for t in purchase.tables)

        purchase = Purchase(rows, tables)
    return None


class _Answered:
    """The answer after an offer is bought, on the lattice used for answering then."""

    def __init__(
        self, holdings: Holdings, query: Primitive, want: Want, offer: PurchaseOffer
    ) -> None:
        self._holdings, self._query, self._confidence = holdings, query, want.confidence
        self._weights = offer.weights
        partitions = [t.partition for t in offer.priced.purchase.tables]
        tables = holdings.engine.tables
        self._tables = tables.seen_on(tables.lattice_with(partitions))

    def half_width(self, purchase: Purchase) -> float:
        """The answer's half-width, in records; infinite if there is no answer."""
        tables, step = self._tables, self._holdings.table_step
        blocks = [(tables.block_of(t.partition), t.alpha_nano) for t in purchase.tables]
        raises = {block: alpha for block, alpha in blocks if block is not None}
        if self._weights:
            return self._beside(purchase.rows, raises)
        own = self._holdings.own(self._query)
        known = tables.known(self._query, own, alphas_nano=raises, step=step)
        return known.half_width(self._confidence)

    def _beside(self, rows: tuple[PlannedRow, ...], raises: Mapping[BlockKey, int]) -> float:
        """The half-width with weighted rows, by the weights on tables that inference then finds."""
        weights = [weight for _, weight in self._weights]
        tables, pairs = self._tables, zip(rows, weights, strict=True)
        asked = remainder(self._query.row, ((row.row, weight) for row, weight in pairs))
        blocks = tables.blocks_with(raises)
        pattern = tables.pattern(asked) if asked.multiplier == 1 else None
        rest = None if pattern is None else whole_of(blocks, pattern)
        if rest is None or any(self._is_cell(row, blocks) for row in rows):
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
