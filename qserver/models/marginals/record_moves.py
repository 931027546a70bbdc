"""Records moved until they have the tables of a model, or nearly so.

Agreeing tables need not come from a distribution of manageable size, and records drawn from a
smaller distribution miss a part of the tables. But records can have all the tables at once, except
for rounding. So after the draw each record, one attribute at a time, takes the value that most
lowers

    1/2 sum (count - expected)^2 / (expected + 1)

over the cells of all tables. Records of one batch do not see each other's moves. A batch is a small
part of all records, and moves with a tiny gain are skipped, so that the sum falls.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from qserver.models.marginals.graph.layout import FloatArray, IndexArray, Layout, Scope

MAX_WORK = 1 << 27
"""Most cells examined in one call; if two rounds would need more, fewer records move."""

_ROUNDS = 2
_BATCHES = 256
_BATCH_WORK = 1 << 20
_LEAST_GAIN = 0.1


def moved_part(layout: Layout, n: int, max_work: int) -> float:
    """The part of the moves of n records that so much work is enough for; may be above one."""
    work = sum(layout.sizes[a] for scope in layout.scopes for a in scope)
    return max_work / max(_ROUNDS * n * work, 1)


def move_towards(
    records: IndexArray,
    layout: Layout,
    tables: FloatArray,
    generator: np.random.Generator,
    *,
    max_work: int = MAX_WORK,
) -> None:
    """Change the records, in place, until their tables are nearly those given.

    Args:
        records: codes, shape (n, attributes).
        tables: of total one, flat.
    """
    n, moves = len(records), _Moves(records, layout, tables)
    left = min(_ROUNDS * n, max_work // max(moves.work, 1))
    size = max(1, min(n // _BATCHES, _BATCH_WORK // max(moves.most_work, 1)))
    while left > 0:
        order = generator.permutation(n)[:left]
        left -= len(order)
        for start in range(0, len(order), size):
            moves.move(order[start : start + size])


class _Moves:
    """Records, and per cell the cost of one more record.

    The costs of a table are held once per attribute of it, with that attribute last: what every
    value of a record would cost is one row of them.

    Attributes:
        work, most_work: number of cells examined per record, for all attributes and for one.
    """

    def __init__(self, records: IndexArray, layout: Layout, tables: FloatArray) -> None:
        self._records, sizes = records, layout.sizes
        whole = _Places.of(layout, [(s, i) for i, s in enumerate(layout.scopes)])
        holders = [[i for i, s in enumerate(layout.scopes) if a in s] for a in range(len(sizes))]
        works = [len(held) * n for held, n in zip(holders, sizes, strict=True)]
        self.work, self.most_work = sum(works), max(works, default=0)
        counts = np.zeros(layout.n_cells)
        for i in range(len(layout.scopes)):
            cells = records @ whole.strides[:, i]
            found = np.bincount(cells, minlength=int(layout.counts[i]))
            counts[layout.offsets[i] : layout.offsets[i + 1]] = found
        expected = len(records) * np.maximum(tables, 0.0)
        self._weights = 1.0 / (expected + 1.0)
        costs = self._weights * (counts - expected + 0.5)
        copied = [(a, i) for a, held in enumerate(holders) for i in held]
        orders = [((*(b for b in layout.scopes[i] if b != a), a), i) for a, i in copied]
        copies = _Places.of(layout, orders)
        self._costs = np.empty(int(copies.ends[-1, 0]) if copied else 0)
        for (a, i), start, end in zip(copied, copies.offsets.flat, copies.ends.flat, strict=True):
            turned = np.moveaxis(layout.table(costs, i), layout.scopes[i].index(a), -1)
            self._costs[start:end] = turned.ravel()
        own = [np.flatnonzero([b == a for b, _ in copied]) for a in range(len(sizes))]
        self._attributes = [
            _Movable.of(a, sizes[a], whole, copies, kept, self._costs)
            for a, kept in enumerate(own)
            if len(kept)
        ]

    def move(self, batch: IndexArray) -> None:
        """Move these records to better values, one attribute after another."""
        codes, all_of = self._records[batch].T.astype(np.float64), np.arange(len(batch))
        for one in self._attributes:
            old = codes[one.attribute].astype(np.intp)
            rows, cells, copies = one.places(codes)
            weights, entering = self._weights[cells], one.costs.take(rows, axis=0).sum(axis=0)
            entering[all_of, old] -= weights.sum(axis=0)
            new = entering.argmin(axis=1)
            gains = entering[all_of, old] - entering[all_of, new]
            moved = np.flatnonzero(gains > _LEAST_GAIN)
            if not len(moved):
                continue
            codes[one.attribute, moved] = new[moved]
            self._records[batch[moved], one.attribute] = new[moved]
            here, steps = copies[:, moved], (new - old)[moved]
            there = cells[:, moved] + np.outer(one.steps, steps)
            leaving, rises = (w[one.table_of] for w in (weights[:, moved], self._weights[there]))
            there = here + np.outer(one.copied_steps, steps)
            np.subtract.at(self._costs, here.ravel(), leaving.ravel())
            np.add.at(self._costs, there.ravel(), rises.ravel())


@dataclass(frozen=True)
class _Places:
    """Where the cells of records are, in tables that follow each other.

    Args:
        strides: of each attribute in each table, shape (attributes, tables).
        offsets, ends: of the tables, shape (tables, 1).
        sources: the place in the layout of each table.
    """

    strides: IndexArray
    offsets: IndexArray
    ends: IndexArray
    sources: IndexArray

    @classmethod
    def of(cls, layout: Layout, ordered: Sequence[tuple[Scope, int]]) -> _Places:
        """Tables with their attributes in these orders."""
        strides = np.zeros((len(layout.sizes), len(ordered)), dtype=np.intp)
        for k, (order, _) in enumerate(ordered):
            shape = [layout.sizes[a] for a in order]
            strides[list(order), k] = [prod(shape[j + 1 :]) for j in range(len(order))]
        sources = np.array([i for _, i in ordered], dtype=np.intp)
        counts = np.asarray(layout.counts, dtype=np.intp)[sources][:, None]
        ends = np.cumsum(counts, axis=0)
        return cls(strides, ends - counts, ends, sources)

    def chosen(self, kept: IndexArray) -> _Places:
        """Some of the tables."""
        found = (x[kept] for x in (self.offsets, self.ends, self.sources))
        return _Places(self.strides[:, kept], *found)


@dataclass(frozen=True)
class _Movable:
    """One attribute of the records that move.

    Args:
        costs: the copies that have it last, of shape (rows, values).
        strides, offsets: of these rows, of the tables that have it, and of their copies; floats,
            of which products are much faster, and exact.
        steps, copied_steps: its own stride in each table and copy.
        table_of: for each copy its place among the tables.
    """

    attribute: int
    costs: FloatArray
    strides: FloatArray
    offsets: FloatArray
    steps: IndexArray
    copied_steps: IndexArray
    table_of: IndexArray

    @classmethod
    def of(
        cls, a: int, n: int, tables: _Places, copies: _Places, own: IndexArray, costs: FloatArray
    ) -> _Movable:
        """The movable attribute `a`, of n values, whose copies with it last are `own`, in a row.

        Args:
            costs: of all copies; others change them, too.
        """
        held = tables.chosen(np.flatnonzero(tables.strides[a]))
        touched = copies.chosen(np.flatnonzero(copies.strides[a]))
        last = copies.chosen(own)
        first, end = int(last.offsets[0, 0]), int(last.ends[-1, 0])
        by_row = last.strides // n
        by_row[a] = 0
        strides = np.concatenate([by_row, held.strides, touched.strides], axis=1).T
        offsets = np.concatenate([(last.offsets - first) // n, held.offsets, touched.offsets])
        return cls(
            attribute=a,
            costs=costs[first:end].reshape(-1, n),
            strides=strides.astype(np.float64),
            offsets=offsets.astype(np.float64),
            steps=held.strides[a],
            copied_steps=touched.strides[a],
            table_of=np.searchsorted(held.sources, touched.sources),
        )

    def places(self, codes: FloatArray) -> tuple[IndexArray, IndexArray, IndexArray]:
        """The row, the cells of tables and of copies, each of shape (tables, records)."""
        found, n = (self.strides @ codes + self.offsets).astype(np.intp), len(self.steps)
        return found[:n], found[n : 2 * n], found[2 * n :]
