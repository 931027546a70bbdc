"""The nearest tables that agree on whatever scopes share, by least squares and in closed form.

A table splits into one component per part of its scope (its interaction, orthogonal to all
others); tables agree on a part exactly if they have the same components up to it. So the nearest
agreeing tables replace each shared component by the weighted mean of what the tables say of it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import combinations
from typing import Literal

import numpy as np

from qserver.models.marginals.layout import (
    FloatArray,
    IndexArray,
    Layout,
    Scope,
    added_up,
    layout_of,
)
from qserver.models.marginals.regions import parts
from qserver.models.marginals.summation import Edge, Summation

Agreement = Literal["shared", "singles"]
"""What tables agree on: all that any two of them share, or single attributes only."""


class Consistency:
    """Projection onto the tables of a layout that have total one and agree.

    Args:
        layout: the tables; a scope may come more than once.
        agreement: what they must agree on.
        weights: > 0, one per table: how much its distance counts.

    References:
        Qardaji, Yang and Li (2014), section 4.4, there by one pass in order of the parts' sizes.
    """

    def __init__(
        self, layout: Layout, *, agreement: Agreement = "shared", weights: FloatArray | None = None
    ) -> None:
        self.layout = layout
        shared = _shared_parts(layout, agreement)
        self.shared: Layout = Layout(layout.sizes, layout_of(layout.sizes, shared).scopes)
        self._levels = _levels(layout, set(shared))
        incidences = [s for level in self._levels for s in level.summation.target.scopes]
        self._held = Layout(layout.sizes, tuple(incidences))
        self._cell = _cells_of(self._held, self.shared)
        given = np.ones(len(layout.scopes)) if weights is None else weights
        blocks = np.concatenate([np.zeros(0, np.intp), *(level.blocks for level in self._levels)])
        weight = (given / layout.counts)[blocks.astype(np.intp)]
        total = np.bincount(self._cell, self._held.per_cell(weight), minlength=self.shared.n_cells)
        self._mean = self._held.per_cell(weight) / total[self._cell]
        signs = [
            _sign(s, layout.scopes[b], set(shared)) for s, b in zip(incidences, blocks, strict=True)
        ]
        self._sign = self._held.per_cell(np.array(signs, dtype=np.float64))
        self._adjustments = _adjustments(self.shared)

    def project(self, tables: FloatArray) -> FloatArray:
        """The nearest agreeing tables of total one, shape (layout.n_cells,); may be negative."""
        result = tables.copy()
        missing = (1.0 - self.layout.totals(result)) / self.layout.counts
        self.layout.add_per_table(result, missing)
        if not self._levels:
            return result
        said = self._sums(result)
        agreed = added_up(self._cell, self._mean * said, self.shared.n_cells)
        for adjustment in self._adjustments:
            adjustment.apply(agreed)
        change = (agreed[self._cell] - said) * self._sign
        self._spread(change, result)
        return result

    def _sums(self, tables: FloatArray) -> FloatArray:
        found, source = [], tables
        for level in self._levels:
            source = level.summation.sums(source)
            found.append(source)
        return np.concatenate(found)

    def _spread(self, change: FloatArray, onto: FloatArray) -> None:
        """Add what each part must change, evenly, to the cells of the table it is a part of."""
        bounds = np.cumsum([level.summation.target.n_cells for level in self._levels])[:-1]
        changes = np.split(change, bounds)
        for i in reversed(range(len(self._levels))):
            level = self._levels[i]
            level.summation.target.scale_per_table(changes[i], level.evenly)
            level.summation.spread(changes[i], changes[i - 1] if i else onto)


class _Level:
    """Parts one step below the tables, or below the parts of the level before."""

    def __init__(self, source: Layout, edges: Sequence[Edge], blocks: IndexArray) -> None:
        self.summation = Summation(source, edges)
        self.blocks = blocks[self.summation.parents]
        counts = source.counts[self.summation.parents]
        self.evenly = self.summation.target.counts / counts


def _levels(layout: Layout, shared: set[Scope]) -> list[_Level]:
    """Every shared part of every table, each summed from the smallest part that holds it."""
    wanted = [[s for s in parts(scope) if s in shared] for scope in layout.scopes]
    levels: list[_Level] = []
    source, blocks = layout, np.arange(len(layout.scopes), dtype=np.intp)
    held: list[tuple[Scope, int]] = [(scope, i) for i, scope in enumerate(layout.scopes)]
    carriers = [_carriers(found) for found in wanted]
    while True:
        below: dict[tuple[int, Scope | None], list[Scope]] = defaultdict(list)
        for block, found in enumerate(carriers):
            for part, carrier in found.items():
                below[block, carrier].append(part)
        edges = [
            Edge(i, part)
            for i, (scope, block) in enumerate(held)
            for part in below.get((block, scope if levels else None), ())
        ]
        if not edges:
            return levels
        level = _Level(source, edges, blocks)
        levels.append(level)
        source, blocks = level.summation.target, level.blocks
        held = list(zip(source.scopes, blocks.tolist(), strict=True))


def _carriers(wanted: list[Scope]) -> dict[Scope, Scope | None]:
    """For each part the smallest other part that holds it; None for the table itself."""
    found: dict[Scope, Scope | None] = {}
    for part in wanted:
        above = [w for w in wanted if len(w) > len(part) and set(part) < set(w)]
        found[part] = min(above, key=len) if above else None
    return found


def _shared_parts(layout: Layout, agreement: Agreement) -> list[Scope]:
    """Non-empty parts that two or more tables hold, all of them or the single attributes."""
    counts: dict[Scope, int] = defaultdict(int)
    for scope in layout.scopes:
        for part in parts(scope) if agreement == "shared" else [(a,) for a in scope]:
            counts[part] += 1
    return [part for part, n in counts.items() if part and n > 1]


def _sign(part: Scope, scope: Scope, shared: set[Scope]) -> int:
    """How often a part's change counts, so that each of its own parts is changed once in all."""
    signs: dict[Scope, int] = {}
    for held in sorted((s for s in parts(scope) if s in shared), key=len, reverse=True):
        signs[held] = 1 - sum(n for s, n in signs.items() if set(held) < set(s))
    return signs[part]


