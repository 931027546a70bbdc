"""Answers from measured tables: a snapshot's tables as blocks of a lattice, and what they say.

A table is a block where its cells are the real cells of one. A query is answered by the weights of
least variance on the blocks, beside its own row where that was measured.

What was answered stays answered. Weights of least variance for less noise could have a longer tail
than those that a question was answered with. But every state that alphas were in is public, and so
the weights of each: on the noise of now they have no longer a tail than they had, and lattice and
floats add what they added. So an answer is kept as the number of events before it, and where the
present weights miss what is enough, those of that state are tried.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType

from qserver.charge import NANO
from qserver.history import Measurement, TableMeasurement
from qserver.inference.estimate import RowEstimate
from qserver.inference.generation import TOTAL, Generation, State
from qserver.inference.laplace_sum import LaplaceSum
from qserver.inference.lattice.beside import FLOAT_ROOM, Known, known_of, rest_of, whole_of
from qserver.inference.lattice.blocks import Blocks
from qserver.inference.lattice.pattern import BlockKey, Lattice, Pattern
from qserver.inference.lattice.placement import DefaultChains
from qserver.inference.left_by_rows import is_cell, left_by
from qserver.inference.modular import Entropy
from qserver.inference.table_answer import Choice, OwnSource, Place, WeightedRow
from qserver.primitive import Primitive
from qserver.product_partition import ProductPartition

_MARGIN = 1e-9
_WORTH = 1.0 - 1e-6


class MeasuredTables:
    """The measured tables of one snapshot. Not safe for concurrent use.

    Args:
        sizes: number of values per attribute.
        entropy: source of secret randomness; the test of what tables reach rests on its secrecy.
        lattice: whose blocks tables may be; by default chains of about equal factors over single
            values, each built at its first use.
    """

    def __init__(
        self, sizes: tuple[int, ...], entropy: Entropy, *, lattice: Lattice | None = None
    ) -> None:
        self._sizes, self._entropy = tuple(sizes), entropy
        first = Lattice(DefaultChains(self._sizes)) if lattice is None else lattice
        self._generations = [Generation(self._sizes, first, entropy)]
        self._live: dict[int, TableMeasurement] = {}
        self._row_alphas: dict[int, list[tuple[int, int]]] = {}
        self._kept: dict[str, list[int]] = {}
        self._n_events = 0
        self._blocks: Blocks | None = None

    def extend(self, events: Iterable[TableMeasurement | Measurement]) -> None:
        """Take in what was measured, new or raised, in history order.

        Of rows a public total counts as the block () without noise; of others their alphas are
        remembered.
        """
        for event in events:
            self._n_events += 1
            if isinstance(event, TableMeasurement):
                self._add(event)
            elif event.is_public:
                self._add_public(event)
            else:
                known = self._row_alphas.setdefault(event.id, [])
                known.append((self._n_events, event.alpha_nano))

    def rebase(self, lattice: Lattice) -> None:
        """Work on another lattice, such as a finer one with the same blocks.

        Tables that are no block of it are kept but not used. What was answered on the lattice
        before stays answered.
        """
        new = Generation(self._sizes, lattice, self._entropy, since=self._n_events)
        public = self._present.public
        for table in self._live.values():
            new.add(table, n_events=self._n_events)
        if public is not None:
            new.add_public_total(public, n_events=self._n_events)
        # Nothing was answered on the way to the last of these states.
        del new.states[:-1]
        self._generations.append(new)
        self._blocks = None

    @property
    def lattice(self) -> Lattice:
        """The lattice worked on."""
        return self._present.lattice

    @property
    def blocks(self) -> Blocks:
        """The blocks now; alphas in epsilon per record, infinite for a public total."""
        if self._blocks is None:
            self._blocks = Blocks(self.lattice, self._present.alphas)
        return self._blocks

    def blocks_with(self, alphas_nano: Mapping[BlockKey, int]) -> Blocks:
        """The blocks as they would be with these alphas in place of, or beside, the present."""
        raised = {b: a / NANO for b, a in alphas_nano.items() if b not in self.public_blocks}
        return Blocks(self.lattice, {**self._present.alphas, **raised})

    def steps_with(self, blocks: Iterable[BlockKey], step: float) -> dict[BlockKey, float]:
        """Lattice step per noisy block, in records; new ones among `blocks` have the given one."""
        return {**dict.fromkeys(blocks, step), **self._present.steps}

    @property
    def n_events(self) -> int:
        """Releases and refinements taken in."""
        return self._n_events

    @property
    def alpha_nano(self) -> Mapping[BlockKey, int]:
        """Alpha per measured block in nano-epsilon per record; a public total is not one."""
        return MappingProxyType({b: t.alpha_nano for b, t in self._present.tables.items()})

    @property
    def public_blocks(self) -> frozenset[BlockKey]:
        """The block () where the total is public, else none."""
        return frozenset([TOTAL] if self._present.public is not None else [])

    def table(self, block: BlockKey) -> TableMeasurement | None:
        """The live table of a block, or None."""
        return self._present.tables.get(block)

    def block_of(self, partition: ProductPartition) -> BlockKey | None:
        """The block whose real cells are the partition's, or None."""
        found = self._present.placement_of(partition)
        return None if found is None else found.block

    def partition_of(self, block: BlockKey) -> ProductPartition:
        """The block's real cells.

        Raises:
            QueryError: they are more than a table may have.
        """
        return self._present.placement(block).partition

    def pattern(self, query: Primitive) -> Pattern | None:
        """The row seen from the lattice, its zero components known exactly.

        None where the lattice does not resolve it, or its components are too many.
        """
        return self._present.pattern(query)

    def is_estimable(self, query: Primitive) -> bool:
        """Whether tables alone give the row."""
        return any(self._reaches(g, query) for g in self._generations)

    def known(
        self,
        query: Primitive,
        own: Measurement | None = None,
        *,
        alphas_nano: Mapping[BlockKey, int] | None = None,
        row_alpha_nano: int | None = None,
        step: Fraction | None = None,
    ) -> Known:
        """What tables and the query's own row say of it, now or as it would be.

        Its half-width is at least what the answer then reports, and just that where the weights
        of no earlier state are shorter.

        Args:
            own: the live measurement of this very row, or None.
            alphas_nano: of blocks that are raised or new, afterwards.
            row_alpha_nano: of the own row afterwards; by default that of `own`.
            step: lattice step, in records, of new blocks and of a new own row.
        """
        new_step = 0.0 if step is None else float(step)
        blocks = self.blocks if not alphas_nano else self.blocks_with(alphas_nano)
        steps = self.steps_with(alphas_nano or {}, new_step)
        alpha = row_alpha_nano or (0 if own is None else own.alpha_nano)
        row_step = new_step if own is None else own.lattice_allowance
        pattern = self.pattern(query) if blocks.alphas else None
        return known_of(blocks, pattern, alpha / NANO, steps=steps, row_step=row_step)

    def estimate(
        self,
        query: Primitive,
        own: Measurement | None = None,
        *,
        confidence: float,
        enough: float = 0.0,
    ) -> RowEstimate | None:
        """The row's estimate from tables, and from its own row beside them; None without one.

        The present weights' where they meet `enough`, else the shortest of those and of the
        states that the row was kept with. Once `enough` is met at a confidence, and kept, it is
        always met.

        Args:
            query: the row.
            own: the live noisy measurement of this very row, or None.
            confidence: 1 - delta.
            enough: a half-width in records.
        """
        best, shortest = None, float("inf")
        for choice in self._choices(query, own):
            # Not worth a search where hardly shorter, unless that is just enough.
            wanted = max(enough, shortest * _WORTH)
            if not _may_be_within(choice, wanted, confidence):
                continue
            found = choice.answer(confidence)
            if found.half_width < shortest:
                best, shortest = found, found.half_width
            if shortest <= enough:
                break
        return best

    def estimate_beside(
        self,
        query: Primitive,
        rows: Sequence[WeightedRow],
        *,
        confidence: float,
        at: int | None = None,
    ) -> RowEstimate | None:
        """The row's estimate from weighted rows, and from tables for what those leave of it.

        On the noise of now, by the weights of least variance after `at` events. None where what
        is left is no row with a largest cell of 1, or was not given by the tables then; or where
        one of the rows is a cell of theirs: its noise is not independent of them.

        Args:
            at: by default now.
        """
        moment = self._n_events if at is None else at
        found = next((g for g in reversed(self._generations) if g.since <= moment), None)
        state = None if found is None else found.state_at(moment)
        if found is None or state is None:
            return None
        left = left_by(query, rows)
        if left.multiplier != 1 or any(is_cell(found, state, r.row) for r in rows):
            return None
        pattern, blocks = found.pattern(left), Blocks(found.lattice, state.alphas)
        rest = None if pattern is None else whole_of(blocks, pattern)
        if pattern is None or rest is None:
            return None
        known = Known(rest.scales(found.alphas), 0.0, rest.allowance(found.steps), 0.0)
        place = Place(moment, is_kept=at is not None)
        choice = Choice(found, pattern, blocks, rest, None, known, 0.0, place, tuple(rows))
        return choice.answer(confidence)

    @property
    def _present(self) -> Generation:
        return self._generations[-1]

    def _add(self, table: TableMeasurement) -> None:
        self._live[table.id] = table
        for generation in self._generations[:-1]:
            generation.refresh(table)
        self._present.add(table, n_events=self._n_events)
        self._blocks = None

    def _add_public(self, row: Measurement) -> None:
        if row.row.terms and not row.row.scope and row.row.terms[0].coefficient == 1:
            self._present.add_public_total(row, n_events=self._n_events)
            self._blocks = None

    def _reaches(self, generation: Generation, query: Primitive) -> bool:
        if not generation.may_reach(query):
            return False
        pattern = generation.pattern(query)
        blocks = Blocks(generation.lattice, generation.alphas)
        return pattern is not None and blocks.is_estimable(pattern)

    def keep(self, key: str, at: int) -> None:
        """Try the weights of the state after `at` events whenever this row is asked again."""
        kept = self._kept.setdefault(key, [])
        if at not in kept:
            kept.append(at)

    def _choices(self, query: Primitive, own: Measurement | None) -> Iterator[Choice]:
        """Weights for the query: those of now first, then those that it was kept with."""
        kept = self._kept.get(query.key, [])
        for generation in reversed(self._generations):
            moments = [self._n_events] if generation is self._present else []
            moments += [at for at in reversed(kept) if at not in moments]
            if not moments or not self._reaches(generation, query):
                continue
            pattern = generation.pattern(query)
            if pattern is None:
                continue
            sources = list(self._sources(generation, pattern, own))
            yield from _cells_alone(generation, pattern, sources)
            states = {at: self._moment(generation, own, at) for at in (*moments, *kept)}
            settled = {states[at] for at in kept}
            first_at: dict[_Moment | None, int] = {}
            for at in moments:
                first_at.setdefault(states[at], at)
            for moment, at in first_at.items():
                if moment is not None:
                    place = Place(at, moment in settled)
                    yield from _choices_at(generation, pattern, moment, sources, place)

    def _moment(self, generation: Generation, own: Measurement | None, at: int) -> _Moment | None:
        """What was known after so many events; None where the generation had no blocks yet."""
        state = generation.state_at(at)
        if state is None or not state.alphas:
            return None
        return _Moment(state, self._alpha_at(own, at) / NANO)

    def _alpha_at(self, own: Measurement | None, at: int) -> int:
        """Alpha that a row had after so many events; 0 where it was not measured yet."""
        if own is None:
            return 0
        known = self._row_alphas.get(own.id, [(0, own.alpha_nano)])
        place = bisect_right(known, at, key=lambda k: k[0])
        return known[place - 1][1] if place else 0

    def _sources(
        self, generation: Generation, pattern: Pattern, own: Measurement | None
    ) -> Iterator[OwnSource]:
        """What measured this very row: itself, or a cell; the one of less noise first."""
        found = []
        if own is not None:
            found.append(OwnSource(own.alpha_nano / NANO, own.lattice_allowance, row=own))
        block = pattern.cell_of
        if block is not None and block in generation.tables:
            table, parts = generation.tables[block], pattern.cell_parts
            cell = (block, tuple(parts[axis] for axis, _ in block))
            found.append(OwnSource(table.alpha_nano / NANO, float(table.step), cell=cell))
        yield from sorted(found, key=lambda s: (-s.alpha, s.step))


