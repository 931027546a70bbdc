"""The part of a base that meets one question, alone or together with a row of the rest.

With coarse blocks the query is rounded to them, and the rest is measured. The coarse blocks may use
a share of the query's variance; the row of the rest uses the other share.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import inf, sqrt

import numpy as np

from qserver.inference.arrays import FloatArray
from qserver.inference.rows.refinement import Weights
from qserver.inference.rows.tail import safe_half_width
from qserver.inference.tables.blocks.noisy_blocks import Blocks
from qserver.inference.tables.blocks.own_row import FLOAT_ROOM, whole_of
from qserver.inference.tables.blocks.pattern import BlockKey
from qserver.planning.allocation import alpha_nano_up
from qserver.planning.blocks.rounding import Rounded, roundings
from qserver.planning.blocks.star import Star, useful_blocks
from qserver.planning.blocks.wants import Want
from qserver.planning.constants import PLANNER
from qserver.planning.effort import Effort
from qserver.planning.holdings import Holdings, RowStart
from qserver.planning.purchase import Priced, Purchase
from qserver.query.primitive import Primitive, primitive
from qserver.records.plan import PlannedRow

Raises = Mapping[BlockKey, int]


@dataclass(frozen=True)
class PurchaseOffer:
    """A purchase that meets a question.

    Args:
        weights: of the planned row in the query, by its id, where tables give the rest; else
            empty.
    """

    priced: Priced
    weights: Weights = ()


@dataclass(frozen=True, eq=False)
class _Beside:
    """A rounding on certain blocks, with the row of its rest.

    Args:
        alpha: 1 / b that the row needs by variance, in epsilon.
    """

    rounded: Rounded
    start: RowStart
    alpha: float

    @property
    def row(self) -> PlannedRow:
        """The row at that alpha."""
        return self.start.raised(alpha_nano_up(self.alpha))


@dataclass(frozen=True, eq=False)
class Need:
    """One question that history does not meet.

    Args:
        query: the row.
        want: its requirement.
        effort: counts the work. Once it is spent, searches end.
        left_nano: a search stops at raises of blocks that cost more than this by themselves.
    """

    holdings: Holdings
    query: Primitive
    want: Want
    effort: Effort
    left_nano: float = inf
    _starts: dict[str, RowStart] = field(default_factory=dict)

    @cached_property
    def roundings(self) -> list[Rounded]:
        """Ways to write the query as a coarser one and a rest."""
        return roundings(self.holdings.lattice, self.query)

    def whole(self, star: Star) -> PurchaseOffer | None:
        """The smallest part of the star that meets the question by the exact tail, or None."""

        def meets(raises: Raises) -> bool:
            known = self.holdings.known(self.query, raises)
            return known.half_width(self.want.confidence) <= self.want.half_width

        raises = self._least(star, self.want, meets, PLANNER.whole_steps)
        return (
            None if raises is None else self._offer(Purchase(tables=self.holdings.tables(raises)))
        )

    def beside(self, star: Star, *, coarse: Want) -> PurchaseOffer | None:
        """The smallest part that meets the coarser components, and a row of the rest; or None."""

        def meets(raises: Raises) -> bool:
            blocks = self.holdings.engine.tables.blocks_with(raises)
            if not blocks.is_estimable(coarse.pattern):
                return False
            scales = blocks.scales(coarse.pattern).expanded
            return safe_half_width(scales, coarse.confidence) <= coarse.half_width

        raises = self._least(star, coarse, meets, PLANNER.coarse_steps)
        return None if raises is None else self.row(raises)

    def row(self, raises: Raises) -> PurchaseOffer | None:
        """The cheapest row of a rest, given these blocks; None if there is none."""
        tables = self.holdings.engine.tables
        blocks = tables.blocks_with(raises) if raises else tables.blocks
        if not blocks.alphas:
            return None
        if raises and (alone := self._alone(blocks, raises)) is not None:
            return alone
        found = [b for r in self.roundings if (b := self._on_blocks(r, blocks)) is not None]
        if not found:
            return None
        # Only the first few are priced; the others need less noise.
        shortlist = sorted(found, key=lambda b: b.alpha)[: PLANNER.priced_roundings]
        planned = self.holdings.tables(raises)
        prices = [self.holdings.priced(Purchase((b.row,), planned)).price_nano for b in shortlist]
        return self._exact(shortlist[int(np.argmin(prices))], blocks, raises)

    def _alone(self, blocks: Blocks, raises: Raises) -> PurchaseOffer | None:
        """The blocks without any row, if they meet the requirement."""
        if self.want.target.variance < blocks.variance(self.want.pattern):
            return None
        known = self.holdings.known(self.query, raises)
        if known.half_width(self.want.confidence) > self.want.half_width:
            return None
        return self._offer(Purchase(tables=self.holdings.tables(raises)))

    def _on_blocks(self, rounded: Rounded, blocks: Blocks) -> _Beside | None:
        if not blocks.is_estimable(rounded.pattern):
            return None
        left = self.want.target.variance - blocks.variance(rounded.pattern)
        if left <= 0.0 or rounded.rest.is_zero or abs(rounded.weight) != 1.0:
            return None
        # A cell of the blocks has noise that depends on theirs.
        cell = rounded.cell_of
        if cell is not None and cell in blocks.alphas:
            return None
        key = rounded.rest.key
        if key not in self._starts:
            self._starts[key] = self.holdings.start(rounded.rest)
        return _Beside(rounded, self._starts[key], sqrt(2.0 / left))

    def _exact(self, found: _Beside, blocks: Blocks, raises: Raises) -> PurchaseOffer | None:
        """The offer with the least alpha of the row by the exact tail."""
        coarse = self.holdings.pattern(primitive(found.rounded.coarse))
        rest = None if coarse is None else whole_of(blocks, coarse)
        if rest is None:
            return None
        steps = self.holdings.engine.tables.steps_with(raises, float(self.holdings.table_step))
        room = self.want.half_width - rest.allowance(steps)
        room -= FLOAT_ROOM * float(found.start.row.step)
        alpha = self._least_alpha(rest.scales(blocks.alphas), found.alpha, room)
        if alpha is None:
            return None
        row = found.start.raised(alpha_nano_up(alpha))
        number = self.holdings.engine.n_measurements if row.refines is None else row.refines
        purchase = Purchase((row,), self.holdings.tables(raises))
        return PurchaseOffer(self.holdings.priced(purchase), ((number, found.rounded.weight),))

    def _least_alpha(self, scales: FloatArray, first: float, room: float) -> float | None:
        """The least alpha of a row that keeps the half-width, with these scales, within `room`."""

        def fits(alpha: float) -> bool:
            return safe_half_width(np.append(scales, 1.0 / alpha), self.want.confidence) <= room

        low, high = 0.7 * first, first
        while not fits(high):
            low, high = high, 1.1 * high
            if high > PLANNER.largest_row * first:
                return None
        for _ in range(PLANNER.row_steps):
            middle = 0.5 * (low + high)
            low, high = (low, middle) if fits(middle) else (middle, high)
        return high

    def _least(
        self, star: Star, want: Want, meets: Callable[[Raises], bool], n_steps: int
    ) -> Raises | None:
        """The least part of the star's useful blocks that meets the requirement."""
        useful = useful_blocks(self.holdings, star, want)

        def raises(part: float) -> Raises:
            return self.holdings.raises(star.alphas, part=part, only=useful)

        low, high = 0.0, 1.0
        while not meets(raises(high)):
            self.effort.add(PLANNER.evaluation_work)
            low, high = high, high * 1.25
            if (
                high > PLANNER.largest_part
                or self._is_too_dear(raises(low))
                or self.effort.is_spent
            ):
                return None
        for _ in range(n_steps):
            if self.effort.is_spent:
                break
            middle = 0.5 * (low + high)
            low, high = (low, middle) if meets(raises(middle)) else (middle, high)
            self.effort.add(PLANNER.evaluation_work)
            if self._is_too_dear(raises(low)):
                return None
        return raises(high)

    def _is_too_dear(self, raises: Raises) -> bool:
        """Whether these raises alone cost too much; savings by their sources are left out."""
        before = self.holdings.engine.tables.alpha_nano
        rises = ((b, after - before.get(b, 0)) for b, after in raises.items())
        return sum(self.holdings.cost_of(b) * rise for b, rise in rises) > self.left_nano

    def _offer(self, purchase: Purchase) -> PurchaseOffer:
        return PurchaseOffer(self.holdings.priced(purchase))
