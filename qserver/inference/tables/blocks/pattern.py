"""A query's pattern: its component on every level of the chains, per attribute.

Inner products are means over the slots of the whole domain. So an attribute that the query does not
mention has no effect: its component is the constant 1 on level 0. A *block key* names a block or a
component by its level per attribute, without attributes at level 0: ((axis, level), ...), sorted by
axis.

The exact test of which components of a query are not zero.

Floats cannot tell a component of 2^-40 of the largest from rounding. But a query with a tiny part
that no block reaches must not be answered from blocks. So the test is in whole numbers. The mean of
a part is a sum over a small number; times the least common multiple of these numbers it is whole.

A component of one term is a product over attributes, zero exactly where a factor is. Several terms
may cancel. The energy of their sum, c' (G1 * G2 * ...) c, tells: c are the coefficients, G the
inner products of the terms' factors on one attribute. It is a sum of squares, zero only for zero.

A query of several terms that is the indicator of a product of sets, as a single term.

With it, a query that is a cell of a table is recognised, however the query was written.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property, lru_cache, reduce
from itertools import product
from math import lcm, prod
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from qserver.inference.arrays import FloatArray
from qserver.inference.tables.blocks.nested_partitions import Chain
from qserver.query.class_grid import class_grid
from qserver.query.linear_query import LinearQuery, Term, linear_query
from qserver.query.primitive import MAX_KEY_GRID, Primitive, primitive
from qserver.query.weights import Weights, indicator

BlockKey = tuple[tuple[int, int], ...]
Components = tuple[FloatArray, ...]
_CACHED = 1 << 13


@dataclass(frozen=True, eq=False)
class PatternTerm:
    """A term: `coefficient` times components by axis, constant 1 on other axes."""

    coefficient: float
    axes: Mapping[int, Components]


@dataclass(frozen=True, eq=False)
class Pattern:
    """A query as terms of components on the chains of a lattice.

    Args:
        exact: the components that are not zero, if that is known exactly.
    """

    lattice: Lattice
    terms: tuple[PatternTerm, ...]
    query: LinearQuery | None
    exact: frozenset[BlockKey] | None = None
    groups: dict[tuple[int, int], object] = field(default_factory=dict, init=False, repr=False)
    _coarser: dict[int, Pattern] = field(default_factory=dict, init=False, repr=False)

    def to_depth(self, depth: int) -> Pattern:
        """The pattern without components on levels finer than `depth` of any attribute."""
        if depth not in self._coarser:
            terms = [
                replace(term, axes={a: _to_depth(c, depth) for a, c in term.axes.items()})
                for term in self.terms
            ]
            self._coarser[depth] = Pattern(self.lattice, tuple(terms), None)
        return self._coarser[depth]

    @cached_property
    def cell_of(self) -> BlockKey | None:
        """The block of which the query is a cell, or None."""
        if self.query is None or len(self.query.terms) != 1:
            return None
        if self.query.terms[0].coefficient != 1:
            return None
        found = []
        for axis, weights in self.query.terms[0].by_axis.items():
            level = self.lattice.level_of(axis, weights)
            if level is None:
                return None
            found.append((axis, level))
        return tuple(found)

    @property
    def cell_parts(self) -> dict[int, int]:
        """For a query that is a cell: its part per mentioned axis, on the block's level."""
        parts = {}
        weights = {} if self.query is None else self.query.terms[0].by_axis
        for axis, level in self.cell_of or ():
            chain = self.lattice.chains[axis]
            inside = chain.classes.on_classes(weights[axis])
            parts[axis] = int(chain.part_of(level)[np.argmax(inside)])
        return parts

    @cached_property
    def scope(self) -> tuple[int, ...]:
        """The axes that some term mentions."""
        return tuple(sorted({a for t in self.terms for a in t.axes}))

    @cached_property
    def energies(self) -> dict[BlockKey, float]:
        """The mean square of each component above rounding."""
        found = self.inner(self)
        least = 1e-13 * max(found.values(), default=0.0)
        return {j: e for j, e in found.items() if e > least}

    @cached_property
    def support(self) -> frozenset[BlockKey]:
        """The components above rounding, one object for equal ones."""
        return _one_of_equal(frozenset(self.energies))

    @cached_property
    def finest(self) -> tuple[BlockKey, ...]:
        """The non-zero components that lie within no other."""
        support = list(self.energies) if self.exact is None else sorted(self.exact)
        return tuple(finest_of(support))

    def inner(self, other: Pattern) -> dict[BlockKey, float]:
        """Mean product of the two queries' components, by component."""
        total: dict[BlockKey, float] = {}
        for mine in self.terms:
            for theirs in other.terms:
                for found, value in _term_inner(mine, theirs):
                    key = self.lattice.lifted(found)
                    total[key] = total.get(key, 0.0) + value
        return total


