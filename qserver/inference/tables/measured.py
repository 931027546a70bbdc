"""Measured tables in pieces: of data that arrive over time each arrival adds a piece.

A piece is a table of its own, of the periods that it was bought for: its cells have chains and
charges of their own. Pieces with the same other attributes are one table with more cells. They
have one alpha, since they are bought at the alpha in force and raised together; while they are
being raised, the least one counts for all.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache

import numpy as np

from qserver.inference.tables.blocks.chain import Chain, default_chain, regular_chain, single_values
from qserver.inference.tables.blocks.pattern import Lattice
from qserver.inference.tables.blocks.placement import DefaultChains, OverlaidChains
from qserver.query.calendar.sealed import periods_of
from qserver.query.linear import LinearQuery
from qserver.query.partition import ProductPartition
from qserver.records.history import TableMeasurement


@dataclass(frozen=True, eq=False)
class MeasuredTable:
    """A live table: one piece, or one of each arrival.

    Args:
        pieces: of one step, with no cell in common; in the order of their ids.
        apart: the attribute of the periods; None where all data are there.
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
        """1 / b of every cell at least, in nano-epsilon per record."""
        return min(piece.alpha_nano for piece in self.pieces)

    @cached_property
    def periods(self) -> frozenset[int]:
        """The periods that have cells; empty where all data are there."""
        return frozenset(
            p for piece in self.pieces for p in periods_in(piece.partition, self.apart)
        )

    def with_piece(self, piece: TableMeasurement) -> MeasuredTable:
        """The table with a piece that is new, or raised."""
        others = [old for old in self.pieces if old.id != piece.id]
        return replace(self, pieces=tuple(sorted([*others, piece], key=lambda p: p.id)))

    def ids_for(self, query: LinearQuery | None) -> Iterator[int]:
        """Ids of the pieces that have cells in a query's periods."""
        if self.apart is None or query is None:
            yield from (piece.id for piece in self.pieces)
            return
        asked = asked_periods(query, self.apart)
        for piece in self.pieces:
            if asked & set(periods_in(piece.partition, self.apart)):
                yield piece.id

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
        """Take in a piece, new or raised; returns the table that it is of."""
        first = self._of_piece.get(piece.id)
        if first is None:
            first = self._like(piece)
        old = None if first is None else self._found[first]
        new = MeasuredTable((piece,), self.apart) if old is None else old.with_piece(piece)
        self._of_piece[piece.id] = new.id
        self._found[new.id] = new
        return new

    def put(self, table: MeasuredTable) -> None:
        """Take in a whole table."""
        self._found[table.id] = table
        self._of_piece.update(dict.fromkeys((p.id for p in table.pieces), table.id))

    def __iter__(self) -> Iterator[MeasuredTable]:
        return (self._found[number] for number in sorted(self._found))

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
    """The attributes of a piece beside the periods."""
    return tuple(a for a in piece.partition.axes if a.axis != apart)


@lru_cache(maxsize=1 << 14)
def periods_in(partition: ProductPartition, apart: int | None) -> tuple[int, ...]:
    """The periods that have cells of their own in a partition."""
    found = next((a for a in partition.axes if a.axis == apart), None)
    if found is None or found.n != np.count_nonzero(found.dense >= 0):
        return ()
    return tuple(np.flatnonzero(found.dense >= 0).tolist())


@lru_cache(maxsize=1 << 14)
def asked_periods(query: LinearQuery, apart: int) -> frozenset[int]:
    """The periods in which a query weighs some cell; public, as the query is."""
    return frozenset(p for run in periods_of(query, apart) for p in run)


def lattice_of(sizes: tuple[int, ...], apart: int | None) -> Lattice:
    """Chains over single values; the periods have no levels between single ones and all."""
    chains = DefaultChains(sizes)
    if apart is None:
        return Lattice(chains)
    return Lattice(OverlaidChains(chains, {apart: flat_chain(apart, sizes[apart])}), apart)


def flat_chain(axis: int, size: int) -> Chain:
    """The chain of all values and of single ones."""
    classes = single_values(axis, size)
    return regular_chain(classes, (1, size)) if size > 1 else default_chain(classes)
