"""Scopes and the smaller scopes inside them: parts and intersections."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain, combinations

from qserver.errors import CapacityError
from qserver.models.marginals.graph.layout import Scope

MAX_SCOPE = 16
"""Most attributes in one scope: callers look at every part of a scope."""


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
