"""The two stages of a network's published allocations, as the server runs them.

As printed but for two things. Tables over the same attributes are measured once, at the sum of
their prices: a chain of one noise in place of several. And the sample's parameters are no part of
the network, which follows from history alone (the later version averages them in).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

import numpy as np

from qserver.answering.models.kinds.sampled_kind import TwoStages
from qserver.models.network.learning.noisy_table import Scope, scope_of
from qserver.models.network.learning.paper_methods import (
    SAMPLING_RATE,
    StageOne,
    StageOneBudget,
    Version,
    final_prices,
)
from qserver.models.network.network import Table
from qserver.models.network.structure import Structure

VERSIONS = ("arxiv", "icml")
# All tables of the sample have one price, and nothing that follows depends on which.
_EVEN = StageOneBudget(epsilon=1.0, nominal=1.0, rate=SAMPLING_RATE)


def two_stages(structure: Structure, axes: Sequence[int], version: Version) -> TwoStages:
    """The tables of both stages.

    Args:
        axes: position in the domain of each variable.
    """
    first = [_axes(scope, axes) for scope in _first_scopes(structure, version)]
    final = [_real(scope, structure, axes) for scope in _final_scopes(structure, version)]
    return TwoStages(tuple(first), tuple(dict.fromkeys(final)))


def shares_of(
    structure: Structure, axes: Sequence[int], version: Version, noisy: Sequence[Table]
) -> tuple[float, ...]:
    """The share of stage two's price for each final table, by the noisy counts of the sample.

    Args:
        noisy: per table of the sample its noisy counts, one axis per attribute, ascending.
    """
    tables = iter(noisy)

    def drawn(scope: Scope, _epsilon: float) -> Table:
        order = _axes(scope, axes)
        shape = [structure.sizes[scope[[axes[i] for i in scope].index(a)]] for a in order]
        counts = np.asarray(next(tables), dtype=np.float64).reshape(shape)
        return counts.transpose([order.index(axes[i]) for i in scope])

    measure = cast("Callable[[Scope, float], Table]", drawn)
    first = StageOne.measured(structure, measure, _EVEN, version)
    prices = [price.epsilon for price in final_prices(structure, first, 1.0)]
    if version == "icml":
        prices = [price / 2 for price in (*prices, *prices)]
    found: dict[tuple[int, ...], float] = {}
    for scope, price in zip(_final_scopes(structure, version), prices, strict=True):
        key = _real(scope, structure, axes)
        found[key] = found.get(key, 0.0) + price
    return tuple(found.values())


def _first_scopes(structure: Structure, version: Version) -> list[Scope]:
    """In the order in which stage I measures them."""
    found = []
    for i, parents in enumerate(structure.parents):
        found.append(scope_of(structure.family(i)))
        if version == "icml":
            found.append(scope_of(parents))
    return found


def _final_scopes(structure: Structure, version: Version) -> list[Scope]:
    """Families, then, in the later version, their parents."""
    found = [scope_of(structure.family(i)) for i in range(len(structure.variables))]
    return found if version == "arxiv" else [*found, *map(scope_of, structure.parents)]


def _axes(scope: Scope, axes: Sequence[int]) -> tuple[int, ...]:
    return tuple(sorted(axes[i] for i in scope))


def _real(scope: Scope, structure: Structure, axes: Sequence[int]) -> tuple[int, ...]:
    """Attributes that tell something apart."""
    return tuple(sorted(axes[i] for i in scope if structure.sizes[i] > 1))
