"""Bounds on a network's errors by the noise of its tables, known before any is measured."""

from __future__ import annotations

from collections.abc import Sequence

from qserver.models.network.error_bounds import ErrorBounds, even_error_bounds
from qserver.models.network.learning.combined_tables import CombinedTables
from qserver.models.network.learning.noisy_table import NoisyTable, Scope, n_cells, scope_of
from qserver.models.network.structure import Structure


def foretold_bounds(
    structure: Structure, allocation: str, tables: Sequence[NoisyTable]
) -> ErrorBounds | None:
    """The bounds on errors of answers, times the number of records; see `even_error_bounds`.

    Args:
        allocation: `best` reads a family off all tables, any other off one of its own.
        tables: the tables that will be released, on the network's variables; values do not
            matter.
    """
    combined = CombinedTables(structure.sizes, tuple(tables))
    noise = []
    for i, size in enumerate(structure.sizes):
        # Attributes of one value are in no table.
        scope = scope_of([v for v in structure.family(i) if structure.sizes[v] > 1])
        if size == 1:
            noise.append(0.0)
        elif allocation == "best":
            noise.append(combined.variance_within(scope, i))
        else:
            noise.append(_own_variance(scope, tables, structure, allocation))
    return even_error_bounds(structure, noise)


def own_table(scope: Scope, tables: Sequence[NoisyTable], structure: Structure) -> NoisyTable:
    """A family's table; if history has none, the sums of a table that contains the family."""
    holding = [t for t in tables if set(t.scope) >= set(scope)]
    found = [_summed(table, scope, structure) for table in holding]
    own = [t for t, wide in zip(found, holding, strict=True) if wide.scope == scope]
    return min(own or found, key=lambda t: t.scale)


def _own_variance(
    scope: Scope, tables: Sequence[NoisyTable], structure: Structure, allocation: str
) -> float:
    if allocation == "rows":
        holding = [t for t in tables if set(t.scope) >= set(scope)]
        return _summed(min(holding, key=lambda t: t.scale), scope, structure).variance
    return own_table(scope, tables, structure).variance


def _summed(table: NoisyTable, scope: Scope, structure: Structure) -> NoisyTable:
    gone = tuple(k for k, i in enumerate(table.scope) if i not in scope)
    summed = n_cells([table.scope[k] for k in gone], structure.sizes)
    # Sums of independent noise: exact in variance, which is all that is read of it.
    return NoisyTable(scope, table.scale * summed**0.5, table.values.sum(axis=gone))