@dataclass(frozen=True)
class Lattice:
    """Chains of some attributes; a block is a product of one level of each.

    Args:
        apart: an attribute of two levels that every block tells apart, such as the periods of data
            that arrive over time. Components on its levels have the same information always. So
            they are one component, on its single values.
    """

    chains: Mapping[int, Chain]
    apart: int | None = None
    _seen: dict[tuple[int, Weights], Components] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    _levels: dict[tuple[int, Weights], int | None] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    groups: WeakValueDictionary[object, object] = field(
        default_factory=WeakValueDictionary, init=False, repr=False, compare=False
    )
    _resolved: dict[tuple[int, Weights], bool] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    _cells: dict[BlockKey, int] = field(default_factory=dict, init=False, repr=False, compare=False)
    _real_cells: dict[BlockKey, int] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    @cached_property
    def depth(self) -> int:
        """The finest level of all attributes."""
        return max(chain.n_levels for chain in self.chains.values()) - 1

    def lifted(self, key: BlockKey) -> BlockKey:
        """The component of these levels, which is on the single values of `apart`."""
        if self.apart is None or (self.apart, 1) in key:
            return key
        return tuple(sorted([*key, (self.apart, 1)]))

    def level_of(self, axis: int, weights: Weights) -> int | None:
        """The coarsest level of the axis that has a part with these weights."""
        key = (axis, weights)
        if key not in self._levels:
            _trim(self._levels)
            self._levels[key] = self.chains[axis].level_of(weights)
        return self._levels[key]

    def pattern(
        self, query: LinearQuery, *, exact: frozenset[BlockKey] | None = None
    ) -> Pattern | None:
        """The query's components; None if the chains' classes do not resolve it.

        Args:
            exact: the components that are not zero; by default those above rounding.
        """
        terms = []
        for term in query.terms:
            if any(not self._resolves(a, w) for a, w in term.by_axis.items()):
                return None
            axes = {a: self.components(a, w) for a, w in term.by_axis.items()}
            terms.append(PatternTerm(float(term.coefficient), axes))
        return Pattern(self, tuple(terms), query, exact)

    def resolves(self, query: LinearQuery) -> bool:
        """Whether the query is constant on every class of the chains."""
        return all(self._resolves(f.axis, f.weights) for t in query.terms for f in t.factors)

    def n_cells(self, block: BlockKey) -> int:
        """Cells of a block, phantoms included."""
        found = self._cells.get(block)
        if found is None:
            _trim(self._cells)
            found = prod(self.chains[a].n_parts[level] for a, level in block)
            self._cells[block] = found
        return found

    def n_real_cells(self, block: BlockKey, *, without: Collection[int] = ()) -> int:
        """Number of real cells of a block, over its attributes that are not in `without`."""
        key = tuple(p for p in block if p[0] not in without) if without else block
        found = self._real_cells.get(key)
        if found is None:
            _trim(self._real_cells)
            found = prod(self.chains[a].n_real[level] for a, level in key)
            self._real_cells[key] = found
        return found

    def finest(self, axes: Iterable[int]) -> BlockKey:
        """The finest block over these axes: its cells are single slots."""
        return tuple(
            (a, self.chains[a].n_levels - 1) for a in sorted(axes) if self.chains[a].n_levels > 1
        )

    def _resolves(self, axis: int, weights: Weights) -> bool:
        key, chain = (axis, weights), self.chains.get(axis)
        if key not in self._resolved:
            _trim(self._resolved)
            self._resolved[key] = chain is not None and chain.resolves(weights)
        return self._resolved[key]

    def components(self, axis: int, weights: Weights) -> Components:
        """The components of weights that the axis resolves, one per level."""
        key = (axis, weights)
        if key not in self._seen:
            _trim(self._seen)
            self._seen[key] = self.chains[axis].components(weights)
        return self._seen[key]


