"""Variable elimination on tables: a product of factors, summed down to a few attributes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from qserver.errors import CapacityError
from qserver.models.marginals.graph.layout import FloatArray, Scope

MAX_INTERMEDIATE = 1 << 24


@dataclass(frozen=True)
class FactorTable:
    """A table on the attributes of `scope`, one axis each."""

    scope: Scope
    table: FloatArray


def eliminate(factors: Sequence[FactorTable], kept: Scope) -> FactorTable:
    """The product of all factors, summed over every attribute that is not kept.

    Raises:
        CapacityError: an intermediate product would be too large.
    """
    left = list(factors)
    sizes = {a: n for f in left for a, n in zip(f.scope, f.table.shape, strict=True)}
    rest = {a for f in left for a in f.scope} - set(kept)
    while rest:
        around = {a: _union(f.scope for f in left if a in f.scope) for a in rest}
        a = min(rest, key=lambda b: (prod(sizes[c] for c in around[b]), b))
        touched = [f for f in left if a in f.scope]
        joint = product(touched, around[a], sizes)
        summed = joint.sum(axis=around[a].index(a))
        left = [f for f in left if a not in f.scope]
        left.append(FactorTable(tuple(b for b in around[a] if b != a), np.asarray(summed)))
        rest.discard(a)
    return FactorTable(kept, product(left, kept, sizes))


def product(factors: Sequence[FactorTable], scope: Scope, sizes: Mapping[int, int]) -> FloatArray:
    """The product of factors within `scope` as one table on it.

    Raises:
        CapacityError: the table would be too large.
    """
    n_cells = prod(sizes[a] for a in scope)
    if n_cells > MAX_INTERMEDIATE:
        raise CapacityError(
            f"The answer needs a table of {n_cells:,} cells; {MAX_INTERMEDIATE:,} are the most."
        )
    found = np.ones(tuple(sizes[a] for a in scope))
    for factor in factors:
        found *= factor.table.reshape(tuple(sizes[a] if a in factor.scope else 1 for a in scope))
    return found


def _union(scopes: Iterable[Scope]) -> Scope:
    return tuple(sorted({a for scope in scopes for a in scope}))
