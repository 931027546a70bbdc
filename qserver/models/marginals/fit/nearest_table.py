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

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from qserver.models.marginals.fit.active_set import ActiveSet
from qserver.models.marginals.fit.cheapest_cells import CheapestCells
from qserver.models.marginals.graph.layout import FloatArray, IndexArray, Scope

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
