"""Agreement on the cliques of a junction tree: tables that agree so are one distribution's.

Beside the measured tables there is one per clique. Tables of cliques that agree on separators, and
measured tables that agree with the cliques they lie in, are marginals of one distribution, so that
consensus over them comes to the exact optimum; it needs no exponentials and has no boundary where
logarithms grow without end.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from qserver.models.marginals.graph.junction_tree import JunctionTree
from qserver.models.marginals.graph.layout import FloatArray, IndexArray, Layout, Scope, layout_of
from qserver.models.marginals.graph.scopes import with_intersections

MAX_PARTS = 1 << 11
"""Most parts to agree on. Intersections are some 200 where cliques have 14 of 30 attributes."""


@dataclass(frozen=True)
class CliqueAgreement:
    """What tables of the scopes and cliques of a tree agree on, and the least cost over them.

    Args:
        tree: the oracle; its own layout has the measured scopes alone.
        layout: the scopes and the cliques.
        parts: what they agree on, intersections included.
    """

    tree: JunctionTree
    layout: Layout
    parts: tuple[Scope, ...]

    @classmethod
    def of(cls, tree: JunctionTree) -> CliqueAgreement:
        """That of a tree.

        Raises:
            CapacityError: there are more than `MAX_PARTS` parts.
        """
        cliques, measured = tree.tree.cliques, tree.layout.scopes
        separators = [tree.tree.separator(i) for i in range(len(cliques))]
        parts = with_intersections([*measured, *separators], most=MAX_PARTS)
        layout = layout_of(tree.layout.sizes, [*measured, *cliques])
        return cls(tree, layout, parts)

    def weights(self, precisions: FloatArray) -> FloatArray:
        """How much the distance of each table counts: its precision where it was measured.

        Cells of other cliques are smaller than measured ones, and what they owe to others is not:
        such a table counts by the mean precision of those inside it, times the root of the ratio
        of the numbers of cells.
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
        """The cells of measured tables in the order of the tree's layout."""
        return flat[self._cells]

    def least_cost(self, costs: FloatArray) -> float:
        """The least costs . tau over all distributions, of costs on measured tables alone."""
        return self.tree.lower_bound(self.measured(costs))

    @property
    def _cells(self) -> IndexArray:
        where = [self.layout.index[s] for s in self.tree.layout.scopes]
        starts = self.layout.offsets[:-1][where] - self.tree.layout.offsets[:-1]
        return (
            np.arange(self.tree.layout.n_cells) + np.repeat(starts, self.tree.layout.counts)
        ).astype(np.intp)
