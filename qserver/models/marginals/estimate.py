"""Estimation: one consistent, non-negative model of all the data from noisy marginals.

An exact distribution near a relaxed model, from which synthetic records are drawn.

Agreeing tables need not come from one distribution. So records are drawn from an exact distribution
that is fitted to as many of the tables as fit a junction tree, the most informative first.
Afterwards the records are moved towards the other tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain, combinations
from typing import Literal

import numpy as np

from qserver.errors import CapacityError, InputError
from qserver.models.marginals.fit.consensus import Consensus, ConsensusState, agree
from qserver.models.marginals.fit.consistency import CliqueAgreement
from qserver.models.marginals.fit.descent import Aim, descend, likeliest
from qserver.models.marginals.fit.observations import (
    Likelihood,
    NoisyMarginal,
    Observations,
    total_of,
)
from qserver.models.marginals.graph.junction_tree import JunctionTree, clique_tree
from qserver.models.marginals.graph.layout import (
    FloatArray,
    IndexArray,
    Layout,
    Scope,
    distinct,
    layout_of,
)
from qserver.models.marginals.model import (
    DomainDistribution,
    ExactDistribution,
    RelaxedDistribution,
)
from qserver.models.marginals.record_moves import MAX_WORK, move_towards, moved_part

Oracle = Literal["auto", "exact", "saturated", "factor"]

AUTO_CELLS = 1 << 16
"""Largest junction tree that `auto` takes: 10 ms a call of the oracle, and hundreds of calls."""

_ROUNDS = 5_000
_ROUND_CELLS = {"squares": 20_000_000, "laplace": 80_000_000}
"""Most rounds of consensus on a tree's cliques, and most rounds times cells.

