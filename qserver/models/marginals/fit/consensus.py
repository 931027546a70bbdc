"""Convex optimisation over the local polytope by consensus: no messages, no step to choose.

This is the alternating direction method of multipliers. Every table is fitted alone (squares or
absolute deviations, never negative). All tables are projected onto agreement in closed form.
Multipliers carry the difference between the two. For squares the limit is the Euclidean projection
of the released answers onto the local polytope. With the tables of a junction tree's cliques in
addition to the measured ones it is the optimum over distributions. There the Laplace likelihood,
whose bounded slopes move tables slowly, starts from a near optimum of the squares.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from qserver.models.marginals.fit.consistency import Agreement, Consistency
from qserver.models.marginals.fit.copies import Copies, Polytope
from qserver.models.marginals.fit.observations import Observations
from qserver.models.marginals.graph.layout import FloatArray, Layout, Scope

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
