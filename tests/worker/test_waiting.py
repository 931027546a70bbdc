"""A worker whose store is away says so once, and once more when it is there."""

from __future__ import annotations

import errno
import logging
import os
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from qserver.config import Settings
from qserver.errors import ConfigError, JournalError, StoreBehindError, StoreUnavailableError
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


class Growing:
    """A registry to which a dataset is attached after so many looks; 0 for never."""

    def __init__(self, n_looks: int) -> None:
        self.n_looks, self.seen = n_looks, 0

    def entries(self) -> dict[str, str]:
        self.seen += 1
        return {"people": "entry"} if 0 < self.n_looks < self.seen else {}


def ran(
    monkeypatch: pytest.MonkeyPatch, registry: Growing, *, waits: bool, clock: Clock
) -> tuple[int, list[str]]:
    """The exit status and what was said, of a worker whose work is done at once."""
    monkeypatch.setattr(main_loop, "_stop_request", lambda: clock.stopping)
    monkeypatch.setattr(main_loop, "_run_until_full", lambda *_, **__: 7)
    monkeypatch.setattr(main_loop, "Waiting", partial(Waiting, pause=clock.pause))
    said: list[str] = []
    log = logging.getLogger("test")
    settings = Settings(witness="w")
    given: Any = registry
    return main_loop.run(settings, registry=given, log=log, say=said.append, waits=waits), said


def test_a_worker_that_was_told_to_waits_for_the_first_dataset(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    status, said = ran(monkeypatch, Growing(3), waits=True, clock=Clock())
    assert status == 7
    assert said[0].startswith("waiting for a dataset: ")
    assert said[1:] == ["found a dataset"]


def test_a_worker_that_waits_for_a_dataset_can_be_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    status, said = ran(monkeypatch, Growing(0), waits=True, clock=Clock(n_pauses=3))
    assert (status, len(said)) == (0, 1)


def test_a_worker_that_was_not_told_to_wait_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="attach"):
        ran(monkeypatch, Growing(1), waits=False, clock=Clock())


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
