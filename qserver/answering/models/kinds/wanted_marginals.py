"""The marginals that somebody wants a model to know: read, bounded, and joined into candidates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log, prod

import numpy as np

from qserver.answering.models.kinds.reduced_history import MAX_CELLS
from qserver.errors import InputError
from qserver.models.marginals.graph.layout import Scope
from qserver.query.domain import Domain
from qserver.query.partition import MAX_TABLE_CELLS
from qserver.records.history import AnyMeasurement, TableMeasurement

MAX_MARGINALS = 4_096
MAX_PARTS = 1 << 20
"""Most parts of all wanted marginals together: one of k attributes has 2^k."""
_JOINED_CELLS = 1 << 12
_MOST_JOINED = 300
_AT_ONCE = 256


def read_scopes(found: object, domain: Domain) -> list[Scope]:
    """The wanted marginals, each once, attributes rising.

    Raises:
        InputError: they are no lists of attributes, or more than a model holds.
    """
    if not isinstance(found, list) or len(found) > MAX_MARGINALS:
        raise InputError("marginals", f"be a list of at most {MAX_MARGINALS:,} lists of attributes")
    scopes = [tuple(sorted(axes_of(names, domain, "marginals"))) for names in found]
    for scope in scopes:
        cells = prod(domain.sizes[a] for a in scope)
        if cells > MAX_TABLE_CELLS:
            raise InputError("marginals", f"have at most {MAX_TABLE_CELLS:,} cells each", cells)
    scopes = list(dict.fromkeys(scopes))
    n_cells = sum(prod(domain.sizes[a] for a in s) for s in scopes)
    if n_cells > MAX_CELLS:
        raise InputError("marginals", f"have at most {MAX_CELLS:,} cells together", n_cells)
    n_parts = sum(1 << len(s) for s in scopes)
    if n_parts > MAX_PARTS:
        raise InputError("marginals", f"have at most {MAX_PARTS:,} parts together", n_parts)
    return scopes


def axes_of(names: object, domain: Domain, field: str) -> list[int]:
    """Positions of distinct attributes, in the order named; InputError."""
    if not isinstance(names, list) or not names:
        raise InputError(field, "be lists of one or more attributes")
    axes = [domain.axis(name) if isinstance(name, str) else None for name in names]
    found = [a for a in axes if a is not None]
    if len(found) < len(names) or len(set(found)) < len(names):
        raise InputError(field, "name attributes of the dataset, each once")
    return found


def measured(sizes: Sequence[int], measurements: Sequence[AnyMeasurement]) -> Mapping[Scope, float]:
    """1 / b of the whole marginals that history has."""
    found: dict[Scope, float] = {}
    for m in measurements:
        if isinstance(m, TableMeasurement):
            parts = m.partition.axes
            if parts and all(p.n == sizes[p.axis] for p in parts):
                found[tuple(p.axis for p in parts)] = 1.0 / m.scale
    return found


def candidates(sizes: Sequence[int], scopes: Sequence[Scope]) -> list[Scope]:
    """The wanted marginals, and small unions of two that overlap: one table may serve both."""
    held = np.zeros((len(scopes), len(sizes)))
    for i, scope in enumerate(scopes):
        held[i, list(scope)] = 1.0
    logs = np.log(sizes)
    log_cells, most = held @ logs, log(_JOINED_CELLS)
    wanted, joined = set(scopes), dict[Scope, int]()
    for start in range(0, len(scopes), _AT_ONCE):
        rows = held[start : start + _AT_ONCE]
        unions = log_cells[start : start + _AT_ONCE, None] + log_cells - (rows * logs) @ held.T
        # Logarithms are rounded; unions that pass are counted exactly.
        near = (rows @ held.T > 0) & (unions <= most + 1e-9)
        for i, j in np.argwhere(np.triu(near, k=start + 1)):
            union = tuple(sorted({*scopes[start + i], *scopes[j]}))
            if union not in wanted and union not in joined:
                joined[union] = prod(sizes[a] for a in union)
        ranked = sorted((n, s) for s, n in joined.items() if n <= _JOINED_CELLS)[:_MOST_JOINED]
        joined = {s: n for n, s in ranked}
        if len(joined) == _MOST_JOINED:
            most = log(ranked[-1][0])
    return [*scopes, *joined]
