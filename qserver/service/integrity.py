"""Whether the store's histories are as they were published: asked by the readiness of a process."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock

from qserver.errors import NotFoundError
from qserver.storage.histories import read_history
from qserver.storage.store import Store

CHECKED_S = 30.0
"""Seconds for which a whole history, found to be right, is not read again."""


class Integrity:
    """Checks whole histories, each once in a while. Thread-safe.

    A replica checks every event that it reads, once. Only here events are read again, so that a
    later change is noticed before a process that starts meets it.

    Args:
        clock: seconds, monotonic.
    """

    def __init__(self, store: Store, *, clock: Callable[[], float]) -> None:
        self._store = store
        self._clock = clock
        self._lock = Lock()
        self._right_at: dict[str, float] = {}

    def check(self) -> None:
        """Return if the history of every dataset is whole.

        Raises:
            StoreCorruptError: one was changed since it was published.
        """
        for name in sorted(self._store.datasets()):
            try:
                self._check(name)
            except NotFoundError:
                continue  # detached between the two readings

    def _check(self, name: str) -> None:
        meta, now = self._store.meta(name), self._clock()
        with self._lock:
            right_at = self._right_at.get(meta.snapshot)
        if right_at is not None and now - right_at < CHECKED_S:
            return
        read_history(self._store.client, meta)
        with self._lock:
            self._right_at[meta.snapshot] = now
