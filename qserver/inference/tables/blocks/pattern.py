"""A query's pattern: its component on every level of the chains, per attribute.

Inner products are means over the slots of the whole domain. So an attribute that the query does not
mention has no effect: its component is the constant 1 on level 0. A *block key* names a block or a
component by its level per attribute, without attributes at level 0: ((axis, level), ...), sorted by
axis.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import product
from math import prod
from typing import Any

import numpy as np

from qserver.inference.arrays import FloatArray
from qserver.inference.tables.blocks.chain import Chain
from qserver.query.linear import LinearQuery
from qserver.query.weights import Weights

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

    _cells: dict[BlockKey, int] = field(default_factory=dict, init=False, repr=False, compare=False)
    _real_cells: dict[BlockKey, int] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

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

    def n_real_cells(self, block: BlockKey, *, without: Iterable[int] = ()) -> int:
        """Number of real cells of a block, over its attributes that are not in `without`."""
        key = tuple(p for p in block if p[0] not in without)
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
        chain = self.chains.get(axis)
        return chain is not None and ((axis, weights) in self._seen or chain.resolves(weights))

    def components(self, axis: int, weights: Weights) -> Components:
        """The components of weights that the axis resolves, one per level."""
        key = (axis, weights)
        if key not in self._seen:
            _trim(self._seen)
            self._seen[key] = self.chains[axis].components(weights)
        return self._seen[key]


def _to_depth(components: Components, depth: int) -> Components:
    return tuple(x if i <= depth else np.zeros_like(x) for i, x in enumerate(components))


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
