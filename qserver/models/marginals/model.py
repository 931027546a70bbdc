"""A model of the whole distribution: marginals, answers to queries, synthetic records.

There are two kinds with one interface: an exact model holds a distribution, a relaxed model holds
tables that agree.

*A table for a scope that is in no table of a model* is one of little violation, near to a start.
The tables of a relaxed model agree on shared parts but need not come from one distribution. So no
table may agree with all of them. And they are noisy: agreement beyond the noise is worth nothing.
The squares of the violation are weighed against the divergence from the start by the scale of the
noise. The start is a junction tree fitted to the tables that tell most: the attributes outside the
scope tell of those inside. With much noise it is independence, and the table that of most entropy.

*A table that is noisy beside its number of cells* is told by records that were moved towards all
tables: they come from one distribution, and are nearer to the truth. With much noise it is answered
like a scope of no table, from such tables.

References:
    McKenna et al. (2021), problem 4 and appendix B.3.
"""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, reduce
from math import prod

import numpy as np

from qserver.errors import CapacityError
from qserver.models.marginals.graph.junction_tree import JunctionTree
from qserver.models.marginals.graph.layout import FloatArray, IndexArray, Layout, Scope, check_scope


def draw_given(
    records: IndexArray,
    table: FloatArray,
    given: Scope,
    new: Scope,
    generator: np.random.Generator,
) -> None:
    """Draw the columns `new` of the records, given their columns `given`, in place.

    Of n records with equal values in `given`, each value of `new` gets n p, rounded up or down. So
    every record has it with probability p, and their counts are as near n p as rounding allows.

    Args:
        records: codes, shape (n, attributes).
        table: joint weights, with axes `given`, then `new`; rows without weight are uniform.
    """
    n_given = int(np.prod(table.shape[: len(given)]))
    flat = table.reshape(n_given, -1)
    totals = flat.sum(axis=1, keepdims=True)
    flat = np.where(totals > 0, flat, 1.0)
    steps = np.cumsum(flat / flat.sum(axis=1, keepdims=True), axis=1)
    steps[:, -1] = 1.0
    at = np.zeros(len(records), dtype=np.intp)
    for a, n in zip(given, table.shape, strict=False):
        at = at * n + records[:, a]
    uniforms = stratified(at, n_given, generator)
    # The steps of row i lie in (i, i + 1], so that one search serves all rows.
    ladder = (steps + np.arange(n_given)[:, None]).ravel()
    cell = np.searchsorted(ladder, at + uniforms, side="right") - at * flat.shape[1]
    cell = np.clip(cell, 0, flat.shape[1] - 1)
    codes = np.unravel_index(cell, table.shape[len(given) :])
    for a, column in zip(new, codes, strict=True):
        records[:, a] = column


def stratified(group: IndexArray, n_groups: int, generator: np.random.Generator) -> FloatArray:
    """A uniform number in [0, 1) per record; within a group they are evenly spaced, shuffled.

    References:
        Systematic sampling (Madow, 1949), within strata.
    """
    counts = np.bincount(group, minlength=n_groups)
    order = generator.permutation(len(group))
    order = order[np.argsort(group[order], kind="stable")]
    first = np.repeat(np.cumsum(counts) - counts, counts)
    found = np.empty(len(group))
    found[order] = np.arange(len(group)) - first
    return (found + generator.random(n_groups)[group]) / counts[group]


MAX_INTERMEDIATE = 1 << 24


@dataclass(frozen=True)
class FactorTable:
    """A table on the attributes of `scope`, one axis each."""

    scope: Scope
    table: FloatArray


def eliminate(factors: Sequence[FactorTable], kept: Scope) -> FactorTable:
    """The product of all factors, summed over every attribute that is not kept.

    Raises:
        CapacityError: an intermediate product would be too large.
    """
    left = list(factors)
    sizes = {a: n for f in left for a, n in zip(f.scope, f.table.shape, strict=True)}
    rest = {a for f in left for a in f.scope} - set(kept)
    while rest:
        around = {a: _union(f.scope for f in left if a in f.scope) for a in rest}
        a = min(rest, key=lambda b: (prod(sizes[c] for c in around[b]), b))
        touched = [f for f in left if a in f.scope]
        joint = product(touched, around[a], sizes)
        summed = joint.sum(axis=around[a].index(a))
        left = [f for f in left if a not in f.scope]
        left.append(FactorTable(tuple(b for b in around[a] if b != a), np.asarray(summed)))
        rest.discard(a)
    return FactorTable(kept, product(left, kept, sizes))


