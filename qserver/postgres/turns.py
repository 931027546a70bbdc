"""Turns of statements, so that costly ones hold up no others, and a bound on what each computes.

What is likely to take some milliseconds, such as a short answer that is kept, waits for nobody.
Else a statement has one of three lanes, by what statements of its connection took and by its
length, and one statement of each lane computes at a time: who came first, and of the costly ones
who is likely to take least. Connections of which nothing is known have a lane of their own, so that
a storm of new ones holds up none that is known to ask little.
"""

from __future__ import annotations

import contextlib
import ctypes
import heapq
import itertools
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from qserver.postgres.catalogue.child import MOST_SECONDS
from qserver.postgres.wire.faults import TOO_LATE, PostgresError
from qserver.postgres.wire.messages import GoneError
from qserver.query.sql.engine import run

_NOTHING_S: Final = 0.001
"""What is likely to take less waits for nobody. Not measured."""
_LITTLE_S: Final = 0.1
"""What is likely to take more is costly: the storm's bound. Not measured."""
_FIRST_S: Final = 0.05
"""As if statements before the first had taken this."""
_CHARACTER_S: Final = 25e-6
"""Reading one character of a statement: 36,000 took 0.9 s on one machine."""
_PATIENCE: Final = 200
"""A costly statement lets others go first for so many times what it is likely to take itself.
Not measured."""
LONG_TEXT: Final = round(_LITTLE_S / _CHARACTER_S)
"""More characters are costly whoever sends them."""
_OF_CLOCK: Final = 0.25
"""This share of its time by the clock it took, if no more: the engine is at work meanwhile."""
_LOOK_S: Final = 1.0
_WATCH_S: Final = 0.1
_MORE_S: Final = 0.5
_tell = ctypes.pythonapi.PyThreadState_SetAsyncExc


class Lane:
    """A bound on how many go on at once; the others wait, and the least number goes first."""

    def __init__(self, n_at_once: int = 1) -> None:
        self._free = n_at_once
        self._lock = threading.Lock()
        self._numbers = itertools.count()
        self._waiting: list[tuple[float, int, threading.Event]] = []

    def enter(self, number: float, is_gone: Callable[[], bool]) -> None:
        """Return when it is one's turn; GoneError where nobody waits for it any more."""
        mine = (number, next(self._numbers), threading.Event())
        with self._lock:
            if self._free:
                self._free -= 1
                return
            heapq.heappush(self._waiting, mine)
        while not mine[2].wait(_LOOK_S):
            if is_gone() and self._gives_up(mine):
                raise GoneError

    def leave(self) -> None:
        """Let the next one go on."""
        with self._lock:
            if self._waiting:
                heapq.heappop(self._waiting)[2].set()
            else:
                self._free += 1

    def _gives_up(self, mine: tuple[float, int, threading.Event]) -> bool:
        with self._lock:
            if mine[2].is_set():
                return False
            self._waiting.remove(mine)
            heapq.heapify(self._waiting)
        return True


@dataclass
class Use:
    """What the statements of one connection take.

    Args:
        is_gone: whether its client has gone.
        typical_s: what the next one is likely to take, in seconds; None before the first.
        lane: in which it has a turn; None for none.
        paused_s: how long it gave up its turns, in seconds.
    """

    is_gone: Callable[[], bool] = bool
    typical_s: float | None = None
    lane: Lane | None = None
    paused_s: float = 0.0

    def took(self, seconds: float) -> None:
        """Learn what one took."""
        before_s = _FIRST_S if self.typical_s is None else self.typical_s
        self.typical_s = (before_s + seconds) / 2


class Turns:
    """The lanes of one process.

    Attributes:
        first, short, costly: the lanes.
    """

    def __init__(self) -> None:
        self.first, self.short, self.costly = Lane(), Lane(), Lane()
        self._present = threading.local()

    @contextlib.contextmanager
    def of(self, use: Use, n_characters: int) -> Iterator[None]:
        """A turn of a connection, for a text so long; within a turn there is no other one."""
        typical_s = _NOTHING_S if use.typical_s is None else use.typical_s
        with self.likely(use, typical_s + n_characters * _CHARACTER_S):
            cpu, clock = time.thread_time(), time.monotonic() - use.paused_s
            try:
                yield
            finally:
                waited = time.monotonic() - use.paused_s - clock
                use.took(max(time.thread_time() - cpu, waited * _OF_CLOCK))

    @contextlib.contextmanager
    def likely(self, use: Use, seconds: float) -> Iterator[None]:
        """A turn of a connection, for what is likely to take so long."""
        if use.lane is not None or seconds < _NOTHING_S:
            yield
            return
        known = self.first if use.typical_s is None else self.short
        lane = self.costly if seconds > _LITTLE_S else known
        lane.enter(self._number(lane, seconds), use.is_gone)
        use.lane, self._present.use = lane, use
        try:
            yield
        finally:
            use.lane = self._present.use = None
            lane.leave()

    def _number(self, lane: Lane, seconds: float) -> float:
        """The place in a lane: who came first, and of the costly who is likely to take least."""
        return time.monotonic() + (seconds * _PATIENCE if lane is self.costly else 0.0)

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Who has a turn gives it up meanwhile."""
        use: Use | None = getattr(self._present, "use", None)
        if use is None or use.lane is None:
            yield
            return
        use.lane.leave()
        begun = time.monotonic()
        try:
            yield
        finally:
            use.paused_s += time.monotonic() - begun
            use.lane.enter(self._number(use.lane, use.typical_s or 0.0), bool)

    def sleep(self, seconds: float) -> None:
        """Sleep, without a turn."""
        with self.paused():
            time.sleep(seconds)


class _TooMuchError(PostgresError):
    """Raised in a thread from outside."""

    def __init__(self) -> None:
        super().__init__(
            TOO_LATE,
            f"The statement took more than {MOST_SECONDS:g} s of the processor.",
            hint="Ask its parts.",
        )


class Watch:
    """Ends threads that compute too long; `most_s` is in seconds of the processor.

    Only what shares nothing is watched, such as reading a text: it can stop wherever it is.
    """

    def __init__(self, most_s: float = MOST_SECONDS) -> None:
        self._most_s = most_s
        self._ends = dict[int, float]()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    @contextlib.contextmanager
    def computing(self) -> Iterator[None]:
        """Bound what this thread does within; PostgresError where it is too much."""
        own = threading.get_ident()
        with self._changed:
            self._ends[own] = time.thread_time() + self._most_s
            if self._thread is None:
                self._thread = threading.Thread(target=self._look, daemon=True)
                self._thread.start()
            self._changed.notify()
        try:
            yield
        finally:
            try:
                self._leave(own)
            except _TooMuchError:
                self._leave(own)
                raise

    def _leave(self, thread: int) -> None:
        with self._changed:
            self._ends.pop(thread, None)
            _tell(ctypes.c_ulong(thread), None)

    def _look(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._ends)
                for thread, end in self._ends.items():
                    used = time.clock_gettime(time.pthread_getcpuclockid(thread))
                    if used > end and not _waits_for_engine(thread):
                        # Again after some more: a destructor would have ignored it.
                        self._ends[thread] = used + _MORE_S
                        _tell(ctypes.c_ulong(thread), ctypes.py_object(_TooMuchError))
            time.sleep(_WATCH_S)


def _waits_for_engine(thread: int) -> bool:
    """Whether it has a process of the engine, which must be given back, and has a bound itself."""
    frame = sys._current_frames().get(thread)
    while frame is not None and frame.f_code.co_filename != run.__file__:
        frame = frame.f_back
    return frame is not None