def _cells_of(held: Layout, shared: Layout) -> IndexArray:
    """For each cell of each incidence, the cell of the shared table of its scope."""
    where = np.array([shared.index[s] for s in held.scopes], dtype=np.intp)
    starts = np.repeat(shared.offsets[:-1][where] - held.offsets[:-1], held.counts)
    return (np.arange(held.n_cells) + starts).astype(np.intp)


class _Adjustment:
    """Bring shared tables of one size into line with their own parts, already agreed."""

    def __init__(self, shared: Layout, size: int) -> None:
        self._shared = shared
        whole = [i for i, s in enumerate(shared.scopes) if len(s) == size]
        edges = [
            Edge(i, part)
            for i in whole
            for k in range(1, size)
            for part in combinations(shared.scopes[i], k)
        ]
        self._is_whole = np.zeros(len(shared.scopes))
        self._is_whole[whole] = 1.0
        self._empty_sign = 1.0 if size % 2 else -1.0
        self._summation = Summation(shared, edges)
        target = self._summation.target
        self._cell = _cells_of(target, shared) if edges else np.zeros(0, np.intp)
        signs = [1.0 if (size - len(s)) % 2 else -1.0 for s in target.scopes]
        ratio = target.counts / shared.counts[self._summation.parents] if edges else np.zeros(0)
        self._factor = target.per_cell(np.array(signs) * ratio)

    def apply(self, agreed: FloatArray) -> None:
        shared = self._shared
        missing = 1.0 - shared.totals(agreed)
        sums = self._summation.sums(agreed)
        change = (agreed[self._cell] - sums) * self._factor
        shared.add_per_table(agreed, self._empty_sign * self._is_whole * missing / shared.counts)
        self._summation.spread(change, agreed)


def _adjustments(shared: Layout) -> list[_Adjustment]:
    sizes = sorted({len(s) for s in shared.scopes})
    return [_Adjustment(shared, size) for size in sizes]
