"""Who may be whom: the heaviest set of snapshots that one person may be in, and units of privacy.

The line of an attach names the unit in the dataset's facts, and beside it in plain numbers how many
records of a person count, and how they may be spread. A loss is reckoned by these numbers. Where
they are fewer than the unit has, every loss comes out too low.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any

from worker.books.lines import UnknownFactsError
from worker.books.periods import Spread

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


def misfit(details: Mapping[str, Any], relation: str) -> str:
    """What the numbers of an attach have otherwise than its unit; '' if they go together."""
    facts = json.loads(str(details.get("meta") or "{}"))
    kinds = [one.get("kind") for one in facts.get("domain", {}).get("attributes", ())]
    if "period" not in kinds or not {"sizes", "records_per_person"} <= details.keys():
        return ""
    unit, axis = facts.get("unit", {}), kinds.index("period")
    n_periods = [int(size) for size in str(details["sizes"]).split()][axis]
    k = int(details["records_per_person"])
    m = int(unit.get("per_period") or k)
    if unit.get("protects") == "person-unbounded" and k != m * n_periods:
        return f"unit person-unbounded has {m * n_periods} records of a person, not {k}"
    keeps = relation == "replace-one" and unit.get("replaced") == "same-period"
    spread = Spread(axis, min(m, k), keeps) if m < k or keeps else None
    return "" if Spread.of(details) == spread else "a person's records are spread otherwise"
