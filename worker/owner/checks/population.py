"""What the owner's commands check about a population before they change it, and how they do.

The journal comes first: nothing may be spent by a fact that it does not know, and a restored store
gets the fact again. If a command dies in between, the same command completes it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction

from qserver.config import Settings
from qserver.errors import ConfigError, StoreBehindError
from qserver.query.numbers import exact_number
from qserver.records.dataset import DatasetMeta
from qserver.storage.spend import SpendingStore
from qserver.storage.store import Store
from worker.journal.journal import Journal
from worker.private.registry import Registry

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}\Z")
MAX_LIMIT = 10**6


def check_name(field: str, value: str) -> None:
    """Raise ConfigError unless `value` may name a dataset or a population."""
    if not _NAME.match(value):
        raise ConfigError(field, "be 1 to 64 letters, digits, `_`, `.` or `-`", value)


def parse_limit(text: str) -> Fraction:
    """The typed limit, exactly.

    Raises:
        ConfigError: it is not a number.
    """
    return exact_number(text, "limit", ConfigError)


def check_store_remembers(store: SpendingStore, journal: Journal, population: str) -> None:
    """Raise StoreBehindError if the journal has charges that the store lacks."""
    if journal.state.ledger_version == 0:
        return
    known = store.has_ledger(population) and store.ledger_version(population)
    if known is False or known < journal.state.ledger_version:
        raise StoreBehindError(
            f"The journal of population {population} knows of charges that the store lacks. "
            "Restore the store, or use another population name for other people."
        )


@contextmanager
def changing(
    population: str, *, settings: Settings, registry: Registry
) -> Iterator[tuple[SpendingStore, Journal]]:
    """The store and the held journal of a population, for one change: journal first.

    Raises:
        JournalError: there is no journal of this population.
        StoreBehindError: the journal has charges that the store lacks.
    """
    journal = registry.journal(population, create=False)
    store = SpendingStore.open(settings)
    with journal.exclusive():
        check_store_remembers(store, journal, population)
        yield store, journal
        store.await_durable()


def snapshots_so_far(meta: DatasetMeta, journal: Journal, reader: Store) -> list[str]:
    """Every snapshot that a dataset has or had, by the journal and by the store.

    A journal that was begun anew lacks earlier ones; a store forgets those before a detachment.
    """
    known = (*journal.state.snapshots.get(meta.name, ()), *reader.frozen.ids(meta), meta.snapshot)
    return list(dict.fromkeys(known))
