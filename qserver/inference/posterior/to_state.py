"""A posterior that is still to be computed, apart from the history that it is of."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock

from qserver.inference.posterior.stated import Stated


class ToState:
    """A posterior that is computed when it is first wanted. Thread-safe.

    It has all that it needs of the history. So whoever locks the history makes this under the lock,
    and lets it be computed, which takes far longer, when the lock is free again.

    Args:
        found: the posterior, or what finds it; that is called once, unless it raises.
    """

    def __init__(self, found: Stated | Callable[[], Stated]) -> None:
        self._lock = Lock()
        self._found = found

    @property
    def is_found(self) -> bool:
        """Whether it is computed already."""
        return isinstance(self._found, Stated)

    def stated(self) -> Stated:
        """The posterior; another thread that wants the same one waits for it."""
        with self._lock:
            if not isinstance(self._found, Stated):
                # What it is made from is large, and is dropped here.
                self._found = self._found()
            return self._found