def _to_depth(components: Components, depth: int) -> Components:
    return tuple(x if i <= depth else np.zeros_like(x) for i, x in enumerate(components))


@lru_cache(maxsize=_CACHED)
def _one_of_equal(support: frozenset[BlockKey]) -> frozenset[BlockKey]:
    return support


def _trim(cache: dict[Any, Any]) -> None:
    if len(cache) >= _CACHED:
        cache.clear()


@lru_cache(maxsize=1 << 18)
def is_within(component: BlockKey, block: BlockKey) -> bool:
    """Whether the block is at least as fine as the component on every attribute."""
    levels = dict(block)
    return all(levels.get(axis, 0) >= level for axis, level in component)


def join(one: BlockKey, other: BlockKey) -> BlockKey:
    """The coarsest block that is at least as fine as both on every attribute."""
    levels = dict(one)
    for axis, level in other:
        levels[axis] = max(levels.get(axis, 0), level)
    return tuple(sorted(levels.items()))


def join_all(blocks: Iterable[BlockKey]) -> BlockKey:
    """The coarsest block that is at least as fine as all of these."""
    levels = dict[int, int]()
    for block in blocks:
        for axis, level in block:
            if level > levels.get(axis, 0):
                levels[axis] = level
    return tuple(sorted(levels.items()))


def finest_of(blocks: Iterable[BlockKey]) -> list[BlockKey]:
    """The blocks that lie within no other, in order."""
    every = list(blocks)
    return [b for b in every if not any(b != other and is_within(b, other) for other in every)]


def _term_inner(one: PatternTerm, other: PatternTerm) -> Iterable[tuple[BlockKey, float]]:
    factor = one.coefficient * other.coefficient
    shared: list[list[tuple[tuple[int, int] | None, float]]] = []
    for axis in sorted(one.axes.keys() | other.axes.keys()):
        mine, theirs = one.axes.get(axis), other.axes.get(axis)
        if mine is None or theirs is None:
            # The other term is constant here: only level 0 counts.
            factor *= float((mine or theirs or ())[0][0])
            continue
        dots = [float(np.dot(a, b)) / len(a) for a, b in zip(mine, theirs, strict=True)]
        pairs = [((axis, i) if i else None, d) for i, d in enumerate(dots) if i == 0 or d != 0.0]
        shared.append(pairs)
    for picked in product(*shared):
        key = tuple(p for p, _ in picked if p is not None)
        yield key, factor * prod(d for _, d in picked)


_FITS = 1 << 61

Whole = NDArray[Any]
"""Whole numbers: 64 bits where they surely fit, else Python's."""


class ExactSupport:
    """The exact test for queries on one lattice; `lattice`: resolves the queries."""

    def __init__(self, lattice: Lattice) -> None:
        self._lattice = lattice
        self._factors: dict[tuple[int, Weights], tuple[Whole, ...]] = {}
        self._levels: dict[tuple[int, Weights], list[tuple[int, int]]] = {}

    def of(self, query: LinearQuery) -> frozenset[BlockKey]:
        """The components of the query that are not zero."""
        found = Counter(key for term in query.terms for key in self._keys(term))
        several = [key for key, n_terms in found.items() if n_terms > 1]
        if several:
            energies = _Energies(self, query)
            cancelled = {key for key in several if energies.of(key) == 0}
            return frozenset(found.keys() - cancelled)
        return frozenset(found)

    def factors(self, axis: int, weights: Weights | None) -> tuple[Whole, ...]:
        """Per level the component, times a number that depends on axis and level alone.

        Args:
            weights: None for the constant 1.
        """
        chain = self._lattice.chains[axis]
        if weights is None:
            nothing = [np.zeros(n, dtype=np.int64) for n in chain.n_parts[1:]]
            return (np.array([_scale(chain)], dtype=object), *nothing)
        key = (axis, weights)
        if key not in self._factors:
            if len(self._factors) >= _CACHED:
                self._factors.clear()
            self._factors[key] = _components(chain, weights)
        return self._factors[key]

    def _keys(self, term: Term) -> list[BlockKey]:
        """The components of one term that are not zero."""
        levels = [self._levels_of(*one) for one in term.by_axis.items()]
        return [tuple(p for p in picked if p[1]) for picked in product(*levels)]

    def _levels_of(self, axis: int, weights: Weights) -> list[tuple[int, int]]:
        """The levels of an axis on which weights are not zero."""
        key = (axis, weights)
        if key not in self._levels:
            if len(self._levels) >= _CACHED:
                self._levels.clear()
            factors = enumerate(self.factors(axis, weights))
            self._levels[key] = [(axis, i) for i, factor in factors if factor.any()]
        return self._levels[key]


