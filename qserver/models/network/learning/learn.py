"""Learning of a network's parameters within a budget, with five allocations of the budget.

| allocation | tables | divided by | parameters |
|---|---|---|---|
| `best` | few wide ones | expected error, without data | posterior means from all tables |
| `rows` | maximal families | root of the number of rows | each family from its own table |
| `uniform` | every family | equally | own table after consistency |
| `arxiv`, `icml` | every family | as printed in two versions of one paper | as `uniform` |

The first three take one step: their tables are known before any data is read, and the rest is
post-processing. The last two first spend a tenth on a sample (paper_allocation); the server
runs them by `qserver.answering.models.kinds.network_kind`.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from typing import Literal, get_args

from qserver.errors import NetworkError
from qserver.models.network.learning.estimation import network_from_tables
from qserver.models.network.learning.noisy_table import (
    NoisyTable,
    TablePrice,
    n_cells,
    onto_family,
    scope_of,
)
from qserver.models.network.learning.paper_methods import consistent_network
from qserver.models.network.learning.table_choice import choose_tables, maximal_families
from qserver.models.network.network import Network, normalised
from qserver.models.network.structure import Structure

Allocation = Literal["best", "rows", "uniform", "arxiv", "icml"]
ALLOCATIONS: tuple[Allocation, ...] = get_args(Allocation)


def one_step_prices(
    structure: Structure,
    *,
    epsilon: float,
    allocation: Allocation = "best",
    known: Sequence[NoisyTable] = (),
) -> tuple[TablePrice, ...]:
    """The tables to buy for a total of `epsilon`, known before any data is read.

    Raises:
        NetworkError: the allocation needs a sample first.
    """
    if allocation == "best":
        released = [TablePrice(t.scope, t.epsilon) for t in known]
        return choose_tables(structure, epsilon=epsilon, known=released)
    if allocation == "rows":
        return _row_weighted(structure, epsilon)
    if allocation == "uniform":
        n = len(structure.variables)
        return tuple(TablePrice(scope_of(structure.family(i)), epsilon / n) for i in range(n))
    raise NetworkError("allocation", "be known before any data is read", allocation)


def one_step_network(
    structure: Structure, tables: Sequence[NoisyTable], *, allocation: Allocation = "best"
) -> Network:
    """The parameters from the tables of a one-step allocation.

    Args:
        tables: one per variable in order for `uniform`; else in any order.
    """
    if allocation == "best":
        return network_from_tables(structure, tables)
    if allocation == "uniform":
        return consistent_network(structure, tables)
    cpds = []
    for i in range(len(structure.variables)):
        family = structure.family(i)
        table = next(t for t in tables if set(t.scope) >= set(family))
        gone = tuple(k for k, j in enumerate(table.scope) if j not in family)
        own = onto_family(table.values.sum(axis=gone), scope_of(family), family)
        cpds.append(normalised(own))
    return Network(structure, tuple(cpds))


def _row_weighted(structure: Structure, epsilon: float) -> tuple[TablePrice, ...]:
    """Maximal families, priced by the root of the most rows of any family inside."""
    scopes = maximal_families(structure)
    roots = []
    for scope in scopes:
        held = [p for i, p in enumerate(structure.parents) if set(scope) >= {*p, i}]
        roots.append(sqrt(max(n_cells(p, structure.sizes) for p in held)))
    share = epsilon / sum(roots)
    return tuple(TablePrice(s, share * r) for s, r in zip(scopes, roots, strict=True))
