"""The owner's checks: this worker, and an audit log against the journals and the books.

`qserver audit verify` checks what a log says of itself. Here the journals say whether it is the log
of what was charged, and the accountant says what every person has lost, by code that shares nothing
with the ledger.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

from qserver.config import Settings
from qserver.errors import QServerError, StoreCorruptError
from qserver.records.charge import epsilon_text
from qserver.records.digest_links import GENESIS, digest_of
from qserver.storage.audit import LedgerFacts
from qserver.storage.audit_check import AuditCheck, AuditExport, check_export
from qserver.storage.population_facts import forbidden_powers
from qserver.storage.spend import SpendingStore
from qserver.storage.store import Store
from worker.books.accountant import Accountant
from worker.books.journal_lines import BookFaultError, UnknownFactsError
from worker.constants import WORKER
from worker.journal.journal import CLOSED, Journal
from worker.journal.records import Adopted, Reserved
from worker.owner.checks.capacity import slot_finding
from worker.owner.checks.population import (
    WorkerFinding,
    books_finding,
    histories_finding,
    losses_text,
)
from worker.owner.witness import NO_WITNESS, look_at_witness
from worker.private.present_content import check_spark, read_parts, sealed_table
from worker.private.registry import Registry, RegistryEntry
from worker.spending.trail import Trail


def audit(registry: Registry, settings: Settings, *, file: Path | None = None) -> list[AuditCheck]:
    """Every check of a log, and of the journals of all its populations; changes nothing.

    Args:
        file: a log that was exported, perhaps long ago; None for the store's, which must have all.

    Raises:
        ConfigError, StoreError: the log cannot be read.
    """
    if file is not None:
        export = AuditExport.of_file(file)
    else:
        export = AuditExport.read(Store.open(settings, role="worker-doctor").audit)
    checks = check_export(export)
    names = registry.populations()
    for facts in export.ledgers:
        if facts.population not in names:
            text = "it is not here: nothing tells whether this log has every charge"
            checks.append(AuditCheck(f"journal of {facts.population}", ok=False, text=text))
    ledgers = {facts.population: facts for facts in export.ledgers}
    for name in names:
        try:
            journal = registry.journal(name, create=False)
            n_since = _n_charged_since(journal, export.charges.get(name, ()))
        except QServerError as exc:
            checks.append(AuditCheck(f"journal of {name}", ok=False, text=str(exc)))
            continue
        checks.append(_of_charges(name, n_since, may_be_older=file is not None))
        # A log of an earlier export has earlier figures.
        checks.append(_of_books(journal, name, None if n_since else ledgers.get(name)))
    return checks


def _of_charges(name: str, n_since: int, *, may_be_older: bool) -> AuditCheck:
    text = "the charges are those of the journal"
    if n_since:
        text += f", which has {n_since} more jobs"
    return AuditCheck(f"journal of {name}", ok=may_be_older or not n_since, text=text)


def _n_charged_since(journal: Journal, charges: Sequence[str]) -> int:
    """The number of jobs that the journal charged after the log's last charge.

    The entries of a log name one another, so the last one stands for all of them. A worker that
    was killed between store and journal left charges of jobs that are burnt since; they come last
    until the next charge.

    Raises:
        StoreCorruptError: the log's last charge is not one that the journal has.
    """
    with journal.exclusive():
        ends = [GENESIS]
        for record in journal.records():
            if isinstance(record, Reserved) and record.charges_digest:
                ends.append(record.charges_digest)
            elif isinstance(record, Adopted):
                ends[-1] = ""  # Earlier charges are not in this journal.
        unwritten = journal.state.burnt - journal.state.reserved.keys()
    known = list(charges)
    while known and json.loads(known[-1]).get("job") in unwritten:
        known.pop()
    last = digest_of(known[-1]) if known else GENESIS
    if last not in ends and ends != [""]:
        raise StoreCorruptError("The log's last charge is not one that the journal has.")
    return len(ends) - 1 - (ends.index(last) if last in ends else 0)


def _of_books(journal: Journal, name: str, facts: LedgerFacts | None) -> AuditCheck:
    """People's losses by the journal alone, and whether the ledger states no less."""
    subject, accountant = f"books of {name}", Accountant(journal.path, proves=True)
    try:
        found = accountant.examine()
        spent = accountant.spent()
    except BookFaultError as exc:
        return AuditCheck(subject, ok=False, text=str(exc))
    except UnknownFactsError as exc:
        return AuditCheck(subject, ok=True, text=f"not verified: {exc}")
    unit = next((one.unit for one in found), "epsilon")
    faults = [f"{one.dataset}: {one.text}" for one in found if not one.ok]
    if spent > accountant.limit:
        faults.append(f"somebody may have lost {epsilon_text(spent)} {unit}, above the limit")
    if facts is not None:
        shares = facts.spent_by_snapshot
        less = [one.dataset for one in found if shares.get(one.snapshot, 0) < one.share]
        faults += [f"the ledger says less of {name} than was charged" for name in less]
        if facts.spent_nano < spent or facts.limit_nano > accountant.limit:
            faults.append("the ledger's sum, or its limit, is not the journal's")
    if faults:
        return AuditCheck(subject, ok=False, text="; ".join(faults))
    most = f"at most {epsilon_text(spent)} of {epsilon_text(accountant.limit)} {unit} in all; "
    return AuditCheck(subject, ok=True, text=most + losses_text(found))


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
    """Excess powers are no fault: an embedded store has one user, reached by its owner only."""
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
    if journal.state.closed:
        return WorkerFinding(check, ok=True, text=CLOSED)
    text = (
        f"{journal.n_records} records, {len(journal.state.open_jobs)} open; store and charges agree"
    )
    return WorkerFinding(check, ok=True, text=text)


def _witness(registry: Registry, population: str) -> WorkerFinding:
    """No witness is no fault, but the owner should know what goes unnoticed."""
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
