"""A network's parameters from noisy tables; every table that overlaps a family is evidence.

Variable by variable, parents before children:

1. The weights of least variance on all tables give the family's counts (combined_tables).
2. The prior of a row is the mean over the families with one parent left out, so that rows drowned
   by noise fall back on better known ones. Families without a parent come first.
3. A row's total comes from the tables and, for several parents, from the network estimated so far.
   The network is often far more exact than the noise; it counts as far as the tables support it. A
   column's total comes from smaller tables.
4. The parameters are the posterior means under these (row_posterior), divided by their row sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import sqrt

import numpy as np

from qserver.models.network.learning.combined_tables import CombinedTables
from qserver.models.network.learning.noisy_table import NoisyTable, Scope, scope_of
from qserver.models.network.network import Network, Table, normalised
from qserver.models.network.row_posterior import KnownTotals, posterior_counts
from qserver.models.network.structure import Structure
from qserver.models.network.variable_elimination import NetworkQuestions

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
