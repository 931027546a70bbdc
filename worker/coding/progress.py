"""How far a read is, for the owner's terminal: how many rows, how fast, and when it ends."""

from __future__ import annotations

import time
from collections.abc import Callable

from worker.constants import WORKER


class Progress:
    """Says now and then how many rows were read, and at the end how long it took.

    Args:
        n_rows: about how many rows there are; None where nobody knows.
        say: takes a line.
        clock: seconds since any moment.
    """

    def __init__(
        self,
        n_rows: int | None,
        *,
        say: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._n_rows, self._say, self._clock = n_rows, say, clock
        self._begun = self._said = clock()
        self._done = 0

    def add(self, n: int) -> None:
        """More rows were read."""
        self._done += n
        now = self._clock()
        if now - self._said < WORKER.progress_s:
            return
        self._said = now
        rate = self._done / (now - self._begun)
        line = f"read {self._done:,} rows, {rate:,.0f} a second"
        if self._n_rows is not None and self._n_rows > self._done:
            rest = (self._n_rows - self._done) / rate
            line = f"read {self._done:,} of about {self._n_rows:,} rows, {rate:,.0f} a second, "
            line += f"{_duration(rest)} to go"
        self._say(line)

    def end(self) -> None:
        """Everything was read."""
        took = self._clock() - self._begun
        if took >= WORKER.progress_s:
            rate = self._done / took
            self._say(f"read {self._done:,} rows in {_duration(took)}, {rate:,.0f} a second")


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"
