"""Estimates from measured tables: a snapshot's tables as blocks of a lattice.

A table is a block if its cells are the real cells of that block. A query is answered by the weights
of least variance on the blocks, together with a measurement of the query itself if there is one.

An answered question must stay free. After a refinement the weights of least variance may have a
longer tail than the weights used before. But every earlier state of the alphas is public, and so
are its weights. With the present noise they have no longer a tail than before, and lattice and
floats add no more. So an answer is stored as the number of events before it. If the present weights
are not good enough, those of that state are tried.
"""

from __future__ import annotations

import copy
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import tee
from types import MappingProxyType

from qserver.inference.estimate import RowEstimate, trim
from qserver.inference.tables.blocks.noisy_blocks import Blocks, likeness
from qserver.inference.tables.blocks.own_row import BlocksAndRow, RowKnowledge, blocks_and_row
from qserver.inference.tables.blocks.pattern import BlockKey, Lattice, Pattern
from qserver.inference.tables.blocks.placement import lattice_through
from qserver.inference.tables.pieces import (
    TOTAL,
    Generation,
    LiveTables,
    MeasuredTable,
    lattice_of,
)
from qserver.inference.tables.tables_and_rows import RowsOnTables
from qserver.inference.tables.weights import (
    Moment,
    WeightChoice,
    WeightedRow,
    WeightOrigin,
    can_meet,
    cells_alone,
    choice_after,
    choice_with_rows,
    choices_at,
    sources_of,
)
from qserver.query.class_grid import ProductPartition
from qserver.query.linear_query import LinearQuery
from qserver.query.primitive import Primitive
from qserver.records.history import Measurement, TableMeasurement
from qserver.records.privacy.noise_law import LAPLACE, NoiseLaw


class PresentTables:
    """The tables of one snapshot as they are now.

    Args:
        generations: the lattices that were in use, the present one last.
    """

    def __init__(self, generations: list[Generation]) -> None:
        self._generations = generations
        self._blocks: Blocks | None = None
        self._beside: RowsOnTables | None = None

    @property
    def beside_rows(self) -> RowsOnTables:
        """The present tables, with rows weighed beside them; for Gaussian noise."""
        if self._beside is None or not self._beside.is_of(self.blocks):
            self._beside = RowsOnTables(self._present, self.blocks)
        return self._beside

    @property
    def lattice(self) -> Lattice:
        """The lattice in use."""
        return self._present.lattice

    @property
    def blocks(self) -> Blocks:
        """The present blocks; their alphas are infinite for a public total."""
        if self._blocks is None:
            self._blocks = self._present.blocks(self._present.alphas)
        return self._blocks

    def blocks_with(self, alphas_nano: Mapping[BlockKey, int]) -> Blocks:
        """The blocks with these alphas replacing, or added to, the present ones."""
        sharpness = self._present.law.sharpness
        raised = {b: sharpness(a) for b, a in alphas_nano.items() if b not in self.public_blocks}
        return self._present.blocks({**self._present.alphas, **raised})

    def steps_with(self, blocks: Iterable[BlockKey], step: float) -> dict[BlockKey, float]:
        """Lattice step per noisy block, in records; new blocks get the given `step`."""
        return {**dict.fromkeys(blocks, step), **self._present.steps}

    @property
    def alpha_nano(self) -> Mapping[BlockKey, int]:
        """Charge per measured block, without a public total."""
        return MappingProxyType({b: t.alpha_nano for b, t in self._present.tables.items()})

    def alphas_after(self, drawn: Iterable[tuple[ProductPartition, int]]) -> dict[BlockKey, int]:
        """The charge of each block once its table is drawn at a charge; others are left out."""
        found = dict[BlockKey, int]()
        for partition, alpha in drawn:
            block = self.block_of(partition)
            if block is not None:
                is_added = self._present.law.is_additive
                found[block] = alpha + (self.alpha_nano.get(block, 0) if is_added else 0)
        return found

    @property
    def public_blocks(self) -> frozenset[BlockKey]:
        """The block () if the total is public, else empty."""
        return frozenset([TOTAL] if self._present.public is not None else [])

    def table(self, block: BlockKey) -> MeasuredTable | None:
        """The live table of a block, or None."""
        return self._present.tables.get(block)

    def block_of(self, partition: ProductPartition) -> BlockKey | None:
        """The block whose real cells are the partition's, or None."""
        found = self._present.placement_of(partition)
        return None if found is None else found.block

    def partition_of(
        self, block: BlockKey, periods: frozenset[int] | None = None
    ) -> ProductPartition:
        """The block's real cells, of these periods.

        Raises:
            QueryError: the block has more cells than a table may have.
        """
        return self._present.placement(block, periods).partition

    def covers(self, query: Primitive) -> bool:
        """Whether every table has cells for all periods that a query is about."""
        return self._present.covers(query.row)

    @property
    def measured(self) -> Sequence[MeasuredTable]:
        """The tables on the lattice, in the order of their first measurement."""
        return sorted(self._present.tables.values(), key=lambda table: table.id)

    def pattern(self, query: Primitive) -> Pattern | None:
        """The row's components on the lattice; which ones are zero is known exactly.

        None if the lattice does not resolve the row, or if it has too many components.
        """
        return self._present.pattern(query)

    def likeness(self, query: Primitive) -> Hashable:
        """Key of rows that any blocks answer equally well, as the cells of a GROUP BY."""
        pattern = self.pattern(query) if self._present.covers(query.row) else None
        return None if pattern is None else likeness(pattern)

    @property
    def _present(self) -> Generation:
        return self._generations[-1]


