"""Summation: the marginals of many tables at once, and its transpose.

Edges from equal shapes to the same axes are one batch: one reshaped array, no loop per table.
Edges of rare shapes share one sparse 0/1 matrix.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from qserver.models.marginals.graph.layout import FloatArray, IndexArray, Layout, Scope, TableRun

_LEAST_BATCH = 8
"""A batch needs this many edges; fewer edges of a kind go into the sparse matrix."""


@dataclass(frozen=True)
class Edge:
    """The marginal of table `source` on the attributes `scope`, a part of its scope."""

    source: int
    scope: Scope


class Summation:
    """Linear map from the tables of a layout to the marginals of its edges.

    Args:
        source: layout of the tables that are summed.
        edges: the marginals; the attributes `edges` and `target` have them in the order used here.
    """

    def __init__(self, source: Layout, edges: Sequence[Edge]) -> None:
        self.source = source
        batches, rest = _batches(source, edges)
        self.edges = tuple([e for b in batches for e in b.edges] + rest)
        self.target = Layout(source.sizes, tuple(e.scope for e in self.edges))
        self._batches: list[_Batch] = []
        n_edges = 0
        for batch in batches:
            low = int(self.target.offsets[n_edges])
            n_edges += len(batch.edges)
            batch.output = slice(low, int(self.target.offsets[n_edges]))
            self._batches.append(batch)
        self._rest = _Rest(source, self.target, rest)
        self.parents: IndexArray = np.array([e.source for e in self.edges], dtype=np.intp)

    def sums(self, x: FloatArray) -> FloatArray:
        """The marginals of all edges in order, shape (target.n_cells,)."""
        out = np.empty(self.target.n_cells)
        for batch in self._batches:
            batch.sum_into(out, x)
        self._rest.sum_into(out, x)
        return out

    def spread(self, y: FloatArray, onto: FloatArray) -> None:
        """Add each edge's values to every cell that was summed into them, in place."""
        for batch in self._batches:
            batch.spread(y, onto)
        self._rest.spread(y, onto)


class _Batch:
    """Edges from one run of equal tables to the same axes."""

    def __init__(self, run: TableRun, keep: tuple[int, ...], edges: list[Edge]) -> None:
        self.run, self.keep, self.edges = run, keep, edges
        self.output = slice(0, 0)
        self.inside = np.array([e.source - run.start for e in edges], dtype=np.intp)
        self.is_whole = len(edges) == run.n
        # If most tables of the run take part, summing all is faster than copying those.
        self.is_most = 2 * len(edges) >= run.n

    @property
    def kept(self) -> tuple[int, ...]:
        return tuple(self.run.shape[i] for i in self.keep)

    def sum_into(self, out: FloatArray, x: FloatArray) -> None:
        tables = x[self.run.cells].reshape(self.run.n, *self.run.shape)
        found = out[self.output].reshape(len(self.edges), -1)
        if self.is_whole:
            found[:] = _summed(tables, self.keep)
        elif self.is_most:
            found[:] = _summed(tables, self.keep)[self.inside]
        else:
            found[:] = _summed(tables[self.inside], self.keep)

    def spread(self, y: FloatArray, onto: FloatArray) -> None:
        tables = onto[self.run.cells].reshape(self.run.n, *self.run.shape)
        values = y[self.output].reshape(len(self.edges), *self.kept)
        wide = [n if i in self.keep else 1 for i, n in enumerate(self.run.shape)]
        if self.is_whole:
            tables += values.reshape(self.run.n, *wide)
        elif self.is_most:
            full = np.zeros((self.run.n, *self.kept))
            full[self.inside] = values
            tables += full.reshape(self.run.n, *wide)
        else:
            tables[self.inside] += values.reshape(len(self.edges), *wide)


class _Rest:
    """All other edges, which come last, as one sparse matrix and its transpose."""

    def __init__(self, source: Layout, target: Layout, edges: Sequence[Edge]) -> None:
        first = len(target.scopes) - len(edges)
        start = int(target.offsets[first])
        self.output = slice(start, target.n_cells)
        columns = [_cells(source, e.source) for e in edges]
        rows = [
            int(target.offsets[first + i])
            - start
            + cells_summed(source.sizes, source.scopes[e.source], e.scope)
            for i, e in enumerate(edges)
        ]
        shape = (target.n_cells - start, source.n_cells)
        where = (
            np.concatenate([np.zeros(0, int), *rows]),
            np.concatenate([np.zeros(0, int), *columns]),
        )
        self.matrix = sparse.csr_array((np.ones(len(where[0])), where), shape=shape)
        self.transposed = self.matrix.T.tocsr()

    def sum_into(self, out: FloatArray, x: FloatArray) -> None:
        if self.matrix.nnz:
            out[self.output] = np.asarray(self.matrix @ x)

    def spread(self, y: FloatArray, onto: FloatArray) -> None:
        if self.matrix.nnz:
            onto += np.asarray(self.transposed @ y[self.output])


def cells_summed(sizes: Sequence[int], scope: Scope, kept: Scope) -> IndexArray:
    """For each cell of a table on `scope`, the cell of the marginal on `kept` that includes it."""
    shape = tuple(sizes[a] for a in scope)
    wide = tuple(sizes[a] if a in kept else 1 for a in scope)
    cells = np.arange(int(np.prod(wide)), dtype=np.intp).reshape(wide)
    return np.ascontiguousarray(np.broadcast_to(cells, shape)).ravel()


def _cells(layout: Layout, i: int) -> IndexArray:
    return np.arange(layout.offsets[i], layout.offsets[i + 1], dtype=np.intp)


def _summed(tables: FloatArray, keep: tuple[int, ...]) -> FloatArray:
    """Tables of shape (n, *shape) summed over every axis not in `keep`, as (n, cells kept)."""
    shape = list(tables.shape)
    # From the last axis to the first, so that earlier axes sum smaller arrays.
    for axis in range(len(shape) - 1, 0, -1):
        if axis - 1 in keep:
            continue
        n, after = shape[axis], int(np.prod(shape[axis + 1 :]))
        flat = tables.reshape(-1, n, after) if after > 1 else tables.reshape(-1, n)
        tables = np.matmul(np.ones(n), flat) if after > 1 else flat @ np.ones(n)
        del shape[axis]
    return tables.reshape(shape[0], -1)


def _batches(source: Layout, edges: Sequence[Edge]) -> tuple[list[_Batch], list[Edge]]:
    """Edges with many others of their shape as batches, and the remaining edges."""
    run_of = np.repeat(np.arange(len(source.runs)), [r.n for r in source.runs])
    kinds: dict[tuple[int, tuple[int, ...]], list[Edge]] = defaultdict(list)
    for edge in edges:
        scope = source.scopes[edge.source]
        keep = tuple(i for i, a in enumerate(scope) if a in edge.scope)
        kinds[int(run_of[edge.source]), keep].append(edge)
    batches, rest = [], []
    for (run, keep), found in sorted(kinds.items()):
        distinct = len({e.source for e in found}) == len(found)
        if len(found) < _LEAST_BATCH or not distinct:
            rest += found
        else:
            batches.append(_Batch(source.runs[run], keep, sorted(found, key=lambda e: e.source)))
    return batches, rest
