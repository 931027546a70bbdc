"""The private data of a worker: their seals, opened at the start and when the registry changes."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from qserver.errors import PrivateDataError
from worker.journal.journal import Journal
from worker.noise.randomness import SystemEntropy
from worker.private.entry import (
    follow_parts,
    read_parts,
    seal_entry,
    sealed_table,
    sweep_parts,
    table_on_spark,
)
from worker.private.growing import GrowingTable
from worker.private.registry import Registry, RegistryEntry
from worker.private.tables import Tables
from worker.spending.spend import Trusted


@dataclass(frozen=True)
class Loaded:
    """The loaded data, and the datasets that were refused (changed or unreadable)."""

    trusted: Trusted
    refused: tuple[str, ...]


class AttachedData:
    """The attached data of a worker. The registry tells when a dataset was rotated.

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
        """Read the new datasets, and forget those that are not attached any more.

        Journals stay open, so that the open jobs of a population can be settled.
        """
        # The mark first: a change while files are read is then seen at the next call.
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
        """The attached data if the registry changed since it was read; else None."""
        if self._registry.mark() == self._mark:
            return None
        loaded = self.load()
        self._log.info("the registry changed: %s datasets are loaded", len(loaded.trusted.tables))
        return loaded.trusted

    def _followed(self, entry: RegistryEntry) -> Tables | None:
        """The table in memory, without records that were erased meanwhile; None for none."""
        found = self._tables.get(entry.snapshot)
        if isinstance(found, GrowingTable):
            try:
                follow_parts(found, entry.snapshot, self._journals[entry.population])
            except PrivateDataError:
                return None  # read anew, which says why it cannot be
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
