"""Convex optimisation over the local polytope by consensus: no messages, no step to choose.

This is the alternating direction method of multipliers. Every table is fitted alone (squares or
absolute deviations, never negative). All tables are projected onto agreement in closed form.
Multipliers carry the difference between the two. For squares the limit is the Euclidean projection
of the released answers onto the local polytope. With the tables of a junction tree's cliques in
addition to the measured ones it is the optimum over distributions. There the Laplace likelihood,
whose bounded slopes move tables slowly, starts from a near optimum of the squares.

Copies of tables that a consensus fits one by one in closed form, and their lower bound.

A table that rows measure has several copies, so that each fit is separate. All copies of a table
must become equal. A fit minimises the table's loss plus a penalty times the squared distance from
the agreed table.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np
from scipy import sparse

from qserver.models.marginals.fit.consistency import Agreement, Consistency
from qserver.models.marginals.fit.observations import Observations
from qserver.models.marginals.graph.layout import FloatArray, IndexArray, Layout, Scope, added_up


class Polytope(Protocol):
    """A set of parts on which tables agree, other than all shared parts or single attributes."""

    @property
    def parts(self) -> Sequence[Scope]:
        """The parts, with all their intersections."""
        ...

    def weights(self, precisions: FloatArray) -> FloatArray:
        """The weight of each table's distance, > 0: the precision of measured tables.

        Args:
            precisions: one per table, 0 if nothing was measured.
        """
        ...

    def least_cost(self, costs: FloatArray) -> float:
        """The least costs . tau over agreeing tables; costs are on measured tables alone."""
        ...


@dataclass(frozen=True)
class Proven:
    """Agreed tables without negative cells, their loss, a lower bound, and the costs proving it."""

    tables: FloatArray
    value: float
    bound: float
    costs: FloatArray


class Copies:
    """The tables, and further copies for rows, so that each fit is separate.

    The rows of one copy have no cell in common, so each row moves its cells independently.
    """

    def __init__(self, observations: Observations) -> None:
        self._seen = observations
        base = observations.layout
        groups, copied = _separate(base, observations.rows)
        # The tables keep their places; copies follow.
        self.layout = Layout(base.sizes, base.scopes + tuple(base.scopes[i] for i in copied))
        self._n_base = base.n_cells
        tables = [np.arange(base.offsets[i], base.offsets[i + 1]) for i in copied]
        # Per cell, the cell of which it is a copy.
        self._cell: IndexArray = np.concatenate([np.arange(base.n_cells), *tables]).astype(np.intp)
        extra = np.bincount(np.array(copied, dtype=np.intp), minlength=len(base.scopes))
        self.n_per_table: FloatArray = extra + np.ones(len(base.scopes))
        self._n_per_cell: FloatArray = base.per_cell(self.n_per_table)
        self._rows = _moved(observations.rows, base, self.layout, groups, copied)
        self._norms = np.asarray(self._rows.power(2).sum(axis=1)).ravel()
        n = len(observations.cells)
        self._targets = np.split(observations.targets, [n])
        self._weights = np.split(observations.weights, [n])
        # One cell of each row, which identifies its table.
        self._row_cell: IndexArray = self._rows.indices[self._rows.indptr[:-1]].astype(np.intp)

    @property
    def precisions(self) -> FloatArray:
        """Mean squared ratio of the least scale to the scales of a table's answers; 0 without any.

        With penalties in this proportion tables of little and of much noise settle equally fast.
        """
        base, n = self._seen.layout, len(self._seen.cells)
        cells = np.concatenate(
            [self._seen.cells, self._seen.rows.indices[self._seen.rows.indptr[:-1]]]
        )
        tables = np.searchsorted(base.offsets, cells, side="right") - 1
        found = self._seen.as_squares().weights
        # Rows inside a table that was measured as a whole do not change its precision.
        count = partial(np.bincount, minlength=len(base.scopes))
        whole, rows = count(tables[:n]), count(tables[n:])
        sums = np.where(
            whole > 0, count(tables[:n], weights=found[:n]), count(tables[n:], weights=found[n:])
        )
        return np.asarray(sums / np.maximum(np.where(whole > 0, whole, rows), 1))

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
        """The released table if a whole marginal was released, else a uniform table."""
        base = self._seen.layout
        start = base.per_cell(1.0 / base.counts)
        start[self._seen.cells] = np.maximum(self._targets[0], 0.0)
        return self.copied(start)

    def fitted(self, v: FloatArray, penalties: FloatArray) -> FloatArray:
        """Per copy, the minimum of its loss plus penalty / 2 times the squared distance from v.

        Args:
            penalties: one per cell, or a single one.
        """
        x = v.copy()
        cells = self._seen.cells
        x[cells] = self._moved_to(v[cells], _at(cells, penalties))
        np.maximum(x[: self._n_base], 0.0, out=x[: self._n_base])
        if self._rows.shape[0]:
            rest = self._rows @ v - self._targets[1]
            x += self._rows.T @ self._row_steps(rest, _at(self._row_cell, penalties))
        return x

    def _moved_to(self, v: FloatArray, penalty: FloatArray) -> FloatArray:
        target, weight = self._targets[0], self._weights[0]
        if self._seen.likelihood == "squares":
            return np.asarray((weight * target + penalty * v) / (weight + penalty))
        return np.asarray(v - np.clip(v - target, -weight / penalty, weight / penalty))

    def _row_steps(self, rest: FloatArray, penalty: FloatArray) -> FloatArray:
        """Per row, the length of the step of its cells along it."""
        weight = self._weights[1]
        if self._seen.likelihood == "squares":
            return -weight * rest / (penalty + weight * self._norms)
        return -np.clip(rest / self._norms, -weight / penalty, weight / penalty)

    def proven(self, z: FloatArray, multipliers: FloatArray, polytope: Polytope | None) -> Proven:
        """Agreed tables without negative cells, their loss, and a bound on the least loss.

        For any slopes nu the dual at nu, with costs K' nu, is a lower bound on the loss. It remains
        one after adding multipliers orthogonal to agreement and minimising each table alone.
        """
        seen, base = self._seen, self._seen.layout
        tables = without_negatives(base, z[: self._n_base])
        nonnegative = np.maximum(z[: self._n_base], 0.0)
        nu = seen.weights * (seen.predicted(nonnegative) - seen.targets)
        if seen.likelihood == "laplace":
            nu = self._slopes(multipliers)
        costs = seen.spread(nu)
        if polytope is None:
            orthogonal = self.added_up(multipliers)
            least = float(np.minimum.reduceat(costs + orthogonal, base.offsets[:-1]).sum())
            least -= float(orthogonal @ tables)
        else:
            least = polytope.least_cost(costs)
        conjugate = 0.5 * float(nu @ (nu / seen.weights)) if seen.likelihood == "squares" else 0.0
        bound = least - float(nu @ seen.targets) - conjugate
        return Proven(tables, seen.value(tables), bound, costs)

    def _slopes(self, multipliers: FloatArray) -> FloatArray:
        """Slopes of the Laplace loss that match the multipliers, within their bounds."""
        weight = self._seen.weights
        # No cell is below a negative answer, so the loss has one slope there.
        direct = np.where(self._targets[0] < 0.0, np.inf, -multipliers[self._seen.cells])
        along = -(self._rows @ multipliers) / np.where(self._norms > 0, self._norms, 1.0)
        return np.asarray(np.clip(np.concatenate([direct, along]), -weight, weight))


def _at(cells: IndexArray, values: FloatArray) -> FloatArray:
    """The values of these cells; a single value holds for all."""
    return values if len(values) == 1 else values[cells]


def without_negatives(layout: Layout, tables: FloatArray) -> FloatArray:
    """Agreed tables, mixed with uniform ones just so much that no cell is negative."""
    lowest = np.minimum.reduceat(tables, layout.offsets[:-1]) * layout.counts
    worst = max(-float(lowest.min()), 0.0)
    part = worst / (1.0 + worst)
    mixed = (1.0 - part) * tables + part * layout.per_cell(1.0 / layout.counts)
    return np.maximum(mixed, 0.0)


def _separate(base: Layout, rows: sparse.csr_array) -> tuple[list[int], list[int]]:
    """Per row its copy, per copy its table: the first copy without a row that shares a cell."""
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


MAX_WORK = 200_000_000
"""Most rounds times cells, copies included: overlapping rows need many copies of a table."""

_RELAXATION = 1.6
_CHECK_EVERY = 10
_IMBALANCE = 5.0
# After each change the penalty stays this many times longer than before. It must settle so that the
# tables settle.
_PATIENCE = 1.5
# The gap of the squares, as a part of the noise's loss, at which the Laplace likelihood starts.
_FIRST_PART = 0.1


@dataclass(frozen=True)
class Consensus:
    """Tables that agree exactly and are not negative, and the gap of their loss.

    Args:
        tables: flat, total one each, in the order of the observations' layout.
        value: loss there.
        gap: at most this much above the least loss over the local polytope.
        inconsistency: 0 up to rounding: the tables agree by construction.
        rounds: number of rounds.
        costs: slopes of the loss or its dual that proved the gap, per cell, K' nu.
        state: starting point for a later call.
    """

    tables: FloatArray
    value: float
    gap: float
    inconsistency: float
    rounds: int
    costs: FloatArray
    state: ConsensusState


@dataclass(frozen=True)
class ConsensusState:
    """Agreed tables and multipliers of all copies, and the penalty in use.

    The multipliers are those of the loss divided by the square of its unit.
    """

    layout: Layout
    tables: FloatArray
    multipliers: FloatArray
    penalty: float

    def onto(self, layout: Layout, tables: FloatArray) -> ConsensusState | None:
        """The state on another layout, with the given new tables; None if it lacks a table of this.

        Multipliers of new tables are zero, so that all remain orthogonal to agreement.
        """
        ours, theirs = _numbered(self.layout), _numbered(layout)
        if not set(ours) <= set(theirs):
            return None
        found, multipliers = tables.copy(), np.zeros(layout.n_cells)
        for key, i in ours.items():
            layout.table(found, theirs[key])[...] = self.layout.table(self.tables, i)
            layout.table(multipliers, theirs[key])[...] = self.layout.table(self.multipliers, i)
        return ConsensusState(layout, found, multipliers, self.penalty)


def agree(
    observations: Observations,
    *,
    gap: float,
    agreement: Agreement = "shared",
    polytope: Polytope | None = None,
    max_rounds: int = 5_000,
    start: ConsensusState | None = None,
) -> Consensus:
    """Tables of nearly the least loss over the local polytope.

    Args:
        gap: stop when the loss is proven to be at most this much above its least value.
        agreement: the parts on which tables must agree.
        polytope: replaces `agreement` by other parts.
        max_rounds: stop after this many rounds, or when `MAX_WORK` is used up.
        start: state of an earlier call; used if all its tables and copies exist again. The answers
            need not be the same.
    """
    rounds = _Rounds(observations, agreement, polytope, start)
    if polytope is not None:
        max_rounds = max(_CHECK_EVERY, min(max_rounds, MAX_WORK // len(rounds.z)))
    done = 0
    if polytope is not None and observations.likelihood != "squares":
        squares = _Rounds(observations.as_squares(), agreement, polytope, None)
        done = squares.run(_FIRST_PART * observations.noise_loss, max_rounds // 2)
        rounds.z = squares.z
    done += rounds.run(gap, max_rounds - done)
    value, gap = rounds.value, max(rounds.value - rounds.bound, 0.0)
    return Consensus(rounds.tables, value, gap, 0.0, done, rounds.costs, rounds.state)


class _Rounds:
    """The state of a consensus, and its best tables and bound so far.

    Attributes:
        z: agreed tables and their copies.
        tables, value: the best tables that agree and are not negative, and their loss.
        bound, costs: a lower bound on the loss over the polytope, and the costs that prove it.
    """

    def __init__(
        self,
        seen: Observations,
        agreement: Agreement,
        polytope: Polytope | None,
        start: ConsensusState | None,
    ) -> None:
        self._copies, self._polytope, self._unit = Copies(seen), polytope, seen.unit**2
        copies, layout = self._copies, seen.layout
        weights, on = copies.precisions, None
        if polytope is not None:
            weights, on = polytope.weights(weights), polytope.parts
        # Copies of one table must be equal: their mean counts once per copy.
        counted = weights * copies.n_per_table
        self._consistency = Consistency(layout, agreement=agreement, on=on, weights=counted)
        # A single number if all are equal: memory bandwidth limits the rounds, not arithmetic.
        is_even = bool((weights == weights[:1]).all())
        self._weights = weights[:1] if is_even else copies.copied(layout.per_cell(weights))
        z = self._project(copies.first())
        state = start.onto(copies.layout, z) if start is not None else None
        # The new tables need not agree with the old ones yet.
        self.z = z if state is None else self._project(state.tables)
        self._penalty = 1.0 if state is None else state.penalty
        self._u = np.zeros_like(z)
        if state is not None:
            self._u = self._unit * state.multipliers / (self._penalty * self._weights)
        self._patience, self._waited = 1.0, 0
        self.tables, self.value, self.bound = z, np.inf, -np.inf
        self.costs: FloatArray = np.zeros(layout.n_cells)

    @property
    def state(self) -> ConsensusState:
        """Starting point for a later consensus."""
        return ConsensusState(
            self._copies.layout, self.z, self._multipliers / self._unit, self._penalty
        )

    @property
    def _multipliers(self) -> FloatArray:
        return self._penalty * self._weights * self._u

    def run(self, gap: float, max_rounds: int) -> int:
        """Do rounds until the gap is small enough; returns their number."""
        for done in range(1, max_rounds + 1):
            x = self._copies.fitted(self.z - self._u, self._penalty * self._weights)
            ahead = _RELAXATION * x + (1.0 - _RELAXATION) * self.z
            before, self.z = self.z, self._project(ahead + self._u)
            self._u = self._u + ahead - self.z
            if done % _CHECK_EVERY and done < max_rounds:
                continue
            self._prove()
            if self.value - self.bound <= gap:
                break
            self._balance(x - self.z, self.z - before)
        return done

    def _prove(self) -> None:
        found = self._copies.proven(self.z, self._multipliers, self._polytope)
        if found.value < self.value:
            self.tables, self.value = found.tables, found.value
        if found.bound > self.bound:
            self.bound, self.costs = found.bound, found.costs

    def _balance(self, primal: FloatArray, dual: FloatArray) -> None:
        """Change the penalty if tables disagree much more, or much less, than they move."""
        self._waited += 1
        if self._waited < self._patience:
            return
        roots = np.sqrt(self._weights)
        apart = float(np.linalg.norm(roots * primal))
        moved = self._penalty * float(np.linalg.norm(roots * dual))
        factor = 2.0 if apart > _IMBALANCE * moved else 0.5 if moved > _IMBALANCE * apart else 1.0
        if factor != 1.0:
            self._penalty, self._u = self._penalty * factor, self._u / factor
            self._patience, self._waited = _PATIENCE * self._patience, 0

    def _project(self, flat: FloatArray) -> FloatArray:
        return self._copies.copied(self._consistency.project(self._copies.mean(flat)))


def _numbered(layout: Layout) -> dict[tuple[Scope, int], int]:
    """The place of each table by its scope and the number of earlier tables of that scope."""
    seen: Counter[Scope] = Counter()
    found = {}
    for i, scope in enumerate(layout.scopes):
        found[scope, seen[scope]] = i
        seen[scope] += 1
    return found
