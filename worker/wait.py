"""Wait for a store that is away, and say so once; say so again when it is back."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from worker.constants import WORKER

T = TypeVar("T")


@dataclass(frozen=True)
class Waiting:
    """How a worker waits.

    Args:
        where: the store, for people.
        stopping: set when the worker is asked to stop; looked at after each pause. Nobody waits
            for it: a signal handler must not set an event that the same thread waits for.
        say: takes one line for people.
        pause: sleeps for a number of seconds.
    """

    where: str
    stopping: threading.Event
    say: Callable[[str], None]
    pause: Callable[[float], None] = time.sleep

    def until_found(
        self, open_store: Callable[[], T], *, passing: tuple[type[Exception], ...], found: str
    ) -> T | None:
        """The result of `open_store` once it succeeds; None if asked to stop before.

        Args:
            passing: the errors that may pass; any other is raised.
            found: the line for the end of the wait; not said if the first try succeeds.
        """
        pause_s, waits = WORKER.first_pause_s, False
        while not self.stopping.is_set():
            try:
                opened = open_store()
            except passing as exc:
                if not waits:
                    self.say(f"waiting for {self.where}: {exc}")
                waits = True
                self.pause(pause_s)
                pause_s = min(2 * pause_s, WORKER.longest_pause_s)
            else:
                if waits:
                    self.say(found)
                return opened
        return None
