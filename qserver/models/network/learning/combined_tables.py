"""The weights of least variance on noisy tables that overlap, in closed form.

The table over a scope is the sum of one component per subset S of the scope. A component depends on
all of S and averages to zero along each axis. Independent noise of equal variance in all cells
stays white within a component and is uncorrelated between components. So each component is
estimated alone, by the mean over all tables that contain S, weighted by precision. A table over any
scope follows by addition if every subset of it is contained in some table.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from math import prod

import numpy as np

from qserver.errors import NetworkError
from qserver.models.network.learning.noisy_table import NoisyTable, Scope, n_cells
from qserver.models.network.network import Table


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
