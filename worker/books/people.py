"""The heaviest set of snapshots that one person may be in."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from worker.books.faults import UnknownFactsError

_MOST_WORK = 3_000_000
"""Pairs of snapshots that a search may look at: some tenths of a second."""


def heaviest(shares: Mapping[str, int], pairs: Collection[tuple[str, str]]) -> int:
    """The greatest sum of shares of snapshots no two of which are a declared pair.

    Raises:
        UnknownFactsError: the search would take too long.
    """
    names = sorted((name for name, share in shares.items() if share), key=lambda n: -shares[n])
    apart: dict[str, set[str]] = {name: set() for name in names}
    for one, other in pairs:
        if one in apart and other in apart:
            apart[one].add(other)
            apart[other].add(one)
    best = work = 0
    stack = [(names, 0)]
    while stack:
        left, weight = stack.pop()
        members = set(left)
        tied = [name for name in left if apart[name] & members]
        # A snapshot without a pair is in every heaviest set.
        weight += sum(shares[name] for name in left) - sum(shares[name] for name in tied)
        best = max(best, weight)
        work += len(left) + len(tied) ** 2
        if work > _MOST_WORK:
            raise UnknownFactsError("too many snapshots and pairs for an exact sum")
        if weight + _at_most(tied, shares, apart) <= best:
            continue
        # The snapshot of the most pairs: without it, or with it and without those apart from it.
        first = max(tied, key=lambda name: len(apart[name] & members))
        rest = [name for name in tied if name != first]
        stack.append((rest, weight))
        stack.append(([n for n in rest if n not in apart[first]], weight + shares[first]))
    return best


def _at_most(left: list[str], shares: Mapping[str, int], apart: Mapping[str, set[str]]) -> int:
    """At least the weight of any set: of snapshots that are all apart one counts at most."""
    groups: list[list[str]] = []
    for name in left:  # the heaviest first
        home = next((group for group in groups if apart[name].issuperset(group)), None)
        if home is None:
            groups.append([name])
        else:
            home.append(name)
    return sum(shares[group[0]] for group in groups)
