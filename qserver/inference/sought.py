"""What searches on one history found, kept until the history changes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from qserver.inference.estimate import RowEstimate

_CACHE_SIZE = 4096

K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True)
class Sought:
    """The shortest estimate of a search in which none met `enough`."""

    found: RowEstimate | None
    enough: float

    def settles(self, enough: float) -> bool:
        """Whether a new search with this `enough` can find nothing better."""
        is_met = self.found is not None and self.found.half_width <= enough
        return is_met or enough <= self.enough


def trim(cache: OrderedDict[K, V], most: int = _CACHE_SIZE) -> None:
    """Make room for one more entry of at most so many; the oldest goes."""
    while len(cache) >= most:
        cache.popitem(last=False)


def copied(store: Mapping[str, Sequence[V]]) -> dict[str, list[V]]:
    """The store with lists of its own."""
    return {key: list(found) for key, found in store.items()}
