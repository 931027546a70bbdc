"""A worker whose store is away says so once, and once more when it is there."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from qserver.errors import JournalError, StoreBehindError, StoreUnavailableError
from worker import main_loop
from worker.journal.journal import JournalFullError
from worker.spending.loop import Waiting


class Clock:
    """Pauses that take no time; a request to stop comes during the last of `n_pauses`."""

    def __init__(self, *, n_pauses: int = 10**6) -> None:
        self.pauses: list[float] = []
        self.stopping = threading.Event()
        self._n_pauses = n_pauses

    def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        if len(self.pauses) == self._n_pauses:
            self.stopping.set()


def opening(*outcomes: Exception | str) -> Callable[[], str]:
    left = list(outcomes)

    def open_store() -> str:
        outcome = left.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    return open_store


AWAY = StoreUnavailableError("It is away.")


def waited(clock: Clock, *outcomes: Exception | str) -> tuple[object, list[str]]:
    said: list[str] = []
    waiting = Waiting("the store of S", clock.stopping, said.append, clock.pause)
    found = waiting.until_found(
        opening(*outcomes), passing=(StoreUnavailableError,), found="found it"
    )
    return found, said


@pytest.mark.parametrize("n_failures", [1, 2, 30])
def test_a_wait_is_said_once_and_its_end_once(n_failures: int) -> None:
    clock = Clock()
    found, said = waited(clock, *[AWAY] * n_failures, "store")
    assert (found, said) == ("store", ["waiting for the store of S: It is away.", "found it"])
    assert len(clock.pauses) == n_failures
    assert all(0 < pause <= 1 for pause in clock.pauses)


def test_nothing_is_said_where_nothing_is_waited_for() -> None:
    assert waited(Clock(), "store") == ("store", [])


def test_a_request_to_stop_ends_the_wait() -> None:
    found, said = waited(Clock(n_pauses=3), *[AWAY] * 3)
    assert (found, len(said)) == (None, 1)


def test_what_cannot_pass_is_raised() -> None:
    with pytest.raises(StoreBehindError):
        waited(Clock(), AWAY, StoreBehindError("It knows less."))


@pytest.mark.parametrize(
    ("number", "error"),
    [(errno.ENOSPC, JournalFullError), (errno.EACCES, JournalError), (errno.EROFS, JournalError)],
)
def test_a_worker_waits_for_room_and_for_nothing_else(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, number: int, error: type[Exception]
) -> None:
    def refuse(_folder: Path, *, n_bytes: int) -> bool:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(main_loop, "require_room", refuse)
    with pytest.raises(JournalError) as caught:
        main_loop._room_in(tmp_path)
    assert type(caught.value) is error
