"""A network's parameters from noisy tables; every table that overlaps a family is evidence.

Variable by variable, parents before children:

1. The weights of least variance on all tables give the family's counts.
2. The prior of a row is the mean over the families with one parent left out, so that rows drowned
   by noise fall back on better known ones. Families without a parent come first.
3. A row's total comes from the tables and, for several parents, from the network estimated so far.
   The network is often far more exact than the noise; it counts as far as the tables support it. A
   column's total comes from smaller tables.
4. The parameters are the posterior means under these, divided by their row sums.

The weights of least variance on noisy tables that overlap, in closed form.

The table over a scope is the sum of one component per subset S of the scope. A component depends on
all of S and averages to zero along each axis. Independent noise of equal variance in all cells
stays white within a component and is uncorrelated between components. So each component is
estimated alone, by the mean over all tables that contain S, weighted by precision. A table over any
scope follows by addition if every subset of it is contained in some table.

Posterior means of non-negative counts under noise, with known sums as soft constraints.

A table of counts, rows by values, is observed with white noise of standard deviation sd. The prior
density of a cell's count is proportional to c^(a - 1), c > 0. With a = kappa * p this is, given a
row's total, the Dirichlet law with mean p and concentration kappa. Further knowledge of row totals
and column totals enters as a tilt exp(t c), with one t per row and one per column. The tilts are
chosen so that posterior totals meet the known totals as far as their precision requires. For counts
far above the noise the result is least squares, far below it the prior's share of the row's total.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from math import isfinite, prod, sqrt

import numpy as np

from qserver.errors import NetworkError
from qserver.models.network.network import Network, Table, normalised
from qserver.models.network.structure import Structure
from qserver.models.network.variable_elimination import NetworkQuestions

_NEAR = np.linspace(-5.0, 5.0, 27)
_SMALL = np.concatenate([[0.0], np.geomspace(1e-3, 4.0, 14)])
# Below this many standard deviations the Gamma law of the tail is accurate enough.
_FAR = -25.0
_MOST_STEPS = 40
_TOLERANCE = 3e-3


@dataclass(frozen=True, eq=False)
class KnownTotals:
    """Totals of rows or of columns, from the table and from other knowledge.

    Args:
        totals: the estimates, one per row (or column).
        variances: their variances, one per row (or column), or one for all.
    """

    totals: Table
    variances: Table | float


@dataclass(frozen=True, eq=False)
class _Moments:
    means: Table
    variances: Table


def posterior_counts(
    counts: Table, deviation: float, shapes: Table, rows: KnownTotals, columns: KnownTotals | None
) -> Table:
    """Posterior means of the counts, of shape (rows, values), all > 0.

    Args:
        counts: noisy counts, of shape (rows, values).
        deviation: standard deviation of the noise of each count, in records, > 0.
        shapes: exponents a of the prior, > 0, with the shape of `counts`.
        rows: totals of rows; their variances are at most those of the table's row sums.
        columns: totals of columns, or None to leave them free.
    """
    scaled = counts / deviation
    by_row, by_column = np.zeros(len(counts)), np.zeros(counts.shape[1])
    row_pull = _Pull(rows, scaled, deviation, axis=1)
    column_pull = None if columns is None else _Pull(columns, scaled, deviation, axis=0)
    moved = 0.0
    for step in range(_MOST_STEPS):
        found = _moments(shapes, scaled + by_row[:, None] + by_column[None, :])
        if step % 2 == 0 or column_pull is None:
            change = row_pull.step(by_row, found)
            by_row -= change
        else:
            change = column_pull.step(by_column, found)
            by_column -= change
        last, moved = moved, float(np.abs(change).max())
        if max(last, moved) < _TOLERANCE and step > 0:
            break
    found = _moments(shapes, scaled + by_row[:, None] + by_column[None, :])
    return found.means * deviation


class _Pull:
    """The condition that ties a tilt to the known totals, in units of the noise."""

    def __init__(self, known: KnownTotals, scaled: Table, deviation: float, *, axis: int) -> None:
        self._axis = axis
        self._seen = scaled.sum(axis=axis)
        own = 1 / scaled.shape[axis]
        self._known = known.totals / deviation
        # The table alone gives a total with precision `own`; the known total is never less exact.
        self._precision = np.maximum(deviation**2 / np.asarray(known.variances), own)
        self._own = own

    def step(self, tilt: Table, found: _Moments) -> Table:
        """A bounded Newton step of tilt = pull of the known totals less pull of the table."""
        total = found.means.sum(axis=self._axis)
        pull = (self._known - total) * self._precision - (self._seen - total) * self._own
        spread = found.variances.sum(axis=self._axis)
        slope = 1 + spread * (self._precision - self._own)
        return np.asarray(np.clip((tilt - pull) / slope, -2.0, 2.0))


def _moments(shapes: Table, centres: Table) -> _Moments:
    """Mean and variance of the densities c^(a-1) exp(-(c - u)^2 / 2), c > 0, cell by cell."""
    far = centres < _FAR
    u = np.maximum(centres, _FAR)[..., None]
    edges = np.concatenate(
        [np.broadcast_to(_SMALL, (*centres.shape, _SMALL.size)), np.maximum(u + _NEAR, 0.0)],
        axis=-1,
    )
    edges.sort(axis=-1)
    # The power is integrated exactly between edges; the Gaussian is evaluated at the middle.
    masses = np.diff(edges ** shapes[..., None], axis=-1)
    middles = (edges[..., 1:] + edges[..., :-1]) / 2
    exponents = -((middles - u) ** 2) / 2 + np.minimum(u, 0.0) ** 2 / 2
    weights = masses * np.exp(exponents)
    norm = weights.sum(axis=-1)
    means = (weights * middles).sum(axis=-1) / norm
    squares = (weights * middles**2).sum(axis=-1) / norm
    steep = np.maximum(-centres, 1.0)
    return _Moments(
        means=np.where(far, shapes / steep, means),
        variances=np.where(far, shapes / steep**2, np.maximum(squares - means**2, 1e-12)),
    )


Scope = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class NoisyTable:
    """Counts of every value of the variables at `scope`, each with independent Laplace noise.

    Args:
        scope: positions of variables, ascending and distinct.
        scale: Laplace scale b of each cell, in records, > 0. Its price is 1 / b epsilon.
        values: the noisy counts, one axis per variable of the scope.

    Raises:
        NetworkError: scope, scale or shape are wrong.
    """

    scope: Scope
    scale: float
    values: Table

    def __post_init__(self) -> None:
        if list(self.scope) != sorted(set(self.scope)):
            raise NetworkError("scope", "be ascending", self.scope)
        if not (isfinite(self.scale) and self.scale > 0):
            raise NetworkError("scale", "be a finite number > 0", self.scale)
        if self.values.ndim != len(self.scope):
            raise NetworkError("values", "have one axis per variable of the scope")

    @property
    def epsilon(self) -> float:
        """The cost of the table: 1 / scale."""
        return 1 / self.scale

    @property
    def variance(self) -> float:
        """Variance of a cell's noise, 2 b^2, in records squared."""
        return 2 * self.scale**2


