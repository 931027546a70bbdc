"""Turns of statements, so that costly ones hold up no others.

What is kept waits for nobody. Else a statement has one of three lanes, by what statements of its
connection took and by its length. Each lane has a process, where one statement computes at a time:
who came first, and of the costly ones who is likely to take least. Connections of which nothing is
known have a lane of their own, so that a storm of new ones holds up none that is known to ask
little. The processes of other lanes give way to that of short statements.
"""

from __future__ import annotations

import contextlib
import heapq
import itertools
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from qserver.postgres.calculating import Calculator
from qserver.postgres.wire.messages import GoneError

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


class Lane:
    """A bound on how many go on at once; the others wait, and the least number goes first.

    Attributes:
        process: which computes for those that have a turn; None where their threads do.
    """

    def __init__(self, n_at_once: int = 1, process: Calculator | None = None) -> None:
        self.process = process
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
    """The lanes of a port.

    Args:
        processes: of the lanes; none where the threads of connections compute.

    Attributes:
        first, short, costly: the lanes.
    """

    def __init__(self, processes: Sequence[Calculator] = ()) -> None:
        of = processes or (None, None, None)
        self.first, self.short, self.costly = (Lane(process=one) for one in of)
        self._present = threading.local()

    @contextlib.contextmanager
    def of(self, use: Use, n_characters: int) -> Iterator[Calculator | None]:
        """A turn of a connection, for a text so long; within a turn there is no other one.

        Gives the process that computes in this turn.
        """
        if use.lane is not None:
            yield use.lane.process
            return
        lane, seconds = self._lane(use, n_characters * _CHARACTER_S)
        lane.enter(self._number(lane, seconds), use.is_gone)
        use.lane, self._present.use = lane, use
        begun, clock = self._used_s(lane), time.monotonic() - use.paused_s
        try:
            yield lane.process
        finally:
            waited = time.monotonic() - use.paused_s - clock
            use.took(max(self._used_s(lane) - begun, waited * _OF_CLOCK))
            use.lane = self._present.use = None
            lane.leave()

    def _lane(self, use: Use, text_s: float) -> tuple[Lane, float]:
        """The lane of a connection, and what it is likely to take there."""
        seconds = (use.typical_s or 0.0) + text_s
        known = self.first if use.typical_s is None else self.short
        return self.costly if seconds > _LITTLE_S else known, seconds

    def _used_s(self, lane: Lane) -> float:
        """What the process of a lane took so far, and this thread."""
        return time.thread_time() + (lane.process.used_s if lane.process else 0.0)

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
