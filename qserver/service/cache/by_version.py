"""What was computed once for one version of a dataset's history."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from threading import Lock
from typing import Generic, TypeVar

from qserver.inference.sought import trim

MOST_KNOWN = 4_096
"""A table of 1,000 numbers is among the known ones as a whole."""
_K = TypeVar("_K", bound=Hashable)
_V = TypeVar("_V")


@dataclass
class Computed(Generic[_K, _V]):
    """The last things that were computed, by key. Thread-safe: what two find at once is the same.

    A key names the version of the history.

    Args:
        most: how many are kept.
    """

    most: int = MOST_KNOWN
    lock: Lock = field(default_factory=Lock)
    known: OrderedDict[_K, _V] = field(default_factory=OrderedDict)

    def of(self, key: _K, compute: Callable[[], _V]) -> _V:
        """What is kept, or computed now."""
        with self.lock:
            if key in self.known:
                return self.known[key]
        found = compute()
        with self.lock:
            trim(self.known, self.most)
            self.known[key] = found
        return found
