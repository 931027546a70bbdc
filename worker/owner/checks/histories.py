"""Whether the store's released answers are the journal's, for `qserver-worker doctor`."""

from __future__ import annotations

from qserver.config import Settings
from qserver.errors import QServerError
from qserver.storage.spend import SpendingStore
from worker.owner.checks.finding import WorkerFinding
from worker.private.registry import Registry
from worker.spending.histories import Histories


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
