"""`qserver-worker run`: load the attached data, find the store, and work until asked to stop."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable
from pathlib import Path

from qserver.config import Settings
from qserver.errors import ConfigError, JournalError, StoreNotDurableError, StoreUnavailableError
from worker.constants import WORKER
from worker.journal.files import NO_ROOM, require_room
from worker.journal.journal import JournalFullError
from worker.load import AttachedData
from worker.owner.witness import NO_WITNESS
from worker.private.registry import Registry
from worker.spending.loop import Loop, waiting_for
from worker.spending.presence import Presence
from worker.wait import Waiting


def run(
    settings: Settings, *, registry: Registry, log: logging.Logger, say: Callable[[str], None]
) -> int:
    """Returns the exit status after SIGTERM or SIGINT; 1 if none of the data can be served.

    Raises:
        ConfigError: nothing is attached.
        StoreBehindError: the store knows less than a journal.
    """
    if not registry.entries():
        raise ConfigError("state", "hold an attached dataset", hint="Run `attach` first.")
    if not settings.witness:
        say(f"worker with {NO_WITNESS}")
    stopping = _stop_request()
    status: int | None = None
    while status is None:
        status = _run_until_full(settings, registry, stopping, log=log, say=say)
    return status


def _run_until_full(
    settings: Settings,
    registry: Registry,
    stopping: threading.Event,
    *,
    log: logging.Logger,
    say: Callable[[str], None],
) -> int | None:
    """As `run`; None once the journals' disk was full and has room again."""
    presence = Presence(registry.folder / "living")
    try:
        status = _work(settings, registry, stopping, presence=presence, log=log, say=say)
    except JournalFullError as exc:
        log.warning("nothing is charged: %s", exc)
        presence.fall()
        return _wait_for_room(registry.journals, stopping, say)
    presence.leave()
    return status


def _wait_for_room(
    folder: Path, stopping: threading.Event, say: Callable[[str], None]
) -> int | None:
    """None once there is room; 0 if asked to stop before."""
    found = Waiting(f"room on the disk of {folder}", stopping, say).until_found(
        lambda: _room_in(folder),
        passing=(JournalFullError,),
        found="found room again",
    )
    return None if found else 0


def _room_in(folder: Path) -> bool:
    """True if a journal can grow there.

    Raises:
        JournalFullError: the disk is full.
        JournalError: another fault, which no waiting mends.
    """
    try:
        return require_room(folder, n_bytes=WORKER.journal_free_bytes)
    except OSError as exc:
        if exc.errno in NO_ROOM:
            raise JournalFullError(f"The disk of {folder} is full.") from exc
        raise JournalError(f"Nothing can be written to {folder}: {exc.strerror}.") from exc


def _work(
    settings: Settings,
    registry: Registry,
    stopping: threading.Event,
    *,
    presence: Presence,
    log: logging.Logger,
    say: Callable[[str], None],
) -> int:
    """As `run`; JournalFullError if a journal has no room."""
    attached = AttachedData(registry, log=log)
    loaded = attached.load()
    for name in loaded.refused:
        say(f"dataset {name} is refused: its file is missing, unreadable or was changed")
    if len(loaded.refused) == len(registry.entries()):
        return 1

    def make() -> Loop:
        return Loop(
            settings=settings,
            trusted=loaded.trusted,
            log=log,
            news=attached.news,
            stopping=stopping,
            say=say,
            presence=presence,
        )

    # Store and worker may start in any order; what is wrong with a store is said meanwhile.
    loop = waiting_for(settings, stopping=stopping, say=say).until_found(
        make, passing=(StoreUnavailableError, StoreNotDurableError), found="found the store"
    )
    if loop is not None and not stopping.is_set():
        loop.appear()
        say(f"worker ready: {', '.join(sorted(registry.entries()))}")
        loop.run()
    say("worker stopped")
    return 0


def _stop_request() -> threading.Event:
    """An event that SIGTERM and SIGINT set."""
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    return stopping
