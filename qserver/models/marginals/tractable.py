"""An exact distribution near a relaxed model, from which synthetic records are drawn.

Agreeing tables need not come from one distribution. So records are drawn from an exact distribution
that is fitted to as many of the tables as fit a junction tree, the most informative first.
Afterwards the records are moved towards the other tables.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from qserver.models.marginals.estimate import Estimate
from qserver.models.marginals.fit.descent import descend
from qserver.models.marginals.fit.observations import NoisyMarginal, Observations
from qserver.models.marginals.graph.junction_tree import JunctionTree, clique_tree
from qserver.models.marginals.graph.layout import FloatArray, IndexArray, Layout, Scope
from qserver.models.marginals.model import DomainDistribution, ExactDistribution
from qserver.models.marginals.record_draws import move_towards

DRAW_BYTES = 64 << 20
"""Most memory of the distribution while it is fitted."""
_BYTES_PER_CELL = 256
DRAW_CELLS = DRAW_BYTES // _BYTES_PER_CELL
_MOST_TABLES = 300
_MOST_REFUSED = 60
_PRECISION = 1e-3


@dataclass(frozen=True)
class RecordSource:
    """The source of synthetic records of an estimate.

    Args:
        drawn_from: the distribution of the draws.
        moved_to: the estimate to whose tables they are moved; None if they are drawn from it.
    """

    drawn_from: DomainDistribution
    moved_to: Estimate | None

    def draw(self, n: int, generator: np.random.Generator) -> IndexArray:
        """Records as codes, shape (n, attributes)."""
        records = self.drawn_from.draw(n, generator)
        if self.moved_to is not None:
            move_towards(records, self.moved_to.layout, self.moved_to.tables, generator)
        return records


def record_source(found: Estimate, *, max_cells: int = DRAW_CELLS) -> RecordSource:
    """The estimate's distribution if exact, else one fitted to its tables, followed by moves."""
    if found.fit.oracle == "exact":
        return RecordSource(found.distribution, None)
    return RecordSource(tractable(found, max_cells=max_cells), found)


def tractable(found: Estimate, *, max_cells: int = DRAW_CELLS) -> DomainDistribution:
    """A distribution fitted to the estimate's most informative tables."""
    sizes, layout = found.layout.sizes, found.layout
    chosen = _most_telling(layout, found.tables, max_cells)
    said = [
        NoisyMarginal(s, layout.table(found.tables, layout.index[s]), np.array(_PRECISION))
        for s in chosen
    ]
    tree = JunctionTree(sizes, chosen, max_cells=max_cells)
    seen = Observations(tree.layout, said, total=1.0)
    # One stage, as the first call gives the uniform tables. The moves bring the rest; more stages
    # took minutes.
    descend(tree, seen, gap=seen.noise_loss, max_calls=2)
    return ExactDistribution(sizes, tree, tree.beliefs)


def _most_telling(layout: Layout, tables: FloatArray, max_cells: int) -> list[Scope]:
    """Every attribute, then tables by their distance from independence, while they fit."""
    information = {
        s: _dependence(layout.table(tables, i)) for i, s in enumerate(layout.scopes) if len(s) > 1
    }
    ranked = sorted(information, key=lambda s: (-information[s], s))[:_MOST_TABLES]
    chosen: list[Scope] = []
    refused = 0
    for scope in ranked:
        if clique_tree(layout.sizes, [*chosen, scope]).n_cells <= max_cells:
            chosen.append(scope)
        else:
            refused += 1
        if refused == _MOST_REFUSED:
            break
    covered = {a for s in chosen for a in s}
    return chosen + [s for s in layout.scopes if len(s) == 1 and s[0] not in covered]


def _dependence(table: FloatArray) -> float:
    """Entropies of the single attributes less that of the table, in nats."""
    singles = [
        table.sum(axis=tuple(k for k in range(table.ndim) if k != axis))
        for axis in range(table.ndim)
    ]
    return sum(map(_entropy, singles)) - _entropy(table)


def _entropy(table: FloatArray) -> float:
    cells = table[table > 0]
    return -float(cells @ np.log(cells))
