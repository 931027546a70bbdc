"""The checks of a population: before a command changes it, and by the doctor and the audit.

The journal comes first: nothing may be spent by a fact that it does not know, and a restored store
gets the fact again. If a command dies in between, the same command completes it.

Findings of `qserver-worker doctor` that take the journal: what the books say, and histories.

The second tells whether the store's released answers are the journal's.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from qserver.config import Settings
from qserver.errors import BusyError, ConfigError, QServerError, StoreBehindError
from qserver.query.exact_numbers import exact_number
from qserver.records.charge import epsilon_text
from qserver.records.dataset import DatasetMeta
from qserver.storage.charging import Lease
from qserver.storage.spend import SpendingStore
from qserver.storage.store import Store
from worker.books.accountant import Finding
from worker.books.journal_lines import BookFaultError
from worker.constants import WORKER
from worker.journal.journal import Journal
from worker.owner.store_damage import Damage
from worker.private.registry import Registry
from worker.spending.bookkeeper import Bookkeeper
from worker.spending.histories import Histories

if TYPE_CHECKING:
    from worker.spending.spend import Spender

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}\Z")
MAX_LIMIT = 10**6


def check_name(field: str, value: str) -> None:
    """Raise ConfigError unless `value` may name a dataset or a population."""
    if not _NAME.match(value):
        raise ConfigError(field, "be 1 to 64 letters, digits, `_`, `.` or `-`", value)


def parse_limit(text: str) -> Fraction:
    """The typed limit, exactly; ConfigError if it is not a number."""
    return exact_number(text, "limit", ConfigError)


def parse_delta(text: str | None) -> Fraction | None:
    """The typed delta, exactly; None without one.

    Raises:
        ConfigError: it is not a number.
    """
    try:
        return None if text is None else Fraction(text)
    except (ValueError, ZeroDivisionError):
        raise ConfigError("delta", "be a number such as 1e-9", text) from None


def check_store_remembers(store: SpendingStore, journal: Journal, population: str) -> None:
    """Raise StoreBehindError if the store lacks charges of the journal."""
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


@contextmanager
def holding(
    population: str,
    journal: Journal,
    *,
    reader: Store,
    writer: SpendingStore,
    settings: Settings,
    log: logging.Logger,
    pause: Callable[[float], None],
) -> Iterator[tuple[Lease, Spender]]:
    """The population's lease, kept alive, and a way to end its charged jobs.

    Raises:
        BusyError: a worker held the population all the time.
    """
    # Settling jobs loads the planner: an attach without periods does without.
    from worker.spending.loop import Heartbeat
    from worker.spending.spend import Spender

    lease = _acquire(writer, population, pause)
    try:
        with Heartbeat(settings, []) as heartbeat:
            heartbeat.hold(lease)
            yield (
                lease,
                Spender.without_data(
                    {population: journal}, reader=reader, writer=writer, settings=settings, log=log
                ),
            )
    finally:
        writer.release(lease)


def _acquire(writer: SpendingStore, population: str, pause: Callable[[float], None]) -> Lease:
    for _ in range(int(WORKER.owner_lease_wait_s / WORKER.owner_lease_pause_s)):
        lease = writer.acquire(population)
        if lease is not None:
            return lease
        pause(WORKER.owner_lease_pause_s)
    raise BusyError("A worker holds the population. Try again later.")


def snapshots_so_far(meta: DatasetMeta, journal: Journal, reader: Store) -> list[str]:
    """Every snapshot that a dataset has or had, by journal and store.

    A journal that was begun anew lacks earlier ones; a store forgets those before a detachment.
    """
    known = (*journal.state.snapshots.get(meta.name, ()), *reader.frozen.ids(meta), meta.snapshot)
    return list(dict.fromkeys(known))


@dataclass(frozen=True)
class WorkerFinding:
    """One check: whether it passed, and the advice if not."""

    check: str
    ok: bool
    text: str


def books_finding(registry: Registry, population: str, settings: Settings) -> WorkerFinding:
    """Whether store and journal agree, and the most that each snapshot's people lost."""
    check = f"books of {population}"
    try:
        reader, writer = Store.open(settings, role="worker-doctor"), SpendingStore.open(settings)
        journal = registry.journal(population, create=False)
        keeper = Bookkeeper(reader, {population: journal}, logging.getLogger(__name__))
        faults = Damage(population, reader=reader, writer=writer, journal=journal).found(registry)
        found = keeper.examine(population)
    except (QServerError, BookFaultError) as exc:
        return WorkerFinding(check, ok=False, text=str(exc))
    faults += [f"{one.dataset}: {one.text}" for one in found if not one.ok]
    if faults:
        text = "nothing is measured until this is mended: " + "; ".join(faults)
        return WorkerFinding(check, ok=False, text=text)
    return WorkerFinding(check, ok=True, text=losses_text(found))


def losses_text(found: Sequence[Finding]) -> str:
    """The charge of each snapshot, and people's losses, in words."""
    return "; ".join(
        f"{one.dataset}: {epsilon_text(one.share)} {one.unit} charged, "
        + (one.text if one.loss is None else f"{epsilon_text(one.loss)} lost at most by anybody")
        for one in found
    )


def histories_finding(registry: Registry, population: str, settings: Settings) -> WorkerFinding:
    """A comparison of every event of every history; it names the first difference in each."""
    check = f"released answers of {population}"
    try:
        journal = registry.journal(population, create=False)
        store = SpendingStore.open(settings)
        faults = Histories(store, {population: journal}).differences(population)
        heads = store.heads(population)
    except QServerError as exc:
        return WorkerFinding(check, ok=False, text=str(exc))
    if faults:
        text = "; ".join(faults) + ". Run `qserver-worker restore`"
        return WorkerFinding(check, ok=False, text=text)
    unlinked = sorted(snapshot for snapshot, head in heads.items() if head is None)
    if unlinked:
        text = f"as released; {', '.join(unlinked)} of an earlier version get a chain at a start"
        return WorkerFinding(check, ok=True, text=text)
    return WorkerFinding(check, ok=True, text="as released, event by event")