Cliques of very many small cells take thousands of rounds; proximal steps on squares take hundreds.
"""

_AGREED_PART = 0.5
"""The part of the allowed gap that consensus may use up; the fit of potentials has the rest."""


@dataclass(frozen=True)
class Fit:
    """The method of an estimate, and how near it is to the optimum.

    Args:
        oracle: `exact`, `saturated` or `factor`.
        exact_cells: cells that the exact oracle holds or would need.
        loss: in the unit of `Observations`; `noise_loss` is the expected loss of the true tables.
        gap: the loss is proven to be at most this much above its least value.
        steps: rounds of consensus and calls of the oracle.
        inconsistency: largest difference between tables where they should agree, as a proportion.
    """

    oracle: Oracle
    method: str
    likelihood: Likelihood
    exact_cells: int
    loss: float
    noise_loss: float
    gap: float
    steps: int
    inconsistency: float = 0.0


@dataclass(frozen=True)
class Warm:
    """A starting point for a later estimate with the same scopes, and perhaps more."""

    oracle: Oracle
    method: str
    layout: Layout
    state: ConsensusState | None = None

    def refined(
        self, sizes: Sequence[int], places: Sequence[int], classes: Sequence[IndexArray]
    ) -> Warm:
        """The same starting point on finer classes and more attributes.

        Args:
            sizes: number of the finer classes per attribute.
            places: the new place of each present attribute, rising.
            classes: per present attribute, the present class of each finer class.
        """
        scopes = tuple(tuple(places[a] for a in s) for s in self.layout.scopes)
        parts = [np.bincount(c).astype(np.float64) for c in classes]
        state = None
        if self.state is not None:
            old = self.state
            whole = self._spread(old.layout, old.tables, classes, shared_by=parts)
            multipliers = self._spread(old.layout, old.multipliers, classes)
            held = tuple(tuple(places[a] for a in s) for s in old.layout.scopes)
            state = ConsensusState(Layout(tuple(sizes), held), whole, multipliers, old.penalty)
        return Warm(self.oracle, self.method, Layout(tuple(sizes), scopes), state)

    @staticmethod
    def _spread(
        layout: Layout,
        flat: FloatArray,
        classes: Sequence[IndexArray],
        shared_by: Sequence[FloatArray] | None = None,
    ) -> FloatArray:
        """The value of every finer cell: that of the coarser cell around it, or an even share."""
        found = [np.zeros(0)]
        for i, scope in enumerate(layout.scopes):
            table = layout.table(flat, i)
            if shared_by is not None:
                for k, a in enumerate(scope):
                    after = (1,) * (table.ndim - 1 - k)
                    table = table / shared_by[a].reshape(-1, *after)
            found.append(table[np.ix_(*(classes[a] for a in scope))].ravel())
        return np.concatenate(found)


@dataclass(frozen=True)
class Estimate:
    """A model, its total in records, and how it was found."""

    distribution: DomainDistribution
    total: float
    layout: Layout
    tables: FloatArray
    fit: Fit
    warm: Warm


def estimate(
    sizes: Sequence[int],
    measurements: Sequence[NoisyMarginal],
    *,
    oracle: Oracle = "auto",
    likelihood: Likelihood = "squares",
    total: float | None = None,
    precision: float = 1e-2,
    max_cells: int = AUTO_CELLS,
    warm: Warm | None = None,
) -> Estimate:
    """The model of least loss on the measurements; of several, the one of most entropy.

    Args:
        sizes: number of values per attribute.
        oracle: `auto` is `exact` if its tables are small enough, else `saturated`.
        total: number of records; estimated from the measurements if None.
        precision: allowed gap of the loss above its least value, as a part of the noise's loss.
        max_cells: most cells of the exact oracle.
        warm: of an earlier estimate; a relaxed oracle uses it if it is the same oracle and sees
            all of its scopes again.

    Raises:
        CapacityError: the requested exact oracle is too large; says how large.
        InputError: there is no measurement of any attribute, or none that gives the total.
    """
    measurements = tuple(measurements)
    scopes = distinct(m.scope for m in measurements)
    if not scopes:
        raise InputError("measurements", "be one or more that tell of an attribute")
    found = total if total is not None else total_of(measurements)
    exact_cells = clique_tree(sizes, scopes).n_cells
    if oracle == "auto":
        oracle = "exact" if exact_cells <= max_cells else "saturated"
    task = _Task(tuple(sizes), scopes, measurements, found, likelihood, precision, exact_cells)
    if oracle == "exact":
        return task.exact(max_cells)
    return task.agreed(oracle, warm if warm is not None and warm.oracle == oracle else None)


@dataclass(frozen=True)
class _Task:
    sizes: tuple[int, ...]
    scopes: tuple[tuple[int, ...], ...]
    measurements: tuple[NoisyMarginal, ...]
    total: float
    likelihood: Likelihood
    precision: float
    exact_cells: int

    def exact(self, max_cells: int) -> Estimate:
        tree = JunctionTree(self.sizes, self.scopes, max_cells=max_cells)
        try:
            cliques = CliqueAgreement.of(tree)
        except CapacityError:
            return self.descended(tree, None)
        seen = self._seen(cliques.layout)
        goal = self.precision * seen.noise_loss
        rounds = min(_ROUNDS, _ROUND_CELLS[self.likelihood] // cliques.layout.n_cells)
        best = agree(seen, gap=_AGREED_PART * goal, polytope=cliques, max_rounds=rounds)
        if best.gap <= goal:
            return self.fitted(tree, cliques, best)
        found = self.descended(tree, best)
        if found.fit.gap <= goal or found.fit.loss <= best.value:
            return found
        # If nearly all records are in few cells, proximal steps can end far above a consensus that
        # just missed the goal.
        other = self.fitted(tree, cliques, best)
        steps = found.fit.steps + other.fit.steps - best.rounds
        nearer = min(found, other, key=lambda e: e.fit.loss)
        return replace(nearer, fit=replace(nearer.fit, steps=steps))

    def fitted(self, tree: JunctionTree, cliques: CliqueAgreement, best: Consensus) -> Estimate:
        """The distribution of most entropy near the result of a consensus."""
        seen, own = self._seen(cliques.layout), self._seen(tree.layout)
        goal, bound = self.precision * seen.noise_loss, best.value - best.gap
        aim = Aim(
            tables=cliques.measured(best.tables),
            costs=cliques.measured(best.costs),
            unit=seen.unit,
            loss=own.value,
            goal=bound + goal,
        )
        found = likeliest(tree, aim)
        distribution = ExactDistribution(self.sizes, tree, tree.beliefs)
        gap, steps = max(found.loss - bound, 0.0), best.rounds + found.calls
        fit = self._fit("exact", "consensus", found.loss, seen, gap, steps)
        # Without a state: starting from one would save almost no work.
        warmed = Warm("exact", "consensus", cliques.layout)
        return Estimate(distribution, self.total, tree.layout, found.tables, fit, warmed)

    def descended(self, tree: JunctionTree, before: Consensus | None) -> Estimate:
        """The estimate by proximal steps, if consensus was impossible or missed the goal."""
        seen = self._seen(tree.layout)
        found = descend(tree, seen, gap=self.precision * seen.noise_loss)
        distribution = ExactDistribution(self.sizes, tree, tree.beliefs)
        # No loss is below zero.
        gap, steps = found.value if found.gap is None else found.gap, found.calls
        if before is not None:
            gap = max(min(gap, found.value - (before.value - before.gap)), 0.0)
            steps += before.rounds
        fit = self._fit("exact", "descent", found.value, seen, gap, steps)
        warmed = Warm("exact", "descent", tree.layout)
        return Estimate(distribution, self.total, tree.layout, found.tables, fit, warmed)

    def agreed(self, oracle: Oracle, warm: Warm | None) -> Estimate:
        layout = layout_of(self.sizes, self.scopes)
        seen = self._seen(layout)
        found = agree(
            seen,
            gap=self.precision * seen.noise_loss,
            agreement="shared" if oracle == "saturated" else "singles",
            start=warm.state if warm is not None else None,
        )
        fit = self._fit(oracle, "consensus", found.value, seen, found.gap, found.rounds)
        warmed = Warm(oracle, "consensus", layout, state=found.state)
        distribution = RelaxedDistribution(
            self.sizes, layout, found.tables, seen.unit, tree_near, near_records
        )
        return Estimate(distribution, self.total, layout, found.tables, fit, warmed)

    def _seen(self, layout: Layout) -> Observations:
        inside = [m for m in self.measurements if m.scope]
        return Observations(layout, inside, total=self.total, likelihood=self.likelihood)

    def _fit(
        self,
        oracle: Oracle,
        method: str,
        loss: float,
        seen: Observations,
        gap: float,
        steps: int,
    ) -> Fit:
        return Fit(
            oracle=oracle,
            method=method,
            likelihood=self.likelihood,
            exact_cells=self.exact_cells,
            loss=loss,
            noise_loss=seen.noise_loss,
            gap=gap,
            steps=steps,
        )


DRAW_BYTES = 16 << 20
"""Most memory of the distribution while it is fitted."""
_BYTES_PER_CELL = 256
DRAW_CELLS = DRAW_BYTES // _BYTES_PER_CELL
_MOST_TABLES = 100
_MOST_REFUSED = 60
_PRECISION = 1e-3
_CALLS = 200
"""Some three stages; the moves bring the rest. After one some were further than uniform tables."""

_NEAR = (10_000, 30_000)
"""Least and most records that tell noisy tables of a model: so many as the work lets move twice."""
_NEAR_CALLS = 60
"""With these the moves come as near as with 200, in a third of the time."""

_ENOUGH_MOVED = 0.25
"""If all tables leave time to move a smaller part of the records, they are moved to pairs alone.

