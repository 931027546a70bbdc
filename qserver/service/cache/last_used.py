"""Values made at first use, of which the last used are kept."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

_K = TypeVar("_K", bound=Hashable)
_V = TypeVar("_V")
MOST_KNOWN = 4_096
"""A table of 1,000 numbers is among the known ones as a whole."""


class LastUsed(Generic[_K, _V]):
    """At most `most` values by key; the least recently used leaves first. Thread-safe."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: OrderedDict[_K, _V] = OrderedDict()
        self._lock = threading.Lock()

    def find(self, key: _K) -> _V | None:
        """The value of a key, if kept."""
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
            return self._kept.get(key)

    def keep(self, key: _K, value: _V) -> None:
        """Keep a value, the first one of its key."""
        self.get(key, lambda: value)

    def drop(self, key: _K) -> None:
        """Forget a key."""
        with self._lock:
            self._kept.pop(key, None)

    def get(self, key: _K, make: Callable[[], _V]) -> _V:
        """The value of a key; made without a lock, so two threads may make it at once."""
        with self._lock:
            found = self._kept.get(key)
        if found is None:
            found = make()
        with self._lock:
            found = self._kept.setdefault(key, found)
            self._kept.move_to_end(key)
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)
        return found

    def items(self) -> list[tuple[_K, _V]]:
        """The keys and values, least recently used first."""
        with self._lock:
            return list(self._kept.items())
