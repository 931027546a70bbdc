"""Requests that wait for a job without holding a thread.

A server that can put a request aside gives it a `Visit`. Whoever would wait raises `Parked`; the
server runs the request again when the job ended, or when the time is over. The second run meets the
same questions and finds their jobs here, so nothing is asked twice.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TypeVar

from qserver.errors import BusyError

_R = TypeVar("_R")
HOLDING = "holding"
"""The lane of the few requests that cannot be run again, and hold their thread while they wait."""


@dataclass
class Visit:
    """One request, over all of its runs.

    Attributes:
        lane: the lane that it may run in; '' for that of short requests.
        jobs: digest of a question -> the job that finds its answer.
        read: what its text was read as, by name.
        is_over: whether it must not wait again.
    """

    lane: str = ""
    jobs: dict[str, str] = field(default_factory=dict)
    read: dict[str, object] = field(default_factory=dict)
    is_over: bool = False


class Parked(BaseException):
    """Ends the present run of a request. Not an error, so that no error handler takes it.

    Attributes:
        lane: where to run it again as soon as there is a place; '' if it waits for a job.
        job: the job that it waits for.
        wait_s: how long it would wait, in seconds.
        ended: says which of some jobs have ended.
    """

    def __init__(
        self,
        *,
        lane: str = "",
        job: str = "",
        wait_s: float = 0.0,
        ended: Callable[[Collection[str]], Collection[str]] = frozenset,
    ) -> None:
        super().__init__("a request was put aside")
        self.lane = lane
        self.job = job
        self.wait_s = wait_s
        self.ended = ended


_PRESENT: ContextVar[Visit | None] = ContextVar("visit", default=None)


def present_visit() -> Visit | None:
    """The visit of the present request; None where a thread waits."""
    return _PRESENT.get()


def hold_thread() -> None:
    """Run on; the thread may be held while a request waits.

    Raises:
        Parked: the request is run again there.
        BusyError: too many requests wait.
    """
    visit = present_visit()
    if visit is None or visit.lane == HOLDING:
        return
    if visit.is_over:
        raise BusyError("Too many requests wait. Try again.")
    raise Parked(lane=HOLDING)


def is_second_run() -> bool:
    """Whether an earlier run of the present request asked for its job."""
    visit = present_visit()
    return visit is not None and bool(visit.jobs)


def read_once(what: str, kind: type[_R], read: Callable[[], _R]) -> _R:
    """The reading of the present request's text, computed in its first run only.

    Args:
        what: names the text.
        kind: of what is read.
    """
    visit = present_visit()
    known = None if visit is None else visit.read.get(what)
    if isinstance(known, kind):
        return known
    found = read()
    if visit is not None:
        visit.read[what] = found
    return found


@contextlib.contextmanager
def visiting(visit: Visit | None) -> Iterator[None]:
    """Put the present request aside under this visit where it must wait; None holds its thread."""
    token = _PRESENT.set(visit)
    try:
        yield
    finally:
        _PRESENT.reset(token)