@dataclass(frozen=True)
class _Moment:
    """Alphas of the blocks, and of a query's own row in epsilon, at one time."""

    state: State
    row_alpha: float


def _cells_alone(
    generation: Generation, pattern: Pattern, sources: Iterable[OwnSource]
) -> Iterator[Choice]:
    """The cell of a block that is the query itself."""
    blocks = Blocks(generation.lattice, generation.alphas)
    for source in sources:
        if source.cell is not None:
            known = Known(None, source.alpha, 0.0, FLOAT_ROOM * source.step)
            yield Choice(
                generation, pattern, blocks, None, source, known, 1.0, Place(None, is_kept=True)
            )


def _choices_at(
    generation: Generation,
    pattern: Pattern,
    moment: _Moment,
    sources: Iterable[OwnSource],
    place: Place,
) -> Iterator[Choice]:
    """What the weights of a moment make of the query on the noise of now."""
    blocks = Blocks(generation.lattice, moment.state.alphas)
    rest = rest_of(blocks, pattern)
    if rest is None:
        return
    scales, allowance = rest.scales(generation.alphas), rest.allowance(generation.steps)
    alone = Known(scales, 0.0, allowance, 0.0)
    yield Choice(generation, pattern, blocks, rest, None, alone, 0.0, place)
    cell = 0.0 if pattern.cell_of is None else blocks.alphas.get(pattern.cell_of, 0.0)
    own_alpha = max(moment.row_alpha, cell)
    if own_alpha > 0.0:
        weight = Known(rest.scales(blocks.alphas)).weight_at(own_alpha)
        for source in sources:
            known = Known(scales, source.alpha, allowance, FLOAT_ROOM * source.step)
            yield Choice(generation, pattern, blocks, rest, source, known, weight, place)


def _may_be_within(choice: Choice, half_width: float, confidence: float) -> bool:
    """Whether a choice may have this half-width or less; cheaper than to find its own."""
    room = half_width - choice.allowance
    if room < 0.0:
        return False
    if room == float("inf"):
        return True
    return LaplaceSum(choice.scales).within(room) > confidence - _MARGIN * (1.0 - confidence)
