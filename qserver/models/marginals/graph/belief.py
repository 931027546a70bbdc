"""Convex generalised belief propagation on a region graph, all messages at once.

Finds the tables of the local polytope that maximise theta . tau + sum of H(tau_r), every counting
number being 1. One pass updates the messages of all vertices by a fixed part of what the exact
block update would change: with at most c blocks in any term of the dual, a part 1 / c never makes
the dual worse (convexity, term by term), so it needs no tuning.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from qserver.models.marginals.graph.layout import FloatArray, IndexArray, Layout, added_up
from qserver.models.marginals.graph.regions import RegionGraph
from qserver.models.marginals.graph.summation import Summation

_TINY = 1e-300


@dataclass(frozen=True)
class Beliefs:
    """Tables of total one for every vertex, and how far they are from agreeing.

    Args:
        tables: flat, in the order of the graph's layout.
        inconsistency: largest difference between an edge's two ends, as a proportion.
        log_partition: the dual, an upper bound on max theta . tau + H(tau).
        passes: message passes done.
    """

    tables: FloatArray
    inconsistency: float
    log_partition: float
    passes: int


class BeliefPropagation:
    """Messages on a region graph, kept from call to call.

    References:
        McKenna et al. (2021), algorithm 2; Hazan, Peng and Shashua (2012).
    """

    def __init__(self, graph: RegionGraph, *, damping: float | None = None) -> None:
        self.layout: Layout = graph.layout
        self._summation = Summation(graph.layout, graph.edges)
        edges = self._summation.target
        children = np.array([graph.layout.index[s] for s in edges.scopes], dtype=np.intp)
        self._parents, self._children = self._summation.parents, children
        starts = np.repeat(graph.layout.offsets[:-1][children] - edges.offsets[:-1], edges.counts)
        self._child_cell: IndexArray = (np.arange(edges.n_cells) + starts).astype(np.intp)
        n = len(graph.layout.scopes)
        n_parents = np.bincount(children, minlength=n)
        self._share = np.repeat(1.0 / (1.0 + n_parents[children]), edges.counts)
        blocks = np.bincount(self._parents, minlength=n) + (n_parents > 0)
        # How much of its exact block update a message moves in one pass.
        self.part = damping or 1.0 / max(1, int(blocks.max(initial=1)))
        self.messages: FloatArray = np.zeros(edges.n_cells)

    @cached_property
    def n_edges(self) -> int:
        """Number of edges."""
        return len(self._parents)

    def run(self, theta: FloatArray, *, tolerance: float, max_passes: int) -> Beliefs:
        """Beliefs after passes until the inconsistency is at most `tolerance`.

        Args:
            theta: log-potentials, flat, one per cell of the layout.
        """
        done = 0
        while True:
            logs, tables, log_partition = self._normalised(theta)
            sums = self._summation.sums(tables)
            gap = float(np.abs(sums - tables[self._child_cell]).max(initial=0.0))
            if gap <= tolerance or done >= max_passes:
                return Beliefs(tables, gap, log_partition, done)
            self._update(logs, sums)
            done += 1

    def lower_bound(self, costs: FloatArray) -> float | None:  # noqa: ARG002
        """None: messages of finitely many passes prove no useful bound on a linear cost."""
        return None

    def _normalised(self, theta: FloatArray) -> tuple[FloatArray, FloatArray, float]:
        """Logarithms of the beliefs, the beliefs of total one, and the dual."""
        logs = theta - self._gathered(self.messages)
        self._summation.spread(self.messages, logs)
        highest = self.layout.maxima(logs)
        self.layout.add_per_table(logs, -highest)
        tables = np.exp(logs)
        totals = self.layout.totals(tables)
        self.layout.scale_per_table(tables, 1.0 / totals)
        self.layout.add_per_table(logs, -np.log(totals))
        return logs, tables, float((highest + np.log(totals)).sum())

    def _update(self, logs: FloatArray, sums: FloatArray) -> None:
        """Move every message towards where a vertex and its parents agree: their geometric mean."""
        np.log(np.maximum(sums, _TINY, out=sums), out=sums)
        mean = (logs + self._gathered(sums))[self._child_cell]
        mean *= self._share
        mean -= sums
        mean *= self.part
        self.messages += mean

    def _gathered(self, on_edges: FloatArray) -> FloatArray:
        """Values on edges, added up at their children."""
        return added_up(self._child_cell, on_edges, self.layout.n_cells)
