"""An exact distribution near a relaxed model: what synthetic records are drawn from.

Tables that agree need not come from one distribution, so records are drawn from an exact one that
is fitted to as many of them as a small junction tree holds, those that tell most first.
"""

from __future__ import annotations

import numpy as np

from qserver.models.marginals.estimate import Estimate, estimate
from qserver.models.marginals.layout import FloatArray, Layout, Scope
from qserver.models.marginals.measurement import NoisyMarginal
from qserver.models.marginals.model import Distribution
from qserver.models.marginals.triangulation import clique_tree

DRAW_CELLS = 1 << 14
_MOST_TABLES = 300
_MOST_REFUSED = 60
_PRECISION = 1e-3


def tractable(found: Estimate, *, max_cells: int = DRAW_CELLS) -> Distribution:
    """The estimate's own distribution if exact, else one fitted to its most telling tables."""
    if found.fit.oracle == "exact":
        return found.distribution
    sizes, layout = found.layout.sizes, found.layout
    chosen = _most_telling(layout, found.tables, max_cells)
    said = [
        NoisyMarginal(s, layout.table(found.tables, layout.index[s]), np.array(_PRECISION))
        for s in chosen
    ]
    return estimate(sizes, said, oracle="exact", total=1.0, max_cells=max_cells).distribution


def _most_telling(layout: Layout, tables: FloatArray, max_cells: int) -> list[Scope]:
    """Every attribute, then tables by how far they are from independence, while they fit."""
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
