"""One thread that looks after all jobs that requests of this process wait for."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from qserver.service.visits import Parked, Visit

_log = logging.getLogger("qserver.jobs")
_C = TypeVar("_C")
_LEAST_PAUSE_S = 0.002
# Pause over what a look cost: looks take a fortieth of a processor, however many jobs wait. Two
# processes that looked each 2 ms took as much of it as their questions did.
_PAUSE_PER_LOOK = 39.0
_LONGEST_PAUSE_S = 0.25


@dataclass
class _Waiting(Generic[_C]):
    """One request that was put aside."""

    who: _C
    visit: Visit
    parked: Parked
    deadline: float


class JobWatch(Generic[_C]):
    """Wakes those whose job ended, or whose time is over.

    Args:
        wake: called once for each, in the thread of the watch.
        spent: seconds of processor time that the calling thread has taken.
        sleep: waits for so many seconds.
    """

    def __init__(
        self,
        wake: Callable[[_C], None],
        *,
        spent: Callable[[], float] = time.thread_time,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._wake = wake
        self._spent = spent
        self._sleep = sleep
        self._new = threading.Condition()
        self._waiting: list[_Waiting[_C]] = []
        self._thread = threading.Thread(target=self._run, name="jobs", daemon=True)

    def start(self) -> None:
        """Begin to watch."""
        self._thread.start()

    def add(self, who: _C, visit: Visit, parked: Parked, *, now: float) -> None:
        """Watch a job from now on."""
        with self._new:
            self._waiting.append(_Waiting(who, visit, parked, now + parked.wait_s))
            self._new.notify()

    def _run(self) -> None:
        while True:
            with self._new:
                while not self._waiting:
                    self._new.wait()
                waiting = list(self._waiting)
            self._sleep(self._look(waiting))

    def _look(self, waiting: list[_Waiting[_C]]) -> float:
        """Wake whom it is time to wake; returns how long to pause, in seconds."""
        jobs, begun = {w.parked.job for w in waiting}, self._spent()
        try:
            ended = set(waiting[0].parked.ended(jobs))
            pause_s = max(_LEAST_PAUSE_S, (self._spent() - begun) * _PAUSE_PER_LOOK)
            pause_s = min(pause_s, _LONGEST_PAUSE_S)
        except Exception:  # noqa: BLE001 - the loop goes on, so that deadlines hold
            _log.exception("the jobs that requests wait for could not be read")
            ended, pause_s = set(), _LONGEST_PAUSE_S
        now = time.monotonic()
        woken = [w for w in waiting if w.parked.job in ended or now >= w.deadline]
        gone = set(map(id, woken))
        with self._new:
            self._waiting = [w for w in self._waiting if id(w) not in gone]
        for one in woken:
            one.visit.is_over = now >= one.deadline
            self._wake(one.who)
        return pause_s
