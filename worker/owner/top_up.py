"""Top-up: raise a population's limit, by its owner, on the trusted side.

The journal comes first: nothing may be spent up to a limit that it does not know. A crash between
the two leaves the store with the lower limit, and the same command finishes the raise.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from qserver.config import Settings
from qserver.errors import ConfigError, JournalError
from qserver.records.charge import NANO, epsilon_text
from qserver.storage.spend import SpendingStore
from worker.journal.owner_records import LimitRaised
from worker.owner.checks.population import MAX_LIMIT, check_name, check_store_remembers
from worker.private.registry import Registry


@dataclass(frozen=True)
class TopUp:
    """The limit before and after, in nano-epsilon."""

    population: str
    before_nano: int
    after_nano: int


def top_up(population: str, limit: Fraction, *, settings: Settings, registry: Registry) -> TopUp:
    """Raise a population's limit to `limit` epsilon, for ever.

    Raises:
        ConfigError: the limit is out of range, or no more than the present one.
        JournalError: there is no journal of this population.
        StoreBehindError: the journal has charges that the store lacks.
    """
    check_name("population", population)
    if not 0 < limit <= MAX_LIMIT:
        raise ConfigError("limit", "be more than 0 and at most 1e6 epsilon", str(limit))
    new = int(limit * NANO)
    journal = registry.journal(population, create=False)
    store = SpendingStore.open(settings)
    with journal.exclusive():
        check_store_remembers(store, journal, population)
        old = journal.state.limit_nano
        if old is None:
            raise JournalError("The journal has no limit yet. Attach a dataset first.")
        if new < old:
            raise ConfigError("limit", f"be more than {epsilon_text(old)} epsilon", str(limit))
        if new > old:
            journal.append(LimitRaised(old, new))
        raised = store.owner.raise_limit(population, limit_nano=new)
        store.await_durable()
    if not raised and new == old:
        raise ConfigError("limit", f"be more than {epsilon_text(old)} epsilon", str(limit))
    return TopUp(population, old, new)
