"""The joint loss of people in several snapshots: the heaviest set that may share a person.

The owner declares pairs of snapshots that have no person in common. The snapshots that a person is
in have no declared pair among them, and each moves that person's loss by its own share at most. So
no person has lost more than

    max over sets S of snapshots without a declared pair inside S of sum over S of share(s).

A pair says nothing of a third snapshot: east and west may be disjoint, west and lab too, and yet
east and lab hold the same people. The proof is in docs/guarantee.md, 5.

The maximum is a heaviest independent set of the graph of pairs, found by branch and bound in each
of its components. Past `LIMITS.population_nodes` nodes of a component an upper bound stands, which
is at most the plain sum of its shares.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from qserver.ledger.constants import LIMITS

Pair = tuple[str, str]
"""Two snapshots with no person in common, in rising order."""


def pair(one: str, other: str) -> Pair:
    """The pair of two snapshots."""
    return (one, other) if one < other else (other, one)


@dataclass(frozen=True)
class PopulationLoss:
    """The loss of a population's people.

    Args:
        shares: what each snapshot has spent, in nano-epsilon.
        pairs: those that the owner declared to have no person in common.
    """

    shares: Mapping[str, int]
    pairs: frozenset[Pair] = frozenset()

    def with_share(self, snapshot: str, share_nano: int) -> PopulationLoss:
        """The population after a snapshot has spent so much."""
        return PopulationLoss({**self.shares, snapshot: share_nano}, self.pairs)

    @cached_property
    def spent_nano(self) -> int:
        """The most that any person may have lost, in nano-epsilon; an upper bound."""
        return self._heaviest({k for k, v in self.shares.items() if v})

    def lost_nano(self, snapshot: str) -> int:
        """The most that a person of `snapshot` may have lost, in any snapshots."""
        if snapshot not in self._lost:
            others = {k for k, v in self.shares.items() if v and k != snapshot}
            others -= self.apart.get(snapshot, frozenset())
            self._lost[snapshot] = self.shares.get(snapshot, 0) + self._heaviest(others)
        return self._lost[snapshot]

    @cached_property
    def _lost(self) -> dict[str, int]:
        return {}

    def _heaviest(self, snapshots: set[str]) -> int:
        """The weight of the heaviest set of `snapshots` without a pair, or an upper bound."""
        return sum(_Search(self).weight(part) for part in self._components(snapshots))

    def _components(self, snapshots: set[str]) -> Iterator[list[str]]:
        """The snapshots by parts that no pair joins, each by falling share, then by name."""
        left = set(snapshots)
        while left:
            part, found = set[str](), {left.pop()}
            while found:
                part |= found
                found = {k for one in found for k in self.apart.get(one, ()) if k in left}
                left -= found
            yield sorted(part, key=lambda k: (-self.shares[k], k))

    @cached_property
    def apart(self) -> Mapping[str, frozenset[str]]:
        """Per snapshot, those declared to share no person with it."""
        found: dict[str, set[str]] = {}
        for one, other in self.pairs:
            found.setdefault(one, set()).add(other)
            found.setdefault(other, set()).add(one)
        return {k: frozenset(v) for k, v in found.items()}


def pairs_of(apart: Mapping[str, Iterable[str]]) -> frozenset[Pair]:
    """The pairs in a mapping from a snapshot to those declared disjoint from it."""
    return frozenset(pair(k, other) for k, others in apart.items() for other in others)


class _TooLargeError(Exception):
    """The search exceeds its bound on nodes."""


class _Search:
    """Branch and bound. Candidates are sorted by falling share, then by name."""

    def __init__(self, loss: PopulationLoss) -> None:
        self._shares = loss.shares
        self._apart = loss.apart
        self._n_nodes = 0
        self.best = 0

    def weight(self, candidates: list[str]) -> int:
        """The weight of the heaviest set without a pair, or an upper bound of it."""
        try:
            self._visit(candidates, 0, depth=0)
        except _TooLargeError:
            return self.bound(candidates)
        return self.best

    def _visit(self, candidates: list[str], weight: int, *, depth: int) -> None:
        """Try every set of `candidates` with a set of this weight that has no pair with them."""
        while True:
            self._n_nodes += 1
            if self._n_nodes > LIMITS.population_nodes or depth > LIMITS.population_depth:
                raise _TooLargeError
            free, candidates = self._split(candidates)
            weight += sum(self._shares[k] for k in free)
            self.best = max(self.best, weight)
            if weight + self.bound(candidates) <= self.best:
                return
            # First with the one of most pairs; in the next turn without it.
            chosen = self._most_tied(candidates)
            candidates = [k for k in candidates if k != chosen]
            apart = self._apart[chosen]
            rest = [k for k in candidates if k not in apart]
            self._visit(rest, weight + self._shares[chosen], depth=depth + 1)

    def _most_tied(self, candidates: list[str]) -> str:
        members = set(candidates)
        return max(candidates, key=lambda k: (len(self._apart[k] & members), self._shares[k], k))

    def _split(self, candidates: list[str]) -> tuple[list[str], list[str]]:
        """The candidates without a pair among them, which every best set has, and the others."""
        members = set(candidates)
        free: list[str] = []
        tied: list[str] = []
        for k in candidates:
            is_tied = not self._apart.get(k, frozenset()).isdisjoint(members)
            (tied if is_tied else free).append(k)
        return free, tied

    def bound(self, candidates: list[str]) -> int:
        """At least the weight of any set without a pair: one of mutually disjoint ones counts."""
        groups: list[list[str]] = []
        index: dict[str, int] = {}
        for k in candidates:
            apart = self._apart.get(k, frozenset())
            # A group that it can join has at least one of these.
            near = sorted({index[other] for other in apart & index.keys()})
            home = next((i for i in near if apart.issuperset(groups[i])), len(groups))
            if home == len(groups):
                groups.append([])
            groups[home].append(k)
            index[k] = home
        # Falling shares: the first of a group is its greatest.
        return sum(self._shares[group[0]] for group in groups)
