"""Region graphs: which tables must agree, and on what.

A vertex is a scope, an edge goes from a scope to a part of it, and the local polytope of a graph
holds the non-negative tables of total one in which every edge's two ends agree.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, combinations

from qserver.errors import CapacityError
from qserver.models.marginals.graph.layout import Layout, Scope, layout_of
from qserver.models.marginals.graph.summation import Edge

MAX_SCOPE = 16
"""Attributes in one scope: every part of a scope is looked at when its graph is built."""


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


def distinct(scopes: Iterable[Scope]) -> tuple[Scope, ...]:
    """Each scope once, in order, without the empty one."""
    found = tuple(s for s in dict.fromkeys(scopes) if s)
    for scope in found:
        if len(scope) > MAX_SCOPE:
            raise CapacityError(f"A scope has {len(scope)} attributes; {MAX_SCOPE} are the most.")
    return found


def parts(scope: Scope) -> Iterable[Scope]:
    """Every part of a scope, itself and the empty one included."""
    return chain.from_iterable(combinations(scope, k) for k in range(len(scope) + 1))


def with_intersections(scopes: Iterable[Scope], *, most: int = 1 << 16) -> tuple[Scope, ...]:
    """The scopes and all intersections of them but the empty one, each once.

    Raises:
        CapacityError: there are more than `most`.
    """
    found: set[frozenset[int]] = set()
    for scope in scopes:
        # What is there holds its own intersections, so that one turn is enough.
        whole = frozenset(scope)
        found |= {whole & other for other in found} | {whole}
        if len(found) > most:
            raise CapacityError(f"Scopes with more than {most:,} intersections; that is the most.")
    return tuple(sorted((tuple(sorted(s)) for s in found if s), key=lambda s: (len(s), s)))


def _covered(scope: Scope, vertices: set[Scope]) -> list[Scope]:
    """The largest vertices inside `scope`, without those that lie inside another of them."""
    found: list[Scope] = []
    for k in range(len(scope) - 1, 0, -1):
        for part in combinations(scope, k):
            if part in vertices and not any(set(part) <= set(f) for f in found):
                found.append(part)
    return found
