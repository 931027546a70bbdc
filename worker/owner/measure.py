"""Set what is measured for questions on a dataset that do not say: themselves only, or also tables.

The choice decides which purchases are made, never what a person may lose. The journal comes first,
so that a restored store gets the choice again.
"""

from __future__ import annotations

from dataclasses import dataclass

from qserver.config import Settings
from qserver.query.measure import Measure
from qserver.storage.spend import SpendingStore
from qserver.storage.store import Store
from worker.journal.owner_records import MeasureSet
from worker.owner.checks.population import check_store_remembers
from worker.private.registry import Registry


@dataclass(frozen=True)
class ChosenMeasure:
    """The choice for a dataset, before and after."""

    dataset: str
    before: Measure
    after: Measure


def set_measure(
    name: str, measure: Measure, *, settings: Settings, registry: Registry
) -> ChosenMeasure:
    """Choose for all questions on the dataset that do not say; those that wait stay as quoted.

    Raises:
        NotFoundError: there is no such dataset.
        JournalError: there is no journal of its population.
        StoreBehindError: the journal has charges that the store lacks.
        StaleVersionError: the dataset got another file meanwhile.
    """
    store, reader = SpendingStore.open(settings), Store.open(settings, role="worker-reader")
    meta = reader.meta(name)
    before = reader.stamp(meta).measure
    journal = registry.journal(meta.population, create=False)
    with journal.exclusive():
        check_store_remembers(store, journal, meta.population)
        if before != measure:
            journal.append(MeasureSet(meta.snapshot, measure))
        store.owner.set_measure(meta, measure)
        store.await_durable()
    return ChosenMeasure(name, before, measure)
