"""Exact marginals by a junction tree: two sweeps of messages in the log domain.

Triangulation gives the cliques of a chordal graph around all scopes, and their tree.

Summation: the marginals of many tables at once, and its transpose.

Edges from equal shapes to the same axes are one batch: one reshaped array, no loop per table.
Edges of rare shapes share one sparse 0/1 matrix.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from scipy import sparse

from qserver.errors import CapacityError
from qserver.models.marginals.graph.layout import (
    FloatArray,
    IndexArray,
    Layout,
    Scope,
    TableRun,
    distinct,
    layout_of,
)

_LEAST_BATCH = 8
"""A batch needs this many edges; fewer edges of a kind go into the sparse matrix."""

_LARGE_TABLE = 1 << 12
"""Edges from tables of so many cells are batches all the same.

The sparse matrix takes about 50 bytes per cell and edge: .7 GB for 55 pairs of a clique of 177,147.
"""


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
        is_small = prod(source.runs[run].shape) < _LARGE_TABLE
        if (is_small and len(found) < _LEAST_BATCH) or not distinct:
            rest += found
        else:
            batches.append(_Batch(source.runs[run], keep, sorted(found, key=lambda e: e.source)))
    return batches, rest


@dataclass(frozen=True)
class CliqueTree:
    """Cliques in an order in which parents come before children.

    Args:
        cliques: attributes of each clique, rising.
        parents: index of each clique's parent, -1 for a root.
        n_cells: exact number of cells of all cliques together.
    """

    cliques: tuple[Scope, ...]
    parents: tuple[int, ...]
    n_cells: int

    def separator(self, i: int) -> Scope:
        """The attributes that clique i shares with its parent; empty for a root."""
        if self.parents[i] < 0:
            return ()
        return tuple(sorted(set(self.cliques[i]) & set(self.cliques[self.parents[i]])))


def clique_tree(sizes: Sequence[int], scopes: Iterable[Scope]) -> CliqueTree:
    """A clique tree by elimination in the order of least fill-in; ties go to the smaller table."""
    scopes = tuple(scopes)
    attributes = sorted({a for scope in scopes for a in scope})
    place = {a: i for i, a in enumerate(attributes)}
    joined = np.zeros((len(attributes), len(attributes)))
    for scope in scopes:
        rows = [place[a] for a in scope]
        joined[np.ix_(rows, rows)] = 1.0
    np.fill_diagonal(joined, 0.0)
    logs = np.log([sizes[a] for a in attributes])
    left = list(range(len(attributes)))
    found: list[set[int]] = []
    while left:
        near = joined[np.ix_(left, left)]
        degree = near.sum(axis=1)
        # Pairs of neighbours, less the pairs that are joined already.
        missing = degree * (degree - 1) / 2 - ((near @ near) * near).sum(axis=1) / 2
        first = np.lexsort((near @ logs[left], np.round(missing)))[0]
        a = left.pop(int(first))
        around = [b for b in left if joined[a, b]]
        found.append({attributes[a], *(attributes[b] for b in around)})
        joined[np.ix_(around, around)] = 1.0
        joined[around, around] = 0.0
    return _as_tree(sizes, _maximal(found))


def _maximal(cliques: list[set[int]]) -> list[set[int]]:
    """Cliques that lie in no other; a later eliminated one can only lie in an earlier one."""
    kept: list[set[int]] = []
    for clique in cliques:
        if not any(clique <= other for other in kept):
            kept.append(clique)
    return kept


def _as_tree(sizes: Sequence[int], cliques: list[set[int]]) -> CliqueTree:
    """Join every clique to the earlier one with which it shares most (Prim's algorithm)."""
    order, parents = [], []
    best = dict.fromkeys(range(len(cliques)), (0, -1))
    while best:
        i = max(best, key=lambda j: (best[j][0], -j))
        shared, parent = best.pop(i)
        parents.append(parent if shared else -1)
        order.append(i)
        for j, (most, _) in best.items():
            common = len(cliques[i] & cliques[j])
            if common > most:
                best[j] = (common, len(order) - 1)
    scopes = tuple(tuple(sorted(cliques[i])) for i in order)
    n_cells = sum(prod(sizes[a] for a in scope) for scope in scopes)
    return CliqueTree(scopes, tuple(parents), n_cells)


MAX_CELLS = 1 << 22
"""Most cells of all cliques of a junction tree together; the oracle refuses more."""

# Above this size of potentials the rounding of their sums exceeds 10^-12 of a cell.
_LARGE = 1e4


@dataclass(frozen=True)
class Beliefs:
    """Marginals for given log-potentials, and how far the tables are from agreeing.

    Args:
        tables: flat, total one each, in the order of the oracle's layout.
        inconsistency: largest difference between tables that should agree, as a proportion.
        log_partition: log of the normalising constant, or an upper bound of it.
        passes: message passes done.
    """

    tables: FloatArray
    inconsistency: float
    log_partition: float
    passes: int


class JunctionTree:
    """The exact oracle: marginals of p(x) proportional to exp(sum of theta_r(x_r)).

    Raises:
        CapacityError: the tree's cliques would hold more than `max_cells` cells; says how many.
    """

    def __init__(
        self, sizes: Sequence[int], scopes: Iterable[Scope], *, max_cells: int = MAX_CELLS
    ) -> None:
        scopes = distinct(scopes)
        self.tree: CliqueTree = clique_tree(sizes, scopes)
        if self.tree.n_cells > max_cells:
            raise CapacityError(
                f"The exact model would hold {self.tree.n_cells:,} cells; "
                f"{max_cells:,} are the most."
            )
        self.layout: Layout = layout_of(sizes, scopes)
        self.cliques = Layout(tuple(sizes), self.tree.cliques)
        self._summation = Summation(self.cliques, [self._edge(s) for s in self.layout.scopes])
        held = self._summation.target
        where = np.array([held.index[s] for s in self.layout.scopes], dtype=np.intp)
        starts = np.repeat(held.offsets[:-1][where] - self.layout.offsets[:-1], self.layout.counts)
        # For each cell of the layout, the cell of the summation's target.
        self._held = (np.arange(self.layout.n_cells) + starts).astype(np.intp)
        self.beliefs: FloatArray = np.zeros(self.cliques.n_cells)

    def run(self, theta: FloatArray, *, tolerance: float = 0.0, max_passes: int = 1) -> Beliefs:  # noqa: ARG002
        """Exact marginals of the scopes; the tolerance and the limit of passes are not used.

        Args:
            theta: log-potentials, flat, one per cell of the layout.
        """
        potentials = np.empty(self.layout.n_cells)
        potentials[self._held] = theta
        logs = np.zeros(self.cliques.n_cells)
        self._summation.spread(potentials, logs)
        log_partition = self._calibrate(logs)
        self.beliefs = np.exp(logs)
        if np.abs(theta).max(initial=0.0) > _LARGE:
            self._make_agree(self.beliefs)
        return Beliefs(self._summation.sums(self.beliefs)[self._held], 0.0, log_partition, 1)

    def lower_bound(self, costs: FloatArray) -> float:
        """The least costs . mu over all distributions: the cost of the cheapest cell."""
        values = np.empty(self.layout.n_cells)
        values[self._held] = costs
        flat = np.zeros(self.cliques.n_cells)
        self._summation.spread(values, flat)
        tree, least = self.tree, 0.0
        tables = [self.cliques.table(flat, i) for i in range(len(tree.cliques))]
        for i in reversed(range(len(tables))):
            axes = self._summed_axes(i, tree.separator(i))
            cheapest = tables[i].min(axis=axes)
            if tree.parents[i] >= 0:
                self._add(tables[tree.parents[i]], tree.parents[i], tree.separator(i), cheapest)
            else:
                least += float(cheapest)
        return least

    def _calibrate(self, logs: FloatArray) -> float:
        """Turn potentials into logs of clique marginals, in place; returns the log partition."""
        tree, tables = (
            self.tree,
            [self.cliques.table(logs, i) for i in range(len(self.tree.cliques))],
        )
        upward: list[FloatArray] = [np.zeros(())] * len(tables)
        for i in reversed(range(len(tables))):
            upward[i] = self._marginal(tables[i], i, tree.separator(i))
            if tree.parents[i] >= 0:
                self._add(tables[tree.parents[i]], tree.parents[i], tree.separator(i), upward[i])
        log_partition = 0.0
        for i, parent in enumerate(tree.parents):
            if parent < 0:
                log_partition += float(upward[i])
                tables[i] -= upward[i]
                continue
            above = self._marginal(tables[parent], parent, tree.separator(i))
            self._add(tables[i], i, tree.separator(i), above - upward[i])
        return log_partition

    def _make_agree(self, beliefs: FloatArray) -> None:
        """Make clique marginals agree and sum to one, in place, despite rounding."""
        tree = self.tree
        tables = [self.cliques.table(beliefs, i) for i in range(len(tree.cliques))]
        for i, parent in enumerate(tree.parents):
            kept = tree.separator(i)
            own = tables[i].sum(axis=self._summed_axes(i, kept))
            if parent < 0:
                tables[i] /= own
                continue
            above = tables[parent].sum(axis=self._summed_axes(parent, kept))
            # A cell that rounded to zero stays zero.
            ratio = np.divide(above, own, out=np.zeros_like(own), where=own > 0.0)
            wide = [
                n if a in kept else 1 for a, n in zip(tree.cliques[i], tables[i].shape, strict=True)
            ]
            tables[i] *= ratio.reshape(wide)

    def _marginal(self, logs: FloatArray, i: int, kept: Scope) -> FloatArray:
        """Logarithm of the sum of exp over the attributes of clique i that are not kept."""
        axes = self._summed_axes(i, kept)
        if not axes:
            return logs.copy()
        highest = logs.max(axis=axes, keepdims=True)
        sums = np.exp(logs - highest).sum(axis=axes)
        return np.asarray(np.log(sums) + highest.reshape(sums.shape))

    def _summed_axes(self, i: int, kept: Scope) -> tuple[int, ...]:
        return tuple(k for k, a in enumerate(self.tree.cliques[i]) if a not in kept)

    def _add(self, logs: FloatArray, i: int, scope: Scope, values: FloatArray) -> None:
        wide = tuple(
            n if a in scope else 1 for a, n in zip(self.tree.cliques[i], logs.shape, strict=True)
        )
        logs += values.reshape(wide)

    def _edge(self, scope: Scope) -> Edge:
        """The smallest clique that contains the scope."""
        holders = [i for i, c in enumerate(self.tree.cliques) if set(scope) <= set(c)]
        return Edge(min(holders, key=lambda i: int(self.cliques.counts[i])), scope)
