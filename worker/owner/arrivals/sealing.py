"""Seal a part: file, journal, store. The journal's line decides.

A file without a line is deleted at the next start. A line that the store does not show yet is
followed by whoever holds the population next (worker/spending/group/seals.py).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from qserver.config import Settings
from qserver.errors import BusyError, ConfigError
from qserver.records.dataset import DatasetMeta
from qserver.storage.charging import Lease
from qserver.storage.spend import SpendingStore
from qserver.storage.store import Store
from worker.constants import WORKER
from worker.journal.journal import Journal
from worker.journal.owner_records import Retired, Sealed
from worker.owner.same_data import ask_for_other_people
from worker.private.content import Content
from worker.private.registry import Registry, RegistryEntry

if TYPE_CHECKING:
    from worker.spending.spend import Spender

_MINUTE_S = 60


def wait_for_minute(
    say: Callable[[str], None], pause: Callable[[float], None], clock: Callable[[], float]
) -> None:
    """Return at the next full minute.

    How long a file takes to read tells how many records it has; when a change is shown must not.
    """
    say("waiting for the next full minute, when the change is shown")
    pause(_MINUTE_S - clock() % _MINUTE_S)


def present_entry(name: str, settings: Settings, registry: Registry) -> RegistryEntry:
    """An attached dataset, with the snapshot that the store has decided on; NotFoundError.

    A rotation that died right after the store's decision left the registry with both.
    """
    if any(key.startswith(f"{name}/") for key in registry.entries()):
        meta = Store.open(settings, role="worker-reader").meta(name)
        registry.settle(name, snapshot=meta.snapshot)
    return registry.entry(name)


def growing_entry(name: str, settings: Settings, registry: Registry) -> RegistryEntry:
    """As `present_entry`; ConfigError where the data of the dataset do not grow."""
    entry = present_entry(name, settings, registry)
    if not entry.grows:
        raise ConfigError(
            "name",
            "be a dataset whose data arrive over time",
            hint="One is attached with --to. `rotate` puts another file in this one's place.",
        )
    return entry


@dataclass(frozen=True)
class Sealing:
    """What sealing needs beside the part.

    Args:
        other_people: the owner's word that nobody in the file is in another population that has
            the same data.
        say: takes what the owner should know, for the terminal only.
        pause: sleeps for a number of seconds.
        clock: Unix time in seconds.
    """

    settings: Settings
    registry: Registry
    journal: Journal
    log: logging.Logger
    say: Callable[[str], None]
    other_people: bool = False
    pause: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.time

    def wait_for_minute(self) -> None:
        """Return at the next full minute."""
        wait_for_minute(self.say, self.pause, self.clock)

    def seal(
        self, meta: DatasetMeta, record: Sealed | Retired | None, *, content: Content | None
    ) -> None:
        """Write a part's line, and move the store's mark; both durable when this returns.

        Args:
            record: None if the journal has the line already.
            content: what the file held, to be compared with other populations; None if that is
                done, or nothing new is in them.

        Raises:
            BusyError: a worker held the population all the time.
            ConfigError: another population has the same data.
            StoreError, JournalError: it is decided if the journal has the line.
        """
        # What settles jobs loads the planner: an attach without periods does without.
        from worker.spending.loop import Heartbeat

        writer = SpendingStore.open(self.settings)
        lease = self._acquire(writer, meta.population)
        try:
            with Heartbeat(self.settings, []) as heartbeat:
                heartbeat.hold(lease)
                spender = self._spender(writer, meta.population)
                # This also finishes an append that died after its line.
                spender.settle(lease)
                if record is not None:
                    self._write_down(meta, record, content)
                    spender.settle(lease)
        finally:
            writer.release(lease)

    def _write_down(
        self, meta: DatasetMeta, record: Sealed | Retired, content: Content | None
    ) -> None:
        if content is None or isinstance(record, Retired):
            with self.journal.exclusive():
                self.journal.append(record)
            return
        with self.registry.comparing():
            others = ask_for_other_people(
                content,
                population=meta.population,
                registry=self.registry,
                other_people=self.other_people,
                say=self.say,
            )
            details = content.details()
            if others:
                details["other_people_than"] = " ".join(others)
            with self.journal.exclusive():
                self.journal.append(replace(record, details=details))

    def _acquire(self, writer: SpendingStore, population: str) -> Lease:
        for _ in range(int(WORKER.owner_lease_wait_s / WORKER.owner_lease_pause_s)):
            lease = writer.acquire(population)
            if lease is not None:
                return lease
            self.pause(WORKER.owner_lease_pause_s)
        raise BusyError("A worker holds the population. Try again later.")

    def _spender(self, writer: SpendingStore, population: str) -> Spender:
        from worker.spending.spend import Spender

        return Spender.without_data(
            {population: self.journal},
            reader=Store.open(self.settings, role="worker-reader"),
            writer=writer,
            settings=self.settings,
            log=self.log,
        )
