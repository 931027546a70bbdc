"""Scopes and the smaller scopes inside them: parts and intersections."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain, combinations

from qserver.errors import CapacityError
from qserver.models.marginals.graph.layout import Scope

MAX_SCOPE = 16
"""Most attributes in one scope: callers look at every part of a scope."""


def distinct(scopes: Iterable[Scope]) -> tuple[Scope, ...]:
    """The distinct scopes in order, without the empty one."""
    found = tuple(s for s in dict.fromkeys(scopes) if s)
    for scope in found:
        if len(scope) > MAX_SCOPE:
            raise CapacityError(f"A scope has {len(scope)} attributes; {MAX_SCOPE} are the most.")
    return found


def parts(scope: Scope) -> Iterable[Scope]:
    """Every part of a scope, including itself and the empty one."""
    return chain.from_iterable(combinations(scope, k) for k in range(len(scope) + 1))


def with_intersections(scopes: Iterable[Scope], *, most: int = 1 << 16) -> tuple[Scope, ...]:
    """The distinct scopes and their intersections, without the empty one.

    Raises:
        CapacityError: there are more than `most`.
    """
    found: set[frozenset[int]] = set()
    for scope in scopes:
        # The scopes found so far include their intersections, so that one pass is enough.
        whole = frozenset(scope)
        found |= {whole & other for other in found} | {whole}
        if len(found) > most:
            raise CapacityError(f"Scopes with more than {most:,} intersections; that is the most.")
    return tuple(sorted((tuple(sorted(s)) for s in found if s), key=lambda s: (len(s), s)))
