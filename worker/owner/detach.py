"""Detach: take a dataset off the list. Its charges, history and journal stay."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from qserver.config import Settings
from qserver.query.domain_file import domain_from_document
from qserver.records.dataset import DatasetMeta
from qserver.storage.spend import SpendingStore
from qserver.storage.store import Store
from worker.noise.randomness import SystemEntropy
from worker.private.registry import Registry, RegistryEntry
from worker.spending.spend import Spender, Trusted


def detach(name: str, *, settings: Settings, registry: Registry, log: logging.Logger) -> None:
    """Take a dataset off the list, and end the questions on it that wait.

    A worker that holds the population ends them; without one they are ended here, as none may
    come back for them.

    Raises:
        NotFoundError: there is none of this name.
        JournalError: the population's journal cannot be read; the dataset is off the list.
    """
    entry = registry.entry(name)
    store = SpendingStore.open(settings)
    store.detach(_meta(entry))
    registry.remove(name)
    _Waiting(entry, settings, registry, store, log).end()


def _meta(entry: RegistryEntry) -> DatasetMeta:
    return DatasetMeta(
        name=entry.name,
        population=entry.population,
        snapshot=entry.snapshot,
        domain=domain_from_document(entry.domain),
        relation="add-remove",
        records_per_person=entry.records_per_person,
        records_verified=False,
    )


@dataclass(frozen=True)
class _Waiting:
    """The open questions on a dataset that is gone."""

    entry: RegistryEntry
    settings: Settings
    registry: Registry
    store: SpendingStore
    log: logging.Logger

    def end(self) -> None:
        """Bring them to their end: what was charged by the journal, the others as not found."""
        population = self.entry.population
        waiting = [t for t in self.store.queue.waiting(population) if t.dataset == self.entry.name]
        lease = self.store.acquire(population) if waiting else None
        if lease is None:
            return
        try:
            spender = self._spender()
            spender.settle(lease)
            for taken in waiting:
                spender.work(lease, taken)
        finally:
            self.store.release(lease)

    def _spender(self) -> Spender:
        population = self.entry.population
        journal = self.registry.journal(population, create=False)
        return Spender(
            reader=Store.open(self.settings, role="worker-reader"),
            writer=self.store,
            trusted=Trusted({}, {population: journal}, SystemEntropy()),
            settings=self.settings,
            log=self.log,
        )
