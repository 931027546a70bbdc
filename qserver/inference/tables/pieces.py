"""Measured tables in pieces: of data that arrive over time each arrival adds a piece.

A piece is a separate table of the periods that it was bought for: its cells have their own chains
and charges. Pieces with the same other attributes are one table with more cells. They have one
alpha, since they are bought at the alpha in force and raised together; while they are being raised,
the least one counts for all.

*Blocks.* Measured tables are blocks of one lattice, with a history of their alphas. Each table that
is measured or refined makes a new state of the alphas. The states are public. An answer used the
weights of some state: these still give the query, and their error has only fallen since.
"""

from __future__ import annotations

import copy
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from math import inf, prod

import numpy as np

from qserver.errors import InputError
from qserver.inference.arrays import FloatArray
from qserver.inference.tables.blocks.nested_partitions import (
    Chain,
    default_chain,
    regular_chain,
    single_values,
)
from qserver.inference.tables.blocks.noisy_blocks import Blocks
from qserver.inference.tables.blocks.pattern import BlockKey, ExactSupport, Lattice, Pattern, as_box
from qserver.inference.tables.blocks.placement import (
    DefaultChains,
    OverlaidChains,
    Placement,
    placement_of_block,
    placement_of_partition,
)
from qserver.query.class_grid import ProductPartition
from qserver.query.linear_query import LinearQuery
from qserver.query.primitive import Primitive
from qserver.query.sealed_periods import periods_of
from qserver.records.history import Measurement, TableMeasurement, WeighedTable
from qserver.records.privacy.noise_law import LAPLACE, NoiseLaw


@dataclass(frozen=True, eq=False)
class MeasuredTable:
    """A live table: one piece, or one per arrival.

    Args:
        pieces: of one step, with no cell in common; in the order of their ids.
        apart: the attribute of the periods; None without such data.
    """

    pieces: tuple[TableMeasurement, ...]
    apart: int | None = None

    @property
    def id(self) -> int:
        """The id of the first piece."""
        return self.pieces[0].id

    @property
    def partition(self) -> ProductPartition:
        """The partition of the first piece."""
        return self.pieces[0].partition

    @property
    def step(self) -> Fraction:
        """Lattice step, in records."""
        return self.pieces[0].step

    @cached_property
    def alpha_nano(self) -> int:
        """Least charge of any cell, as of `TableMeasurement`."""
        return min(piece.alpha_nano for piece in self.pieces)

    @property
    def alpha(self) -> float:
        """Least inverse scale of any cell."""
        return self.pieces[0].law.sharpness(self.alpha_nano)

    @cached_property
    def periods(self) -> frozenset[int]:
        """The periods with cells; empty without periods."""
        return frozenset(
            p for piece in self.pieces for p in periods_in(piece.partition, self.apart)
        )

    def with_piece(self, piece: TableMeasurement) -> MeasuredTable:
        """The table with a new or raised piece."""
        others = [old for old in self.pieces if old.id != piece.id]
        return replace(self, pieces=tuple(sorted([*others, piece], key=lambda p: p.id)))

    def ids_for(self, query: LinearQuery | None) -> Iterator[int]:
        """Ids of the pieces that have cells in a query's periods."""
        if self.apart is None or query is None:
            yield from (number for piece in self.pieces for number in piece.ids)
            return
        asked = asked_periods(query, self.apart)
        for piece in self.pieces:
            if asked & set(periods_in(piece.partition, self.apart)):
                yield from piece.ids

    def has_cell(self, row: LinearQuery) -> bool:
        """Whether a row is a cell of some piece."""
        return any(piece.partition.cell_of(row) is not None for piece in self.pieces)


class LiveTables:
    """The live tables of one snapshot by the id of their first piece, in its order."""

    def __init__(self, apart: int | None) -> None:
        self.apart = apart
        self._found: dict[int, MeasuredTable] = {}
        self._of_piece: dict[int, int] = {}

    def copy(self) -> LiveTables:
        """A copy that can be changed without changing this one."""
        found = LiveTables(self.apart)
        found._found, found._of_piece = dict(self._found), dict(self._of_piece)
        return found

    def add(self, piece: TableMeasurement) -> MeasuredTable:
        """Add a new or raised piece; returns its table."""
        first = self._of_piece.get(piece.id)
        if first is None and (old_piece := self._same_cells(piece)) is not None:
            return self.add(WeighedTable.of(old_piece, piece))
        if first is None:
            first = self._like(piece)
        old = None if first is None else self._found[first]
        new = MeasuredTable((piece,), self.apart) if old is None else old.with_piece(piece)
        self._of_piece[piece.id] = new.id
        self._found[new.id] = new
        return new

    def put(self, table: MeasuredTable) -> None:
        """Add a whole table."""
        self._found[table.id] = table
        self._of_piece.update(dict.fromkeys((p.id for p in table.pieces), table.id))

    def __iter__(self) -> Iterator[MeasuredTable]:
        return (self._found[number] for number in sorted(self._found))

    def _same_cells(self, piece: TableMeasurement) -> TableMeasurement | None:
        """Earlier measurement of the same cells, under Gaussian noise."""
        if not piece.law.is_additive:
            return None
        old = (one for table in self._found.values() for one in table.pieces)
        cells = piece.key, piece.step
        return next((one for one in old if (one.key, one.step) == cells), None)

    def _like(self, piece: TableMeasurement) -> int | None:
        """The table of the same step and other attributes, without these periods."""
        if self.apart is None:
            return None
        mine, others = periods_in(piece.partition, self.apart), others_of(piece, self.apart)
        for table in self._found.values():
            same = table.step == piece.step and others_of(table.pieces[0], self.apart) == others
            if same and mine and table.periods.isdisjoint(mine):
                return table.id
        return None


