"""The estimate by chosen weights on tables and on the query's row, and its float error."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import inf

import numpy as np

from qserver.errors import InputError
from qserver.inference.arrays import FloatArray
from qserver.inference.estimate import Posterior, RowEstimate
from qserver.inference.rows.shortest_interval import safe_half_width
from qserver.inference.tables.blocks.noisy_blocks import Blocks, CellWeights
from qserver.inference.tables.blocks.own_row import (
    FLOAT_ROOM,
    Rest,
    RowKnowledge,
    blocks_and_row,
    rest_of,
    whole_of,
)
from qserver.inference.tables.blocks.pattern import BlockKey, Pattern, as_box, remainder
from qserver.inference.tables.pieces import TOTAL, AlphaState, Generation, PlacedPiece
from qserver.inference.tables.shared_noise import row_weight
from qserver.query.primitive import Primitive
from qserver.records.history import Measurement

_ULP = 2.0**-52
_SUMMED = 40.0
"""Roundings in a pairwise sum of at most 2^22 products of rounded numbers, with a margin."""


@dataclass(frozen=True, eq=False)
class OwnSource:
    """A measurement of exactly the asked row: as a row, or as a cell of a block.

    A public total is the cell of the block (). It has no table; its row takes the place of one.

    Args:
        alpha: one over the scale now; infinite for a public total.
        step: lattice step, in records.
        row: the measurement, or None for a cell.
        cell: the block and the part per axis, or None for a row.
    """

    alpha: float
    step: float
    row: Measurement | None = None
    cell: tuple[BlockKey, tuple[int, ...]] | None = None

    @property
    def is_cell(self) -> bool:
        """Whether this is the cell of a block."""
        return self.row is None or self.row.is_public


@dataclass(frozen=True)
class WeightOrigin:
    """The origin of weights.

    Args:
        at: number of events after which they were the weights of least variance; None if they do
            not depend on events.
        is_kept: whether they are tried after every later event.
    """

    at: int | None
    is_kept: bool


@dataclass(frozen=True, eq=False)
class WeightedRow:
    """A measured row with its weight in a query."""

    row: Measurement
    weight: float


@dataclass(frozen=True, eq=False)
class WeightChoice:
    """Weights for a query: on blocks, and on a measurement of the query or on other rows.

    Args:
        blocks: the blocks, with the alphas that the weights were chosen for.
        rest: the part on blocks; None if the source is everything.
        source: the measurement of the query itself; None if the rest is everything.
        known: both estimates with the present noise.
        row_weight: weight of the source.
        place: origin of the weights.
        rows: other rows, with noise independent of the blocks. `pattern` is that of the query less
            these rows.
    """

    generation: Generation
    pattern: Pattern
    blocks: Blocks
    rest: Rest | None
    source: OwnSource | None
    known: RowKnowledge
    row_weight: float
    place: WeightOrigin
    rows: tuple[WeightedRow, ...] = ()
    _answers: dict[float, RowEstimate] = field(default_factory=dict, init=False, repr=False)

    @cached_property
    def allowance(self) -> float:
        """The foreseen error from lattice and floats, in records."""
        own = self.row_weight * self.known.row_allowance
        own += FLOAT_ROOM * sum(abs(r.weight) * r.row.lattice_allowance for r in self.rows)
        if self.rest is None or self.row_weight == 1.0:
            return own
        return own + (1.0 - self.row_weight) * self.known.block_allowance

    @cached_property
    def scales(self) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        """Scales of the error, shape (n,)."""
        own = self.known.scales(self.row_weight, self.known.row_alpha)
        return np.append(own, [abs(r.weight) * r.row.scale for r in self.rows])

    def answer(self, confidence: float) -> RowEstimate:
        """The estimate from the released answers."""
        found = self._answers.get(confidence)
        if found is None:
            found = self._answers[confidence] = self._answer(confidence)
        return found

    def _answer(self, confidence: float) -> RowEstimate:
        total, used = FloatSum(0.0, 0.0, 0.0), set()
        beside: list[tuple[int, float]] = []
        if self.rest is not None and self.row_weight < 1.0:
            part = 1.0 - self.row_weight
            total = on_blocks(self, self.rest).scaled(part)
            used = {w.block for w in self.rest.weights}
            public = self.generation.public
            if public is not None and TOTAL in used:
                used.remove(TOTAL)
                found = next(w for w in self.rest.weights if w.block == TOTAL)
                beside.append((public.id, part * float(found.values)))
        if self.source is not None and self.row_weight > 0.0:
            total = total.plus(_of_source(self.generation, self.source).scaled(self.row_weight))
            if self.source.row is not None:
                beside.append((self.source.row.id, self.row_weight))
            if self.source.cell is not None:
                used.add(self.source.cell[0])
        for found_row in self.rows:
            total = total.plus(_of_row(found_row.row).scaled(found_row.weight))
        live = [self.generation.tables[block] for block in used]
        tables = tuple(sorted(i for table in live for i in table.ids_for(self.pattern.query)))
        return self._estimate(confidence, total, tuple(sorted(beside)), tables)

    def _estimate(
        self,
        confidence: float,
        total: FloatSum,
        beside: tuple[tuple[int, float], ...],
        tables: tuple[int, ...],
    ) -> RowEstimate:
        lattice = self.allowance / FLOAT_ROOM
        # Floats stay within their room, except for answers in the tens of millions.
        allowance = max(self.allowance, lattice + total.error)
        posterior = Posterior(total.value, self.scales, allowance, law=self.blocks.law)
        return RowEstimate(
            tuple((r.row.id, r.weight) for r in self.rows),
            posterior,
            confidence,
            posterior.half_width(confidence),
            "blocks",
            float_error=total.error,
            tables=tables,
            beside=beside,
            at=self.place.at,
            is_kept=self.place.is_kept,
            unforeseen=allowance - self.allowance,
        )


@dataclass(frozen=True)
class FloatSum:
    """A float sum, the sum of the absolute products, and a bound of its error, in records."""

    value: float
    size: float
    error: float

    def scaled(self, factor: float) -> FloatSum:
        """`factor` times it."""
        size = abs(factor) * self.size
        return FloatSum(factor * self.value, size, abs(factor) * self.error + 3.0 * _ULP * size)

    def plus(self, other: FloatSum) -> FloatSum:
        """Both together."""
        size = self.size + other.size
        return FloatSum(self.value + other.value, size, self.error + other.error + _ULP * size)


def on_blocks(choice: WeightChoice, rest: Rest) -> FloatSum:
    """Weights times answers of all blocks, with the rounding of both."""
    total = FloatSum(0.0, 0.0, 0.0)
    errors = [choice.blocks.weight_errors(w.block, choice.pattern) for w in rest.weights]
    own_error = _error_of_left(rest, errors)
    for found, own in zip(rest.weights, errors, strict=True):
        total = total.plus(_on_block(choice, rest, found, own, own_error))
    return total


def _error_of_left(rest: Rest, errors: Sequence[FloatArray]) -> float:
    """Bound on the relative error of `rest.left`, the divisor of all weights."""
    for found, own in zip(rest.weights, errors, strict=True):
        if found.left_out is not None:
            error = float(own[found.group_of(found.left_out)])
            return error / max(rest.left - error, 0.5 * rest.left) + 4.0 * _ULP
    return 0.0


def _on_block(
    choice: WeightChoice, rest: Rest, found: CellWeights, errors: FloatArray, own_error: float
) -> FloatSum:
    """Weights times answers of one block, with the rounding of both."""
    generation = choice.generation
    errors = errors / rest.left + (own_error + _ULP) * np.abs(found.values)
    if found.block == TOTAL and generation.public is not None:
        answer = generation.public.value_float
        products, off = found.values * answer, errors * abs(answer)
    else:
        placed = generation.placed(found.block, choice.pattern.query)
        pieces = [_on_piece(found, errors, piece) for piece in placed]
        products = np.concatenate([each for each, _ in pieces])
        off = np.concatenate([each for _, each in pieces])
    size = float(np.abs(products).sum())
    rounding = _SUMMED * _ULP * size
    return FloatSum(float(products.sum()), size, float(off.sum()) + rounding)


def _on_piece(
    found: CellWeights, errors: FloatArray, placed: PlacedPiece
) -> tuple[FloatArray, FloatArray]:
    """Weights times answers of one piece of a table, and bounds of their errors, cell by cell."""
    parts = placed.placement.parts
    # The total has no axes, and its only cell is a number.
    products = np.array(found.spread(found.values, parts) * placed.values)
    off = np.array(found.spread(errors, parts) * np.abs(placed.values))
    cell = None if found.left_out is None else placed.placement.cell(found.left_out)
    if cell is not None:
        products[cell] = off[cell] = 0.0
    return products.ravel(), off.ravel()


def _of_source(generation: Generation, source: OwnSource) -> FloatSum:
    if source.row is not None:
        return _of_row(source.row)
    if source.cell is None:
        return FloatSum(0.0, 0.0, 0.0)
    for placed in generation.placed(source.cell[0]):
        cell = placed.placement.cell(source.cell[1])
        if cell is not None:
            return _of_value(float(placed.values[cell]))
    raise InputError("cell", "be one of the table's", source.cell)


def _of_row(row: Measurement) -> FloatSum:
    return _of_value(row.value_float)


def _of_value(value: float) -> FloatSum:
    return FloatSum(value, abs(value), 2.0 * _ULP * abs(value))


_ROOM = 1.0 + 1e-8


@dataclass(frozen=True)
class Moment:
    """Alphas of the blocks and of the query's row at one time, as of `Blocks`."""

    state: AlphaState
    row_alpha: float


