"""Random records of a model: drawn attribute by attribute, and moved until they have its tables.

Agreeing tables need not come from a distribution of manageable size, and records drawn from a
smaller distribution miss a part of the tables. But records can have all the tables at once, except
for rounding. So after the draw each record, one attribute at a time, takes the value that most
lowers

    1/2 sum (count - expected)^2 / (expected + 1)

over the cells of all tables. Records of one batch do not see each other's moves. A batch is a small
part of all records, and moves with a tiny gain are skipped, so that the sum falls.
"""

from __future__ import annotations

import numpy as np

from qserver.models.marginals.graph.layout import FloatArray, IndexArray, Layout, Scope


def draw_given(
    records: IndexArray,
    table: FloatArray,
    given: Scope,
    new: Scope,
    generator: np.random.Generator,
) -> None:
    """Draw the columns `new` of the records, given their columns `given`, in place.

    Of n records with equal values in `given`, each value of `new` gets n p, rounded up or down. So
    every record has it with probability p, and their counts are as near n p as rounding allows.

    Args:
        records: codes, shape (n, attributes).
        table: joint weights, with axes `given`, then `new`; rows without weight are uniform.
    """
    n_given = int(np.prod(table.shape[: len(given)]))
    flat = table.reshape(n_given, -1)
    totals = flat.sum(axis=1, keepdims=True)
    flat = np.where(totals > 0, flat, 1.0)
    steps = np.cumsum(flat / flat.sum(axis=1, keepdims=True), axis=1)
    steps[:, -1] = 1.0
    at = np.zeros(len(records), dtype=np.intp)
    for a, n in zip(given, table.shape, strict=False):
        at = at * n + records[:, a]
    uniforms = stratified(at, n_given, generator)
    # The steps of row i lie in (i, i + 1], so that one search serves all rows.
    ladder = (steps + np.arange(n_given)[:, None]).ravel()
    cell = np.searchsorted(ladder, at + uniforms, side="right") - at * flat.shape[1]
    cell = np.clip(cell, 0, flat.shape[1] - 1)
    codes = np.unravel_index(cell, table.shape[len(given) :])
    for a, column in zip(new, codes, strict=True):
        records[:, a] = column


def stratified(group: IndexArray, n_groups: int, generator: np.random.Generator) -> FloatArray:
    """A uniform number in [0, 1) per record; within a group they are evenly spaced, shuffled.

    References:
        Systematic sampling (Madow, 1949), within strata.
    """
    counts = np.bincount(group, minlength=n_groups)
    order = generator.permutation(len(group))
    order = order[np.argsort(group[order], kind="stable")]
    first = np.repeat(np.cumsum(counts) - counts, counts)
    found = np.empty(len(group))
    found[order] = np.arange(len(group)) - first
    return (found + generator.random(n_groups)[group]) / counts[group]


MAX_WORK = 1 << 27
"""Most cells examined in one call; if two rounds would need more, fewer records move."""

_ROUNDS = 2
_BATCHES = 256
_BATCH_WORK = 1 << 20
_LEAST_GAIN = 0.1


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

    Attributes:
        work, most_work: number of cells examined per record, for all attributes and for one.
    """

    def __init__(self, records: IndexArray, layout: Layout, tables: FloatArray) -> None:
        self._records, self._sizes = records, layout.sizes
        self._strides, self._offsets = _strides(layout), layout.offsets[:-1]
        self._held = [np.flatnonzero(row) for row in self._strides]
        works = [len(held) * n for held, n in zip(self._held, layout.sizes, strict=True)]
        self.work, self.most_work = sum(works), max(works, default=0)
        counts = np.zeros(layout.n_cells)
        for i in range(len(layout.scopes)):
            cells = records @ self._strides[:, i]
            found = np.bincount(cells, minlength=int(layout.counts[i]))
            counts[layout.offsets[i] : layout.offsets[i + 1]] = found
        expected = len(records) * np.maximum(tables, 0.0)
        self._weights = 1.0 / (expected + 1.0)
        self._costs = self._weights * (counts - expected + 0.5)

    def move(self, batch: IndexArray) -> None:
        """Move these records to better values, one attribute after another."""
        for a, held in enumerate(self._held):
            if len(held):
                self._move(batch, a, held)

    def _move(self, batch: IndexArray, a: int, held: IndexArray) -> None:
        codes = self._records[batch]
        strides, old = self._strides[a, held], codes[:, a]
        # Per table and record, the record's cell if its value were 0: shape (tables, records).
        first = (codes @ self._strides[:, held] - np.outer(old, strides) + self._offsets[held]).T
        steps = strides[:, None] * np.arange(self._sizes[a])
        entering = self._costs[first[:, :, None] + steps[:, None, :]].sum(axis=0)
        here = first + np.outer(strides, old)
        entering[np.arange(len(batch)), old] -= self._weights[here].sum(axis=0)
        new = entering.argmin(axis=1)
        gains = entering[np.arange(len(batch)), old] - entering[np.arange(len(batch)), new]
        moved = np.flatnonzero(gains > _LEAST_GAIN)
        there = first[:, moved] + np.outer(strides, new[moved])
        np.subtract.at(self._costs, here[:, moved], self._weights[here[:, moved]])
        np.add.at(self._costs, there, self._weights[there])
        self._records[batch[moved], a] = new[moved]


def _strides(layout: Layout) -> IndexArray:
    """Stride of each attribute in each table, shape (attributes, tables)."""
    found = np.zeros((len(layout.sizes), len(layout.scopes)), dtype=np.intp)
    for i, scope in enumerate(layout.scopes):
        shape = layout.shape(i)
        found[list(scope), i] = [int(np.prod(shape[k + 1 :])) for k in range(len(scope))]
    return found
