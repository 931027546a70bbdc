"""Turns of statements, so that costly ones delay no others.

A message is read and answered here, two at a time, as long as what it asks is kept: about a
millisecond. Else its statement has one of three lanes, by its length and by what statements of its
form took: those that differ in numbers and quoted texts alone. Each lane has a process, where one
statement computes at a time. Forms of which nothing is known have a lane of their own, so that a
storm of new ones holds up none that is known to take little. The processes of other lanes give way
to that of short statements. Of these goes first who is likely to take least, and nobody waits for
ever. A statement whose job is done goes on in its lane, where the process has read the history.
"""

from __future__ import annotations

import contextlib
import heapq
import itertools
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from qserver.postgres.catalogue.child import MOST_SECONDS
from qserver.postgres.statements.processes import Calculator
from qserver.postgres.wire.messages import GoneError
from qserver.service.cache.last_used import LastUsed

_LITTLE_S: Final = 0.05
"""What is likely to take more is costly; a short one waits for one of these."""
_LAST: Final = 8
"""Statements of a form by which the next one is judged: those that are kept take little."""
_FORMS: Final = 4096
_VALUES: Final = re.compile(r"\d+|'[^']*'")
_CHARACTER_S: Final = 25e-6
"""Reading one character of a statement: 36,000 took 0.9 s on one machine."""
_PATIENCE: Final = 200
"""Each lets others go first for so many times what it is likely to take itself. Not measured."""
_WORDS: Final = 2
"""Messages at once: one may wait for the store."""
LONG_TEXT: Final = 2000
"""Others do not wait while more characters are cut into words."""
_LOOK_S: Final = 1.0


class Lane:
    """A bound on running statements; others wait, and the least number goes first.

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
        """Return at one's turn; GoneError if the client left."""
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
        """Let the next one in."""
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
    """The turn that one connection has here.

    Args:
        is_gone: whether its client has gone.
        lane, number: in which it has a turn here, and its place there; None for none.
        began: the lane of statements in which it last had a turn.
        read_s: processor time of that turn that went into reading a history.
    """

    is_gone: Callable[[], bool] = bool
    lane: Lane | None = None
    number: float = 0.0
    began: Lane | None = None
    read_s: float = 0.0


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
        self._took = LastUsed[int, deque[float]](_FORMS)

    @contextlib.contextmanager
    def reading(self, use: Use, n_characters: int) -> Iterator[None]:
        """A turn of a connection here, for a message of this length."""
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
    def of(
        self, use: Use, text: str, method: str = "run", *, goes_on: bool = False
    ) -> Iterator[Calculator | None]:
        """A turn of a connection for a method and a text; the process that computes.

        It gives up its turn here meanwhile.

        Args:
            goes_on: whether it goes on with what it began: then its process knows the most of it.
        """
        form = hash((method, _VALUES.sub("0", text[:LONG_TEXT])))
        took = self._took.get(form, lambda: deque(maxlen=_LAST))
        # An outlier tells nothing: other programs may have had the processor.
        known_s = sorted(took)[-2:][0] if took else 0.0
        seconds = known_s + len(text) * _CHARACTER_S
        lane = self.costly if seconds > _LITTLE_S else self.short if took else self.first
        lane = use.began = (use.began if goes_on else None) or lane
        with self.paused():
            lane.enter(self._number(seconds), use.is_gone)
            begun, use.read_s = _used_s(lane), 0.0
            try:
                yield lane.process
            finally:
                spent = _used_s(lane) - begun - use.read_s
                took.append(spent if spent >= 0 else MOST_SECONDS)  # the process was ended
                lane.leave()

    def _number(self, seconds: float) -> float:
        """The place in a lane: first the likely quickest, of these the earliest."""
        return self._clock() + seconds * _PATIENCE

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Give up a turn here meanwhile."""
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
    """The processor time of a lane's process and of this thread so far."""
    return time.thread_time() + (lane.process.used_s if lane.process else 0.0)