def sources_of(
    generation: Generation, pattern: Pattern, own: Measurement | None
) -> Iterator[OwnSource]:
    """The measurements of exactly this row: a row or a cell, the one with less noise first."""
    found = []
    if own is not None:
        alpha = own.law.sharpness(own.alpha_nano)
        found.append(OwnSource(alpha, own.lattice_allowance, row=own))
    block, public = pattern.cell_of, generation.public
    if block == TOTAL and public is not None:
        found.append(OwnSource(inf, public.lattice_allowance, row=public))
    elif block is not None and block in generation.tables:
        table, parts = generation.tables[block], pattern.cell_parts
        cell = (block, tuple(parts[axis] for axis, _ in block))
        found.append(OwnSource(table.alpha, float(table.step), cell=cell))
    yield from sorted(found, key=lambda s: (-s.alpha, s.step))


def cells_alone(
    generation: Generation, pattern: Pattern, sources: Iterable[OwnSource]
) -> Iterator[WeightChoice]:
    """The choice of the block's cell that is the query itself, if there is one."""
    blocks = generation.blocks(generation.alphas)
    for source in sources:
        if source.cell is not None:
            known = RowKnowledge(None, source.alpha, 0.0, FLOAT_ROOM * source.step, blocks.law)
            yield WeightChoice(
                generation,
                pattern,
                blocks,
                None,
                source,
                known,
                1.0,
                WeightOrigin(None, is_kept=True),
            )


