"""Waiting for a store that is away: said once on the terminal, and again when it is there."""

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
        stopping: set when the worker is asked to stop; looked at after each pause. Not waited for:
            a signal's handler must not set an event that its own thread waits for.
        say: takes one line for people.
        pause: sleeps for so many seconds.
    """

    where: str
    stopping: threading.Event
    say: Callable[[str], None]
    pause: Callable[[float], None] = time.sleep

    def until_found(
        self, open_store: Callable[[], T], *, passing: tuple[type[Exception], ...], found: str
    ) -> T | None:
        """What `open_store` returns once it raises no more; None when asked to stop before.

        Args:
            passing: the errors that may pass; any other is raised.
            found: what to say when the wait is over. Nothing is said where the first try succeeds.
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
