"""Cells of least cost for costs that add up over scopes: min-sum on a junction tree."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from qserver.errors import CapacityError
from qserver.models.marginals.graph.junction_tree import CliqueTree, clique_tree
from qserver.models.marginals.graph.layout import (
    FloatArray,
    IndexArray,
    Layout,
    Scope,
    distinct,
    layout_of,
)


@dataclass(frozen=True)
class Cells:
    """Cells of a domain with their costs, the cheapest first.

    Args:
        codes: a value per attribute, shape (n, attributes); 0 for attributes in no scope.
        costs: shape (n,).
    """

    codes: IndexArray
    costs: FloatArray


class CheapestCells:
    """The cells c with the least sum over scopes s of cost_s(c_s), for any costs.

    Args:
        sizes: number of values per attribute.
        scopes: rising attributes of each table of costs; `layout` has them in the order used.
        max_cells: most cells of all cliques together.

    Raises:
        CapacityError: the tree needs more cells; says how many.
    """

    def __init__(self, sizes: Sequence[int], scopes: Iterable[Scope], *, max_cells: int) -> None:
        scopes = distinct(scopes)
        tree: CliqueTree = clique_tree(sizes, scopes)
        if tree.n_cells > max_cells:
            raise CapacityError(
                f"The tables would hold {tree.n_cells:,} cells; {max_cells:,} are the most."
            )
        self.layout: Layout = layout_of(sizes, scopes)
        self._cliques = Layout(tuple(sizes), tree.cliques)
        self._parents = tree.parents
        self._separators = [tree.separator(i) for i in range(len(tree.cliques))]
        self._holders = [self._holder(scope) for scope in self.layout.scopes]

    def find(self, costs: FloatArray, *, n: int) -> Cells:
        """About n cells, including the cheapest of all.

        These are the cheapest cells with each of the n cheapest values of a root's attributes.

        Args:
            costs: flat, one per cell of the layout.
            n: number of cells; with several trees, as many of each.
        """
        tables = self._summed(costs)
        roots = [i for i, parent in enumerate(self._parents) if parent < 0]
        best = {i: int(tables[i].argmin()) for i in roots}
        base = sum(float(tables[i].ravel()[best[i]]) for i in roots)
        starts, found = [], []
        for i in roots:
            flat = tables[i].ravel()
            some = np.argpartition(flat, n)[:n] if n < len(flat) else np.arange(len(flat))
            chosen = {j: np.full(len(some), best[j]) for j in roots}
            chosen[i] = some
            starts.append(chosen)
            found.append(base - flat[best[i]] + flat[some])
        totals = np.concatenate([np.zeros(0), *found]) if roots else np.zeros(1)
        at = {j: np.concatenate([start[j] for start in starts]) for j in roots}
        codes = self._decoded(tables, at, len(totals))
        order = np.argsort(totals, kind="stable")
        return Cells(codes[order], totals[order])

    def _summed(self, costs: FloatArray) -> list[FloatArray]:
        """Per clique, its cost plus the least cost of all cliques below it, leaves first."""
        flat = np.zeros(self._cliques.n_cells)
        tables = [self._cliques.table(flat, i) for i in range(len(self._parents))]
        for k, (i, scope) in enumerate(zip(self._holders, self.layout.scopes, strict=True)):
            tables[i] += self._wide(self.layout.table(costs, k), i, scope)
        for i in reversed(range(len(tables))):
            if self._parents[i] >= 0:
                kept = self._separators[i]
                axes = tuple(k for k, a in enumerate(self._cliques.scopes[i]) if a not in kept)
                parent = self._parents[i]
                tables[parent] += self._wide(tables[i].min(axis=axes), parent, kept)
        return tables

    def _decoded(
        self, tables: Sequence[FloatArray], roots: dict[int, IndexArray], n: int
    ) -> IndexArray:
        """Values of all attributes: in each clique the cheapest ones, given its parent's."""
        codes = np.zeros((n, len(self.layout.sizes)), dtype=np.intp)
        for i, scope in enumerate(self._cliques.scopes):
            shape, kept = tables[i].shape, self._separators[i]
            if i in roots:
                values = np.unravel_index(roots[i], shape)
                new: Scope = scope
            else:
                new = tuple(a for a in scope if a not in kept)
                order = [scope.index(a) for a in (*kept, *new)]
                moved = np.transpose(tables[i], order)
                rest = moved.shape[len(kept) :]
                at = np.ravel_multi_index(
                    tuple(codes[:, a] for a in kept), moved.shape[: len(kept)]
                )
                cheapest = moved.reshape(-1, int(np.prod(rest))).argmin(axis=1)
                values = np.unravel_index(cheapest[at], rest)
            for a, column in zip(new, values, strict=True):
                codes[:, a] = column
        return codes

    def _wide(self, table: FloatArray, i: int, scope: Scope) -> FloatArray:
        """A table on some attributes of clique i, broadcastable to the clique's table."""
        sizes = self.layout.sizes
        return table.reshape(tuple(sizes[a] if a in scope else 1 for a in self._cliques.scopes[i]))

    def _holder(self, scope: Scope) -> int:
        """The smallest clique that holds the scope."""
        holders = [i for i, c in enumerate(self._cliques.scopes) if set(scope) <= set(c)]
        return min(holders, key=lambda i: int(self._cliques.counts[i]))