Pairs alone gave records of Adult's and child's triples the model's error; at parts of .11, .15, .22
and .25 all tables gave 1.4, 1.1, 1.1 and 1.2 times it, at .29 and .40 they gave .9 and 1.0.
"""


@dataclass(frozen=True)
class RecordSource:
    """The source of synthetic records of an estimate.

    Args:
        drawn_from: the distribution of the draws.
        moved_to: the tables that they are moved towards; None if the estimate is exact.
        max_work: of the moves of one draw, as `move_towards` counts it.
    """

    drawn_from: DomainDistribution
    moved_to: Targets | None
    max_work: int = MAX_WORK

    def draw(self, n: int, generator: np.random.Generator) -> IndexArray:
        """Records as codes, shape (n, attributes)."""
        records = self.drawn_from.draw(n, generator)
        if self.moved_to is not None:
            targets = self.moved_to
            if moved_part(targets.layout, n, self.max_work) < _ENOUGH_MOVED:
                targets = targets.pairs
            layout, tables = targets.layout, targets.tables
            move_towards(records, layout, tables, generator, max_work=self.max_work)
        return records


@dataclass(frozen=True)
class Targets:
    """The tables that records are moved towards, of total one, flat by the layout.

    They are those of the estimate and all pairs inside them: of a wide table the pairs tell more
    than its own small cells, which noise rules. They are taken as the tables hold them: towards
    the answers of a noisy model, records of child at epsilon .1 came a third less near.
    """

    layout: Layout
    tables: FloatArray

    @classmethod
    def of(cls, found: RelaxedDistribution) -> Targets:
        """The targets of an estimate's tables."""
        held = found.layout.scopes
        pairs = dict.fromkeys(chain.from_iterable(combinations(s, 2) for s in held))
        layout = layout_of(found.layout.sizes, [*held, *pairs])
        tables = [found.as_held(s).ravel() for s in layout.scopes]
        return cls(layout, np.concatenate(tables))

    @property
    def pairs(self) -> Targets:
        """The targets of at most two attributes."""
        kept = [i for i, s in enumerate(self.layout.scopes) if len(s) <= 2]
        tables = [self.layout.table(self.tables, i).ravel() for i in kept]
        layout = Layout(self.layout.sizes, tuple(self.layout.scopes[i] for i in kept))
        return Targets(layout, np.concatenate(tables))