def choices_at(
    generation: Generation,
    pattern: Pattern,
    moment: Moment,
    sources: Iterable[OwnSource],
    place: WeightOrigin,
) -> Iterator[WeightChoice]:
    """The choices of weights at a moment, with the present noise."""
    blocks = generation.blocks(moment.state.alphas)
    rest = rest_of(blocks, pattern)
    if rest is None:
        return
    scales, allowance = rest.scales(generation.alphas), rest.allowance(generation.steps)
    alone = RowKnowledge(scales, 0.0, allowance, 0.0, blocks.law)
    yield WeightChoice(generation, pattern, blocks, rest, None, alone, 0.0, place)
    cell = 0.0 if pattern.cell_of is None else blocks.alphas.get(pattern.cell_of, 0.0)
    own_alpha = max(moment.row_alpha, cell)
    if own_alpha > 0.0:
        weight = RowKnowledge(rest.scales(blocks.alphas), law=blocks.law).weight_at(own_alpha)
        for source in sources:
            room = FLOAT_ROOM * source.step
            known = RowKnowledge(scales, source.alpha, allowance, room, blocks.law)
            yield WeightChoice(generation, pattern, blocks, rest, source, known, weight, place)


def choice_after(
    generation: Generation,
    pattern: Pattern,
    moment: Moment,
    own: Measurement | None,
    confidence: float,
    place: WeightOrigin,
) -> WeightChoice | None:
    """The choice of the shortest interval at a moment: blocks, the query's measurement, or both."""
    blocks = generation.blocks(moment.state.alphas)
    row_step = 0.0 if own is None else own.lattice_allowance
    found = blocks_and_row(
        blocks, pattern, moment.row_alpha, steps=generation.steps, row_step=row_step
    )
    weight = row_weight(found, confidence)
    if weight is None:
        return None
    sources = sources_of(generation, pattern, own if moment.row_alpha else None)
    source = next((s for s in sources if weight and s.is_cell == found.own_cell), None)
    scales = None if found.rest is None else found.rest.scales(generation.alphas)
    alpha, step = (0.0, 0.0) if source is None else (source.alpha, source.step)
    room, allowance = FLOAT_ROOM * step, found.known.block_allowance
    known = RowKnowledge(scales, alpha, allowance, room, blocks.law)
    return WeightChoice(generation, pattern, blocks, found.rest, source, known, weight, place)


