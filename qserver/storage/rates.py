"""Request rates: buckets in the store, from which a process takes a few requests at a time."""

from __future__ import annotations

import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from qserver.errors import RateLimitedError, StoreNotDurableError
from qserver.storage.constants import STORE
from qserver.storage.keys import rate_key
from qserver.storage.server.connection import Scripts, StoreClient


@dataclass
class _Known:
    """The requests of one bucket that this process may let pass without asking the store.

    Args:
        own: requests that need no permission, as of `own_at`.
        held: requests that were taken from the store and not used, valid until `held_until`.
    """

    own: float
    own_at: float
    held: int = 0
    held_until: float = 0.0


class RateLimiter:
    """Counts requests by sender. Thread-safe; one per process.

    A process lets a tenth of the rate pass without the store. For more it takes the requests of a
    quarter of a second from the store, and keeps the unused ones for a second. So all processes
    together exceed the bound by at most a tenth of it for each process.

    Args:
        clock: seconds, monotonic.
    """

    def __init__(self, client: StoreClient, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._scripts = Scripts(client)
        self._clock = clock
        self._known: OrderedDict[str, _Known] = OrderedDict()
        self._lock = threading.Lock()

    def pass_one(self, whose: str, *, rate: int) -> None:
        """Count one request.

        Args:
            whose: names the bucket.
            rate: requests a second, 0 = no bound.

        Raises:
            RateLimitedError: there were too many.
            StoreError: the store does not answer.
        """
        if rate == 0 or self._passes_here(whose, rate):
            return
        batch = max(1, rate // STORE.rate_batches_per_s)
        try:
            granted, wait_ms = self._scripts.run(
                "take", keys=[rate_key(whose)], args=[rate, rate * STORE.burst_s, batch]
            )
        except StoreNotDurableError:
            # It answers and takes no writes: only this process's own part of the rate passes.
            granted, wait_ms = 0, 1000
        if not granted:
            raise RateLimitedError(retry_after_s=max(1, math.ceil(wait_ms / 1000)))
        with self._lock:
            known = self._of(whose, rate)
            known.held, known.held_until = int(granted) - 1, self._clock() + STORE.rate_hold_s

    def _passes_here(self, whose: str, rate: int) -> bool:
        with self._lock:
            known, now = self._of(whose, rate), self._clock()
            refilled = known.own + (now - known.own_at) * rate / STORE.own_rate_part
            known.own, known.own_at = min(refilled, max(1.0, rate / STORE.own_rate_part)), now
            if known.own >= 1:
                known.own -= 1
                return True
            if known.held >= 1 and now < known.held_until:
                known.held -= 1
                return True
            return False

    def _of(self, whose: str, rate: int) -> _Known:
        """The state of a bucket; a new one starts full. Call it with the lock held."""
        found = self._known.get(whose)
        if found is None:
            found = self._known[whose] = _Known(max(1.0, rate / STORE.own_rate_part), self._clock())
        self._known.move_to_end(whose)
        while len(self._known) > STORE.known_senders:
            self._known.popitem(last=False)
        return found