def record_source(found: Estimate, *, max_cells: int = DRAW_CELLS) -> RecordSource:
    """The estimate's distribution if exact, else one fitted to its tables, followed by moves."""
    if isinstance(found.distribution, RelaxedDistribution):
        held = found.distribution
        return RecordSource(tractable(held, max_cells=max_cells), Targets.of(held))
    return RecordSource(found.distribution, None)


def near_records(found: RelaxedDistribution) -> IndexArray:
    """Records moved towards the tables, of shape (n, attributes), from one seed."""
    targets, (least, most) = Targets.of(found), _NEAR
    n = int(min(most, max(least, moved_part(targets.layout, 1, MAX_WORK))))
    return RecordSource(found.tree, targets).draw(n, np.random.default_rng(0))


def tree_near(found: RelaxedDistribution) -> ExactDistribution:
    """A distribution fitted to the most informative tables, near enough for answers."""
    return tractable(found, max_calls=_NEAR_CALLS)


def tractable(
    found: RelaxedDistribution, *, max_cells: int = DRAW_CELLS, max_calls: int = _CALLS
) -> ExactDistribution:
    """A distribution fitted to the most informative tables."""
    sizes, layout = found.sizes, found.layout
    chosen = _most_telling(layout, found.tables, max_cells)
    said = [NoisyMarginal(s, found.as_held(s), np.array(_PRECISION)) for s in chosen]
    tree = JunctionTree(sizes, chosen, max_cells=max_cells)
    seen = Observations(tree.layout, said, total=1.0)
    descend(tree, seen, gap=seen.noise_loss, max_calls=max_calls)
    return ExactDistribution(sizes, tree, tree.beliefs)


def _most_telling(layout: Layout, tables: FloatArray, max_cells: int) -> list[Scope]:
    """Every attribute, then tables by their distance from independence, while they fit."""
    information = {
        s: _dependence(layout.table(tables, i)) for i, s in enumerate(layout.scopes) if len(s) > 1
    }
    ranked = sorted(information, key=lambda s: (-information[s], s))[:_MOST_TABLES]
    single = [(a,) for a in sorted({a for s in layout.scopes for a in s})]
    chosen: list[Scope] = []
    refused = 0
    for scope in ranked:
        if clique_tree(layout.sizes, [*single, *chosen, scope]).n_cells <= max_cells:
            chosen.append(scope)
        else:
            refused += 1
        if refused == _MOST_REFUSED:
            break
    covered = {a for s in chosen for a in s}
    return chosen + [s for s in single if s[0] not in covered]


def _dependence(table: FloatArray) -> float:
    """Entropies of the single attributes less that of the table, in nats."""
    singles = [
        table.sum(axis=tuple(k for k in range(table.ndim) if k != axis))
        for axis in range(table.ndim)
    ]
    return sum(map(_entropy, singles)) - _entropy(table)


def _entropy(table: FloatArray) -> float:
    cells = table[table > 0]
    return -float(cells @ np.log(cells))
