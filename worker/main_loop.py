"""`qserver-worker run`: load the attached data, find the store, and work until asked to stop."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from qserver.config import Settings
from qserver.errors import (
    ConfigError,
    JournalError,
    PrivateDataError,
    StoreNotDurableError,
    StoreUnavailableError,
)
from worker.constants import WORKER
from worker.journal.append_only_files import NO_ROOM, require_room
from worker.journal.journal import CLOSED, Journal, JournalFullError
from worker.noise.randomness import SystemEntropy
from worker.owner.witness import NO_WITNESS
from worker.private.present_content import (
    GrowingTable,
    follow_parts,
    read_parts,
    seal_entry,
    sealed_table,
    sweep_parts,
    table_on_spark,
)
from worker.private.record_tables import Tables
from worker.private.registry import Registry, RegistryEntry
from worker.spending.loop import Loop, Waiting, waiting_for
from worker.spending.presence import Presence
from worker.spending.spend import Trusted


@dataclass(frozen=True)
class Loaded:
    """The loaded data, and the datasets that were refused (changed or unreadable)."""

    trusted: Trusted
    refused: tuple[str, ...]


class AttachedData:
    """The attached data of a worker. The registry tells when a dataset is rotated.

    A dataset is refused if its seal cannot be read, or is not what was attached. Questions on it
    then fail with the constant public code before anything is charged. What an earlier version
    attached is sealed first, from its file.

    Args:
        log: the worker's private log.
    """

    def __init__(self, registry: Registry, *, log: logging.Logger) -> None:
        self._registry = registry
        self._log = log
        self._tables: dict[str, Tables] = {}
        self._journals: dict[str, Journal] = {}
        self._mark: object = None

    def load(self) -> Loaded:
        """Read new datasets, and forget detached ones.

        Journals stay open, so that the open jobs of a population can be settled.
        """
        # The mark first: the next call then sees a change made during this reading.
        self._mark = self._registry.mark()
        tables: dict[str, Tables] = {}
        refused: list[str] = []
        for entry in self._registry.entries().values():
            if entry.population not in self._journals:
                journal = self._registry.journal(entry.population, create=False)
                self._journals[entry.population] = journal
            found = self._followed(entry) or self._read(entry)
            if found is None:
                refused.append(entry.name)
            else:
                tables[entry.snapshot] = found
        self._registry.sweep_parts()
        self._tables = tables
        trusted = Trusted(
            dict(tables),
            dict(self._journals),
            SystemEntropy(),
            self._registry.checkpoints(),
            self._registry.plans(),
        )
        return Loaded(trusted, tuple(refused))

    def news(self) -> Trusted | None:
        """The attached data if the registry changed since its last reading; else None."""
        if self._registry.mark() == self._mark:
            return None
        loaded = self.load()
        self._log.info("the registry changed: %s datasets are loaded", len(loaded.trusted.tables))
        return loaded.trusted

    def _followed(self, entry: RegistryEntry) -> Tables | None:
        """The table in memory, without records erased meanwhile; None for none."""
        found = self._tables.get(entry.snapshot)
        if isinstance(found, GrowingTable):
            try:
                follow_parts(found, entry.snapshot, self._journals[entry.population])
            except PrivateDataError:
                return None  # read again, which tells why it cannot be
        return found

    def _read(self, entry: RegistryEntry) -> Tables | None:
        try:
            if entry.grows:
                journal = self._journals[entry.population]
                sweep_parts(self._registry, entry, journal)
                return read_parts(self._registry, entry, journal)
            if not entry.sealed:
                seal_entry(self._registry, entry)
                entry = self._registry.by_snapshot(entry)
            return table_on_spark(entry) or sealed_table(self._registry, entry)
        except PrivateDataError:
            self._log.exception("dataset %s cannot be read", entry.name)
            return None


def run(
    settings: Settings,
    *,
    registry: Registry,
    log: logging.Logger,
    say: Callable[[str], None],
    waits: bool = False,
) -> int:
    """Returns the exit status after SIGTERM or SIGINT; 1 if no data can be served.

    Args:
        waits: for the first dataset, where none is attached yet.

    Raises:
        ConfigError: nothing is attached.
        StoreBehindError: the store knows less than a journal.
    """
    stopping = _stop_request()
    if waits:
        Waiting("a dataset", stopping, say).until_found(
            lambda: _require_entries(registry), passing=(ConfigError,), found="found a dataset"
        )
        if stopping.is_set():
            return 0
    _require_entries(registry)
    if not settings.witness:
        say(f"worker with {NO_WITNESS}")
    status: int | None = None
    while status is None:
        status = _run_until_full(settings, registry, stopping, log=log, say=say)
    return status


def _require_entries(registry: Registry) -> None:
    if not registry.entries():
        raise ConfigError("state", "hold an attached dataset", hint="Run `attach` first.")


def _run_until_full(
    settings: Settings,
    registry: Registry,
    stopping: threading.Event,
    *,
    log: logging.Logger,
    say: Callable[[str], None],
) -> int | None:
    """As `run`; None once the journals' full disk has room again."""
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
    """None once there is room; 0 if asked to stop first."""
    found = Waiting(f"room on the disk of {folder}", stopping, say).until_found(
        lambda: _room_in(folder),
        passing=(JournalFullError,),
        found="found room again",
    )
    return None if found else 0


def _room_in(folder: Path) -> bool:
    """True if a journal can grow in this folder.

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
    for name, journal in loaded.trusted.journals.items():
        if journal.state.closed:
            say(f"population {name}: {CLOSED}")
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
