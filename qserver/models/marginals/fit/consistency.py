"""The nearest tables that agree on shared parts of scopes, by least squares in closed form.

A table is a sum of components, one per part of its scope; these interactions are orthogonal.
Tables agree on a part exactly if they have the same components within it. So the nearest agreeing
tables replace each shared component by the weighted mean over the tables that have it. This works
for any family of parts that holds all intersections of its members: then every part has the same
component beyond its smaller parts in every table.

*On the cliques of a junction tree* such tables are marginals of one distribution.
The layout holds one table per clique in addition to the measured tables. If cliques agree on
separators, and measured tables agree with the cliques around them, all are marginals of one
distribution. So consensus over them reaches the exact optimum. It needs no exponentials, and no
logarithm grows without bound.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from qserver.models.marginals.graph.junction_tree import Edge, JunctionTree, Summation
from qserver.models.marginals.graph.layout import (
    FloatArray,
    IndexArray,
    Layout,
    Scope,
    added_up,
    layout_of,
    parts,
    with_intersections,
)

Agreement = Literal["shared", "singles"]
"""Tables agree on all parts that any two of them share, or on single attributes only."""


class Consistency:
    """Projection onto the tables of a layout that have total one and agree.

    Args:
        layout: the tables; a scope may come more than once.
        agreement: the parts on which they must agree.
        on: replaces `agreement` by these parts, with all their intersections.
        weights: one per table, > 0: the weight of its distance.

    References:
        Qardaji, Yang and Li (2014), section 4.4, there by one pass in order of the parts' sizes.
    """

    def __init__(
        self,
        layout: Layout,
        *,
        agreement: Agreement = "shared",
        on: Iterable[Scope] | None = None,
        weights: FloatArray | None = None,
    ) -> None:
        self.layout = layout
        shared = _shared_parts(layout, agreement) if on is None else _shared_of(layout, on)
        self.shared: Layout = Layout(layout.sizes, layout_of(layout.sizes, shared).scopes)
        held = [_parts_in(scope, set(shared)) for scope in layout.scopes]
        self._levels = _levels(layout, held)
        incidences = [s for level in self._levels for s in level.summation.target.scopes]
        self._held = Layout(layout.sizes, tuple(incidences))
        self._cell = _cells_of(self._held, self.shared)
        given = np.ones(len(layout.scopes)) if weights is None else weights
        blocks = np.concatenate([np.zeros(0, np.intp), *(level.blocks for level in self._levels)])
        weight = (given / layout.counts)[blocks.astype(np.intp)]
        total = np.bincount(self._cell, self._held.per_cell(weight), minlength=self.shared.n_cells)
        self._mean = self._held.per_cell(weight) / total[self._cell]
        counted = [_signs(parts_of_one) for parts_of_one in held]
        signs = [counted[b][s] for s, b in zip(incidences, blocks, strict=True)]
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
        """Add the change of each part evenly to the cells of its table."""
        bounds = np.cumsum([level.summation.target.n_cells for level in self._levels])[:-1]
        changes = np.split(change, bounds)
        for i in reversed(range(len(self._levels))):
            level = self._levels[i]
            level.summation.target.scale_per_table(changes[i], level.evenly)
            level.summation.spread(changes[i], changes[i - 1] if i else onto)


class _PartLevel:
    """Parts one step below the tables, or below the parts of the previous level."""

    def __init__(self, source: Layout, edges: Sequence[Edge], blocks: IndexArray) -> None:
        self.summation = Summation(source, edges)
        self.blocks = blocks[self.summation.parents]
        counts = source.counts[self.summation.parents]
        self.evenly = self.summation.target.counts / counts


def _levels(layout: Layout, wanted: Sequence[Sequence[Scope]]) -> list[_PartLevel]:
    """The wanted parts of every table, each summed from the smallest part around it."""
    levels: list[_PartLevel] = []
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
        level = _PartLevel(source, edges, blocks)
        levels.append(level)
        source, blocks = level.summation.target, level.blocks
        held = list(zip(source.scopes, blocks.tolist(), strict=True))


def _carriers(wanted: Sequence[Scope]) -> dict[Scope, Scope | None]:
    """For each part, the smallest other part that contains it; None for the table itself."""
    found: dict[Scope, Scope | None] = {}
    sets = [(w, frozenset(w)) for w in sorted(wanted, key=len)]
    for part in wanted:
        inner = frozenset(part)
        found[part] = next((w for w, attributes in sets if inner < attributes), None)
    return found


def _parts_in(scope: Scope, shared: set[Scope]) -> list[Scope]:
    """The shared parts inside a scope."""
    if len(shared) > 1 << len(scope):
        return [part for part in parts(scope) if part in shared]
    inner = set(scope)
    return [part for part in sorted(shared) if inner.issuperset(part)]


def _shared_of(layout: Layout, given: Iterable[Scope]) -> list[Scope]:
    """The given parts and their intersections, as far as two or more tables contain them."""
    sets = [set(scope) for scope in layout.scopes]
    closed = with_intersections(given)
    return [part for part in closed if part and sum(s.issuperset(part) for s in sets) > 1]


def _shared_parts(layout: Layout, agreement: Agreement) -> list[Scope]:
    """Non-empty parts inside two or more tables: all of them, or the single attributes."""
    counts: dict[Scope, int] = defaultdict(int)
    for scope in layout.scopes:
        for part in parts(scope) if agreement == "shared" else [(a,) for a in scope]:
            counts[part] += 1
    return [part for part, n in counts.items() if part and n > 1]


def _signs(held: Sequence[Scope]) -> dict[Scope, int]:
    """The factor of each part's change, such that every smaller part is changed once in all."""
    signs: dict[Scope, int] = {}
    found: list[tuple[frozenset[int], int]] = []
    for part in sorted(held, key=len, reverse=True):
        inner = frozenset(part)
        signs[part] = 1 - sum(n for s, n in found if inner < s)
        found.append((inner, signs[part]))
    return signs


