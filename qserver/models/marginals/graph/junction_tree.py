"""Exact marginals by a junction tree: two sweeps of messages in the log domain.

Triangulation gives the cliques of a chordal graph around all scopes, and their tree.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from qserver.errors import CapacityError
from qserver.models.marginals.graph.layout import FloatArray, Layout, Scope, distinct, layout_of
from qserver.models.marginals.graph.summation import Edge, Summation


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
