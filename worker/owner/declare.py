"""Declare, after they were attached, that the files of two datasets have no person in common.

The journal comes first: a pair lowers what a person may have lost, so the store must never have one
that the journal lacks. If the command dies in between, the same command completes it.
"""

from __future__ import annotations

from dataclasses import dataclass

from qserver.config import Settings
from qserver.errors import ConfigError
from qserver.ledger.population import pair
from qserver.storage.spend import SpendingStore
from qserver.storage.store import Store
from worker.journal.journal import Journal
from worker.journal.owner_records import DeclaredDisjoint
from worker.owner.checks.population import check_name, check_store_remembers, snapshots_so_far
from worker.private.registry import Registry


@dataclass(frozen=True)
class Declared:
    """What was declared.

    Args:
        n_pairs: pairs of snapshots that have no person in common by the owner's word.
        n_new: those that were not declared before.
    """

    population: str
    n_pairs: int
    n_new: int


def declare_disjoint(
    population: str, one: str, other: str, *, settings: Settings, registry: Registry
) -> Declared:
    """Declare that nobody in any file of dataset `one` is in any file of dataset `other`.

    The files are those that the datasets have or had so far. If both are the same dataset, no
    person is in two of its files.

    Raises:
        ConfigError: a dataset was never attached under the population, or has one file only.
        JournalError: there is no journal of this population.
        StoreBehindError: the journal knows of spending that the store does not.
    """
    check_name("population", population)
    journal = registry.journal(population, create=False)
    store, reader = SpendingStore.open(settings), Store.open(settings, role="worker-reader")
    with journal.exclusive():
        check_store_remembers(store, journal, population)
        # An attach that died half-way, or was refused, has left a line in the journal.
        firsts, seconds = (
            [k for k in known if store.owner.knows_snapshot(population, k)]
            for known in (_known(name, population, journal, reader) for name in (one, other))
        )
        for field, name, found in (("dataset", one, firsts), ("other", other, seconds)):
            if not found:
                names = f"It has had: {', '.join(journal.state.snapshots) or 'none'}."
                raise ConfigError(field, "name a dataset of the population", name, hint=names)
        pairs = {pair(a, b) for a in firsts for b in seconds if a != b}
        if not pairs:
            raise ConfigError("other", "be another dataset: this one has had one file only", other)
        unknown = sorted(pairs - journal.state.declared)
        if unknown:
            journal.append(DeclaredDisjoint(tuple(unknown)))
        n_new = store.owner.declare_disjoint(population, sorted(pairs))
        store.await_durable()
    return Declared(population, len(pairs), n_new)


def _known(dataset: str, population: str, journal: Journal, reader: Store) -> list[str]:
    """The snapshots that the dataset has or had, be it attached now or not."""
    if reader.datasets().get(dataset) == population:
        return snapshots_so_far(reader.meta(dataset), journal, reader)
    return journal.state.snapshots.get(dataset, [])
