"""The part of a base that meets one question, alone or with a row of the rest.

Coarse blocks answer the rounded query, and a row measures the rest. The coarse blocks may use a
share of the query's variance; the row of the rest uses the other share.

The answering lattice has only measured levels. Different padding of parts gives slightly different
weights, so an offer planned on learnt levels can narrowly miss the target.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial
from math import ceil, inf, isfinite, log

import numpy as np

from qserver.inference.rows.refinement import Weights
from qserver.inference.rows.shortest_interval import safe_half_width
from qserver.inference.tables.blocks.noisy_blocks import Blocks
from qserver.inference.tables.blocks.own_row import FLOAT_ROOM, whole_of
from qserver.inference.tables.blocks.pattern import BlockKey, remainder
from qserver.planning.blocks.demand import want_of
from qserver.planning.blocks.rounding import Rounded, roundings
from qserver.planning.blocks.star import Star, useful_blocks
from qserver.planning.blocks.wants import Want
from qserver.planning.constants import PLANNER
from qserver.planning.effort import Effort
from qserver.planning.fresh_row import alpha_nano_up
from qserver.planning.holdings import Holdings, RowStart
from qserver.planning.purchase import Priced, Purchase
from qserver.query.class_grid import ProductPartition
from qserver.query.primitive import Primitive, primitive
from qserver.query.question import Question
from qserver.records.plan import PlannedRow, PlannedTable


def least_whole(
    ratio: Callable[[int], float],
    *,
    low: int,
    high: int,
    most: int,
) -> int | None:
    """The least whole number above `low` at which a falling function is at most 1, or None.

    The search interpolates by powers, which nearly fits the half-width of noise: few evaluations
    are needed. The result does not depend on the guess.

    Args:
        ratio: the function, such as a half-width over its target; may be infinite.
        low: a number assumed to have a ratio above 1.
        high: a first guess.
        most: the largest number that is tried.
    """
    below, above = inf, ratio(high)
    while above > 1.0:
        low, below = high, above
        high = high + max(1, ceil(high * min(1.0, (1.0 + PLANNER.near) * above - 1.0)))
        if high > most:
            return None
        above = ratio(high)
    n = 0
    while high - low > 1:
        middle, n = _between(low, below, high, above, n), n + 1
        found = ratio(middle)
        if found <= 1.0:
            high, above = middle, found
            continue
        low, below = middle, found
    return high


def _between(low: int, below: float, high: int, above: float, n: int) -> int:
    """The number to try in step n, by the power through both ends."""
    middle = (low + high) // 2
    # Every fourth step halves the interval, so that the search ends for any function.
    if (n + 1) % 4 and 0.0 < above < 1.0:
        # At first only the upper end is known; a half-width falls like 1 / alpha at most.
        slope = log(low / high) / log(below / above) if low and isfinite(below) else -1.0
        near = high * above**-slope
        # From above and from below in turns, so that both ends come close.
        middle = ceil(near) if n % 2 else int(near)
    return min(max(middle, low + 1), high - 1)


class Answered:
    """The answer on the answering lattice once these partitions are bought."""

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
        raises = tables.alphas_after((t.partition, t.alpha_nano) for t in purchase.tables)
        if weights:
            return self._beside(purchase.rows, [w for _, w in weights], raises)
        own, alpha = self._holdings.own(self._query), None
        if purchase.rows:
            alpha = self._holdings.alpha_after(purchase.rows[0], own)
        known = tables.known(self._query, own, alphas_nano=raises, row_alpha_nano=alpha, step=step)
        return known.half_width(self._confidence)

    def _beside(
        self,
        rows: Sequence[PlannedRow],
        weights: Sequence[float],
        raises: Mapping[BlockKey, int],
    ) -> float:
        """Half-width with weighted rows and the table weights that inference then finds."""
        tables, pairs = self._tables, zip(rows, weights, strict=True)
        asked = remainder(self._query.row, ((row.row, weight) for row, weight in pairs))
        blocks = tables.blocks_with(raises)
        pattern = tables.pattern(asked) if asked.multiplier == 1 else None
        rest = None if pattern is None else whole_of(blocks, pattern)
        if rest is None or not self._holdings.covers(asked):
            return inf
        law = blocks.law
        if not law.is_additive and any(self._is_cell(row, blocks) for row in rows):
            return inf
        own = [abs(w) * law.scale(r.alpha_nano) for r, w in zip(rows, weights, strict=True)]
        allowance = rest.allowance(tables.steps_with(raises, float(self._holdings.table_step)))
        allowance += sum(
            FLOAT_ROOM * abs(w) * float(r.step) for r, w in zip(rows, weights, strict=True)
        )
        scales = np.append(rest.scales(blocks.alphas), own)
        return safe_half_width(scales, self._confidence, law) + allowance

    def _is_cell(self, row: PlannedRow, blocks: Blocks) -> bool:
        """Whether the row is a cell of a block: their noises then depend on each other."""
        pattern = self._tables.pattern(primitive(row.row))
        return pattern is not None and pattern.cell_of in blocks.alphas


Raises = Mapping[BlockKey, int]


@dataclass(frozen=True)
class PurchaseOffer:
    """A purchase that meets a question.

    Args:
        weights: of measurements in the row that is asked, by their ids; empty where inference
            finds them again, on tables and the query's own row.
        tables_give_rest: whether tables give the rest of the row that the weights leave.
    """

    priced: Priced
    weights: Weights = ()
    tables_give_rest: bool = False

    @property
    def price_nano(self) -> int:
        """Price in nano-epsilon."""
        return self.priced.price_nano


ByRows = Callable[[float], PurchaseOffer | None]
"""The cheapest way by rows alone at a half-width of the row; None if history meets it."""


@dataclass(frozen=True, eq=False)
class Need:
    """One question that history does not meet.

    Args:
        holdings: on the lattice that is planned on.
        answered: the holdings on the answering lattice.
        query: the row.
        want: its requirement.
        effort: counts the work, and ends no search: an end would depend on the length.
        roundings: ways to write the query as a coarser one and a rest, found when first needed.
    """

    holdings: Holdings
    answered: Holdings
    query: Primitive
    want: Want
    effort: Effort
    roundings: Callable[[], list[Rounded]] = list
    _starts: dict[str, RowStart] = field(default_factory=dict)
    _rows: dict[tuple[tuple[BlockKey, int], ...], PurchaseOffer | None] = field(
        default_factory=dict
    )

    def at(self, half_width: float) -> Need:
        """The need at another half-width."""
        if half_width == self.want.half_width:
            return self
        want = Want.of(self.want.pattern, half_width=half_width, confidence=self.want.confidence)
        return replace(self, want=want, _rows={})

    def part(self, star: Star) -> Raises | None:
        """The smallest part of the star that meets the question exactly, or None."""

        def planned(raises: Raises) -> float:
            return self.holdings.known(self.query, raises).half_width(self.want.confidence)

        useful = _Useful(self, star, self.want)
        found = useful.least(planned, low=0, high=PLANNER.parts)
        if found is None or self.answered is self.holdings:
            return None if found is None else useful.raises(found)
        answer = self.answer(self.holdings.tables(useful.raises(found)))

        def answered(raises: Raises) -> float:
            return answer.half_width(Purchase(tables=self.holdings.tables(raises)))

        found = useful.least(answered, low=found - 1, high=found)
        return None if found is None else useful.raises(found)

    def coarse_part(self, star: Star, *, depth: int) -> Raises | None:
        """The smallest part that meets the coarser components, or None."""
        coarse = self.want.to_depth(depth, share=PLANNER.coarse_share)

        def planned(raises: Raises) -> float:
            blocks = self.holdings.engine.tables.blocks_with(raises)
            if not blocks.is_estimable(coarse.pattern):
                return inf
            scales = blocks.scales(coarse.pattern).expanded
            return safe_half_width(scales, coarse.confidence, blocks.law)

        useful = _Useful(self, star, coarse)
        found = useful.least(planned, low=0, high=PLANNER.parts)
        return None if found is None else useful.raises(found)

    def raises(self, star: Star, depth: int, finest: int) -> Raises | None:
        """The question's part of a base, alone or with a row of the rest.

        Args:
            depth: the finest level of the base's blocks.
            finest: the finest level that blocks could have.
        """
        return self.part(star) if depth == finest else self.coarse_part(star, depth=depth)

    def bought(self, raises: Raises) -> PurchaseOffer:
        """These raises."""
        return PurchaseOffer(self.priced(Purchase(tables=self.holdings.tables(raises))))

    def priced(self, purchase: Purchase) -> Priced:
        """The purchase with its price; the work is counted."""
        self.effort.add(PLANNER.evaluation_work)
        return self.holdings.priced(purchase)

    def part_beside(
        self, star: Star, raises: Raises, *, then: Need, direct: PurchaseOffer
    ) -> PurchaseOffer:
        """The part of a base for this length, from the `raises` of another length.

        A longer length needs less; a shorter one also a row of the rest.

        Args:
            then: the need at the other length.
            direct: the cheapest way by rows alone.
        """
        if self.want.half_width == then.want.half_width:
            return self.bought(raises)
        if self.want.half_width > then.want.half_width:
            return self.bought(self.part(star) or raises)
        return self.beside(raises, direct)

    def beside(self, raises: Raises, direct: PurchaseOffer) -> PurchaseOffer:
        """The raises and the cheapest row, of the rest or of the whole query."""
        whole, rest = self.with_rows(raises, direct), self.row(raises)
        # Weights on rows alone stay as they are, whatever tables are bought.
        if direct.weights or self._is_answered(whole):
            return cheaper(whole, rest)
        return direct if rest is None else rest

    def with_rows(self, raises: Raises, direct: PurchaseOffer) -> PurchaseOffer:
        """These raises, and the rows of another offer."""
        purchase = Purchase(direct.priced.purchase.rows, self.holdings.tables(raises))
        return replace(direct, priced=self.priced(purchase))

    def row(self, raises: Raises) -> PurchaseOffer | None:
        """The cheapest row of a rest given these blocks, or None."""
        key = tuple(sorted(raises.items()))
        if key not in self._rows:
            self._rows[key] = self._row(raises)
        return self._rows[key]

    def _row(self, raises: Raises) -> PurchaseOffer | None:
        tables = self.holdings.engine.tables
        blocks = tables.blocks_with(raises) if raises else tables.blocks
        if not blocks.alphas:
            return None
        if raises and (alone := self._alone(blocks, raises)) is not None:
            return alone
        rests = [_Rest(self, r, blocks, raises) for r in self.roundings()]
        found = [r for r in rests if r.is_possible]
        # Only the first few are priced; the others need less noise.
        shortlist = sorted(found, key=lambda r: r.alpha)[: PLANNER.tries]
        offers = (r.offer() for r in sorted(shortlist, key=_Rest.rough_nano))
        return next((o for o in offers if o is not None), None)

    def start(self, rest: Primitive) -> RowStart:
        """The start of a row that is measured or raised now."""
        if rest.key not in self._starts:
            self._starts[rest.key] = self.holdings.start(rest)
        return self._starts[rest.key]

    def _alone(self, blocks: Blocks, raises: Raises) -> PurchaseOffer | None:
        """The blocks without any row, if they meet the requirement."""
        if self.want.target.variance < blocks.variance(self.want.pattern):
            return None
        known = self.holdings.known(self.query, raises)
        if known.half_width(self.want.confidence) > self.want.half_width:
            return None
        offer = self.bought(raises)
        return offer if self._is_answered(offer) else None

    def _is_answered(self, offer: PurchaseOffer) -> bool:
        """Whether the offer also meets the requirement on the lattice used for answering."""
        if self.answered is self.holdings:
            return True
        purchase = offer.priced.purchase
        return self.answer(purchase.tables).half_width(purchase) <= self.want.half_width

    def answer(self, tables: Sequence[PlannedTable]) -> Answered:
        """The answer on the answering lattice once these tables are bought."""
        partitions = [t.partition for t in tables]
        return Answered(self.answered, self.query, self.want.confidence, partitions)


def need_of(
    question: Question, holdings: Holdings, answered: Holdings, effort: Effort
) -> Need | None:
    """The need of a question; None where no blocks can be bought for it."""
    row, target = question.row, question.roomy_half_width
    if not holdings.covers(row):
        return None
    want = want_of(holdings, row, half_width=target, confidence=question.confidence)
    if want is None:
        return None
    rounded = cache(partial(roundings, holdings.lattice, row))
    return Need(holdings, answered, row, want, effort, roundings=rounded)


def cheaper(one: PurchaseOffer, other: PurchaseOffer | None) -> PurchaseOffer:
    """The cheaper of two offers; the first one if they cost the same."""
    if other is None or one.price_nano <= other.price_nano:
        return one
    return other


@dataclass(frozen=True, eq=False)
class _Useful:
    """The part of a star's blocks for one requirement, in 4,096ths."""

    need: Need
    star: Star
    want: Want

    @cached_property
    def _blocks(self) -> list[BlockKey]:
        return useful_blocks(self.need.holdings, self.star, self.want)

    def raises(self, part: int) -> Raises:
        """The raises to this part."""
        share = part / PLANNER.parts
        return self.need.holdings.raises(self.star.alphas, part=share, only=self._blocks)

    def least(self, half_width: Callable[[Raises], float], *, low: int, high: int) -> int | None:
        """The least part above `low` whose raises meet the half-width, or None."""
        effort = self.need.effort

        def ratio(part: int) -> float:
            effort.add(PLANNER.evaluation_work)
            return half_width(self.raises(part)) / self.want.half_width

        most = int(PLANNER.largest * PLANNER.parts)
        return least_whole(ratio, low=low, high=high, most=most)


