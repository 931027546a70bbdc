"""The non-negative table whose answers are nearest to noisy ones, and these answers.

With questions as the rows of Q and cells as its columns the problem is

    minimise 1/2 sum ((Q x - y)_i / s_i)^2   over x >= 0, with sum x = N if N is known.

The table has at most as many non-zero cells as there are questions, so they are added one by one
(Lawson and Hanson). A cell enters if its column lowers the distance. The cheapest cells under the
residual enter next; a junction tree finds them among any number of cells. If no cell lowers the
distance, the answers are the nearest ones. Before that, the cost of the cheapest cell bounds the
gap.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import solve_triangular

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

_LEAST_PIVOT = 1e-10
"""A column with less than this part of its square outside the active span counts as dependent."""
_ROUNDING = 1e-12
_TINY = 1e-300


class ActiveSet:
    """The active columns and their values > 0, a least squares fit to the target.

    Args:
        target: the vector to fit, shape (rows,).

    References:
        Lawson and Hanson (1974), chapter 23.
    """

    def __init__(self, target: FloatArray) -> None:
        self._target = target
        self._values: FloatArray = np.zeros(0)
        # There are never more active columns than rows: further ones depend on them.
        n = len(target)
        self._columns: FloatArray = np.zeros((n, n))
        self._gram: FloatArray = np.zeros((n, n))
        self._root: FloatArray = np.zeros((n, n))
        self.ids: list[int] = []

    @property
    def values(self) -> FloatArray:
        """The value of each active column, in the order of `ids`."""
        return self._values

    @property
    def columns(self) -> FloatArray:
        """The active columns, shape (rows, n)."""
        return self._columns[: len(self._values)].T

    def add(self, columns: FloatArray, ids: list[int]) -> int:
        """Add columns while one lowers the distance; returns how many were added.

        Args:
            columns: candidates, shape (rows, n).
            ids: identifier of each candidate.
        """
        n_entered = 0
        left = np.ones(columns.shape[1], dtype=np.bool_)
        while left.any():
            slopes = columns.T @ (self._target - self.columns @ self._values)
            slopes[~left] = -np.inf
            i = int(slopes.argmax())
            left[i] = False
            if slopes[i] <= 0.0:
                break
            if self._append(columns[:, i], ids[i]):
                n_entered += 1
                self._settle()
        return n_entered

    def _append(self, column: FloatArray, name: int) -> bool:
        """Add a column with value 0, unless it depends on the active ones."""
        k = len(self._values)
        inner, norm = self.columns.T @ column, float(column @ column)
        root = self._root[:k, :k]
        cross = solve_triangular(root, inner, lower=True, check_finite=False) if k else inner
        pivot = norm - float(cross @ cross)
        if k == len(self._target) or pivot <= _LEAST_PIVOT * norm:
            return False
        self._columns[k] = column
        self._gram[k, :k], self._gram[:k, k], self._gram[k, k] = inner, inner, norm
        self._root[k, :k], self._root[k, k] = cross, np.sqrt(pivot)
        self.ids.append(name)
        self._values = np.append(self._values, 0.0)
        return True

    def _settle(self) -> None:
        """Move to the least squares of the active columns; drop those that reach zero."""
        while True:
            found = self._solved(self._target)
            if (found > 0.0).all():
                # Solve once more for the residual: the Gram matrix squares errors.
                found += self._solved(self._target - self.columns @ found)
            low = found <= 0.0
            if not low.any():
                self._values = found
                return
            now = self._values
            part = float((now[low] / np.maximum(now[low] - found[low], _TINY)).min())
            moved = now + part * (found - now)
            moved[low & (moved <= _ROUNDING * moved.max())] = 0.0
            # The column that stops the move is dropped, even if rounding left it above zero.
            moved[np.flatnonzero(low)[moved[low].argmin()]] = 0.0
            self._keep(moved > 0.0, moved)

    def _keep(self, kept: NDArray[np.bool_], values: FloatArray) -> None:
        """Drop columns; those before the first dropped one keep their place."""
        k, n = len(values), int(kept.sum())
        i = int(kept.argmin())
        stay = np.flatnonzero(kept[i:]) + i
        self._columns[i:n] = self._columns[stay]
        self._gram[i:n, :k] = self._gram[stay, :k]
        self._gram[:n, i:n] = self._gram[:n, stay]
        left = self._root[stay, :i]
        self._root[i:n, :i] = left
        self._root[i:n, i:n] = np.linalg.cholesky(self._gram[i:n, i:n] - left @ left.T)
        self.ids = [name for name, stays in zip(self.ids, kept, strict=True) if stays]
        self._values = values[kept]

    def _solved(self, target: FloatArray) -> FloatArray:
        """Least squares solution on the active columns."""
        root = self._root[: len(self._values), : len(self._values)]
        right = self.columns.T @ target
        half = solve_triangular(root, right, lower=True, check_finite=False)
        return np.asarray(solve_triangular(root, half, lower=True, trans=1, check_finite=False))


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


_AT_ONCE = 32
_GAP = 1e-5
"""Allowed gap of the distance, per answer."""


@dataclass(frozen=True)
class NearestTable:
    """The nearest answers, and the table that gives them.

    Args:
        answers: Q x, one per question.
        cells: values of the table's cells that are not zero, shape (k, attributes).
        counts: x of each of them, > 0.
        distance: 1/2 sum ((Q x - y)_i / s_i)^2.
        gap: at most this much above the least distance of all tables with total N; if N is not
            known, of those with a total of at most twice this table's plus one.
        steps: number of cells that entered.
    """

    answers: FloatArray
    cells: IndexArray
    counts: FloatArray
    distance: float
    gap: float
    steps: int


def nearest_table(
    cheapest: CheapestCells,
    weights: sparse.csr_array,
    answers: FloatArray,
    scales: FloatArray,
    *,
    total: float | None,
    max_steps: int,
) -> NearestTable:
    """The non-negative table whose answers are nearest.

    Args:
        cheapest: the search over the scopes of the questions.
        weights: weight of a record, shape (cells of `cheapest.layout`, questions). A question's
            weight of a cell of the domain is the sum over the scopes.
        answers: y.
        scales: s, > 0.
        total: N, or None.
        max_steps: stop after this many cells entered; `gap` gives the remaining distance.

    References:
        Lawson and Hanson (1974), chapter 23; for a known total, Haskell and Hanson (1981).
    """
    search = _CellSearch(cheapest, weights, answers, scales, total)
    while True:
        cells = search.priced()
        if search.gap <= _GAP * len(answers) or search.steps >= max_steps:
            return search.found()
        if not search.enter(cells):
            return search.found()


class _CellSearch:
    """The cells that entered, their counts, and the gap."""

    def __init__(
        self,
        cheapest: CheapestCells,
        weights: sparse.csr_array,
        answers: FloatArray,
        scales: FloatArray,
        total: float | None,
    ) -> None:
        self._cheapest, self._weights, self._total = cheapest, weights, total
        self._scales, self._aim = scales, answers / scales
        self.gap = np.inf
        # With a known total the target over the total is subtracted from every column, so that the
        # target is zero, and one more row asks for the total: the minimum has the same direction.
        self._row = 0.0 if total is None else float(np.mean(1.0 / scales))
        self._active = ActiveSet(
            self._aim if total is None else np.append(np.zeros(len(answers)), self._row * total)
        )
        self._cells: list[IndexArray] = []
        self.steps = 0

    def priced(self) -> IndexArray:
        """The cheapest cells under the residual; updates the gap."""
        x = self.counts
        fitted = self._fitted(x)
        rest = self._aim - fitted
        found = self._cheapest.find(self._weights @ (-rest / self._scales), n=_AT_ONCE)
        least, total = float(found.costs[0]), self._total
        if total is None:
            # The empty table is a table too.
            least, total = min(least, 0.0), 1.0 + 2.0 * float(x.sum())
        # 0.0 comes first: `max` returns the first of equal values, and JSON would show -0.0.
        self.gap = max(0.0, -least * total - float(rest @ fitted))
        return found.codes

    def enter(self, codes: IndexArray) -> bool:
        """Add the cells that lower the distance; returns whether there was one."""
        columns = self._columns(codes)
        if self._total is not None:
            columns = columns - (self._aim / self._total)[:, None]
            columns = np.concatenate([columns, np.full((1, len(codes)), self._row)])
        names = list(range(len(self._cells), len(self._cells) + len(codes)))
        self._cells += list(codes)
        n_entered = self._active.add(columns, names)
        self.steps += n_entered
        return n_entered > 0

    @property
    def counts(self) -> FloatArray:
        """x of each cell that entered; they sum to the total if it is known."""
        x = self._active.values
        return x if self._total is None or not len(x) else x * (self._total / x.sum())

    def _fitted(self, x: FloatArray) -> FloatArray:
        columns = self._active.columns[: len(self._aim)]
        if self._total is None:
            return np.asarray(columns @ x)
        return np.asarray(columns @ x + self._aim * (x.sum() / self._total))

    def _columns(self, codes: IndexArray) -> FloatArray:
        """The contribution of one record of each cell to each answer, in scales."""
        layout = self._cheapest.layout
        at = [
            layout.offsets[k] + _cell(codes, scope, layout.shape(k))
            for k, scope in enumerate(layout.scopes)
        ]
        n = len(codes)
        where = np.array(at, dtype=np.intp).T.ravel(), np.arange(n + 1) * len(at)
        picked = sparse.csr_array((np.ones(n * len(at)), *where), shape=(n, layout.n_cells))
        return np.asarray((picked @ self._weights).toarray().T / self._scales[:, None])

    def found(self) -> NearestTable:
        """The present table of the search."""
        x, n = self.counts, len(self._cheapest.layout.sizes)
        cells = np.array([self._cells[i] for i in self._active.ids], dtype=np.intp).reshape(-1, n)
        # Computed from the table itself: no rounding leaves a count below zero.
        fitted = self._columns(cells) @ x
        rest = self._aim - fitted
        return NearestTable(
            answers=fitted * self._scales,
            cells=cells,
            counts=x,
            distance=0.5 * float(rest @ rest),
            gap=self.gap,
            steps=self.steps,
        )


def _cell(codes: IndexArray, scope: Scope, shape: tuple[int, ...]) -> IndexArray:
    if not scope:
        return np.zeros(len(codes), dtype=np.intp)
    return np.asarray(np.ravel_multi_index(tuple(codes[:, a] for a in scope), shape))