@dataclass(frozen=True)
class TablePrice:
    """A table to measure, and its price.

    Args:
        scope: positions of variables, ascending and distinct.
        epsilon: 1 / b of each cell's noise, > 0.
    """

    scope: Scope
    epsilon: float


def n_cells(scope: Sequence[int], sizes: Sequence[int]) -> int:
    """Number of joint values of the variables at `scope`."""
    return prod(sizes[i] for i in scope)


def scope_of(variables: Sequence[int]) -> Scope:
    """The variables as a scope, in ascending order."""
    return tuple(sorted(variables))


def onto_family(table: Table, scope: Scope, family: Sequence[int]) -> Table:
    """`table` over `scope` with its axes in the order of `family`, the same variables."""
    return table.transpose([scope.index(i) for i in family])


def subsets(scope: Scope) -> Iterator[Scope]:
    """All subsets of a scope, including itself and the empty one."""
    for size in range(len(scope) + 1):
        yield from combinations(scope, size)


def component_share(part: Scope, scope: Scope, sizes: Sequence[int]) -> float:
    """A cell's variance over `scope` from the component `part`, of unit variance there.

    The unit: the total that the component's tables imply has variance 1.
    """
    rest = prod(sizes[i] for i in scope if i not in part)
    return prod((sizes[i] - 1) / sizes[i] for i in part) / n_cells(part, sizes) / rest**2


