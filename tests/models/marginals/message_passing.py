"""Convex generalised belief propagation on region graphs: another way to the relaxed optimum.

The product fits relaxed models by consensus. The messages here are an independent method for the
same problem, and tests hold the two against each other.

A vertex of a region graph is a scope. An edge goes from a scope to a part of it. The local polytope
of a graph holds the non-negative tables of total one in which the two ends of every edge agree.
Belief propagation finds the tables of that polytope that maximise theta . tau + sum of H(tau_r);
every counting number is 1. One pass updates the messages of all vertices by a fixed part of the
exact block update. With at most c blocks in any term of the dual, a part 1 / c never makes the dual
worse (convexity, term by term), so the damping needs no tuning.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Literal

import numpy as np

from qserver.models.marginals.estimate import Estimate, Fit, Warm, near_records, tree_near
from qserver.models.marginals.fit.consensus import agree, without_negatives
from qserver.models.marginals.fit.consistency import Agreement, Consistency
from qserver.models.marginals.fit.descent import descend
from qserver.models.marginals.fit.observations import NoisyMarginal, Observations
from qserver.models.marginals.graph.junction_tree import Beliefs, Edge, Summation
from qserver.models.marginals.graph.layout import (
    FloatArray,
    IndexArray,
    Layout,
    Scope,
    added_up,
    distinct,
    layout_of,
    parts,
)
from qserver.models.marginals.model import RelaxedDistribution

_TINY = 1e-300
# How near its least value the loss of the bound comes, as a part of the precision asked for.
_BOUND_PART = 0.1


@dataclass(frozen=True)
class RegionGraph:
    """Vertices as a layout, and edges from each to the parts it must agree with.

    References:
        McKenna, Pradhan, Sheldon and Miklau (2021), definition 2 and figure 1.
    """

    layout: Layout
    edges: tuple[Edge, ...]


def saturated(sizes: Sequence[int], scopes: Iterable[Scope]) -> RegionGraph:
    """The graph in which any two scopes agree on all they share.

    Vertices are the scopes and all intersections of them; an edge goes to each part that no other
    vertex lies between.

    Raises:
        CapacityError: a scope has more than `MAX_SCOPE` attributes.
    """
    scopes = distinct(scopes)
    shared: dict[Scope, frozenset[int]] = {}
    for scope in scopes:
        whole = frozenset(scope)
        for part in parts(scope):
            shared[part] = shared.get(part, whole) & whole
    vertices = {s for s, common in shared.items() if s and len(common) == len(s)} | set(scopes)
    layout = layout_of(sizes, vertices)
    edges = [
        Edge(i, part) for i, scope in enumerate(layout.scopes) for part in _covered(scope, vertices)
    ]
    return RegionGraph(layout, tuple(edges))


def factor_graph(sizes: Sequence[int], scopes: Iterable[Scope]) -> RegionGraph:
    """The graph in which scopes agree on single attributes only."""
    scopes = distinct(scopes)
    singles = {(a,) for scope in scopes for a in scope}
    layout = layout_of(sizes, singles | set(scopes))
    edges = [
        Edge(i, (a,)) for i, scope in enumerate(layout.scopes) if len(scope) > 1 for a in scope
    ]
    return RegionGraph(layout, tuple(edges))


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

    def lower_bound(self, costs: FloatArray) -> float | None:
        """None: messages of finitely many passes prove no useful bound on a linear cost."""
        return None

    def _normalised(self, theta: FloatArray) -> tuple[FloatArray, FloatArray, float]:
        """Logarithms of the beliefs, the beliefs of total one, and the dual."""
        logs = theta - self._gathered(self.messages)
        self._summation.spread(self.messages, logs)
        highest = np.maximum.reduceat(logs, self.layout.offsets[:-1])
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


def _covered(scope: Scope, vertices: set[Scope]) -> list[Scope]:
    """The largest vertices inside `scope`, without those that lie inside another of them."""
    found: list[Scope] = []
    for k in range(len(scope) - 1, 0, -1):
        for part in combinations(scope, k):
            if part in vertices and not any(set(part) <= set(f) for f in found):
                found.append(part)
    return found


def estimate_by_messages(
    sizes: Sequence[int],
    measurements: Sequence[NoisyMarginal],
    *,
    oracle: Literal["saturated", "factor"],
    total: float,
    precision: float,
) -> Estimate:
    """What `estimate` gives for a relaxed oracle, found by messages.

    Messages give no bound on the loss. One projection brings their tables into agreement; the lower
    bound is that of a consensus over the same polytope, which holds for any tables.
    """
    build = saturated if oracle == "saturated" else factor_graph
    agreement: Agreement = "shared" if oracle == "saturated" else "singles"
    propagation = BeliefPropagation(build(sizes, [m.scope for m in measurements]))
    graph = propagation.layout
    seen = Observations(graph, measurements, total=total)
    found = descend(propagation, seen, gap=precision * seen.noise_loss)
    layout = layout_of(sizes, distinct(m.scope for m in measurements))
    flat = np.concatenate(
        [graph.table(found.tables, graph.index[s]).ravel() for s in layout.scopes]
    )
    projected = Consistency(layout, agreement=agreement).project(flat)
    tables = without_negatives(layout, projected)
    own = Observations(layout, measurements, total=total)
    bound = agree(own, gap=_BOUND_PART * precision * own.noise_loss, agreement=agreement)
    value = own.value(tables)
    fit = Fit(
        oracle=oracle,
        method="messages",
        likelihood="squares",
        exact_cells=0,
        loss=value,
        noise_loss=own.noise_loss,
        gap=max(value - (bound.value - bound.gap), 0.0),
        steps=found.calls,
        inconsistency=found.inconsistency,
    )
    distribution = RelaxedDistribution(
        tuple(sizes), layout, tables, own.unit, tree_near, near_records
    )
    return Estimate(distribution, total, layout, tables, fit, Warm(oracle, "messages", layout))
