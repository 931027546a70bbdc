"""`qserver-worker run`: load the attached data, find the store, and work until asked to stop."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable

from qserver.config import Settings
from qserver.errors import ConfigError, StoreUnavailableError
from worker.load import AttachedData
from worker.owner.witness import NO_WITNESS
from worker.private.registry import Registry
from worker.spending.loop import Loop, waiting_for
from worker.spending.presence import Presence


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
    attached = AttachedData(registry, log=log)
    loaded = attached.load()
    for name in loaded.refused:
        say(f"dataset {name} is refused: its file is missing, unreadable or was changed")
    if len(loaded.refused) == len(registry.entries()):
        return 1
    stopping = _stop_request()
    presence = Presence(registry.folder / "living")

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

    # Store and worker may start in any order; what is wrong with an address is said meanwhile.
    loop = waiting_for(settings, stopping=stopping, say=say).until_found(
        make, passing=(StoreUnavailableError,), found="found the store"
    )
    if loop is not None and not stopping.is_set():
        say(f"worker ready: {', '.join(sorted(registry.entries()))}")
        loop.run()
    presence.leave()
    say("worker stopped")
    return 0


def _stop_request() -> threading.Event:
    """An event that SIGTERM and SIGINT set."""
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    return stopping