def _cells_of(held: Layout, shared: Layout) -> IndexArray:
    """For each cell of each incidence, the cell of the shared table of its scope."""
    where = np.array([shared.index[s] for s in held.scopes], dtype=np.intp)
    starts = np.repeat(shared.offsets[:-1][where] - held.offsets[:-1], held.counts)
    return (np.arange(held.n_cells) + starts).astype(np.intp)


class _Adjustment:
    """Adjust shared tables of one size to their smaller parts, which agree already."""

    def __init__(self, shared: Layout, size: int) -> None:
        self._shared = shared
        whole = [i for i, s in enumerate(shared.scopes) if len(s) == size]
        below = {s for s in shared.scopes if len(s) < size}
        counted = {i: _signs(_parts_in(shared.scopes[i], below)) for i in whole}
        edges = [Edge(i, part) for i in whole for part in counted[i]]
        # The empty part is a part of every table.
        self._empty = np.zeros(len(shared.scopes))
        self._empty[whole] = [1 - sum(counted[i].values()) for i in whole]
        self._summation = Summation(shared, edges)
        target = self._summation.target
        self._cell = _cells_of(target, shared) if edges else np.zeros(0, np.intp)
        parents = self._summation.parents
        signs = [counted[int(i)][s] for i, s in zip(parents, target.scopes, strict=True)]
        ratio = target.counts / shared.counts[parents] if edges else np.zeros(0)
        self._factor = target.per_cell(np.array(signs, dtype=np.float64) * ratio)

    def apply(self, agreed: FloatArray) -> None:
        shared = self._shared
        missing = 1.0 - shared.totals(agreed)
        sums = self._summation.sums(agreed)
        change = (agreed[self._cell] - sums) * self._factor
        shared.add_per_table(agreed, self._empty * missing / shared.counts)
        self._summation.spread(change, agreed)


def _adjustments(shared: Layout) -> list[_Adjustment]:
    sizes = sorted({len(s) for s in shared.scopes})
    return [_Adjustment(shared, size) for size in sizes]


MAX_PARTS = 1 << 11
"""Most parts to agree on. Cliques of 14 of 30 attributes have about 200 intersections."""


@dataclass(frozen=True)
class CliqueAgreement:
    """The agreement of tables on the scopes and cliques of a tree, and least costs over them.

    Args:
        tree: the oracle; its layout has only the measured scopes.
        layout: the scopes and the cliques.
        parts: the parts on which tables agree, intersections included.
    """

    tree: JunctionTree
    layout: Layout
    parts: tuple[Scope, ...]

    @classmethod
    def of(cls, tree: JunctionTree) -> CliqueAgreement:
        """The agreement of a tree.

        Raises:
            CapacityError: there are more than `MAX_PARTS` parts.
        """
        cliques, measured = tree.tree.cliques, tree.layout.scopes
        separators = [tree.tree.separator(i) for i in range(len(cliques))]
        parts = with_intersections([*measured, *separators], most=MAX_PARTS)
        layout = layout_of(tree.layout.sizes, [*measured, *cliques])
        return cls(tree, layout, parts)

    def weights(self, precisions: FloatArray) -> FloatArray:
        """The weight of each table's distance: its precision if it was measured.

        A clique that was not measured has smaller cells than the measured tables inside it. Its
        weight is the mean of their precisions times the root of the ratio of the numbers of cells.
        """
        measured = precisions > 0
        found = precisions.copy()
        for i in np.flatnonzero(~measured):
            clique = set(self.layout.scopes[i])
            inside = [
                j for j in np.flatnonzero(measured) if clique.issuperset(self.layout.scopes[j])
            ] or np.flatnonzero(measured)
            ratio = self.layout.counts[i] / self.layout.counts[inside].mean()
            found[i] = np.exp(np.log(precisions[inside]).mean()) * np.sqrt(ratio)
        return found

    def measured(self, flat: FloatArray) -> FloatArray:
        """The cells of the measured tables, in the order of the tree's layout."""
        return flat[self._cells]

    def least_cost(self, costs: FloatArray) -> float:
        """The least costs . tau over all distributions; costs are on measured tables alone."""
        return self.tree.lower_bound(self.measured(costs))

    @property
    def _cells(self) -> IndexArray:
        where = [self.layout.index[s] for s in self.tree.layout.scopes]
        starts = self.layout.offsets[:-1][where] - self.tree.layout.offsets[:-1]
        return (
            np.arange(self.tree.layout.n_cells) + np.repeat(starts, self.tree.layout.counts)
        ).astype(np.intp)
