"""What the books say of a population, for `qserver-worker doctor`."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from qserver.config import Settings
from qserver.errors import QServerError
from qserver.records.charge import epsilon_text
from qserver.storage.spend import SpendingStore
from qserver.storage.store import Store
from worker.books.accountant import Finding
from worker.books.faults import BookFaultError
from worker.owner.checks.finding import WorkerFinding
from worker.owner.rebuild import Damage
from worker.private.registry import Registry
from worker.spending.bookkeeper import Bookkeeper


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