def others_of(piece: TableMeasurement, apart: int) -> tuple[object, ...]:
    """The attributes of a piece, without the periods."""
    return tuple(a for a in piece.partition.axes if a.axis != apart)


@lru_cache(maxsize=1 << 14)
def periods_in(partition: ProductPartition, apart: int | None) -> tuple[int, ...]:
    """The periods with their own cells in a partition."""
    found = next((a for a in partition.axes if a.axis == apart), None)
    if found is None or found.n != np.count_nonzero(found.dense >= 0):
        return ()
    return tuple(np.flatnonzero(found.dense >= 0).tolist())


@lru_cache(maxsize=1 << 14)
def asked_periods(query: LinearQuery, apart: int) -> frozenset[int]:
    """The periods in which a query weighs some cell; public, as the query is."""
    return frozenset(p for run in periods_of(query, apart) for p in run)


def lattice_of(sizes: tuple[int, ...], apart: int | None) -> Lattice:
    """Chains over single values; periods have no levels between the total and single ones."""
    chains = DefaultChains(sizes)
    if apart is None:
        return Lattice(chains)
    return Lattice(OverlaidChains(chains, {apart: flat_chain(apart, sizes[apart])}), apart)


def flat_chain(axis: int, size: int) -> Chain:
    """The chain of all values and of single ones."""
    classes = single_values(axis, size)
    return regular_chain(classes, (1, size)) if size > 1 else default_chain(classes)


TOTAL: BlockKey = ()
MAX_COMPONENTS = 1 << 12
MAX_PRODUCTS = 1 << 16
"""Most products of components, for the inner products of all pairs of a query's terms."""
_CACHED = 4096


@dataclass(frozen=True, eq=False)
class PlacedPiece:
    """A piece of a live table on the lattice.

    Args:
        values: released answers, of the partition's shape, each exact up to two roundings.
    """

    placement: Placement
    values: FloatArray


@dataclass(frozen=True, eq=False)
class AlphaState:
    """A generation's alphas, as of `Blocks`, after `n_events` events of all generations."""

    n_events: int
    alphas: Mapping[BlockKey, float]


