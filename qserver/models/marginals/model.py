"""A model of the whole distribution: marginals, answers to queries, synthetic records.

There are two kinds with one interface: an exact model holds a distribution, a relaxed model holds
tables that agree.

*A table for a scope that is in no table of a model* is one of least violation, then of most
entropy. The tables of a relaxed model agree on shared parts but need not come from one
distribution. So no table may agree with all of them. Of the tables with the least violation, in
squares, this is the one of most entropy.

References:
    McKenna et al. (2021), problem 4 and appendix B.3.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from qserver.models.marginals.fit.descent import descend
from qserver.models.marginals.fit.observations import NoisyMarginal, Observations
from qserver.models.marginals.graph.elimination import FactorTable, eliminate
from qserver.models.marginals.graph.junction_tree import JunctionTree
from qserver.models.marginals.graph.layout import FloatArray, IndexArray, Layout, Scope, check_scope
from qserver.models.marginals.record_draws import draw_given

_SWEEPS = 60
_AGREED = 1e-9
_MAX_CALLS = 400


@dataclass(frozen=True)
class KnownPart:
    """The marginal on a part of a scope that `n` tables of a model give.

    Args:
        part: positions within the scope, rising.
        table: proportions, one axis per position.
    """

    part: Scope
    table: FloatArray
    n: int = 1


def least_violation(shape: Sequence[int], known: Sequence[KnownPart]) -> FloatArray:
    """Proportions of this shape that violate the known parts least; of these, most entropy."""
    shape = tuple(shape)
    held = [k for k in known if k.part]
    largest = [k for k in held if not any(set(k.part) < set(o.part) for o in held)]
    table, agreed = _fitted(shape, largest)
    if agreed:
        return table
    return _nearest(shape, held)


def _fitted(shape: tuple[int, ...], known: Sequence[KnownPart]) -> tuple[FloatArray, bool]:
    """Iterative proportional fitting from the uniform table, and whether it converged."""
    table = np.full(shape, 1.0 / int(np.prod(shape)))
    for _ in range(_SWEEPS):
        worst = 0.0
        for k in known:
            axes = tuple(i for i in range(len(shape)) if i not in k.part)
            sums = table.sum(axis=axes, keepdims=True)
            wanted = k.table.reshape(sums.shape)
            worst = max(worst, float(np.abs(sums - wanted).max()))
            table = table * np.divide(wanted, sums, out=np.zeros_like(sums), where=sums > 0)
        if worst <= _AGREED:
            return table, True
    return table, False


def _nearest(shape: tuple[int, ...], known: Sequence[KnownPart]) -> FloatArray:
    whole = tuple(range(len(shape)))
    oracle = JunctionTree(shape, [whole, *(k.part for k in known)])
    said = [NoisyMarginal(k.part, k.table, np.array(k.n**-0.5)) for k in known]
    observations = Observations(oracle.layout, said, total=1.0)
    found = descend(oracle, observations, gap=_AGREED, max_calls=_MAX_CALLS)
    return oracle.layout.table(found.tables, oracle.layout.index[whole]).copy()


class DomainDistribution(ABC):
    """Proportions over a domain of codes.

    Queries take a weight vector per attribute; attributes that are left out have weight one.
    """

    sizes: tuple[int, ...]

    @abstractmethod
    def marginal(self, scope: Scope) -> FloatArray:
        """Proportions of the cells of a scope, one axis per attribute; CapacityError."""

    @abstractmethod
    def holds(self, scope: Scope) -> bool:
        """Whether a table of the model holds the scope."""

    @abstractmethod
    def expectation(self, weights: Mapping[int, FloatArray]) -> float:
        """Mean over the distribution of the product of the weights."""

    @abstractmethod
    def draw(self, n: int, generator: np.random.Generator) -> IndexArray:
        """Records as codes, shape (n, attributes)."""

    def _records(self, n: int, generator: np.random.Generator) -> IndexArray:
        """Records with every attribute uniform; attributes in no table stay uniform."""
        return generator.integers(0, np.array(self.sizes), size=(n, len(self.sizes)))


@dataclass(frozen=True)
class ExactDistribution(DomainDistribution):
    """The distribution of a calibrated junction tree.

    Args:
        tree: the tree; `beliefs` are the marginals of its cliques, flat.
    """

    sizes: tuple[int, ...]
    tree: JunctionTree
    beliefs: FloatArray

    def marginal(self, scope: Scope) -> FloatArray:
        """Proportions of the cells of a scope, one axis per attribute; CapacityError."""
        check_scope(scope, self.sizes)
        inside = tuple(a for a in scope if a in self._measured)
        table = eliminate(self._factors(set(inside)), inside).table
        return _with_uniform(table, inside, scope, self.sizes)

    def holds(self, scope: Scope) -> bool:
        """Whether a table of the model holds the scope."""
        return any(set(scope) <= set(c) for c in self.tree.tree.cliques)

    def expectation(self, weights: Mapping[int, FloatArray]) -> float:
        """Mean of the product of the weights; CapacityError."""
        inside = {a: w for a, w in weights.items() if a in self._measured}
        outside = float(np.prod([w.mean() for a, w in weights.items() if a not in inside]))
        factors = [*self._factors(set(inside)), *(FactorTable((a,), w) for a, w in inside.items())]
        return outside * float(eliminate(factors, ()).table)

    def draw(self, n: int, generator: np.random.Generator) -> IndexArray:
        """Records as codes, shape (n, attributes)."""
        records = self._records(n, generator)
        for i, clique in enumerate(self.tree.tree.cliques):
            given = self.tree.tree.separator(i)
            new = tuple(a for a in clique if a not in given)
            table = self.tree.cliques.table(self.beliefs, i)
            ordered = np.transpose(table, [clique.index(a) for a in (*given, *new)])
            draw_given(records, ordered, given, new, generator)
        return records

    @cached_property
    def _measured(self) -> frozenset[int]:
        return frozenset(a for c in self.tree.tree.cliques for a in c)

    def _factors(self, wanted: set[int]) -> list[FactorTable]:
        """Conditionals of the cliques needed for these attributes, down from the roots."""
        tree, needed = self.tree.tree, set(wanted)
        factors = []
        for i in reversed(range(len(tree.cliques))):
            clique, given = tree.cliques[i], tree.separator(i)
            # The conditional of a clique sums to one if none of its new attributes is needed.
            if not (set(clique) - set(given)) & needed:
                continue
            needed |= set(given)
            factors.append(
                FactorTable(
                    clique, _conditional(self.tree.cliques.table(self.beliefs, i), clique, given)
                )
            )
        return factors


@dataclass(frozen=True)
class RelaxedDistribution(DomainDistribution):
    """Tables that agree on shared parts; they need not come from one distribution."""

    sizes: tuple[int, ...]
    layout: Layout
    tables: FloatArray

    def marginal(self, scope: Scope) -> FloatArray:
        """Proportions of the cells of a scope, one axis per attribute; CapacityError."""
        check_scope(scope, self.sizes)
        held = self._smallest_holder(scope)
        if held is not None:
            return self._part(held, scope)
        known = self._known(scope, {})
        return least_violation([self.sizes[a] for a in scope], known)

    def holds(self, scope: Scope) -> bool:
        """Whether a table of the model holds the scope."""
        return self._smallest_holder(scope) is not None

    def expectation(self, weights: Mapping[int, FloatArray]) -> float:
        """Mean of the product of the weights; CapacityError."""
        scope = tuple(sorted(weights))
        held = self._smallest_holder(scope)
        if held is not None:
            return _weighed(self._part(held, scope), [weights[a] for a in scope])
        # Values of equal weight are grouped into one class.
        classes = {a: np.unique(weights[a], return_inverse=True) for a in scope}
        known = self._known(scope, {a: c[1].ravel() for a, c in classes.items()})
        shape = [len(classes[a][0]) for a in scope]
        return _weighed(least_violation(shape, known), [classes[a][0] for a in scope])

    def draw(self, n: int, generator: np.random.Generator) -> IndexArray:
        """Records as codes, shape (n, attributes)."""
        records = self._records(n, generator)
        done: set[int] = set()
        left = {a for s in self.layout.scopes for a in s}
        while left:
            # Next comes the attribute with the most drawn attributes in one table.
            i = max(
                (i for i, s in enumerate(self.layout.scopes) if set(s) & left),
                key=lambda i: (
                    len(set(self.layout.scopes[i]) & done),
                    -len(set(self.layout.scopes[i]) & left),
                    -i,
                ),
            )
            scope = self.layout.scopes[i]
            given = tuple(a for a in scope if a in done)
            new = tuple(a for a in scope if a in left)[:1]
            table = self._part(i, tuple(sorted(given + new)))
            order = [tuple(sorted(given + new)).index(a) for a in (*given, *new)]
            draw_given(records, np.transpose(table, order), given, new, generator)
            done |= set(new)
            left -= set(new)
        return records

    def _smallest_holder(self, scope: Scope) -> int | None:
        wanted = set(scope)
        held = [i for i, s in enumerate(self.layout.scopes) if wanted <= set(s)]
        return min(held, key=lambda i: int(self.layout.counts[i]), default=None)

    def _part(self, i: int, scope: Scope) -> FloatArray:
        own = self.layout.scopes[i]
        axes = tuple(k for k, a in enumerate(own) if a not in scope)
        return np.asarray(self.layout.table(self.tables, i).sum(axis=axes))

    def _known(self, scope: Scope, classes: Mapping[int, IndexArray]) -> list[KnownPart]:
        """The known marginals on parts of a scope, with values grouped by class."""
        holders: dict[Scope, list[int]] = {}
        for i, s in enumerate(self.layout.scopes):
            holders.setdefault(tuple(a for a in scope if a in s), []).append(i)
        found = []
        for part, which in holders.items():
            if not part:
                continue
            smallest = min(which, key=lambda i: int(self.layout.counts[i]))
            table = self._part(smallest, part)
            for axis, a in enumerate(part):
                if a in classes:
                    table = _grouped(table, axis, classes[a])
            places = tuple(scope.index(a) for a in part)
            found.append(KnownPart(places, table, len(which)))
        return found


def _conditional(table: FloatArray, clique: Scope, given: Scope) -> FloatArray:
    axes = tuple(k for k, a in enumerate(clique) if a not in given)
    sums = table.sum(axis=axes, keepdims=True)
    return np.asarray(np.divide(table, sums, out=np.zeros_like(table), where=sums > 0))


def _with_uniform(
    table: FloatArray, inside: Scope, scope: Scope, sizes: Sequence[int]
) -> FloatArray:
    """A table on some attributes of a scope, extended to all; the others are uniform."""
    wide = table.reshape(tuple(sizes[a] if a in inside else 1 for a in scope))
    shape = tuple(sizes[a] for a in scope)
    spread = np.broadcast_to(wide, shape) * (table.size / max(int(np.prod(shape)), 1))
    return np.asarray(spread)


def _weighed(table: FloatArray, weights: Sequence[FloatArray]) -> float:
    for w in reversed(weights):
        table = np.asarray(table @ w)
    return float(table)


def _grouped(table: FloatArray, axis: int, classes: IndexArray) -> FloatArray:
    """The table with the values of one axis added up by class."""
    n = int(classes.max()) + 1
    moved = np.moveaxis(table, axis, 0)
    found = np.zeros((n, *moved.shape[1:]))
    np.add.at(found, classes, moved)
    return np.moveaxis(found, 0, axis)