@dataclass(frozen=True, eq=False)
class CombinedTables:
    """Estimates of smaller tables from all noisy tables together; each is computed once.

    Args:
        sizes: number of values of each variable.
        tables: the noisy tables; their order matters only for rounding.
    """

    sizes: tuple[int, ...]
    tables: tuple[NoisyTable, ...]
    _components: dict[Scope, Table] = field(default_factory=dict, repr=False)
    _variances: dict[Scope, float] = field(default_factory=dict, repr=False)
    _marginals: dict[Scope, Table] = field(default_factory=dict, repr=False)

    def holds(self, scope: Scope) -> bool:
        """Whether the table over `scope` can be estimated."""
        return all(self._holders(part) for part in subsets(scope))

    def marginal(self, scope: Scope) -> Table:
        """The estimate of least variance of the counts over `scope`; it may be negative.

        Estimates of different scopes agree wherever they overlap.

        Raises:
            NetworkError: a subset of the scope is in no table.
        """
        found = self._marginals.get(scope)
        if found is None:
            found = np.zeros([self.sizes[i] for i in scope])
            for part in subsets(scope):
                shape = [self.sizes[i] if i in part else 1 for i in scope]
                rest = prod(self.sizes[i] for i in scope if i not in part)
                found = found + self._component(part).reshape(shape) / rest
            self._marginals[scope] = found
        return found

    def variance(self, scope: Scope) -> float:
        """Variance of every cell of `marginal(scope)`, in records squared."""
        return sum(
            self._variance(part) * component_share(part, scope, self.sizes)
            for part in subsets(scope)
        )

    def variance_within(self, scope: Scope, i: int) -> float:
        """Variance of white noise that would give the cells' differences along variable `i`."""
        if self.sizes[i] == 1:
            return self.variance(scope)
        found = sum(
            self._variance(part) * component_share(part, scope, self.sizes)
            for part in subsets(scope)
            if i in part
        )
        return found * self.sizes[i] / (self.sizes[i] - 1)

    def _holders(self, part: Scope) -> list[NoisyTable]:
        return [t for t in self.tables if set(part) <= set(t.scope)]

    def _precision(self, table: NoisyTable) -> float:
        return 1 / (table.variance * n_cells(table.scope, self.sizes))

    def _variance(self, part: Scope) -> float:
        found = self._variances.get(part)
        if found is None:
            precision = sum(map(self._precision, self._holders(part)))
            if precision == 0:
                raise NetworkError("tables", "hold the variables of each scope", part)
            found = self._variances[part] = 1 / precision
        return found

    def _component(self, part: Scope) -> Table:
        found = self._components.get(part)
        if found is None:
            variance = self._variance(part)
            found = np.zeros([self.sizes[i] for i in part])
            for table in self._holders(part):
                weight = self._precision(table) * variance
                found = found + weight * _centred(table, part)
            self._components[part] = found
        return found


def _centred(table: NoisyTable, part: Scope) -> Table:
    summed = table.values.sum(axis=tuple(k for k, i in enumerate(table.scope) if i not in part))
    for axis in range(summed.ndim):
        summed = summed - summed.mean(axis=axis, keepdims=True)
    return np.asarray(summed)


# Concentration of a row's prior: few CPDs are smooth, and few rows of tables inform about it.
_CONCENTRATION = 1.0
_LEAST_SHAPE = 0.02
# The uniform part of a prior: the family with a parent left out may have missed a value.
_UNIFORM = 0.05
_JUST_BELOW = 1 - 1e-9


def network_from_tables(structure: Structure, tables: Sequence[NoisyTable]) -> Network:
    """The network's parameters by posterior means, from all the tables together.

    The result depends on the arguments alone: the same tables give the same network.

    Raises:
        NetworkError: a family is contained in no table.
    """
    combined = CombinedTables(structure.sizes, tuple(tables))
    first = _Pass(structure, combined, None).network()
    if all(len(parents) < 2 for parents in structure.parents):
        return first
    return _Pass(structure, combined, first).network()