def product(factors: Sequence[FactorTable], scope: Scope, sizes: Mapping[int, int]) -> FloatArray:
    """The product of factors within `scope` as one table on it.

    Raises:
        CapacityError: the table would be too large.
    """
    n_cells = prod(sizes[a] for a in scope)
    if n_cells > MAX_INTERMEDIATE:
        raise CapacityError(
            f"The answer needs a table of {n_cells:,} cells; {MAX_INTERMEDIATE:,} are the most."
        )
    found = np.ones(tuple(sizes[a] for a in scope))
    for factor in factors:
        found *= factor.table.reshape(tuple(sizes[a] if a in factor.scope else 1 for a in scope))
    return found


def _union(scopes: Iterable[Scope]) -> Scope:
    return tuple(sorted({a for scope in scopes for a in scope}))


_SWEEPS = 40
_SETTLED = 0.3
"""A sweep that changes no known cell by more than this part of the softness is the last."""

_NO_MASS = 1e-300

_MIXED = 1e-6
"""The part of independence in every start: a cell that a tree has at 0 may be known above it."""

NOISY, RULED = 0.005, 0.02
"""Tables with this much noise in all, as a proportion, are told by records; with more, softly too.

On Adult, child and made-up networks pairs at epsilon .1, 1 and 3 came to .57 to .99 of their error.
"""

_KEPT = 256


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


def least_violation(
    shape: Sequence[int],
    known: Sequence[KnownPart],
    *,
    softness: float,
    start: FloatArray | None = None,
) -> FloatArray:
    """Proportions of this shape that violate the known parts little, and are near to a start.

    They minimise 1/2 sum n (part - known)^2 + softness KL, the divergence from the start. One part
    after another is brought to its minimum by one factor per cell.

    Args:
        softness: > 0; the Laplace scale of the noise, as a proportion, or less.
        start: proportions; those of independent attributes if None, where, with the single
            attributes given, the divergence is the loss of entropy.
    """
    from scipy.special import wrightomega  # loads long, and not at a start

    parts = [k for k in known if k.part]
    table = _independent(shape, parts)
    if start is not None:
        table = (1.0 - _MIXED) * start + _MIXED * table
    logs = [np.zeros(k.table.shape) for k in parts]
    for _ in range(_SWEEPS):
        furthest = 0.0
        for i, k in enumerate(parts):
            left_out = tuple(a for a in range(len(shape)) if a not in k.part)
            sums = np.maximum(table.sum(axis=left_out, keepdims=True), _NO_MASS)
            unit, before = softness / k.n, sums.reshape(k.table.shape)
            # The new sums z have (z - known) / unit + log(z / before) + log of the last factor = 0.
            after = unit * wrightomega(k.table / unit - logs[i] + np.log(before / unit))
            furthest = max(furthest, float(np.abs(after - before).max()))
            table *= after.reshape(sums.shape) / sums
            logs[i] = (k.table - after) / unit
        if furthest <= _SETTLED * softness:
            break
    return np.asarray(table / table.sum())


