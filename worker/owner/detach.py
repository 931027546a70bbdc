"""Detach: take a dataset off the list. Its charges, history and journal stay."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from qserver.config import Settings
from qserver.storage.spend import SpendingStore
from qserver.storage.store import Store
from worker.private.registry import Registry, RegistryEntry
from worker.private.spark.place import SparkCodes
from worker.spending.spend import Spender


def _unsaid(_line: str) -> None:
    """For a detachment that nobody watches."""


def detach(
    name: str,
    *,
    settings: Settings,
    registry: Registry,
    log: logging.Logger,
    say: Callable[[str], None] = _unsaid,
) -> None:
    """Take a dataset off the list, and end the questions on it that wait.

    A worker that holds the population ends them. If there is none, they are ended here. The part
    files of data that arrived over time are deleted: they are copies of the owner's files.

    Raises:
        NotFoundError: there is none of this name.
        BusyError: an append is under way; the dataset is off the list, and its parts stay.
        JournalError: the population's journal cannot be read; the dataset is off the list.
    """
    entry = registry.entry(name)
    store = SpendingStore.open(settings)
    store.detach(name, population=entry.population, snapshot=entry.snapshot)
    registry.remove(name)
    if entry.grows:
        registry.parts(entry).remove()
    if entry.spark is not None:
        say(f"the codes stay in {SparkCodes.of_plain(entry.spark).path}: delete them")
    _Waiting(entry, settings, registry, store, log).end()


@dataclass(frozen=True)
class _Waiting:
    """The open questions on a detached dataset."""

    entry: RegistryEntry
    settings: Settings
    registry: Registry
    store: SpendingStore
    log: logging.Logger

    def end(self) -> None:
        """End those that were charged as the journal decides, and the others as not found."""
        population = self.entry.population
        waiting = [t for t in self.store.queue.waiting(population) if t.dataset == self.entry.name]
        lease = self.store.acquire(population) if waiting else None
        if lease is None:
            return
        try:
            spender = self._spender()
            spender.settle(lease)
            while waiting:
                waiting = spender.work(lease, waiting)
        finally:
            self.store.release(lease)

    def _spender(self) -> Spender:
        population = self.entry.population
        return Spender.without_data(
            {population: self.registry.journal(population, create=False)},
            reader=Store.open(self.settings, role="worker-reader"),
            writer=self.store,
            settings=self.settings,
            log=self.log,
        )