@dataclass(eq=False)
class _Pass:
    """One pass over all variables; `earlier` is the network of an earlier pass, if any."""

    structure: Structure
    combined: CombinedTables
    earlier: Network | None
    _found: dict[tuple[int, Scope], Table] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._questions = NetworkQuestions(self.earlier) if self.earlier else None
        self._n_records = max(float(self.combined.marginal(())), 1.0)

    def network(self) -> Network:
        cpds = []
        for i, parents in enumerate(self.structure.parents):
            scope = scope_of(parents)
            axes = [scope.index(p) for p in parents]
            cpds.append(self._conditional(i, scope).transpose([*axes, len(parents)]))
        return Network(self.structure, tuple(cpds))

    def _conditional(self, i: int, parents: Scope) -> Table:
        """P(i | parents): one axis per parent, ascending, then the axis of the variable."""
        found = self._found.get((i, parents))
        if found is None:
            prior = self._prior(i, parents)
            means = self._posterior(i, parents, prior.reshape(-1, prior.shape[-1]))
            found = self._found[i, parents] = normalised(means).reshape(prior.shape)
        return found

    def _prior(self, i: int, parents: Scope) -> Table:
        sizes = self.structure.sizes
        shape = (*(sizes[p] for p in parents), sizes[i])
        uniform = np.full(shape, 1 / sizes[i])
        if not parents:
            return uniform
        without = [
            np.expand_dims(self._conditional(i, (*parents[:k], *parents[k + 1 :])), k)
            for k in range(len(parents))
        ]
        mean = sum(without[1:], start=without[0]) / len(parents)
        return np.asarray((1 - _UNIFORM) * mean + _UNIFORM * uniform)

    def _posterior(self, i: int, parents: Scope, prior: Table) -> Table:
        scope = scope_of((*parents, i))
        table = self.combined.marginal(scope)
        axes = [scope.index(j) for j in (*parents, i)]
        counts = table.transpose(axes).reshape(prior.shape)
        within = self.combined.variance_within(scope, i)
        shapes = np.maximum(_CONCENTRATION * prior, _LEAST_SHAPE)
        rows = self._row_totals(parents, counts, within)
        columns = self._column_totals(i, counts, within) if parents else None
        return posterior_counts(counts, sqrt(within), shapes, rows, columns)

    def _column_totals(self, i: int, counts: Table, within: float) -> KnownTotals:
        variance = min(self.combined.variance((i,)), _JUST_BELOW * len(counts) * within)
        return KnownTotals(self.combined.marginal((i,)), variance)

    def _row_totals(self, parents: Scope, counts: Table, within: float) -> KnownTotals:
        seen = counts.sum(axis=1)
        own = _JUST_BELOW * counts.shape[1] * within
        variances = np.full(len(counts), min(self.combined.variance(parents), own))
        totals = seen
        if len(parents) > 1 and self._questions:
            foretold = _doubted(self._foretold(parents, self._questions), seen, variances)
            precision = 1 / variances + 1 / foretold.variances
            totals = (seen / variances + foretold.totals / foretold.variances) / precision
            variances = 1 / precision
        return KnownTotals(np.maximum(totals, 0.0), variances)

    def _foretold(self, parents: Scope, questions: NetworkQuestions) -> KnownTotals:
        """Row totals predicted by the earlier network, with their variances.

        The variance is that of a count around its expectation plus, for each parent, that of its
        noisy counts, carried over in proportion.
        """
        shares = questions.probability([self.structure.names[p] for p in parents])
        totals = self._n_records * shares
        variances = totals + 1.0
        for axis, parent in enumerate(parents):
            alone = np.maximum(self.combined.marginal((parent,)), 1.0)
            shape = [1] * len(parents)
            shape[axis] = -1
            variances = (
                variances + self.combined.variance((parent,)) * (totals / alone.reshape(shape)) ** 2
            )
        return KnownTotals(totals.ravel(), variances.ravel())


def _doubted(foretold: KnownTotals, seen: Table, variances: Table) -> KnownTotals:
    """`foretold` with the misfit shown by the tables added to its variances.

    Parents that are independent in the structure may be dependent in the data. The misfit, relative
    to the totals, is the part of the squared differences that noise does not explain.
    """
    excess = (seen - foretold.totals) ** 2 - variances - foretold.variances
    relative = max(0.0, float(excess.sum())) / float((foretold.totals**2).sum())
    return KnownTotals(foretold.totals, foretold.variances + relative * foretold.totals**2)