@dataclass(frozen=True, eq=False)
class _Rest:
    """A row of the rest that a rounding leaves, after certain raises of blocks."""

    need: Need
    rounded: Rounded
    blocks: Blocks
    raises: Raises

    @cached_property
    def _left(self) -> float:
        """Variance left to the row."""
        return self.need.want.target.variance - self.blocks.variance(self.rounded.pattern)

    @property
    def is_possible(self) -> bool:
        """Whether the blocks leave variance for the row, and its noise is independent."""
        rounded, blocks = self.rounded, self.blocks
        if not blocks.is_estimable(rounded.pattern) or self._left <= 0.0:
            return False
        if rounded.rest.is_zero or abs(rounded.weight) != 1.0:
            return False
        # A cell of the blocks has Laplace noise that depends on theirs.
        is_apart = rounded.cell_of is None or rounded.cell_of not in blocks.alphas
        return is_apart or blocks.law.is_additive

    @property
    def alpha(self) -> float:
        """The row's charge by variance, in epsilon or rho."""
        return self.blocks.law.charge_of_variance(self._left)

    def rough_nano(self) -> int:
        """Approximate price, at the row's alpha by variance."""
        return self.need.priced(self._purchase(alpha_nano_up(self.alpha))).price_nano

    @cached_property
    def _start(self) -> RowStart:
        return self.need.start(self.rounded.rest)

    @cached_property
    def _tables(self) -> tuple[PlannedTable, ...]:
        return self.need.holdings.tables(self.raises)

    def offer(self) -> PurchaseOffer | None:
        """The offer with the row's least alpha by the exact tail."""
        first = alpha_nano_up(self.alpha)
        # Multiples of this differ by a part of 2^-16 or less.
        unit = 1 << max(0, first.bit_length() - 17)
        most = int(PLANNER.largest * first) // unit
        planned = self._planned()
        if planned is None:
            return None

        effort = self.need.effort

        def least(half_width: Callable[[int], float], *, low: int, high: int) -> int | None:
            def ratio(n: int) -> float:
                effort.add(PLANNER.evaluation_work)
                return half_width(n * unit) if n else inf

            return least_whole(ratio, low=low, high=high, most=most)

        n = least(planned, low=0, high=-(-first // unit))
        if n is not None and self.need.answered is not self.need.holdings:
            n = least(self._answered(), low=n - 1, high=n)
        if n is None:
            return None
        return PurchaseOffer(
            self.need.priced(self._purchase(n * unit)),
            self._weights,
            tables_give_rest=True,
        )

    def _planned(self) -> Callable[[int], float] | None:
        """Half-width over the target at an alpha; None if blocks do not give the coarse query."""
        holdings, want = self.need.holdings, self.need.want
        coarse = holdings.pattern(primitive(self.rounded.coarse))
        rest = None if coarse is None else whole_of(self.blocks, coarse)
        if rest is None:
            return None
        steps = holdings.engine.tables.steps_with(self.raises, float(holdings.table_step))
        room = want.half_width - rest.allowance(steps)
        room -= FLOAT_ROOM * float(self._start.row.step)
        scales, law = rest.scales(self.blocks.alphas), self.blocks.law
        if room <= 0.0:
            return None
        return lambda alpha_nano: (
            safe_half_width(np.append(scales, law.scale(alpha_nano)), want.confidence, law) / room
        )

    def _answered(self) -> Callable[[int], float]:
        """Half-width over the target on the answering lattice."""
        answer, half_width = self.need.answer(self._tables), self.need.want.half_width
        return lambda alpha_nano: (
            answer.half_width(self._purchase(alpha_nano), self._weights) / half_width
        )

    def _purchase(self, alpha_nano: int) -> Purchase:
        return Purchase((self._start.raised(alpha_nano),), self._tables)

    @property
    def _weights(self) -> Weights:
        refines = self._start.refines
        number = self.need.holdings.engine.n_measurements if refines is None else refines
        return ((number, self.rounded.weight),)
