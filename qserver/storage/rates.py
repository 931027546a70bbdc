"""Rates of requests: buckets in the store, of which a process takes a few requests at a time."""

from __future__ import annotations

import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from qserver.errors import RateLimitedError
from qserver.storage.connection import Scripts, StoreClient
from qserver.storage.keys import rate_key

BURST_S = 4
"""A bucket holds what its rate gives in so many seconds."""
_HOLD_S = 1.0
_MAX_HELD = 10_000


@dataclass
class _Held:
    """Requests that this process has taken and not used, until a moment of its clock."""

    n: int
    until: float


class RateLimiter:
    """Counts requests by whose they are. Thread-safe; one per process.

    A process takes up to a tenth of a second's requests at once and keeps what it does not use
    for a second, so that most requests cost no round trip. The bound holds over all processes.

    Args:
        clock: seconds, monotonic.
    """

    def __init__(self, client: StoreClient, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._scripts = Scripts(client)
        self._clock = clock
        self._held: OrderedDict[str, _Held] = OrderedDict()
        self._lock = threading.Lock()

    def pass_one(self, whose: str, *, rate: int) -> None:
        """Count one request.

        Args:
            whose: names the bucket.
            rate: requests a second, 0 = without a bound.

        Raises:
            RateLimitedError: there were too many.
            StoreError: the store does not answer.
        """
        if rate == 0 or self._use_held(whose):
            return
        batch = max(1, rate // 10)
        granted, wait_ms = self._scripts.run(
            "take", keys=[rate_key(whose)], args=[rate, rate * BURST_S, batch]
        )
        if not granted:
            raise RateLimitedError(retry_after_s=max(1, math.ceil(wait_ms / 1000)))
        self._hold(whose, int(granted) - 1)

    def _use_held(self, whose: str) -> bool:
        with self._lock:
            held = self._held.get(whose)
            if held is None or held.n < 1 or held.until < self._clock():
                return False
            held.n -= 1
            return True

    def _hold(self, whose: str, n: int) -> None:
        with self._lock:
            self._held[whose] = _Held(n, self._clock() + _HOLD_S)
            self._held.move_to_end(whose)
            while len(self._held) > _MAX_HELD:
                self._held.popitem(last=False)