class AlphaRecord:
    """Alphas of rows, by the number of events after which they came into force."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[tuple[int, int], ...]] = {}

    def note(self, row: Measurement, *, n_events: int) -> None:
        """Record a row, new or refined; with it there are `n_events` events."""
        known = self._known.get(row.id, ())
        self._known[row.id] = (*known, (n_events, row.alpha_nano))

    def at(self, row: Measurement, n_events: int) -> int:
        """Alpha of a row after `n_events` events; 0 if it was not measured yet."""
        known = self._known.get(row.id, ((0, row.alpha_nano),))
        place = bisect_right(known, n_events, key=lambda k: k[0])
        return known[place - 1][1] if place else 0

    def tried(self) -> AlphaRecord:
        """A copy that can be extended without changing this one."""
        found = AlphaRecord()
        found._known = dict(self._known)
        return found


_WORTH = 1.0 - 1e-6
_MAX_VIEWS = 8
_MOST_SOUGHT = 1 << 9
"""Rows whose weights are kept: of a workload of some hundred questions, each asked for twice."""
_Sought = tuple[LinearQuery, Measurement | None]


class MeasuredTables(PresentTables):
    """The measured tables of one snapshot. Not safe for concurrent use.

    Args:
        sizes: number of values per attribute.
        lattice: tables may be blocks of it. The default has chains of about equal factors over
            single values, each built at its first use. When a table is not a block of these, the
            chains go through the measured partitions instead. So the events determine the lattice.
        apart: the attribute of periods of data that arrive over time, which every table tells
            apart; without a `lattice`.
        law: of the noise.
    """

    def __init__(
        self,
        sizes: tuple[int, ...],
        *,
        lattice: Lattice | None = None,
        apart: int | None = None,
        law: NoiseLaw = LAPLACE,
    ) -> None:
        self._sizes = tuple(sizes)
        first = lattice_of(self._sizes, apart) if lattice is None else lattice
        self._regular = first.chains if lattice is None else None
        super().__init__([Generation(self._sizes, first, law=law)])
        self._live = LiveTables(first.apart)
        self._row_alphas = AlphaRecord()
        self._kept: dict[str, list[int]] = {}
        self._n_events = 0
        self._views: list[MeasuredTables] = []
        self._sought: OrderedDict[_Sought, Iterator[WeightChoice]] = OrderedDict()

    def extend(self, events: Iterable[TableMeasurement | Measurement]) -> None:
        """Add measurements, new or refined, in history order.

        A public total counts as the block () without noise. Of other rows only alphas are stored.
        """
        self._sought.clear()
        for event in events:
            self._n_events += 1
            for view in self._views:
                view.extend([event])
            if isinstance(event, TableMeasurement):
                self._add(self._live.add(event))
            elif event.is_public:
                self._add_public(event)
            else:
                self._row_alphas.note(event, n_events=self._n_events)

    def tried(self) -> MeasuredTables:
        """A copy to try releases on; this object does not change."""
        found = copy.copy(self)
        found._generations = [generation.tried() for generation in self._generations]
        found._live, found._views = self._live.copy(), []
        found._row_alphas = self._row_alphas.tried()
        found._kept = {key: list(at) for key, at in self._kept.items()}
        found._sought = OrderedDict()
        return found

    def rebase(self, lattice: Lattice) -> None:
        """Switch to another lattice, such as a finer one with the same blocks.

        Tables that are not blocks of it are kept but not used. Earlier answers stay free.
        """
        law = self._present.law
        new = Generation(self._sizes, lattice, since=self._n_events, law=law)
        public = self._present.public
        for table in self._live:
            new.add(table, n_events=self._n_events)
        if public is not None:
            new.add_public_total(public, n_events=self._n_events)
        # No answer was given before the last of these states.
        del new.states[:-1]
        self._generations.append(new)
        self._blocks = None
        self._sought.clear()

    def lattice_with(self, partitions: Iterable[ProductPartition]) -> Lattice:
        """The lattice in use after tables of these partitions are measured as well.

        Returns the present object if nothing changes. Tables that do not nest with later ones
        answer alone, on the lattice before.
        """
        new = list(partitions)
        if self._regular is None or all(self.block_of(p) is not None for p in new):
            return self.lattice
        live = [table.partition for table in self._live][::-1]
        return lattice_through(self.lattice, self._regular, live, new)

    def seen_on(self, lattice: Lattice) -> MeasuredTables:
        """View the tables as blocks of another lattice, for plans; without stored answers."""
        if lattice is self.lattice:
            return self
        for view in self._views:
            if view.lattice is lattice:
                return view
        found = MeasuredTables(self._sizes, lattice=lattice, law=self._present.law)
        public = self._present.public
        for table in self._live:
            found._put(table)
        found.extend([] if public is None else [public])
        self._views = [*self._views[1 - _MAX_VIEWS :], found]
        return found

    @property
    def partitions(self) -> list[ProductPartition]:
        """Partitions of the tables on the lattice, in the order of their first measurement."""
        return [t.partition for t in self._live if self.block_of(t.partition) is not None]

    @property
    def are_all_present(self) -> bool:
        """Whether all live tables are on the lattice, as those are that nest."""
        return all(self.block_of(t.partition) is not None for t in self._live)

    @property
    def n_events(self) -> int:
        """Number of releases and refinements so far."""
        return self._n_events

    def is_estimable(self, query: Primitive) -> bool:
        """Whether tables alone give the row."""
        return any(g.reaches(query) for g in self._generations)

    def known(
        self,
        query: Primitive,
        own: Measurement | None = None,
        *,
        alphas_nano: Mapping[BlockKey, int] | None = None,
        row_alpha_nano: int | None = None,
        step: Fraction | None = None,
    ) -> RowKnowledge:
        """The knowledge of a query from tables and its measurement, now or after a purchase.

        Its half-width is at least that of the later answer. They are equal unless weights of an
        earlier state are shorter.

        Args:
            own: the live measurement of exactly this row, or None.
            alphas_nano: alphas, after the purchase, of blocks that are refined or new.
            row_alpha_nano: alpha of the row after the purchase; by default that of `own`.
            step: lattice step, in records, of new blocks and of a new row.
        """
        blocks = self.blocks if not alphas_nano else self.blocks_with(alphas_nano)
        return self.beside(
            query, own, blocks=blocks, row_alpha_nano=row_alpha_nano, step=step
        ).known

    def beside(
        self,
        query: Primitive,
        own: Measurement | None = None,
        *,
        blocks: Blocks,
        row_alpha_nano: int | None = None,
        step: Fraction | None = None,
    ) -> BlocksAndRow:
        """The query on these blocks and on its measurement, with alphas as for `known`."""
        new_step = 0.0 if step is None else float(step)
        new = dict.fromkeys(blocks.alphas.keys() - self.public_blocks, new_step)
        alpha = row_alpha_nano or (0 if own is None else own.alpha_nano)
        row_step = new_step if own is None else own.lattice_allowance
        is_given = blocks.alphas and self._present.covers(query.row)
        pattern = self.pattern(query) if is_given else None
        steps = {**new, **self._present.steps}
        sharp = blocks.law.sharpness(alpha)
        return blocks_and_row(blocks, pattern, sharp, steps=steps, row_step=row_step)

    def estimate(
        self,
        query: Primitive,
        own: Measurement | None = None,
        *,
        confidence: float,
        enough: float = 0.0,
    ) -> RowEstimate | None:
        """The row's estimate from tables, together with its measurement; None without tables.

        The present weights are used if they meet `enough`, else the shortest of those and of the
        states stored for the row. Once `enough` was met at a confidence, and stored, it is always
        met.

        Args:
            query: the row.
            own: the live noisy measurement of exactly this row, or None.
            confidence: 1 - delta.
            enough: a half-width in records.
        """
        best, shortest = None, float("inf")
        for choice in self._choices_known(query, own):
            # A search is not worth a slightly shorter interval, unless only that is enough.
            wanted = max(enough, shortest * _WORTH)
            if not can_meet(choice, wanted, confidence):
                continue
            found = choice.answer(confidence)
            if found.half_width < shortest:
                best, shortest = found, found.half_width
            if shortest <= enough:
                break
        return best

    def estimate_with_rows(
        self,
        query: Primitive,
        rows: Sequence[WeightedRow],
        *,
        confidence: float,
        at: int | None = None,
    ) -> RowEstimate | None:
        """The row's estimate from weighted rows, and from tables for the remainder.

        With present noise and the weights of least variance after `at` events. None if the
        remainder is not a row with a largest cell of 1, or if the tables did not give it then.
        Also None if one of the rows is a cell of a table: then their noise is not independent.

        Args:
            at: number of events; by default all.
        """
        moment = self._n_events if at is None else at
        if self._present.law.is_additive and self._present.covers(query.row):
            weights, of = [r.weight for r in rows], [r.row for r in rows]
            known = self.beside_rows.estimate(
                query, of, confidence=confidence, at=moment, weights=weights
            )
            if known is not None:
                return known
        found = next((g for g in reversed(self._generations) if g.since <= moment), None)
        state = None if found is None else found.state_at(moment)
        if found is None or state is None:
            return None
        place = WeightOrigin(moment, is_kept=at is not None)
        choice = choice_with_rows(found, state, query, rows, place)
        return None if choice is None else choice.answer(confidence)

    def estimate_after(
        self, query: Primitive, own: Measurement | None = None, *, at: int, confidence: float
    ) -> RowEstimate | None:
        """The row's estimate with present noise and the shortest weights after `at` events.

        None if no table contributed to the row at that time.
        """
        generation = next(g for g in reversed(self._generations) if g.since <= at)
        moment, pattern = self._moment(generation, own, at), generation.pattern(query)
        if moment is None or pattern is None or not generation.covers(query.row):
            return None
        place = WeightOrigin(at, at in self._kept.get(query.key, []))
        choice = choice_after(generation, pattern, moment, own, confidence, place)
        return None if choice is None else choice.answer(confidence)

    def blocks_after(self, at: int) -> Blocks | None:
        """The blocks of the present lattice after `at` events; None if it was not in use yet."""
        state = self._present.state_at(at)
        return None if state is None else self._present.blocks(state.alphas)

    def kept_at(self, key: str) -> tuple[int, ...]:
        """The numbers of events of the states stored for this row key, in order of storing."""
        return tuple(self._kept.get(key, ()))

    def alpha_nano_at(self, own: Measurement | None, at: int) -> int:
        """Alpha of a row after `at` events; 0 if it was not measured yet."""
        return 0 if own is None else self._row_alphas.at(own, at)

    def _put(self, table: MeasuredTable) -> None:
        """Add a whole table, as one event."""
        self._sought.clear()
        self._n_events += 1
        self._live.put(table)
        self._add(table)

    def _add(self, table: MeasuredTable) -> None:
        for generation in self._generations[:-1]:
            generation.refresh(table)
        lattice = self.lattice_with([table.partition])
        if lattice is not self.lattice:
            self._present.refresh(table)
            self.rebase(lattice)
            return
        self._present.add(table, n_events=self._n_events)
        self._blocks = None

    def _add_public(self, row: Measurement) -> None:
        if row.row.terms and not row.row.scope and row.row.terms[0].coefficient == 1:
            self._present.add_public_total(row, n_events=self._n_events)
            self._blocks = None

    def keep(self, key: str, at: int) -> None:
        """Store the state after `at` events: its weights are tried when this row is asked."""
        self._sought.clear()
        kept = self._kept.setdefault(key, [])
        if at not in kept:
            kept.append(at)

    def _choices_known(self, query: Primitive, own: Measurement | None) -> Iterator[WeightChoice]:
        """`_choices`, each found once until history grows: plans and offers ask for the same."""
        sought = query.row, own
        kept = self._sought.get(sought)
        if kept is None:
            trim(self._sought, _MOST_SOUGHT)
            kept = self._found_once(query, own)
        self._sought[sought], found = tee(kept)
        return found

    def _found_once(self, query: Primitive, own: Measurement | None) -> Iterator[WeightChoice]:
        """`_choices`, forgotten after a fault: its rest would look like the end of all choices."""
        try:
            yield from self._choices(query, own)
        except Exception:
            self._sought.pop((query.row, own), None)
            raise

    def _choices(self, query: Primitive, own: Measurement | None) -> Iterator[WeightChoice]:
        """Weights for the query: the latest of each lattice, and those stored for it."""
        kept = self._kept.get(query.key, [])
        ends = [*(g.since - 1 for g in self._generations[1:]), self._n_events]
        for generation, end in reversed(list(zip(self._generations, ends, strict=True))):
            moments = [end, *(at for at in reversed(kept) if at != end)]
            if not generation.reaches(query):
                continue
            pattern = generation.pattern(query)
            if pattern is None:
                continue
            sources = list(sources_of(generation, pattern, own))
            yield from cells_alone(generation, pattern, sources)
            states = {at: self._moment(generation, own, at) for at in (*moments, *kept)}
            settled = {states[at] for at in kept}
            first_at: dict[Moment | None, int] = {}
            for at in moments:
                first_at.setdefault(states[at], at)
            for moment, at in first_at.items():
                if moment is not None:
                    place = WeightOrigin(at, moment in settled)
                    yield from choices_at(generation, pattern, moment, sources, place)

    def _moment(self, generation: Generation, own: Measurement | None, at: int) -> Moment | None:
        """The alphas after `at` events; None if the generation had no blocks yet."""
        state = generation.state_at(at)
        if state is None or not state.alphas:
            return None
        return Moment(state, generation.law.sharpness(self.alpha_nano_at(own, at)))
