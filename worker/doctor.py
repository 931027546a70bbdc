"""What is wrong with this worker, if anything: data, journals, store. Private; for its owner."""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass

from qserver.config import Settings
from qserver.errors import QServerError
from qserver.storage.spending import SpendingStore
from qserver.storage.store import Store
from worker.attach import read_entry
from worker.registry import Entry, Registry
from worker.trail import Trail


@dataclass(frozen=True)
class Finding:
    """One check: whether it passed, and what to do if not."""

    check: str
    ok: bool
    text: str


def examine(registry: Registry, settings: Settings) -> list[Finding]:
    """Every check, in order; nothing is changed and nothing is spent."""
    findings = [_blas(), _store(settings)]
    for entry in registry.entries().values():
        findings += [_data(registry, entry), _journal(registry, entry, settings)]
    if len(findings) == 2:
        findings.append(Finding("datasets", ok=False, text="none is attached; run `attach`"))
    return findings


def _blas() -> Finding:
    threads = os.environ.get("OPENBLAS_NUM_THREADS", "")
    text = f"OPENBLAS_NUM_THREADS={threads or 'unset'}; 1 is fastest on small matrices"
    return Finding("BLAS threads", ok=threads == "1", text=text)


def _store(settings: Settings) -> Finding:
    try:
        SpendingStore.open(settings)
    except QServerError as exc:
        return Finding("store", ok=False, text=str(exc))
    return Finding("store", ok=True, text="reachable and durable")


def _data(registry: Registry, entry: Entry) -> Finding:
    check = f"data of {entry.name}"
    try:
        snapshot = read_entry(registry, entry)
    except QServerError as exc:
        return Finding(check, ok=False, text=str(exc))
    if not secrets.compare_digest(snapshot.fingerprint, entry.fingerprint):
        text = "the content is not what was attached; restore the file"
        return Finding(check, ok=False, text=text)
    return Finding(check, ok=True, text="readable and unchanged")


def _journal(registry: Registry, entry: Entry, settings: Settings) -> Finding:
    check = f"journal of {entry.population}"
    try:
        journal = registry.journal(entry.population, create=False)
        store = SpendingStore.open(settings)
        known, limit = store.ledger_version(entry.population), store.limit_nano(entry.population)
        reader = Store.open(settings, role="worker-doctor")
        Trail(entry.population).read(reader, anchor=journal.charges_digest)
    except QServerError as exc:
        return Finding(check, ok=False, text=str(exc))
    if known < journal.last_ledger_version:
        text = "the store knows less than the journal: it was lost or restored"
        return Finding(check, ok=False, text=text)
    if limit != journal.limit_nano:
        text = "the store's limit is not the journal's: a top-up ended half-way; run it again"
        return Finding(check, ok=False, text=text)
    return Finding(check, ok=True, text=f"{journal.n_records} records, store and charges agree")
