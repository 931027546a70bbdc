"""Triangulation: the cliques of a chordal graph around all scopes, and their tree."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from qserver.models.marginals.graph.layout import Scope


@dataclass(frozen=True)
class CliqueTree:
    """Cliques in an order in which parents come before children.

    Args:
        cliques: attributes of each clique, rising.
        parents: index of each clique's parent, -1 for a root.
        n_cells: exact number of cells of all cliques together.
    """

    cliques: tuple[Scope, ...]
    parents: tuple[int, ...]
    n_cells: int

    def separator(self, i: int) -> Scope:
        """The attributes that clique i shares with its parent; empty for a root."""
        if self.parents[i] < 0:
            return ()
        return tuple(sorted(set(self.cliques[i]) & set(self.cliques[self.parents[i]])))


def clique_tree(sizes: Sequence[int], scopes: Iterable[Scope]) -> CliqueTree:
    """A clique tree by elimination in the order of least fill-in; ties go to the smaller table."""
    scopes = tuple(scopes)
    attributes = sorted({a for scope in scopes for a in scope})
    place = {a: i for i, a in enumerate(attributes)}
    joined = np.zeros((len(attributes), len(attributes)))
    for scope in scopes:
        rows = [place[a] for a in scope]
        joined[np.ix_(rows, rows)] = 1.0
    np.fill_diagonal(joined, 0.0)
    logs = np.log([sizes[a] for a in attributes])
    left = list(range(len(attributes)))
    found: list[set[int]] = []
    while left:
        near = joined[np.ix_(left, left)]
        degree = near.sum(axis=1)
        # Pairs of neighbours, less the pairs that are joined already.
        missing = degree * (degree - 1) / 2 - ((near @ near) * near).sum(axis=1) / 2
        first = np.lexsort((near @ logs[left], np.round(missing)))[0]
        a = left.pop(int(first))
        around = [b for b in left if joined[a, b]]
        found.append({attributes[a], *(attributes[b] for b in around)})
        joined[np.ix_(around, around)] = 1.0
        joined[around, around] = 0.0
    return _as_tree(sizes, _maximal(found))


def _maximal(cliques: list[set[int]]) -> list[set[int]]:
    """Cliques that lie in no other; a later eliminated one can only lie in an earlier one."""
    kept: list[set[int]] = []
    for clique in cliques:
        if not any(clique <= other for other in kept):
            kept.append(clique)
    return kept


def _as_tree(sizes: Sequence[int], cliques: list[set[int]]) -> CliqueTree:
    """Join every clique to the earlier one with which it shares most (Prim's algorithm)."""
    order, parents = [], []
    best = dict.fromkeys(range(len(cliques)), (0, -1))
    while best:
        i = max(best, key=lambda j: (best[j][0], -j))
        shared, parent = best.pop(i)
        parents.append(parent if shared else -1)
        order.append(i)
        for j, (most, _) in best.items():
            common = len(cliques[i] & cliques[j])
            if common > most:
                best[j] = (common, len(order) - 1)
    scopes = tuple(tuple(sorted(cliques[i])) for i in order)
    n_cells = sum(prod(sizes[a] for a in scope) for scope in scopes)
    return CliqueTree(scopes, tuple(parents), n_cells)
