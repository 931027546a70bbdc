"""The private data in memory: read when the worker starts, and again where the registry changes."""

from __future__ import annotations

import logging
import secrets
from dataclasses import dataclass

from qserver.errors import PrivateDataError
from worker.journal.journal import Journal
from worker.noise.randomness import SystemEntropy
from worker.owner.attach import read_entry
from worker.private.registry import Registry, RegistryEntry
from worker.private.tables import Tables
from worker.spending.spend import Trusted


@dataclass(frozen=True)
class Loaded:
    """What was loaded, and which datasets were refused (changed or unreadable data)."""

    trusted: Trusted
    refused: tuple[str, ...]


def load(registry: Registry, *, log: logging.Logger) -> Loaded:
    """Read every attached dataset and check that it is what was attached.

    A dataset whose file cannot be read, or whose content changed, is refused: questions on it
    fail with the constant public code before anything is charged.
    """
    return AttachedData(registry, log=log).load()


class AttachedData:
    """What is attached at a worker; a rotation is noticed by its registry.

    Args:
        log: the worker's own, private.
    """

    def __init__(self, registry: Registry, *, log: logging.Logger) -> None:
        self._registry = registry
        self._log = log
        self._tables: dict[str, Tables] = {}
        self._journals: dict[str, Journal] = {}
        self._mark: object = None

    def load(self) -> Loaded:
        """Read what was not read yet, and forget the data of what is not attached any more.

        Journals stay open: open jobs of a population are brought to their end.
        """
        # The mark first: what changes while files are read is seen the next time.
        self._mark = self._registry.mark()
        tables: dict[str, Tables] = {}
        refused: list[str] = []
        for entry in self._registry.entries().values():
            found = self._tables.get(entry.snapshot) or self._read(entry)
            if found is None:
                refused.append(entry.name)
            else:
                tables[entry.snapshot] = found
            if entry.population not in self._journals:
                journal = self._registry.journal(entry.population, create=False)
                self._journals[entry.population] = journal
        self._tables = tables
        trusted = Trusted(dict(tables), dict(self._journals), SystemEntropy())
        return Loaded(trusted, tuple(refused))

    def news(self) -> Trusted | None:
        """What is attached now, where the registry changed since it was read; else None."""
        if self._registry.mark() == self._mark:
            return None
        loaded = self.load()
        self._log.info("the registry changed: %s datasets are loaded", len(loaded.trusted.tables))
        return loaded.trusted

    def _read(self, entry: RegistryEntry) -> Tables | None:
        try:
            snapshot = read_entry(self._registry, entry)
        except PrivateDataError:
            self._log.exception("dataset %s cannot be read", entry.name)
            return None
        if not secrets.compare_digest(snapshot.fingerprint, entry.fingerprint):
            self._log.error("dataset %s: its content is not what was attached", entry.name)
            return None
        return snapshot.table
