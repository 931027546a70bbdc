"""Agreement on the cliques of a junction tree: such tables are marginals of one distribution.

The layout holds one table per clique in addition to the measured tables. If cliques agree on
separators, and measured tables agree with the cliques around them, all are marginals of one
distribution. So consensus over them reaches the exact optimum. It needs no exponentials, and no
logarithm grows without bound.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from qserver.models.marginals.graph.junction_tree import JunctionTree
from qserver.models.marginals.graph.layout import (
    FloatArray,
    IndexArray,
    Layout,
    Scope,
    layout_of,
    with_intersections,
)

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