def _independent(shape: Sequence[int], known: Sequence[KnownPart]) -> FloatArray:
    """The product of the single attributes, each by the smallest part that has it."""
    singles = list[FloatArray]()
    for a, n in enumerate(shape):
        having = [k for k in known if a in k.part]
        k = min(having, key=lambda k: len(k.part), default=KnownPart((a,), np.full(n, 1.0 / n)))
        singles.append(k.table.sum(axis=tuple(i for i, b in enumerate(k.part) if b != a)))
    return np.asarray(reduce(np.multiply.outer, singles, np.ones(())))


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
        return eliminate(self._factors(set(scope)), scope).table

    def marginal_by_class(self, scope: Scope, classes: Mapping[int, IndexArray]) -> FloatArray:
        """The marginal on a scope of the tree, its values added up by class; CapacityError."""
        matrices = {a: np.eye(int(classes[a].max()) + 1)[classes[a]] for a in scope}
        coarse = {a: m for a, m in matrices.items() if m.shape[0] != m.shape[1]}
        # The classes of an attribute are an attribute of their own.
        kept = {a: len(self.sizes) + a if a in coarse else a for a in scope}
        by_class = [FactorTable((a, kept[a]), m) for a, m in coarse.items()]
        table = eliminate(
            [*self._factors(set(scope)), *by_class], tuple(sorted(kept.values()))
        ).table
        return np.transpose(table, np.argsort(np.argsort([kept[a] for a in scope])))

    def holds(self, scope: Scope) -> bool:
        """Whether a table of the model holds the scope."""
        return any(set(scope) <= set(c) for c in self.tree.tree.cliques)

    def expectation(self, weights: Mapping[int, FloatArray]) -> float:
        """Mean of the product of the weights; CapacityError."""
        weighed = [FactorTable((a,), w) for a, w in weights.items()]
        return float(eliminate([*self._factors(set(weights)), *weighed], ()).table)

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

    def _factors(self, wanted: set[int]) -> list[FactorTable]:
        """Conditionals of the cliques needed for these attributes, down from the roots.

        Attributes that are in no clique are uniform.
        """
        tree, needed = self.tree.tree, set(wanted)
        outside = wanted - {a for c in tree.cliques for a in c}
        factors = [FactorTable((a,), np.full(n := self.sizes[a], 1.0 / n)) for a in outside]
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
    """Tables that agree on shared parts; they need not come from one distribution.

    Args:
        noise: least Laplace scale of what they were fitted to, as a proportion.
        tree_near: an exact distribution near to its tables.
        near: records near to its tables, codes of shape (n, attributes), always the same.
    """

    sizes: tuple[int, ...]
    layout: Layout
    tables: FloatArray
    noise: float
    tree_near: Callable[[RelaxedDistribution], ExactDistribution]
    near: Callable[[RelaxedDistribution], IndexArray]

    def marginal(self, scope: Scope) -> FloatArray:
        """Proportions of the cells of a scope, one axis per attribute; CapacityError."""
        check_scope(scope, self.sizes)
        if not self.holds(scope):
            return self._fitted(scope)
        return self._kept(scope) if self._noise_of(scope) >= RULED else self._told(scope)

    @cached_property
    def _kept(self) -> Callable[[Scope], FloatArray]:
        """`_fitted`, with the last tables kept: many counts ask for few of them."""
        return lru_cache(maxsize=_KEPT)(self._fitted)

    def _noise_of(self, scope: Scope) -> float:
        return self.noise * prod(self.sizes[a] for a in scope)

    def _told(self, scope: Scope) -> FloatArray:
        """The marginal on a scope that a table holds, by records if it is noisy."""
        return self._of_records(scope) if self._noise_of(scope) >= NOISY else self.as_held(scope)

    def _of_records(self, scope: Scope) -> FloatArray:
        shape, records = tuple(self.sizes[a] for a in scope), self._near
        cells = np.ravel_multi_index(tuple(records[:, a] for a in scope), shape)
        return np.bincount(cells, minlength=prod(shape)).reshape(shape) / len(records)

    @cached_property
    def _near(self) -> IndexArray:
        return self.near(self)

    @cached_property
    def tree(self) -> ExactDistribution:
        """The exact distribution near to its tables."""
        return self.tree_near(self)

    def _fitted(self, scope: Scope) -> FloatArray:
        return self._fitted_by_class(scope, {a: np.arange(self.sizes[a]) for a in scope})

    def _fitted_by_class(self, scope: Scope, classes: Mapping[int, IndexArray]) -> FloatArray:
        """The table over classes of the values of each attribute of a scope that no table holds."""
        holders = Counter(tuple(a for a in scope if a in s) for s in self.layout.scopes)
        holders.pop((), None)
        known = [self._known(scope, part, n, classes) for part, n in holders.items()]
        start = None
        if all(self._noise_of(part) < RULED for part in holders):
            with contextlib.suppress(CapacityError):
                start = self.tree.marginal_by_class(scope, classes)
        shape = [int(classes[a].max()) + 1 for a in scope]
        return least_violation(shape, known, softness=self.noise, start=start)

    def holds(self, scope: Scope) -> bool:
        """Whether a table of the model holds the scope."""
        return self._smallest_holder(scope) is not None

    def as_held(self, scope: Scope) -> FloatArray:
        """The marginal of the smallest table that holds the scope, noisy or not."""
        held = self._smallest_holder(scope)
        if held is None:
            raise KeyError(scope)
        return self._part(held, scope)

    def expectation(self, weights: Mapping[int, FloatArray]) -> float:
        """Mean of the product of the weights; CapacityError."""
        scope = tuple(sorted(weights))
        if self.holds(scope):
            return _weighed(self.marginal(scope), [weights[a] for a in scope])
        # Values of equal weight are grouped into one class.
        classes = {a: np.unique(weights[a], return_inverse=True) for a in scope}
        found = self._fitted_by_class(scope, {a: c[1].ravel() for a, c in classes.items()})
        return _weighed(found, [classes[a][0] for a in scope])

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

    def _known(
        self, scope: Scope, part: Scope, n: int, classes: Mapping[int, IndexArray]
    ) -> KnownPart:
        """The marginal on a part of a scope that n tables give, with values grouped by class."""
        table = self._told(part)
        for axis, a in enumerate(part):
            table = _grouped(table, axis, classes[a])
        return KnownPart(tuple(scope.index(a) for a in part), table, n)


def _conditional(table: FloatArray, clique: Scope, given: Scope) -> FloatArray:
    axes = tuple(k for k, a in enumerate(clique) if a not in given)
    sums = table.sum(axis=axes, keepdims=True)
    return np.asarray(np.divide(table, sums, out=np.zeros_like(table), where=sums > 0))


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