def choice_with_rows(
    generation: Generation,
    state: AlphaState,
    query: Primitive,
    rows: Sequence[WeightedRow],
    place: WeightOrigin,
) -> WeightChoice | None:
    """Weighted rows, and the remainder of the query by a state's weights with present noise."""
    left = _remainder_of(query, rows)
    if not generation.covers(left.row):
        return None
    is_apart = generation.law.is_additive  # every noise is independent of every other one
    if left.multiplier != 1 or (
        not is_apart and any(_is_cell(generation, state, r.row) for r in rows)
    ):
        return None
    pattern, blocks = generation.pattern(left), generation.blocks(state.alphas)
    rest = None if pattern is None else whole_of(blocks, pattern)
    if pattern is None or rest is None:
        return None
    scales, allowance = rest.scales(generation.alphas), rest.allowance(generation.steps)
    known = RowKnowledge(scales, 0.0, allowance, 0.0, blocks.law)
    return WeightChoice(generation, pattern, blocks, rest, None, known, 0.0, place, tuple(rows))


def can_meet(choice: WeightChoice, half_width: float, confidence: float) -> bool:
    """Whether a choice may have at most this half-width; cheaper than its answer."""
    room = half_width - choice.allowance
    if room < 0.0:
        return False
    # Numbers of a table have few laws, whose half-widths are kept.
    return (
        room == inf or safe_half_width(choice.scales, confidence, choice.blocks.law) <= room * _ROOM
    )


def _remainder_of(query: Primitive, rows: Iterable[WeightedRow]) -> Primitive:
    """The query minus weighted rows, exactly."""
    return remainder(query.row, ((found.row.row, found.weight) for found in rows))


def _is_cell(generation: Generation, state: AlphaState, row: Measurement) -> bool:
    """Whether a row is a cell of a table that was measured in this state."""
    box = as_box(row.row)
    tables = (generation.tables.get(block) for block in state.alphas)
    return any(t is not None and t.has_cell(box) for t in tables)
