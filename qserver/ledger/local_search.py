"""The greatest value of a sum of tables that a local search finds: never more than there is.

The search walks from many cells at once. Of one axis after the other it takes the class with the
greatest sum, until none is greater. It begins at cells that are spread evenly. Then it begins again
at the best one, moved to the greatest entry of each of the largest tables: a narrow count is
nothing in most cells, and no single step may lead to it. Where each value of an axis has a search
of its own, that begins at the cells that are best over all values.

What is found depends on the tables alone, so every process finds the same.

References:
    Besag (1986), "On the statistical analysis of dirty pictures": steps on one variable at a time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from itertools import count, cycle

import numpy as np
from numpy.typing import NDArray

from qserver.ledger.constants import LIMITS
from qserver.ledger.loss_tables import Indices, Partition, SumTable, Values, common, parents

Cells = NDArray[np.intp]
"""The class of some cells on each axis, shape (cells, axes)."""


@dataclass(frozen=True, eq=False)
class _Axis:
    """One axis of some tables.

    Args:
        classes: a partition that refines that of each table.
        tables: numbers of the tables that depend on the axis, shape (tables,).
        steps: per such table and class, how far its entries lie from those of its first class,
            shape (tables, classes).
    """

    classes: Partition
    tables: Indices
    steps: Indices

    def only(self, is_chosen: NDArray[np.bool_], numbers: Indices) -> _Axis | None:
        """The axis of chosen tables, with new numbers; None if none depends on it."""
        kept = is_chosen[self.tables]
        if not kept.any():
            return None
        return _Axis(self.classes, numbers[self.tables[kept]], self.steps[kept])

    def refined(self, classes: Partition) -> _Axis:
        """The same with finer classes."""
        if classes is self.classes:
            return self
        return _Axis(classes, self.tables, self.steps[:, parents(self.classes, classes)])


@dataclass(frozen=True, eq=False)
class LaidTables:
    """Tables one after the other, to be looked up for many cells at once.

    Args:
        tables: at least one.
        ranks: a sum up to a rank has the tables of that rank and lower ones, shape (tables,).
        axes: of the tables.
        values: their entries, perhaps with those of further tables.
        starts: the place of each table's first entry.
    """

    tables: Sequence[SumTable]
    ranks: Indices
    axes: Mapping[int, _Axis]
    values: Values
    starts: Indices

    @classmethod
    def of(cls, tables: Sequence[SumTable], ranks: Sequence[int]) -> LaidTables:
        """Lay out some tables."""
        parts: dict[int, list[tuple[int, Partition, int]]] = {}
        for number, table in enumerate(tables):
            stride = table.values.size
            for axis, partition in table.layout.by_axis.items():
                stride //= partition.n
                parts.setdefault(axis, []).append((number, partition, stride))
        axes = {axis: _axis(parts[axis]) for axis in sorted(parts)}
        values = np.concatenate([t.values.ravel() for t in tables])
        starts = np.cumsum([0, *(t.values.size for t in tables)])[:-1]
        return cls(tables, np.array(ranks, dtype=np.intp), axes, values, starts)

    def only(self, chosen: Sequence[int]) -> LaidTables:
        """Some of the tables, by their numbers."""
        is_chosen = np.zeros(len(self.tables), dtype=bool)
        is_chosen[list(chosen)] = True
        numbers = np.cumsum(is_chosen) - 1
        axes = {a: part for a, x in self.axes.items() if (part := x.only(is_chosen, numbers))}
        tables = [t for t, is_one in zip(self.tables, is_chosen, strict=True) if is_one]
        return LaidTables(tables, self.ranks[is_chosen], axes, self.values, self.starts[is_chosen])

    def refined(self, classes: Mapping[int, Partition]) -> LaidTables:
        """The same tables on finer classes."""
        return replace(self, axes={a: x.refined(classes[a]) for a, x in self.axes.items()})

    @property
    def n_looks(self) -> int:
        """Entries that a round of steps from one cell looks at."""
        return sum(axis.steps.size for axis in self.axes.values())


def _axis(parts: Sequence[tuple[int, Partition, int]]) -> _Axis:
    """The axis of tables with these numbers, partitions, and distances of classes."""
    classes = reduce(common, (partition for _, partition, _ in parts))
    steps = [parents(partition, classes) * stride for _, partition, stride in parts]
    return _Axis(classes, np.array([number for number, _, _ in parts]), np.array(steps))


class _Walk:
    """Cells on their way through the tables of one block.

    Args:
        cells: shape (cells, axes), with the places of the axes in `column`.
        ranks: up to which tables count, shape (cells,).
    """

    def __init__(
        self, block: LaidTables, cells: Cells, column: Mapping[int, int], ranks: Indices
    ) -> None:
        self._block = block
        self._counts = (block.ranks[:, None] <= ranks).astype(np.int64)
        self._places = block.starts[:, None].repeat(len(cells), axis=1)
        for axis, one in block.axes.items():
            self._places[one.tables] += one.steps[:, cells[:, column[axis]]]

    @property
    def sums(self) -> Values:
        """The sum of the tables that count, for each cell."""
        return np.asarray((self._block.values[self._places] * self._counts).sum(axis=0))

    def seen(self, axis: int, classes: Indices) -> Values:
        """The same of the tables on an axis at each of its classes, shape (cells, classes)."""
        one = self._block.axes[axis]
        rest = self._places[one.tables] - one.steps[:, classes]
        values = self._block.values.take(rest[:, :, None] + one.steps[:, None, :])
        return np.asarray(np.einsum("tcv,tc->cv", values, self._counts[one.tables]))

    def step(self, axis: int, classes: Indices, chosen: Indices) -> None:
        """Move the cells from their class of an axis to another."""
        one = self._block.axes.get(axis)
        if one is not None:
            self._places[one.tables] += one.steps[:, chosen] - one.steps[:, classes]

    def has(self, axis: int) -> bool:
        """Whether a table depends on the axis."""
        return axis in self._block.axes


@dataclass(frozen=True, eq=False)
class Found:
    """Cells that no step makes greater.

    Args:
        cells: the class of each on every axis, shape (cells, axes).
        ranks: up to which tables count, shape (cells,).
        sums: of these tables, shape (cells,).
    """

    cells: Cells
    ranks: Indices
    sums: Values

    def joined_with(self, other: Found) -> Found:
        """The cells of both."""
        names = ("cells", "ranks", "sums")
        return Found(*(np.concatenate([getattr(x, name) for x in (self, other)]) for name in names))

    def at(self, chosen: Indices | NDArray[np.bool_]) -> Found:
        """Some of the cells."""
        return Found(self.cells[chosen], self.ranks[chosen], self.sums[chosen])


@dataclass(frozen=True, eq=False)
class SearchedSum:
    """A sum of tables, and the cells of great sums that a search finds.

    Args:
        blocks: the tables, with the same classes on an axis of several blocks.
        ranks: those up to which sums are wanted: all are searched for at once.
        along: an axis of the tables; each of its classes has a search of its own.
        before: the sum without the last block. The search begins where that one ended.
    """

    blocks: tuple[LaidTables, ...]
    ranks: tuple[int, ...] = (0,)
    along: int | None = None
    before: SearchedSum | None = None

    @classmethod
    def of(cls, tables: Sequence[SumTable], *, along: int | None = None) -> SearchedSum:
        """The sum of some tables, at least one."""
        return cls((LaidTables.of(tables, [0] * len(tables)),), along=along)

    def with_tables(self, tables: Sequence[SumTable], *, rank: int = 0) -> SearchedSum:
        """The sum up to one rank with more tables; they must not split a class of `along`."""
        if not tables:
            return self
        blocks = (*self.blocks, LaidTables.of(tables, [rank] * len(tables)))
        classes = dict[int, Partition]()
        for block in blocks:
            for axis, one in block.axes.items():
                known = classes.get(axis)
                classes[axis] = one.classes if known is None else common(known, one.classes)
        refined = tuple(block.refined(classes) for block in blocks)
        return SearchedSum(refined, (rank,), self.along, self)

    def top(self, rank: int = 0) -> int:
        """The greatest sum found of the tables up to a rank."""
        return int(self._found.sums[self._found.ranks == rank].max())

    def tops(self, rank: int = 0) -> Values:
        """The same of each class of the axis `along`."""
        known = self._found.at(self._found.ranks == rank)
        found = np.zeros(self._n_classes, dtype=np.int64)
        np.maximum.at(found, self._class_of(known.cells), known.sums)
        return found

    @cached_property
    def _found(self) -> Found:
        """Cells that no step makes greater, the greatest ones of each class and rank."""
        return self._searched() if self.before is None else self._searched_after(self.before)

    def _searched(self) -> Found:
        n_cells, (*looser, last) = self._n_cells(LIMITS.most_looks), self.ranks
        found = self._climbed(self._starts(last, n_cells), (last,))
        best = self._greatest(found, n_each=1).cells
        tables = [table for block in self.blocks for table in block.tables]
        largest = sorted(tables, key=lambda t: -t.top)[:n_cells]
        moved = [self._moved(best, table) for table in largest]
        found = found.joined_with(self._climbed(np.concatenate(moved), (last,)))
        found = self._greatest(found, n_each=self._n_kept)
        if not looser:
            return found
        # The greatest cells of all tables are seldom far from those of fewer.
        starts = np.concatenate([found.cells, *self._fewer_spread()])
        both = found.joined_with(self._climbed(starts, looser))
        return self._greatest(both, n_each=self._n_kept)

    def _searched_after(self, before: SearchedSum) -> Found:
        known = self._read(before)
        first = np.unique(self._class_of(known), return_index=True)[1]
        moved = [self._moved(known[first], table) for table in self.blocks[-1].tables]
        return self._climbed(np.concatenate([known, *moved, *self._fewer_spread()]), self.ranks)

    def _starts(self, rank: int, n_cells: int) -> Cells:
        """Cells spread evenly; for many classes the greatest cells of all, in each class."""
        if self.along is None:
            return self._spread(n_cells)
        of_all = replace(self, ranks=(rank,), along=None)._found.cells
        cells = np.tile(of_all, (self._n_classes, 1))
        cells[:, self._place[self.along]] = np.arange(self._n_classes).repeat(len(of_all))
        return cells

    def _fewer_spread(self) -> list[Cells]:
        """A few more cells, unless each of many classes has some."""
        if self.along is not None:
            return []
        return [self._spread(self._n_cells(LIMITS.fewer_looks))]

    @property
    def _n_kept(self) -> int:
        return LIMITS.kept_cells if self.along is None else 1

    @cached_property
    def _classes(self) -> dict[int, Partition]:
        """The classes of each axis, in the order of the cells' columns."""
        found = {axis: one.classes for block in self.blocks for axis, one in block.axes.items()}
        return {axis: found[axis] for axis in sorted(found)}

    @cached_property
    def _place(self) -> dict[int, int]:
        return {axis: i for i, axis in enumerate(self._classes)}

    @property
    def _n_classes(self) -> int:
        return 1 if self.along is None else self._classes[self.along].n

    def _class_of(self, cells: Cells) -> Indices:
        """The class of each cell on the axis `along`."""
        if self.along is None:
            return np.zeros(len(cells), dtype=np.intp)
        return cells[:, self._place[self.along]]

    def _n_cells(self, most_looks: int) -> int:
        """How many cells of each class a search begins at: fewer where a step takes longer."""
        n_looks = self._n_classes * sum(block.n_looks for block in self.blocks)
        return max(LIMITS.least_cells, min(LIMITS.most_cells, most_looks // (n_looks + 1)))

    def _spread(self, n: int) -> Cells:
        """Cells spread evenly: multiples of square roots less their whole parts."""
        sizes = np.array([classes.n for classes in self._classes.values()])
        parts = np.arange(n)[:, None] * np.sqrt(_primes(len(sizes))) % 1.0
        return np.asarray((parts * sizes).astype(np.intp))

    def _read(self, other: SearchedSum) -> Cells:
        """The cells found by another sum; at the first class of an axis that it leaves out."""
        known = other._found.cells[other._found.ranks == self.ranks[0]]
        found = np.zeros((len(known), len(self._classes)), dtype=np.intp)
        for i, (axis, classes) in enumerate(other._classes.items()):
            found[:, self._place[axis]] = self._classes[axis].class_of(classes.first[known[:, i]])
        return found

    def _moved(self, cells: Cells, table: SumTable) -> Cells:
        """The cells at a table's greatest entry, of those with their class of `along`.

        The first and the last of equal entries count: over pairs of cells each is the other one's
        pair the other way round.
        """
        values, others = table.values[None], dict(table.layout.by_axis)
        if self.along in others:
            coarse = others.pop(self.along)
            of = parents(coarse, self._classes[self.along])[self._class_of(cells)]
            values = np.moveaxis(table.values, table.layout.axes.index(self.along), 0)[of]
        flat = values.reshape(len(values), -1)
        first, last = flat.argmax(axis=1), flat.shape[1] - 1 - flat[:, ::-1].argmax(axis=1)
        return np.concatenate([self._put(cells, others, places) for places in (first, last)])

    def _put(self, cells: Cells, axes: Mapping[int, Partition], places: Indices) -> Cells:
        """The cells, on these axes at some places of a table of these."""
        cells = cells.copy()
        if axes:
            chosen = np.unravel_index(places, tuple(p.n for p in axes.values()))
            for (axis, partition), classes in zip(axes.items(), chosen, strict=True):
                firsts = partition.first[classes]
                cells[:, self._place[axis]] = self._classes[axis].class_of(firsts)
        return cells

    def _greatest(self, found: Found, *, n_each: int) -> Found:
        """The greatest cells of each class and rank, each once."""
        whole = np.column_stack([found.ranks, self._class_of(found.cells), found.cells])
        kept = found.at(np.unique(whole, axis=0, return_index=True)[1])
        groups = kept.ranks * self._n_classes + self._class_of(kept.cells)
        order = np.lexsort((-kept.sums, groups))
        number = np.arange(len(order)) - np.searchsorted(groups[order], groups[order])
        return kept.at(order[number < n_each])

    def _climbed(self, starts: Cells, up_to: Sequence[int]) -> Found:
        """The cells moved until no step makes the sum up to each rank greater.

        Some at a time, for lack of memory.
        """
        starts = np.unique(starts, axis=0)
        cells = np.tile(starts, (len(up_to), 1))
        ranks = np.array(up_to, dtype=np.intp).repeat(len(starts))
        axes = [axis for block in self.blocks for axis in block.axes.values()]
        n = max(1, LIMITS.most_seen // max((axis.steps.size for axis in axes), default=1))
        parts = range(0, len(cells), n)
        found = (self._climbed_part(cells[i : i + n], ranks[i : i + n]) for i in parts)
        return reduce(Found.joined_with, found)

    def _climbed_part(self, cells: Cells, ranks: Indices) -> Found:
        cells, each = cells.copy(), np.arange(len(cells))
        walks = [_Walk(block, cells, self._place, ranks) for block in self.blocks]
        sums = reduce(np.add, (walk.sums for walk in walks))
        axes = [(axis, i) for axis, i in self._place.items() if axis != self.along]
        n_left = len(axes)
        for axis, i in cycle(axes):
            seen = reduce(np.add, (w.seen(axis, cells[:, i]) for w in walks if w.has(axis)))
            best = seen.argmax(axis=1)
            gains = seen[each, best] - seen[each, cells[:, i]]
            if gains.any():
                chosen = np.where(gains > 0, best, cells[:, i])
                for walk in walks:
                    walk.step(axis, cells[:, i], chosen)
                cells[:, i], sums, n_left = chosen, sums + gains, len(axes)
            n_left -= 1
            if not n_left:
                break
        return Found(cells, ranks, sums)


def _primes(n: int) -> NDArray[np.int64]:
    """The first primes: no two of their square roots have a whole multiple in common."""
    found = list[int]()
    for candidate in count(2):
        if len(found) == n:
            break
        if all(candidate % prime for prime in found):
            found.append(candidate)
    return np.array(found, dtype=np.int64)
