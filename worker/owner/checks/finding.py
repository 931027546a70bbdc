"""Findings of `qserver-worker doctor` that take the journal: what the books say, and histories.

The second tells whether the store's released answers are the journal's.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from qserver.config import Settings
from qserver.errors import QServerError
from qserver.records.charge import epsilon_text
from qserver.storage.spend import SpendingStore
from qserver.storage.store import Store
from worker.books.accountant import Finding
from worker.books.lines import BookFaultError
from worker.owner.rebuild import Damage
from worker.private.registry import Registry
from worker.spending.bookkeeper import Bookkeeper
from worker.spending.histories import Histories


@dataclass(frozen=True)
class WorkerFinding:
    """One check: whether it passed, and the advice if not."""

    check: str
    ok: bool
    text: str


def books_finding(registry: Registry, population: str, settings: Settings) -> WorkerFinding:
    """Whether store and journal agree, and what each snapshot's people have lost at most."""
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
    """What was charged for each snapshot, and what anybody has lost, in words."""
    return "; ".join(
        f"{one.dataset}: {epsilon_text(one.share)} epsilon charged, "
        + (one.text if one.loss is None else f"{epsilon_text(one.loss)} lost at most by anybody")
        for one in found
    )


def histories_finding(registry: Registry, population: str, settings: Settings) -> WorkerFinding:
    """Every event of every history, compared; it names the first that differs in each."""
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
