"""A table for a scope that is in no table of a model: of least violation, then of most entropy.

The tables of a relaxed model agree on shared parts but need not come from one distribution. So no
table may agree with all of them. Of the tables with the least violation, in squares, this is the
one of most entropy.

References:
    McKenna et al. (2021), problem 4 and appendix B.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from qserver.models.marginals.fit.descent import descend
from qserver.models.marginals.fit.observations import NoisyMarginal, Observations
from qserver.models.marginals.graph.junction_tree import JunctionTree
from qserver.models.marginals.graph.layout import FloatArray, Scope

_SWEEPS = 60
_AGREED = 1e-9
_MAX_CALLS = 400


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


def least_violation(shape: Sequence[int], known: Sequence[KnownPart]) -> FloatArray:
    """Proportions of this shape that violate the known parts least; of these, most entropy."""
    shape = tuple(shape)
    held = [k for k in known if k.part]
    largest = [k for k in held if not any(set(k.part) < set(o.part) for o in held)]
    table, agreed = _fitted(shape, largest)
    if agreed:
        return table
    return _nearest(shape, held)


def _fitted(shape: tuple[int, ...], known: Sequence[KnownPart]) -> tuple[FloatArray, bool]:
    """Iterative proportional fitting from the uniform table, and whether it converged."""
    table = np.full(shape, 1.0 / int(np.prod(shape)))
    for _ in range(_SWEEPS):
        worst = 0.0
        for k in known:
            axes = tuple(i for i in range(len(shape)) if i not in k.part)
            sums = table.sum(axis=axes, keepdims=True)
            wanted = k.table.reshape(sums.shape)
            worst = max(worst, float(np.abs(sums - wanted).max()))
            table = table * np.divide(wanted, sums, out=np.zeros_like(sums), where=sums > 0)
        if worst <= _AGREED:
            return table, True
    return table, False


def _nearest(shape: tuple[int, ...], known: Sequence[KnownPart]) -> FloatArray:
    whole = tuple(range(len(shape)))
    oracle = JunctionTree(shape, [whole, *(k.part for k in known)])
    said = [NoisyMarginal(k.part, k.table, np.array(k.n**-0.5)) for k in known]
    observations = Observations(oracle.layout, said, total=1.0)
    found = descend(oracle, observations, gap=_AGREED, max_calls=_MAX_CALLS)
    return oracle.layout.table(found.tables, oracle.layout.index[whole]).copy()
