"""Convex optimisation over the local polytope by consensus: no messages, no step to choose.

Every table is fitted on its own (squares or absolute deviations, never negative), all are projected
onto agreement in closed form, and multipliers carry what the two disagree about: the alternating
direction method of multipliers. For squares its limit is the Euclidean projection of what was
released onto the local polytope.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from qserver.models.marginals.consistency import Agreement, Consistency
from qserver.models.marginals.layout import FloatArray, IndexArray, Layout, Scope, added_up
from qserver.models.marginals.observations import Observations

_RELAXATION = 1.6
_CHECK_EVERY = 10
_IMBALANCE = 5.0


@dataclass(frozen=True)
class Consensus:
    """Tables that agree exactly and are not negative, and how near the least loss they are.

    Args:
        tables: flat, total one each, in the order of the observations' layout.
        value: loss there.
        gap: at most this much above the least loss over the local polytope.
        inconsistency: 0 but for rounding: the tables agree by construction.
        rounds: rounds done.
        state: where a later call may start from.
    """

    tables: FloatArray
    value: float
    gap: float
    inconsistency: float
    rounds: int
    state: State


@dataclass(frozen=True)
class State:
    """Agreed tables and scaled multipliers of all copies, and the penalty that they belong to."""

    layout: Layout
    tables: FloatArray
    multipliers: FloatArray
    penalty: float

    def onto(self, layout: Layout, tables: FloatArray) -> State | None:
        """The state on another layout, with new tables as given; None if it lacks one of ours.

        Multipliers of new tables are zero, so that all stay orthogonal to agreement.
        """
        ours, theirs = _numbered(self.layout), _numbered(layout)
        if not set(ours) <= set(theirs):
            return None
        found, multipliers = tables.copy(), np.zeros(layout.n_cells)
        for key, i in ours.items():
            layout.table(found, theirs[key])[...] = self.layout.table(self.tables, i)
            layout.table(multipliers, theirs[key])[...] = self.layout.table(self.multipliers, i)
        return State(layout, found, multipliers, self.penalty)


def agree(
    observations: Observations,
    *,
    gap: float,
    agreement: Agreement = "shared",
    max_rounds: int = 5_000,
    start: State | None = None,
) -> Consensus:
    """Tables of nearly the least loss over the local polytope.

    Args:
        gap: stop once the loss is proven to be this near its least value.
        agreement: what tables must agree on.
        start: state of an earlier call; used if all its tables and copies are there again. The
            answers need not be the same.
    """
    copies = _Copies(observations)
    # Copies of one table must be equal: their mean counts as often as there are copies.
    consistency = Consistency(observations.layout, agreement=agreement, weights=copies.n_per_table)

    def project(flat: FloatArray) -> FloatArray:
        return copies.copied(consistency.project(copies.mean(flat)))

    z = project(copies.first())
    state = start.onto(copies.layout, z) if start is not None else None
    # What the new tables say need not agree with the old ones yet.
    z = z if state is None else project(state.tables)
    u = np.zeros_like(z) if state is None else state.multipliers
    penalty = 1.0 if state is None else state.penalty
    for done in range(1, max_rounds + 1):
        x = copies.fitted(z - u, penalty)
        ahead = _RELAXATION * x + (1.0 - _RELAXATION) * z
        before, z = z, project(ahead + u)
        u = u + ahead - z
        if done % _CHECK_EVERY and done < max_rounds:
            continue
        found = copies.proven(z, penalty * u)
        if found.gap <= gap or done == max_rounds:
            break
        primal, dual = np.linalg.norm(x - z), penalty * np.linalg.norm(z - before)
        factor = 2.0 if primal > _IMBALANCE * dual else 0.5 if dual > _IMBALANCE * primal else 1.0
        penalty, u = penalty * factor, u / factor
    return Consensus(
        found.tables, found.value, found.gap, 0.0, done, State(copies.layout, z, u, penalty)
    )


def agreed_tables(layout: Layout, tables: FloatArray, agreement: Agreement) -> FloatArray:
    """The nearest tables that agree, mixed with uniform ones where that leaves a cell negative."""
    return _without_negatives(layout, Consistency(layout, agreement=agreement).project(tables))


@dataclass(frozen=True)
class _Proven:
    tables: FloatArray
    value: float
    gap: float


class _Copies:
    """The tables, and beside each further ones that only rows see, so that each fit is separate.

    A copy's rows have no cell in common, so that each row moves its own cells along itself.
    """

    def __init__(self, observations: Observations) -> None:
        self._seen = observations
        base = observations.layout
        groups, copied = _separate(base, observations.rows)
        # The tables themselves keep their place, copies follow.
        self.layout = Layout(base.sizes, base.scopes + tuple(base.scopes[i] for i in copied))
        self._n_base = base.n_cells
        tables = [np.arange(base.offsets[i], base.offsets[i + 1]) for i in copied]
        # The cell that each cell is a copy of.
        self._cell: IndexArray = np.concatenate([np.arange(base.n_cells), *tables]).astype(np.intp)
        extra = np.bincount(np.array(copied, dtype=np.intp), minlength=len(base.scopes))
        self.n_per_table: FloatArray = extra + np.ones(len(base.scopes))
        self._n_per_cell: FloatArray = base.per_cell(self.n_per_table)
        self._rows = _moved(observations.rows, base, self.layout, groups, copied)
        self._norms = np.asarray(self._rows.power(2).sum(axis=1)).ravel()
        n = len(observations.cells)
        self._targets = np.split(observations.targets, [n])
        self._weights = np.split(observations.weights, [n])

    def added_up(self, flat: FloatArray) -> FloatArray:
        """All copies of each table added up, shape (cells of the tables,)."""
        if len(flat) == self._n_base:
            return flat
        return added_up(self._cell, flat, self._n_base)

    def mean(self, flat: FloatArray) -> FloatArray:
        """The mean of the copies of each table."""
        return np.asarray(self.added_up(flat) / self._n_per_cell)

    def copied(self, tables: FloatArray) -> FloatArray:
        """Every copy filled with its table."""
        return tables[self._cell] if len(self._cell) > self._n_base else tables

    def first(self) -> FloatArray:
        """What was released, where it is a whole marginal, else uniform tables."""
        base = self._seen.layout
        start = base.per_cell(1.0 / base.counts)
        start[self._seen.cells] = np.maximum(self._targets[0], 0.0)
        return self.copied(start)

    def fitted(self, v: FloatArray, penalty: float) -> FloatArray:
        """Each copy's own minimum of its loss plus penalty / 2 times the distance from v."""
        x = v.copy()
        cells = self._seen.cells
        x[cells] = self._moved_to(v[cells], penalty)
        np.maximum(x[: self._n_base], 0.0, out=x[: self._n_base])
        if self._rows.shape[0]:
            rest = self._rows @ v - self._targets[1]
            x += self._rows.T @ self._row_steps(rest, penalty)
        return x

    def _moved_to(self, v: FloatArray, penalty: float) -> FloatArray:
        target, weight = self._targets[0], self._weights[0]
        if self._seen.likelihood == "squares":
            return np.asarray((weight * target + penalty * v) / (weight + penalty))
        return np.asarray(v - np.clip(v - target, -weight / penalty, weight / penalty))

    def _row_steps(self, rest: FloatArray, penalty: float) -> FloatArray:
        """How far along itself each row moves its cells."""
        weight = self._weights[1]
        if self._seen.likelihood == "squares":
            return -weight * rest / (penalty + weight * self._norms)
        return -np.clip(rest / self._norms, -weight / penalty, weight / penalty)

    def proven(self, z: FloatArray, multipliers: FloatArray) -> _Proven:
        """Agreed tables without negative cells, their loss and the gap.

        For any multipliers orthogonal to agreement and any slopes nu, the least loss is at least
        nu's own dual with K' nu plus the multipliers as costs, each table taken for itself.
        """
        seen, base = self._seen, self._seen.layout
        tables = _without_negatives(base, z[: self._n_base])
        nu = seen.weights * (seen.predicted(tables) - seen.targets)
        if seen.likelihood == "laplace":
            nu = self._slopes(multipliers)
        costs = seen.spread(nu) + self.added_up(multipliers)
        value = seen.value(tables)
        conjugate = 0.5 * float(nu @ (nu / seen.weights)) if seen.likelihood == "squares" else 0.0
        least = float(np.minimum.reduceat(costs, base.offsets[:-1]).sum())
        constant = float(self.added_up(multipliers) @ tables)
        bound = least - constant - float(nu @ seen.targets) - conjugate
        return _Proven(tables, value, max(value - bound, 0.0))

    def _slopes(self, multipliers: FloatArray) -> FloatArray:
        """Slopes of the Laplace loss that answer the multipliers, within its bounds."""
        weight = self._seen.weights
        # No cell is below a negative answer, so there the loss has one slope.
        direct = np.where(self._targets[0] < 0.0, np.inf, -multipliers[self._seen.cells])
        along = -(self._rows @ multipliers) / np.where(self._norms > 0, self._norms, 1.0)
        return np.asarray(np.clip(np.concatenate([direct, along]), -weight, weight))


