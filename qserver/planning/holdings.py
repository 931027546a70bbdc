"""Bought tables and rows with their alphas, and their estimates of a query.

This is a view of inference and ledger, without state except caches.

A question about a period that the tables have no cells for is planned twice: on the tables as they
are, and on tables with cells for all sealed periods, at the alphas in force. The new cells are a
part of what the second plan buys, and are charged to their own periods alone. The second plan is
taken if it costs no more: later questions about these periods use the cells again.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Set
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from math import ceil

import numpy as np

from qserver.errors import CapacityError, InputError
from qserver.inference.engine import InferenceEngine, RowEstimate
from qserver.inference.rows.refinement import beside
from qserver.inference.tables.blocks.noisy_blocks import Blocks
from qserver.inference.tables.blocks.own_row import FLOAT_ROOM, BlocksAndRow, RowKnowledge
from qserver.inference.tables.blocks.pattern import BlockKey, Lattice, Pattern
from qserver.inference.tables.pieces import asked_periods
from qserver.ledger.cell_ledger import CellLedger
from qserver.ledger.noise_step import lattice_step
from qserver.planning.constants import PLANNER
from qserver.planning.failures import OnFault, raised
from qserver.planning.fresh_row import alpha_nano_up, fresh_charge_nano
from qserver.planning.own_cells import Home, OwnCells
from qserver.planning.purchase import Priced, Purchase
from qserver.query.class_grid import MAX_TABLE_CELLS, ProductPartition
from qserver.query.primitive import Primitive
from qserver.query.question import Question
from qserver.records.charge import NANO
from qserver.records.history import Measurement, TableMeasurement
from qserver.records.plan import CellSource, PlannedRow, PlannedTable, TableCell

_UNNUMBERED = -1


@dataclass(frozen=True)
class RowStart:
    """Start of a row's noise: new, or the earlier release of the same row.

    Args:
        old_alpha_nano: alpha paid already; 0 for a new row.
    """

    row: PlannedRow
    old_alpha_nano: int = 0
    refines: int | None = None
    cell: TableCell | None = None

    def raised(self, alpha_nano: int) -> PlannedRow:
        """The row at this alpha, at least one nano-epsilon above the paid one."""
        return replace(
            self.row,
            alpha_nano=max(alpha_nano, self.old_alpha_nano + 1),
            old_alpha_nano=self.old_alpha_nano,
            refines=self.refines,
            cell=self.cell,
        )


@dataclass(frozen=True)
class Holdings:
    """The rows and tables of one snapshot, as the planner sees them.

    Args:
        limit_nano: the population's limit, which fixes the lattice of new rows and tables.
        cells: pairs of measured rows and cells; sharing it between views saves time.
        period_axis: the attribute of periods where data arrive over time, or the one that the owner
            calls time. Tables tell every period apart, and rows may be measured period by period.
        kept: sealed periods that are not retired. Only these get new cells, and a table with other
            periods is raised no more.
        extending: tables that are part of any purchase; `engine` has them already.
        on_fault: receives faults of the program while planning.
    """

    engine: InferenceEngine
    ledger: CellLedger
    limit_nano: int
    cells: OwnCells = field(default_factory=OwnCells)
    period_axis: int | None = None
    kept: range = range(0)
    extending: tuple[PlannedTable, ...] = ()
    on_fault: OnFault = raised

    @property
    def lattice(self) -> Lattice:
        """Chains of the attributes."""
        return self.engine.tables.lattice

    @cached_property
    def alphas(self) -> Mapping[BlockKey, float]:
        """Charge per block, in epsilon or rho; a public total has `PLANNER.public_alpha`."""
        measured = self.engine.tables.alpha_nano
        public = dict.fromkeys(self.engine.tables.public_blocks, PLANNER.public_alpha)
        return {**{b: a / NANO for b, a in measured.items()}, **public}

    @cached_property
    def table_step(self) -> Fraction:
        """Lattice step of a new table."""
        return self._step(Fraction(1))

    def is_candidate(self, block: BlockKey) -> bool:
        """Whether a table of the block can be measured, or is public."""
        if self.period_axis is not None:
            if self.lattice.lifted(block) != block:
                return False  # its cells would not tell the periods apart
            return block in self.alphas or 0 < self._n_cells(block) <= MAX_TABLE_CELLS
        if not block:
            # If the number of records is fixed, their total costs nothing; it is either worth
            # nothing or public already.
            return (
                self.cost_of(block) > PLANNER.negligible
                or block in self.engine.tables.public_blocks
            )
        return self._n_cells(block) <= MAX_TABLE_CELLS

    def cost_of(self, block: BlockKey) -> float:
        """Cost of a block per unit of its alpha, in epsilon; > 0."""
        neighbours, axes = self.ledger.neighbours, {axis for axis, _ in block}
        if neighbours.by_period is None or neighbours.together == 1:
            return self.most_cost_of(axes)
        # Cells of few periods hold few records of a person.
        partition = self.engine.tables.partition_of(block, self.table_periods)
        return self._cost(axes, neighbours.together_in(partition))

    def most_cost_of(self, axes: Set[int]) -> float:
        """Upper bound of the cost of any table on these attributes."""
        return self._cost(axes, self.ledger.neighbours.together)

    def _cost(self, axes: Set[int], together: int) -> float:
        """Cost of a table in which one person moves at most `together` times one record."""
        neighbours, k = self.ledger.neighbours, float(self._most_records * together)
        if neighbours.relation == "add-remove":
            return k
        if not axes <= neighbours.alike:
            return 2.0 * k
        # A tiny cost in place of zero keeps the arithmetic finite.
        return k if neighbours.null_cell else PLANNER.negligible

    @cached_property
    def table_periods(self) -> frozenset[int] | None:
        """Periods that tables have or would have cells for; None if no data arrive over time."""
        if self.period_axis is None:
            return None
        found = [table.periods for table in self.engine.tables.measured]
        return frozenset.intersection(*found) if found else frozenset(self.kept)

    def covers(self, query: Primitive) -> bool:
        """Whether tables have, or would have, all cells that a query needs."""
        periods, axis = self.table_periods, self.period_axis
        return periods is None or axis is None or asked_periods(query.row, axis) <= periods

    @cached_property
    def _most_records(self) -> int:
        """Most records of a person that may be in cells of a table."""
        neighbours, periods = self.ledger.neighbours, self.table_periods
        if periods is None or neighbours.by_period is None:
            return neighbours.records_per_person
        inside = np.ones(len(periods), dtype=np.int64)
        return neighbours.by_period.greatest(inside, neighbours.records_per_person)

    def pattern(self, query: Primitive) -> Pattern | None:
        """The row's components on the lattice; None if the lattice does not resolve the row."""
        return self.engine.tables.pattern(query)

    def own(self, query: Primitive) -> Measurement | None:
        """The measurement of exactly this row with least noise.

        Under Gaussian noise all are combined into one with the sum of their charges.
        """
        weights = self.engine.direct(query)
        if len(weights) != 1 or weights[0][1] != 1.0:
            return None
        found = self.engine.measurement(weights[0][0])
        if not self.engine.law.is_additive:
            return found
        return replace(found, alpha_nano=self.engine.direct_nano(query))

    def alpha_after(self, row: PlannedRow, own: Measurement | None) -> int:
        """The charge of a planned row once drawn; `own` is its earlier measurement."""
        is_added = self.engine.law.is_additive and own is not None
        return row.alpha_nano + (own.alpha_nano if is_added and own is not None else 0)

    def is_met(self, question: Question) -> bool:
        """Whether history meets the requirement."""
        return meeting(self.engine, question) is not None

    def known(self, query: Primitive, raises: Mapping[BlockKey, int] | None = None) -> RowKnowledge:
        """What tables and the query's own row tell, now or after these raises."""
        return self.engine.tables.known(
            query, self.own(query), alphas_nano=raises, step=self.table_step
        )

    def beside(
        self,
        query: Primitive,
        blocks: Blocks,
        *,
        own: Measurement | None,
        row_alpha_nano: int | None = None,
    ) -> BlocksAndRow:
        """The estimate of the query by these blocks and its own row, at any alpha of the row."""
        return self.engine.tables.beside(
            query, own, blocks=blocks, row_alpha_nano=row_alpha_nano, step=self.table_step
        )

    def likeness(self, question: Question) -> Hashable:
        """Key of a question: questions with equal keys are met by the same blocks and own rows."""
        own, requirement = self.own(question.row), question.requirement
        told = None if own is None else (own.alpha_nano, own.lattice_allowance)
        wanted = question.roomy_half_width, requirement.confidence
        return self.engine.tables.likeness(question.row), told, wanted

    def start(self, query: Primitive) -> RowStart:
        """Start of the query's own row, if measured or raised now."""
        if self.engine.law.is_additive:
            return self.anew(query)
        own = self.own(query)
        if own is not None:
            return self.start_of(own)
        start = self.anew(query)
        if self.cells.n_measured(self.engine, query.key):
            return start
        homes = self.cells.homes(self.engine, query.row).values()
        best = max(homes, key=lambda h: h.table.alpha_nano, default=None)
        return start if best is None else _at_home(start, best)

    def start_of(self, own: Measurement) -> RowStart:
        """Start of a measured row, if raised now: its last answer or its cell's.

        Raises:
            InputError: its noise is Gaussian, and it is measured once more instead.
        """
        if self.engine.law.is_additive:
            raise InputError("measurement", "have Laplace noise: Gaussian noise is not refined")
        row = PlannedRow(own.row, own.key, 0, own.step)
        start = RowStart(row, own.alpha_nano, refines=own.id)
        if self.cells.n_measured(self.engine, own.key) > 1:
            return start
        home = self.cells.homes(self.engine, own.row).get(own.step)
        newer = home is not None and home.table.alpha_nano > own.alpha_nano
        return _at_home(start, home) if home is not None and newer else start

    def anew(self, query: Primitive) -> RowStart:
        """The query's own row with fresh noise, despite earlier releases."""
        return RowStart(PlannedRow(query.row, query.key, 0, self._step(query.unit)))

    def own_row(self, question: Question) -> PlannedRow | None:
        """The least raise of the question's own row that meets it together with the tables.

        Under Gaussian noise it is a new measurement, combined with tables and all rows that they
        determine. None if the row's lattice is too coarse.
        """
        if self.engine.law.is_additive:
            return self._beside_all(question) or self.own_row_alone(question)
        query, target, confidence = question.row, question.roomy_half_width, question.confidence
        start = self.start(query)
        tables, own = self.engine.tables, self.own(query)
        known = tables.known(query, own, row_alpha_nano=start.old_alpha_nano, step=start.row.step)
        alpha = known.least_row_alpha(target, confidence=confidence)
        for room in (1.0, 1.0 + PLANNER.rounding):
            if not alpha < float("inf"):
                break
            row = start.raised(alpha_nano_up(max(alpha, PLANNER.tiny) * room))
            then = tables.known(query, own, row_alpha_nano=row.alpha_nano, step=row.step)
            if then.half_width(confidence) <= target:
                return row
        return None

    def _beside_all(self, question: Question) -> PlannedRow | None:
        query, confidence = question.row, question.confidence
        known = self.engine.beside_rows(query, confidence=confidence)
        if known is None:
            return None
        start = self.anew(query)
        least = beside(
            (),
            scales=known.posterior.scales,
            room=known.posterior.allowance + FLOAT_ROOM * float(start.row.step),
            confidence=confidence,
            target=question.roomy_half_width,
        )
        if least is None:
            return None
        return start.raised(alpha_nano_up(least.alpha * (1.0 + PLANNER.rounding)))

    def own_row_alone(self, question: Question) -> PlannedRow | None:
        """The raise of the question's own row that alone meets it, found without a search.

        None if the row's lattice is too coarse.
        """
        row, start = question.row, self.start(question.row)
        law = self.engine.law
        step = 2 * start.row.step  # one for the lattice, as `allocation` proves, one for rounding
        try:
            alpha = fresh_charge_nano(
                question.requirement, multiplier=row.multiplier, step=step, law=law
            )
        except CapacityError:
            return None
        return start.raised(ceil(alpha * Fraction(1.0 + PLANNER.rounding)))

    def raises(
        self,
        alphas: Mapping[BlockKey, float],
        *,
        part: float = 1.0,
        only: Iterable[BlockKey] | None = None,
    ) -> dict[BlockKey, int]:
        """Charges of the blocks that are below `part` of these, rounded up."""
        tables, found = self.engine.tables, {}
        for block in alphas if only is None else only:
            after = alpha_nano_up(max(alphas[block] * part, PLANNER.tiny))
            is_more = after > tables.alpha_nano.get(block, 0)
            if is_more and block not in tables.public_blocks and self.may_raise(block):
                found[block] = after
        return found

    def tables(
        self, raises: Mapping[BlockKey, int], *, beside: Iterable[PlannedRow] = ()
    ) -> tuple[PlannedTable, ...]:
        """The blocks raised to these alphas, as tables to measure or refine.

        Args:
            beside: planned rows that count as measured; for prices only.
        """
        known, n_live = self.engine.tables, self.engine.n_measurements
        found = list[tuple[ProductPartition, TableMeasurement | None, int]]()
        for block, alpha in raises.items():
            old = known.table(block)
            if old is None:
                found.append((self.partition_of(block), None, alpha))
                continue
            for piece in old.pieces:
                # A piece that is being added is bought at the raised alpha at once.
                live = piece if piece.id < n_live else None
                if live is None or live.alpha_nano < alpha:
                    found.append((piece.partition, live, alpha))
        return self.raised(found, beside=beside)

    def may_raise(self, block: BlockKey) -> bool:
        """Whether a block is new, or every cell of it may be counted again."""
        table = self.engine.tables.table(block)
        return table is None or table.periods <= frozenset(self.kept)

    def partition_of(self, block: BlockKey) -> ProductPartition:
        """The cells that a new table of a block has.

        Raises:
            QueryError: they are too many.
        """
        return self.engine.tables.partition_of(block, self.table_periods)

    def extension(self) -> tuple[PlannedTable, ...]:
        """Missing cells of every table for sealed periods, at its alpha."""
        tables, found, taken = self.engine.tables, list[PlannedTable](), set[int]()
        for table in tables.measured:
            block = tables.block_of(table.partition)
            missing = sorted(frozenset(self.kept) - table.periods)
            most = max(
                1, MAX_TABLE_CELLS // self.lattice.n_real_cells(block or (), without=self._apart)
            )
            for start in range(0, len(missing) if block else 0, most):
                periods = frozenset(missing[start : start + most])
                partition = tables.partition_of(block or (), periods)
                new = self._table(partition, None, table.alpha_nano, (), taken, step=table.step)
                taken.update(s.row for s in new.sources)
                found.append(new)
        return tuple(found)

    def raised(
        self,
        raises: Iterable[tuple[ProductPartition, TableMeasurement | None, int]],
        *,
        beside: Iterable[PlannedRow] = (),
    ) -> tuple[PlannedTable, ...]:
        """Tables to measure or refine: per table its partition, its measurement, its alpha.

        Args:
            beside: planned rows that count as measured; for prices only.
        """
        rows, taken = tuple(beside), set[int]()
        found = []
        for partition, old, alpha in raises:
            table = self._table(partition, old, alpha, rows, taken)
            # A row is paired with the first table only that has it as a cell.
            taken.update(s.row for s in table.sources)
            found.append(table)
        return tuple(found)

    def priced(self, purchase: Purchase) -> Priced:
        """A purchase with its price, tables of `extending` included."""
        if self.extending:
            keys = {table.key for table in purchase.tables}
            more = tuple(table for table in self.extending if table.key not in keys)
            purchase = replace(purchase, tables=(*more, *purchase.tables))
        after = self.ledger.spent_after(purchase.charges)
        return Priced(purchase, after - self.ledger.spent_nano, after)

    def _step(self, unit: Fraction) -> Fraction:
        k = self.ledger.neighbours.most_alike
        limit = self.engine.law.sharpest(self.limit_nano)
        return lattice_step(unit, limit_nano=limit, records_per_person=k)

    def _n_cells(self, block: BlockKey) -> int:
        """Cells that a table of the block has, without phantoms."""
        n = self.lattice.n_real_cells(block, without=self._apart)
        return n if self.table_periods is None else n * len(self.table_periods)

    @property
    def _apart(self) -> tuple[int, ...]:
        return () if self.period_axis is None else (self.period_axis,)

    def _table(
        self,
        partition: ProductPartition,
        old: TableMeasurement | None,
        alpha_nano: int,
        beside: tuple[PlannedRow, ...],
        taken: set[int],
        *,
        step: Fraction | None = None,
    ) -> PlannedTable:
        step = self.table_step if step is None else step
        if self.engine.law.is_additive:
            rise = alpha_nano - (0 if old is None else old.alpha_nano)
            return PlannedTable(partition, rise, step if old is None else old.step)
        table = PlannedTable(partition, alpha_nano, step)
        if old is not None:
            table = PlannedTable(
                partition, alpha_nano, old.step, refines=old.id, old_alpha_nano=old.alpha_nano
            )
        found = [
            CellSource(cell, row.id, row.alpha_nano)
            for cell, row in self.cells.rows_of(self.engine, partition, table=table.refines)
            if row.step == table.step and row.id not in taken
        ]
        planned = {self.cells.cell_of(partition, row.row): row for row in beside}
        found = [s for s in found if s.cell not in planned] + [
            CellSource(cell, _UNNUMBERED, row.alpha_nano)
            for cell, row in planned.items()
            if cell is not None and row.step == table.step
        ]
        better = [s for s in found if s.alpha_nano > table.old_alpha_nano]
        best = sorted(better, key=lambda s: (-s.alpha_nano, s.cell))[: PLANNER.most_choices]
        return replace(table, sources=tuple(sorted(best, key=lambda s: s.cell)))


