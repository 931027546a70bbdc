"""Turns of statements, so that costly ones hold up no others.

A message is read and answered here, two at a time, as long as what it asks is kept: about a
millisecond. Else its statement has one of three lanes, by what statements of its
connection took and by its length. Each lane has a process, where one statement computes at a time.
Connections of which nothing is known have a lane of their own, so that a storm of new ones holds up
none that is known to ask little. The processes of other lanes give way to that of short statements.
Of these goes first who is likely to take least, and nobody waits for ever.
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

from qserver.postgres.statements.calculating import Calculator
from qserver.postgres.wire.messages import GoneError

_LITTLE_S: Final = 0.03
"""What is likely to take more is costly; a short one waits for one of these. Not measured."""
_FIRST_S: Final = 0.05
"""As if statements before the first had taken this."""
_CHARACTER_S: Final = 25e-6
"""Reading one character of a statement: 36,000 took 0.9 s on one machine."""
_PATIENCE: Final = 200
"""Each lets others go first for so many times what it is likely to take itself. Not measured."""
_WORDS: Final = 2
"""Messages at once: one may wait for the store."""
LONG_TEXT: Final = 2000
"""Others do not wait while more characters are cut into words."""
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
    """What one connection takes.

    Args:
        is_gone: whether its client has gone.
        typical_s: what its next statement is likely to take of a process, in seconds; None before
            the first.
        lane, number: in which it has a turn here, and its place there; None for none.
    """

    is_gone: Callable[[], bool] = bool
    typical_s: float | None = None
    lane: Lane | None = None
    number: float = 0.0

    def took(self, seconds: float) -> None:
        """Learn what a statement took."""
        before_s = _FIRST_S if self.typical_s is None else self.typical_s
        self.typical_s = (before_s + seconds) / 2


class Turns:
    """The lanes of a port.

    Args:
        processes: of the lanes of statements; none where the threads of connections compute.

    Attributes:
        words, texts: the lanes of messages, and of long ones.
        first, short, costly: the lanes of statements.
    """

    def __init__(
        self, processes: Sequence[Calculator] = (), clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._clock = clock
        of = processes or (None, None, None)
        self.first, self.short, self.costly = (Lane(process=one) for one in of)
        self.words, self.texts = Lane(_WORDS), Lane()
        self._present = threading.local()

    @contextlib.contextmanager
    def reading(self, use: Use, n_characters: int) -> Iterator[None]:
        """A turn of a connection here, for a message so long."""
        use.number = self._clock()
        lane = self.texts if n_characters > LONG_TEXT else self.words
        lane.enter(use.number, use.is_gone)
        use.lane, self._present.use = lane, use
        try:
            yield
        finally:
            use.lane = self._present.use = None
            lane.leave()

    @contextlib.contextmanager
    def of(self, use: Use, n_characters: int) -> Iterator[Calculator | None]:
        """A turn of a connection, for a statement so long; it gives up its turn here meanwhile.

        Gives the process that computes in this turn.
        """
        seconds = (use.typical_s or 0.0) + n_characters * _CHARACTER_S
        known = self.first if use.typical_s is None else self.short
        lane = self.costly if seconds > _LITTLE_S else known
        with self.paused():
            lane.enter(self._number(seconds), use.is_gone)
            begun, clock = _used_s(lane), time.monotonic()
            try:
                yield lane.process
            finally:
                waited = time.monotonic() - clock
                use.took(max(_used_s(lane) - begun, waited * _OF_CLOCK))
                lane.leave()

    def _number(self, seconds: float) -> float:
        """The place in a lane: who is likely to take least, and of these who came first."""
        return self._clock() + seconds * _PATIENCE

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Who has a turn here gives it up meanwhile."""
        use: Use | None = getattr(self._present, "use", None)
        if use is None or use.lane is None:
            yield
            return
        use.lane.leave()
        try:
            yield
        finally:
            use.lane.enter(use.number, bool)


def _used_s(lane: Lane) -> float:
    """What the process of a lane took so far, and this thread."""
    return time.thread_time() + (lane.process.used_s if lane.process else 0.0)