def _numbered(layout: Layout) -> dict[tuple[Scope, int], int]:
    """Each table by its scope and how many of the scope came before."""
    seen: Counter[Scope] = Counter()
    found = {}
    for i, scope in enumerate(layout.scopes):
        found[scope, seen[scope]] = i
        seen[scope] += 1
    return found


def _without_negatives(layout: Layout, tables: FloatArray) -> FloatArray:
    """Agreed tables mixed with as much of the uniform ones as leaves no cell negative."""
    lowest = np.minimum.reduceat(tables, layout.offsets[:-1]) * layout.counts
    worst = max(-float(lowest.min()), 0.0)
    part = worst / (1.0 + worst)
    mixed = (1.0 - part) * tables + part * layout.per_cell(1.0 / layout.counts)
    return np.maximum(mixed, 0.0)


def _separate(base: Layout, rows: sparse.csr_array) -> tuple[list[int], list[int]]:
    """For each row its copy, and for each copy its table: the first copy whose rows it misses."""
    groups: list[int] = []
    copied: list[int] = []
    taken: list[set[int]] = []
    of_table: dict[int, list[int]] = {}
    for r in range(rows.shape[0]):
        cells = set(rows.indices[rows.indptr[r] : rows.indptr[r + 1]].tolist())
        table = int(np.searchsorted(base.offsets, min(cells), side="right")) - 1
        mine = of_table.setdefault(table, [])
        group = next((g for g in mine if taken[g].isdisjoint(cells)), None)
        if group is None:
            group = len(copied)
            copied.append(table)
            taken.append(set())
            mine.append(group)
        taken[group] |= cells
        groups.append(group)
    return groups, copied


def _moved(
    rows: sparse.csr_array, base: Layout, layout: Layout, groups: list[int], copied: list[int]
) -> sparse.csr_array:
    """The rows on the cells of their copies."""
    shift = [
        int(layout.offsets[len(base.scopes) + g]) - int(base.offsets[copied[g]])
        for g in range(len(copied))
    ]
    per_row = np.array([shift[g] for g in groups], dtype=np.intp)
    indices = rows.indices + np.repeat(per_row, np.diff(rows.indptr))
    return sparse.csr_array(
        (rows.data, indices, rows.indptr), shape=(rows.shape[0], layout.n_cells)
    )
