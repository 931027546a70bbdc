"""Check this worker: data, journals, store. The findings are private, for its owner."""

from __future__ import annotations

import os

from qserver.config import Settings
from qserver.errors import QServerError
from qserver.storage.operation.powers import forbidden_powers
from qserver.storage.spend import SpendingStore
from qserver.storage.store import Store
from worker.constants import WORKER
from worker.owner.capacity import slot_finding
from worker.owner.checks.finding import WorkerFinding, books_finding, histories_finding
from worker.owner.witness import NO_WITNESS, look_at_witness
from worker.private.entry import check_spark, read_parts, sealed_table
from worker.private.registry import Registry, RegistryEntry
from worker.spending.trail import Trail


def examine(registry: Registry, settings: Settings) -> list[WorkerFinding]:
    """Run every check, in order; changes and spends nothing."""
    findings = [_blas(), _space(registry), _store(settings)]
    entries = registry.entries()
    findings.append(_user(settings))
    findings += [_data(registry, entry) for entry in entries.values()]
    findings += [slot_finding(entry, settings) for entry in entries.values()]
    populations = sorted({entry.population for entry in entries.values()})
    for population in populations:
        findings.append(_journal(registry, population, settings))
        if registry.has_journal(population):
            findings.append(books_finding(registry, population, settings))
            findings.append(histories_finding(registry, population, settings))
        findings.append(_witness(registry, population))
    if not entries:
        findings.append(WorkerFinding("datasets", ok=False, text="none is attached; run `attach`"))
    return findings


def _blas() -> WorkerFinding:
    threads = os.environ.get("OPENBLAS_NUM_THREADS", "")
    text = f"OPENBLAS_NUM_THREADS={threads or 'unset'}; 1 is fastest on small matrices"
    return WorkerFinding("BLAS threads", ok=threads == "1", text=text)


def _store(settings: Settings) -> WorkerFinding:
    try:
        SpendingStore.open(settings)
    except QServerError as exc:
        return WorkerFinding("store", ok=False, text=str(exc))
    return WorkerFinding("store", ok=True, text="reachable and durable")


def _user(settings: Settings) -> WorkerFinding:
    """Too many powers are no fault: an embedded store has one user, reached by its owner only."""
    check = "user of the store"
    try:
        powers = forbidden_powers(Store.open(settings, role="worker-doctor").client, role="worker")
    except QServerError as exc:
        return WorkerFinding(check, ok=False, text=str(exc))
    if not powers:
        return WorkerFinding(check, ok=True, text="may do no more than a worker needs")
    text = f"may also {', '.join(powers)}; deploy/redis-users.acl has a user without that"
    return WorkerFinding(check, ok=True, text=text)


def _data(registry: Registry, entry: RegistryEntry) -> WorkerFinding:
    check = f"data of {entry.name}"
    try:
        if entry.grows:
            read_parts(registry, entry, registry.journal(entry.population, create=False))
            return WorkerFinding(check, ok=True, text="every sealed part is there and unchanged")
        if entry.spark is not None:
            check_spark(registry, entry)
            return WorkerFinding(check, ok=True, text="the codes on Spark are unchanged")
        sealed_table(registry, entry)
    except QServerError as exc:
        mend = "put it back from a copy" if entry.sealed else "restore the file"
        if entry.spark is not None:
            mend = "bring Spark back, or put the codes back from a copy"
        return WorkerFinding(check, ok=False, text=f"{exc} {mend[0].upper()}{mend[1:]}.")
    if not entry.sealed:
        text = "the file is readable and unchanged; the next start of the worker seals it"
        return WorkerFinding(check, ok=True, text=text)
    return WorkerFinding(check, ok=True, text="the seal is readable and unchanged")


def _journal(registry: Registry, population: str, settings: Settings) -> WorkerFinding:
    check = f"journal of {population}"
    if not registry.has_journal(population):
        text = "it is missing; `qserver-worker restore` says what that means"
        return WorkerFinding(check, ok=False, text=text)
    try:
        journal = registry.journal(population, create=False)
        store = SpendingStore.open(settings)
        last, known = journal.state.last_reserved_job, store.ledger_version(population)
        knows_last = last is None or store.knows_reservation(population, last)
        if known < journal.state.ledger_version or not knows_last:
            text = "the store knows less: it was lost or restored. Run `qserver-worker restore`"
            return WorkerFinding(check, ok=False, text=text)
        reader = Store.open(settings, role="worker-doctor")
        Trail(population).read(reader, anchor=journal.state.charges_digest)
        limit = store.limit_nano(population)
    except QServerError as exc:
        return WorkerFinding(check, ok=False, text=str(exc))
    if limit != journal.state.limit_nano:
        text = "the store's limit is not the journal's: a top-up ended half-way; run it again"
        return WorkerFinding(check, ok=False, text=text)
    text = (
        f"{journal.n_records} records, {len(journal.state.open_jobs)} open; store and charges agree"
    )
    return WorkerFinding(check, ok=True, text=text)


def _witness(registry: Registry, population: str) -> WorkerFinding:
    """None is no fault, but its owner should know what cannot be noticed."""
    check = f"witness of {population}"
    try:
        journal = registry.journal(population, create=False)
        if journal.witness is None:
            return WorkerFinding(check, ok=True, text=NO_WITNESS)
        with journal.exclusive():
            found = look_at_witness(journal, journal.witness)
    except QServerError as exc:
        return WorkerFinding(check, ok=False, text=str(exc))
    return WorkerFinding(check, ok=found.ok, text=found.text)


def _space(registry: Registry) -> WorkerFinding:
    found = os.statvfs(registry.folder)
    megabytes = found.f_bavail * found.f_frsize >> 20
    text = f"{megabytes:,} MB are free; without room nothing can be journalled, so nothing is drawn"
    return WorkerFinding("disk", ok=megabytes >= WORKER.free_megabytes, text=text)
