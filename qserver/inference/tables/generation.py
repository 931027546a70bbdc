"""Measured tables as blocks of one lattice, and the history of their alphas.

Each table that is measured or refined makes a new state of the alphas. The states are public. An
answer used the weights of some state: these still give the query, and their error has only fallen
since.
"""

from __future__ import annotations

import copy
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import inf, prod

import numpy as np

from qserver.errors import InputError
from qserver.inference.arrays import FloatArray
from qserver.inference.tables.blocks.noisy_blocks import Blocks
from qserver.inference.tables.blocks.pattern import BlockKey, ExactSupport, Lattice, Pattern, as_box
from qserver.inference.tables.blocks.placement import (
    Placement,
    placement_of_block,
    placement_of_partition,
)
from qserver.inference.tables.measured import MeasuredTable, asked_periods
from qserver.query.linear import LinearQuery
from qserver.query.partition import ProductPartition
from qserver.query.primitive import Primitive
from qserver.records.charge import NANO
from qserver.records.history import Measurement, TableMeasurement

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
    """Alphas of a generation's blocks after `n_events` events of all generations."""

    n_events: int
    alphas: Mapping[BlockKey, float]


class Generation:
    """The tables of one snapshot on one lattice. Not safe for concurrent use.

    Args:
        sizes: number of values per attribute.
        lattice: tables may be blocks of it. Every part, except the finest, has two real parts
            below it.
        since: number of events before this generation.
    """

    def __init__(self, sizes: tuple[int, ...], lattice: Lattice, *, since: int = 0) -> None:
        self.sizes, self.lattice, self.since = sizes, lattice, since
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
        self._note(placement.block, table.alpha_nano / NANO, n_events)

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
        """Present alphas of the blocks, in epsilon per record; infinite for a public total."""
        found = {b: t.alpha_nano / NANO for b, t in self._tables.items()}
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
            indices = np.array(piece.indices, dtype=np.float64)
            values = (indices * float(piece.step)).reshape(piece.partition.shape)
            placement = self.placement_of(piece.partition)
            assert placement is not None  # noqa: S101 - the table is on the lattice
            found = self._placed[piece] = PlacedPiece(placement, values)
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

    def reaches(self, query: Primitive) -> bool:
        """Whether the blocks alone give the row."""
        if not self.may_reach(query):
            return False
        pattern = self.pattern(query)
        if not self.covers(query.row):
            return False
        return pattern is not None and Blocks(self.lattice, self.alphas).is_estimable(pattern)

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
