"""The sets of weights with which measured tables may answer a query, by their time of choice."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import inf

from qserver.inference.rows.tail import safe_half_width
from qserver.inference.tables.answer import OwnSource, WeightChoice, WeightedRow, WeightOrigin
from qserver.inference.tables.blocks.box import as_box, remainder
from qserver.inference.tables.blocks.noisy_blocks import Blocks
from qserver.inference.tables.blocks.own_row import (
    FLOAT_ROOM,
    RowKnowledge,
    blocks_and_row,
    rest_of,
    whole_of,
)
from qserver.inference.tables.blocks.pattern import Pattern
from qserver.inference.tables.generation import TOTAL, AlphaState, Generation
from qserver.inference.tables.shared_noise import row_weight
from qserver.query.primitive import Primitive
from qserver.records.charge import NANO
from qserver.records.history import Measurement

_ROOM = 1.0 + 1e-8


@dataclass(frozen=True)
class Moment:
    """Alphas of the blocks and of the query's row at one time, in epsilon per record."""

    state: AlphaState
    row_alpha: float


def sources_of(
    generation: Generation, pattern: Pattern, own: Measurement | None
) -> Iterator[OwnSource]:
    """The measurements of exactly this row: a row or a cell, the one with less noise first."""
    found = []
    if own is not None:
        found.append(OwnSource(own.alpha_nano / NANO, own.lattice_allowance, row=own))
    block, public = pattern.cell_of, generation.public
    if block == TOTAL and public is not None:
        found.append(OwnSource(inf, public.lattice_allowance, row=public))
    elif block is not None and block in generation.tables:
        table, parts = generation.tables[block], pattern.cell_parts
        cell = (block, tuple(parts[axis] for axis, _ in block))
        found.append(OwnSource(table.alpha_nano / NANO, float(table.step), cell=cell))
    yield from sorted(found, key=lambda s: (-s.alpha, s.step))


def cells_alone(
    generation: Generation, pattern: Pattern, sources: Iterable[OwnSource]
) -> Iterator[WeightChoice]:
    """The choice of the block's cell that is the query itself, if there is one."""
    blocks = Blocks(generation.lattice, generation.alphas)
    for source in sources:
        if source.cell is not None:
            known = RowKnowledge(None, source.alpha, 0.0, FLOAT_ROOM * source.step)
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
    blocks = Blocks(generation.lattice, moment.state.alphas)
    rest = rest_of(blocks, pattern)
    if rest is None:
        return
    scales, allowance = rest.scales(generation.alphas), rest.allowance(generation.steps)
    alone = RowKnowledge(scales, 0.0, allowance, 0.0)
    yield WeightChoice(generation, pattern, blocks, rest, None, alone, 0.0, place)
    cell = 0.0 if pattern.cell_of is None else blocks.alphas.get(pattern.cell_of, 0.0)
    own_alpha = max(moment.row_alpha, cell)
    if own_alpha > 0.0:
        weight = RowKnowledge(rest.scales(blocks.alphas)).weight_at(own_alpha)
        for source in sources:
            known = RowKnowledge(scales, source.alpha, allowance, FLOAT_ROOM * source.step)
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
    blocks = Blocks(generation.lattice, moment.state.alphas)
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
    known = RowKnowledge(scales, alpha, found.known.block_allowance, FLOAT_ROOM * step)
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
    if left.multiplier != 1 or any(_is_cell(generation, state, r.row) for r in rows):
        return None
    pattern, blocks = generation.pattern(left), Blocks(generation.lattice, state.alphas)
    rest = None if pattern is None else whole_of(blocks, pattern)
    if pattern is None or rest is None:
        return None
    known = RowKnowledge(rest.scales(generation.alphas), 0.0, rest.allowance(generation.steps), 0.0)
    return WeightChoice(generation, pattern, blocks, rest, None, known, 0.0, place, tuple(rows))


def can_meet(choice: WeightChoice, half_width: float, confidence: float) -> bool:
    """Whether a choice may have at most this half-width; cheaper than its answer."""
    room = half_width - choice.allowance
    if room < 0.0:
        return False
    # Numbers of a table have few laws, whose half-widths are kept.
    return room == inf or safe_half_width(choice.scales, confidence) <= room * _ROOM


def _remainder_of(query: Primitive, rows: Iterable[WeightedRow]) -> Primitive:
    """The query less weighted rows, exactly."""
    return remainder(query.row, ((found.row.row, found.weight) for found in rows))


def _is_cell(generation: Generation, state: AlphaState, row: Measurement) -> bool:
    """Whether a row is a cell of a table that was measured in this state."""
    box = as_box(row.row)
    tables = (generation.tables.get(block) for block in state.alphas)
    return any(t is not None and t.has_cell(box) for t in tables)
