"""Convex generalised belief propagation table by table: the baseline that batches are held to.

One dictionary entry per region and per edge, numpy on each, as a first version would be written.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from qserver.models.marginals.graph.layout import Scope
from tests.models.marginals.message_passing import RegionGraph

FloatArray = NDArray[np.float64]
Pair = tuple[Scope, Scope]


class PlainPropagation:
    """The same passes as `BeliefPropagation`, with a loop over regions and edges."""

    def __init__(self, graph: RegionGraph, *, part: float) -> None:
        scopes = graph.layout.scopes
        self._shapes = {s: graph.layout.shape(i) for i, s in enumerate(scopes)}
        self._edges: list[Pair] = [(scopes[e.source], e.scope) for e in graph.edges]
        self._part = part
        self._above: dict[Scope, list[Scope]] = {s: [] for s in scopes}
        self._below: dict[Scope, list[Scope]] = {s: [] for s in scopes}
        for parent, child in self._edges:
            self._above[child].append(parent)
            self._below[parent].append(child)
        self._messages = {e: np.zeros(self._shapes[e[1]]) for e in self._edges}

    def step(
        self, potentials: dict[Scope, FloatArray], targets: Mapping[Scope, FloatArray]
    ) -> dict[Scope, FloatArray]:
        """One iteration: beliefs, a gradient step on their distance from targets, one pass."""
        beliefs = self._pass(potentials)
        for scope, target in targets.items():
            potentials[scope] -= beliefs[scope] - target
        return beliefs

    def _pass(self, potentials: dict[Scope, FloatArray]) -> dict[Scope, FloatArray]:
        logs, beliefs = {}, {}
        for scope in self._shapes:
            table = potentials[scope].copy()
            for child in self._below[scope]:
                table += self._wide(self._messages[scope, child], scope, child)
            for parent in self._above[scope]:
                table -= self._messages[parent, scope]
            table -= table.max()
            cells = np.exp(table)
            total = cells.sum()
            logs[scope], beliefs[scope] = table - np.log(total), cells / total
        for child, parents in self._above.items():
            sums = {p: np.log(self._marginal(beliefs[p], p, child)) for p in parents}
            mean = (logs[child] + sum(sums.values())) / (1.0 + len(parents))
            for parent, said in sums.items():
                self._messages[parent, child] += self._part * (mean - said)
        return beliefs

    def _wide(self, table: FloatArray, scope: Scope, child: Scope) -> FloatArray:
        shape = self._shapes[scope]
        return table.reshape(
            tuple(n if a in child else 1 for a, n in zip(scope, shape, strict=True))
        )

    @staticmethod
    def _marginal(table: FloatArray, scope: Scope, child: Scope) -> FloatArray:
        return np.asarray(table.sum(axis=tuple(k for k, a in enumerate(scope) if a not in child)))