def _at_home(start: RowStart, home: Home) -> RowStart:
    table = home.table
    return replace(
        start,
        row=replace(start.row, step=table.step),
        old_alpha_nano=table.alpha_nano,
        cell=home.cell,
    )


def estimate_of(engine: InferenceEngine, question: Question) -> RowEstimate | None:
    """History's estimate of the question's row, or None.

    An estimate that meets the requirement is preferred.
    """
    enough = question.row_half_width
    return engine.estimate(question.row, confidence=question.confidence, enough=enough)


def meeting(engine: InferenceEngine, question: Question) -> RowEstimate | None:
    """History's estimate if it meets the requirement, else None; None is found sooner."""
    enough = question.row_half_width
    return engine.meeting(question.row, confidence=question.confidence, enough=enough)


def extended(holdings: Holdings, rows: Iterable[Primitive]) -> Holdings | None:
    """Holdings with cells for every sealed period, which any purchase then includes.

    None if there are no tables, if they have all cells that these rows need, or if they would lack
    some even then: retired periods get no new cells.
    """
    tables, asked = holdings.engine.tables, list(rows)
    if not tables.measured or all(map(holdings.covers, asked)):
        return None
    planned = holdings.extension()
    if not planned:
        return None
    engine = holdings.engine.tried()
    # Their ids are those of no measurement. Of their noise only the scale matters to a plan.
    engine.tables.extend(
        TableMeasurement(
            engine.n_measurements + i, p.partition, p.alpha_nano, p.step, (0,) * p.partition.n_cells
        )
        for i, p in enumerate(planned)
    )
    found = replace(holdings, engine=engine, extending=planned)
    return found if all(map(found.covers, asked)) else None