class Generation:
    """The tables of one snapshot on one lattice. Not safe for concurrent use.

    Args:
        sizes: number of values per attribute.
        lattice: tables may be blocks of it. Every part, except the finest, has two real parts
            below it.
        since: number of events before this generation.
        law: of the noise.
    """

    def __init__(
        self,
        sizes: tuple[int, ...],
        lattice: Lattice,
        *,
        since: int = 0,
        law: NoiseLaw = LAPLACE,
    ) -> None:
        self.sizes, self.lattice, self.since, self.law = sizes, lattice, since, law
        self.public: Measurement | None = None
        self.states: list[AlphaState] = [AlphaState(since, {})]
        self._support = ExactSupport(lattice)
        self._tables: dict[BlockKey, MeasuredTable] = {}
        self._placed: dict[TableMeasurement, PlacedPiece] = {}
        # A cache per object, so that it is freed with the object.
        self._canonical = lru_cache(maxsize=_CACHED)(_as_box)
        self.pattern = lru_cache(maxsize=_CACHED)(self._pattern)
        self.placement = lru_cache(maxsize=_CACHED)(self._placement)
        self.placement_of = lru_cache(maxsize=_CACHED)(self._placement_of)

    def tried(self) -> Generation:
        """A copy to try releases on; it shares everything that depends on the lattice alone."""
        found = copy.copy(self)
        found.states, found._tables = list(self.states), dict(self._tables)
        found._placed = dict(self._placed)
        return found

    def add(self, table: MeasuredTable, *, n_events: int) -> None:
        """Add a table, new or refined; ignored if it is not a block of the lattice."""
        placement = self.placement_of(table.partition)
        if placement is None:
            return
        self._tables[placement.block] = table
        self._note(placement.block, table.alpha, n_events)

    def add_public_total(self, total: Measurement, *, n_events: int) -> None:
        """Add the total without noise."""
        self.public = total
        self._note(TOTAL, inf, n_events)

    def refresh(self, table: MeasuredTable) -> None:
        """Update a refined table without recording a state; a newer generation answers."""
        placement = self.placement_of(table.partition)
        if placement is not None and placement.block in self._tables:
            self._tables[placement.block] = table

    @property
    def tables(self) -> Mapping[BlockKey, MeasuredTable]:
        """Live tables by block."""
        return self._tables

    @property
    def alphas(self) -> dict[BlockKey, float]:
        """Present alphas of the blocks, as of `Blocks`; infinite for a public total."""
        found = {b: t.alpha for b, t in self._tables.items()}
        return found if self.public is None else {**found, TOTAL: inf}

    @property
    def steps(self) -> dict[BlockKey, float]:
        """Lattice step per noisy block, in records."""
        found = {b: float(t.step) for b, t in self._tables.items()}
        if self.public is not None:
            found.pop(TOTAL, None)
        return found

    def placed(self, block: BlockKey, query: LinearQuery | None = None) -> list[PlacedPiece]:
        """The pieces of a block's live table that a query may be about, with answers as arrays."""
        table = self._tables[block]
        ids = set(table.ids_for(query))
        return [self._piece(piece) for piece in table.pieces if piece.id in ids]

    def _piece(self, piece: TableMeasurement) -> PlacedPiece:
        found = self._placed.get(piece)
        if found is None:
            if len(self._placed) >= _CACHED:
                self._placed.clear()
            placement = self.placement_of(piece.partition)
            assert placement is not None  # noqa: S101 - the table is on the lattice
            found = self._placed[piece] = PlacedPiece(placement, piece.quick_values)
        return found

    def covers(self, query: LinearQuery) -> bool:
        """Whether every table has cells for all periods that a query is about."""
        apart = self.lattice.apart
        if apart is None:
            return True
        asked = asked_periods(query, apart)
        return all(table.periods >= asked for table in self._tables.values())

    def state_at(self, n_events: int) -> AlphaState | None:
        """The state in force after `n_events` events, or None before the first."""
        place = bisect_right(self.states, n_events, key=lambda s: s.n_events)
        return self.states[place - 1] if place else None

    def may_reach(self, query: Primitive) -> bool:
        """Whether blocks may give the row: some block splits each attribute of it.

        This looks at no chain. It may wrongly say no if no block splits an attribute whose parts
        cancel in several terms, unless the terms are a box.
        """
        axes = {a for block in self.states[-1].alphas for a, _ in block}
        return bool(self.states[-1].alphas) and axes.issuperset(self._canonical(query).scope)

    def blocks(self, alphas: Mapping[BlockKey, float]) -> Blocks:
        """Blocks of these alphas with this noise."""
        return Blocks(self.lattice, alphas, self.law)

    def reaches(self, query: Primitive) -> bool:
        """Whether the blocks alone give the row."""
        if not self.may_reach(query):
            return False
        pattern = self.pattern(query)
        if not self.covers(query.row):
            return False
        return pattern is not None and self.blocks(self.alphas).is_estimable(pattern)

    def _note(self, block: BlockKey, alpha: float, n_events: int) -> None:
        alphas = {**self.states[-1].alphas, block: alpha}
        if self.public is not None:
            alphas[TOTAL] = inf
        self.states.append(AlphaState(n_events, alphas))

    def _pattern(self, query: Primitive) -> Pattern | None:
        row = self._canonical(query)
        if query.is_zero or not self._is_small(row) or not self.lattice.resolves(row):
            return None
        exact = frozenset(map(self.lattice.lifted, self._support.of(row)))
        return self.lattice.pattern(row, exact=exact)

    def _is_small(self, row: LinearQuery) -> bool:
        # Every attribute has two levels or more, so this counts components without any chain.
        if any(1 << len(t.factors) > MAX_COMPONENTS for t in row.terms):
            return False
        chains = self.lattice.chains
        if any(axis not in chains for axis in row.scope):
            return False
        most = max(prod(chains[f.axis].n_levels for f in t.factors) for t in row.terms)
        return most <= MAX_COMPONENTS and most * len(row.terms) ** 2 <= MAX_PRODUCTS

    def _placement(self, block: BlockKey, periods: frozenset[int] | None = None) -> Placement:
        self._check_strict(block)
        return placement_of_block(self.sizes, self.lattice, block, periods)

    def _placement_of(self, partition: ProductPartition) -> Placement | None:
        found = placement_of_partition(self.lattice, partition)
        if found is not None:
            self._check_strict(found.block)
        return found

    def _check_strict(self, block: BlockKey) -> None:
        # Otherwise two tables could hold one row as a cell each, with dependent noise.
        if not all(self.lattice.chains[axis].is_strict for axis, _ in block):
            raise InputError("lattice", "divide every part above the finest into two or more")


def _as_box(query: Primitive) -> LinearQuery:
    return as_box(query.row)
