"""Agreement and signs one after the other, once: the baseline that estimates are held to.

Tables are brought to agree by weighted least squares without regard to signs; negative cells are
then set to zero and what that adds is taken from the others of the table; at last they are brought
to agree again. The result may be slightly negative or slightly disagree, never both.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from qserver.models.marginals.fit.consistency import Consistency
from qserver.models.marginals.fit.measurement import NoisyMarginal
from qserver.models.marginals.graph.layout import FloatArray, Scope, layout_of

_TURNS = 3


def locally_consistent(
    sizes: Sequence[int], measurements: Sequence[NoisyMarginal], *, total: float
) -> dict[Scope, FloatArray]:
    """Non-negative counts of every measured marginal, flat, which nearly agree.

    Args:
        measurements: whole marginals, each scope once.

    References:
        Qardaji, Yang and Li (2014), sections 4.4 and 4.5.
    """
    said = {m.scope: m for m in measurements}
    layout = layout_of(sizes, said)
    tables = np.concatenate([said[s].answers for s in layout.scopes]) / total
    precision = np.array([1.0 / float(said[s].scales[0]) ** 2 for s in layout.scopes])
    agreement = Consistency(layout, weights=precision / precision.max())
    for _ in range(_TURNS):
        tables = agreement.project(tables)
        tables = np.concatenate(
            [_without_negatives(layout.table(tables, i).ravel()) for i in range(len(said))]
        )
    return {s: total * layout.table(tables, i).ravel() for i, s in enumerate(layout.scopes)}


def _without_negatives(cells: FloatArray) -> FloatArray:
    """The nearest non-negative cells of total one."""
    ordered = np.sort(cells)[::-1]
    excess = (np.cumsum(ordered) - 1.0) / np.arange(1, len(cells) + 1)
    n = int(np.flatnonzero(ordered > excess)[-1])
    return np.asarray(np.maximum(cells - excess[n], 0.0))
