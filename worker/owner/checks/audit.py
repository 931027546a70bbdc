"""`qserver-worker audit-verify`: an audit log held against the journals, and the books' figures.

`qserver audit verify` checks what a log says of itself. Here the journals say whether it is the log
of what was charged, and the accountant says what every person has lost, by code that shares nothing
with the ledger.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from qserver.config import Settings
from qserver.errors import QServerError, StoreCorruptError
from qserver.records.audit_chain import GENESIS, digest_of
from qserver.records.charge import epsilon_text
from qserver.storage.audit import LedgerFacts
from qserver.storage.audit_check import AuditCheck, AuditExport, check_export
from qserver.storage.store import Store
from worker.books.accountant import Accountant
from worker.books.lines import BookFaultError, UnknownFactsError
from worker.journal.journal import Journal
from worker.journal.records import Adopted, Reserved
from worker.owner.checks.finding import losses_text
from worker.private.registry import Registry


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
        # A log that was exported earlier has earlier figures.
        checks.append(_of_books(journal, name, None if n_since else ledgers.get(name)))
    return checks


def _of_charges(name: str, n_since: int, *, may_be_older: bool) -> AuditCheck:
    text = "the charges are those of the journal"
    if n_since:
        text += f", which has {n_since} more jobs"
    return AuditCheck(f"journal of {name}", ok=may_be_older or not n_since, text=text)


def _n_charged_since(journal: Journal, charges: Sequence[str]) -> int:
    """How many jobs the journal has charged after the log's last charge.

    The entries of a log name one another, so the last one stands for all of them.

    Raises:
        StoreCorruptError: the log's last charge is not one that the journal has.
    """
    with journal.exclusive():
        ends = [GENESIS]
        for record in journal.records():
            if isinstance(record, Reserved) and record.charges_digest:
                ends.append(record.charges_digest)
            elif isinstance(record, Adopted):
                ends[-1] = ""  # What was charged before is not in this journal.
    last = digest_of(charges[-1]) if charges else GENESIS
    if last not in ends and ends != [""]:
        raise StoreCorruptError("The log's last charge is not one that the journal has.")
    return len(ends) - 1 - (ends.index(last) if last in ends else 0)


def _of_books(journal: Journal, name: str, facts: LedgerFacts | None) -> AuditCheck:
    """What people have lost by the journal alone, and whether the ledger says no less."""
    subject, accountant = f"books of {name}", Accountant(journal.path, proves=True)
    try:
        found = accountant.examine()
        spent = accountant.spent()
    except BookFaultError as exc:
        return AuditCheck(subject, ok=False, text=str(exc))
    except UnknownFactsError as exc:
        return AuditCheck(subject, ok=True, text=f"not verified: {exc}")
    faults = [f"{one.dataset}: {one.text}" for one in found if not one.ok]
    if spent > accountant.limit:
        faults.append(f"somebody may have lost {epsilon_text(spent)} epsilon, above the limit")
    if facts is not None:
        shares = facts.spent_by_snapshot
        less = [one.dataset for one in found if shares.get(one.snapshot, 0) < one.share]
        faults += [f"the ledger says less of {name} than was charged" for name in less]
        if facts.spent_nano < spent or facts.limit_nano > accountant.limit:
            faults.append("the ledger's sum, or its limit, is not the journal's")
    if faults:
        return AuditCheck(subject, ok=False, text="; ".join(faults))
    most = f"at most {epsilon_text(spent)} of {epsilon_text(accountant.limit)} epsilon in all; "
    return AuditCheck(subject, ok=True, text=most + losses_text(found))