class _Energies:
    """The energies of a query's components, each times a positive whole number."""

    def __init__(self, support: ExactSupport, query: LinearQuery) -> None:
        self._support, self._query = support, query
        self._coefficients = [int(t.coefficient * query.denominator) for t in query.terms]
        self._products: dict[tuple[int, int], Whole] = {}

    def of(self, component: BlockKey) -> int:
        """The energy of a component; 0 only if the component is zero."""
        levels = dict(component)
        n = len(self._coefficients)
        total = np.outer(*[np.array(self._coefficients, dtype=object)] * 2).reshape(n, n)
        for axis in self._query.scope:
            total = total * self._inner(axis, levels.get(axis, 0))
        return int(total.sum())

    def _inner(self, axis: int, level: int) -> Whole:
        """The inner products of all pairs of terms on one level of one axis."""
        key = (axis, level)
        if key not in self._products:
            terms = self._query.terms
            factors = [self._support.factors(axis, t.by_axis.get(axis))[level] for t in terms]
            self._products[key] = _inner_products(np.array(factors))
        return self._products[key]


def _inner_products(rows: Whole) -> Whole:
    largest = int(abs(rows).max())
    exact = rows.astype(np.int64 if largest**2 * rows.shape[1] < _FITS else object)
    return np.asarray((exact @ exact.T).astype(object))


def _components(chain: Chain, weights: Weights) -> tuple[Whole, ...]:
    values = chain.on_slots(weights)
    fits = 2 * _scale(chain) * max(1, int(abs(values).max())) < _FITS
    means, found = values if fits else values.astype(object), list[Whole]()
    for level in range(chain.n_levels - 1, 0, -1):
        real, counts = chain.is_real[level], chain.real_below[level - 1]
        counts = counts if fits else counts.astype(object)
        shape, common = (len(counts), -1), lcm(*set(counts.tolist()))
        # The values on phantoms are 0.
        above = means.reshape(shape).sum(axis=1) * (common // counts)
        component = means.reshape(shape) * common - above[:, None]
        found.append(np.where(real, component.ravel(), 0))
        means = np.where(chain.is_real[level - 1], above, 0)
    return (means, *reversed(found))


def _scale(chain: Chain) -> int:
    """Factor of a component of the coarsest level."""
    return prod(lcm(*set(counts.tolist())) for counts in chain.real_below)


def as_box(row: LinearQuery) -> LinearQuery:
    """`row`; if it is the indicator of a product of sets, the single term that equals it.

    A row on a grid so large that equal vectors may have different keys is returned unchanged.
    """
    if len(row.terms) < 2:
        return row
    grid = class_grid(row)
    if grid.n_cells > MAX_KEY_GRID:
        return row
    values = grid.values(row)
    inside = np.asarray(values != 0)
    if not bool((values[inside] == row.denominator).all()):
        return row
    axes = range(inside.ndim)
    sides = [
        np.asarray(inside.any(axis=tuple(b for b in axes if b != a)), dtype=bool) for a in axes
    ]
    if not bool((reduce(np.logical_and.outer, sides, np.ones((), bool)) == inside).all()):
        return row
    chosen = {
        classes.axis: indicator(
            row.sizes[classes.axis], np.flatnonzero(side[classes.dense]).tolist()
        )
        for classes, side in zip(grid.axes, sides, strict=True)
        if not side.all()
    }
    return linear_query(row.sizes, [(1, chosen)])


def remainder(row: LinearQuery, weighted: Iterable[tuple[LinearQuery, float]]) -> Primitive:
    """`row` minus these multiples of rows, exactly: every float is a dyadic fraction."""
    left = row
    for other, weight in weighted:
        left = left - other.scaled(Fraction(weight))
    return primitive(as_box(left))


def sets_of(row: LinearQuery) -> Mapping[int, Weights] | None:
    """The sets by attribute of a row that `as_box` gave; None for a row that is no such product."""
    if len(row.terms) != 1 or row.terms[0].coefficient != 1:
        return None
    by_axis = row.terms[0].by_axis
    return by_axis if all(w.is_indicator for w in by_axis.values()) else None
