"""Mutual consistency of noisy tables, as printed in both papers on data-dependent learning.

The procedure goes through every set of variables in which tables meet, smaller sets first. All
tables that contain the set are moved to one common marginal: the mean of theirs, weighted by
nominal epsilon. Weights by inverse variance would be closer to the truth. After one pass smaller
sets still agree up to rounding. `combined_tables` does better; this is the baseline.

References:
    Qardaji, Yang and Li (2014); Chowdhury, Rekatsinas and Jha (2020), appendix, equations 17, 18.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from qserver.errors import CapacityError
from qserver.models.network.learning.noisy_table import NoisyTable, Scope, onto_family
from qserver.models.network.network import Network, Table, normalised
from qserver.models.network.structure import Structure

MAX_MEETINGS = 20_000


def meetings(scopes: Sequence[Scope]) -> tuple[Scope, ...]:
    """The non-empty sets in which two or more of the scopes meet, smaller ones first.

    Raises:
        CapacityError: more than 20,000 of them.
    """
    found: set[frozenset[int]] = set()
    sets = [frozenset(s) for s in scopes]
    fresh = {a & b for k, a in enumerate(sets) for b in sets[:k]}
    while fresh:
        found |= fresh
        if len(found) > MAX_MEETINGS:
            raise CapacityError(f"More than {MAX_MEETINGS:,} sets of variables are shared.")
        fresh = {a & b for a in fresh for b in sets} - found
    return tuple(sorted((tuple(sorted(f)) for f in found if f), key=lambda s: (len(s), s)))


def consistent_network(structure: Structure, tables: Sequence[NoisyTable]) -> Network:
    """The parameters from one table per variable, after consistency as in both papers."""
    joints = []
    for table in tables:
        kept = np.maximum(table.values, 0.0)
        joints.append(kept / kept.sum() if kept.sum() > 0 else np.full(kept.shape, 1 / kept.size))
    scopes, weights = [t.scope for t in tables], [t.epsilon for t in tables]
    cpds = []
    for i, joint in enumerate(consistent(joints, scopes, weights)):
        cpds.append(normalised(onto_family(joint, tables[i].scope, structure.family(i))))
    return Network(structure, tuple(cpds))


def consistent(
    tables: Sequence[Table], scopes: Sequence[Scope], weights: Sequence[float]
) -> tuple[Table, ...]:
    """The tables, moved to agree on every set of variables in which they meet.

    Args:
        tables: the tables, each with one axis per variable of its scope.
        weights: weight of each table in the common marginals: its nominal epsilon, as printed.
    """
    moved = [np.array(t, dtype=np.float64) for t in tables]
    for part in meetings(scopes):
        holders = [k for k, scope in enumerate(scopes) if set(part) <= set(scope)]
        margins = {k: _margin(moved[k], scopes[k], part) for k in holders}
        total = sum(weights[k] for k in holders)
        common = sum(weights[k] / total * margins[k] for k in holders)
        for k in holders:
            shape = [n if i in part else 1 for i, n in zip(scopes[k], moved[k].shape, strict=True)]
            share = margins[k].size / moved[k].size
            moved[k] += share * (common - margins[k]).reshape(shape)
    return tuple(moved)


def _margin(table: Table, scope: Scope, part: Scope) -> Table:
    return np.asarray(table.sum(axis=tuple(k for k, i in enumerate(scope) if i not in part)))
