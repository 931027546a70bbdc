"""What an owner sees: the audit log, page by page, and who spent what."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from qserver.ledger.account_ledger import DAY_S, ChargeEntry, OwnLedger, attached_metas
from qserver.records.account import Allowance
from qserver.records.audit_chain import digest_of
from qserver.storage.accounts import AccountBook
from qserver.storage.store import Store


@dataclass(frozen=True)
class AuditEntry:
    """An entry of an audit log: its place from 0, its text, and the digest of that text."""

    place: int
    text: str
    digest: str


@dataclass(frozen=True)
class AuditPage:
    """Entries of an audit log after a given place; `next_after` is None on the last page."""

    entries: tuple[AuditEntry, ...]
    next_after: int | None


@dataclass(frozen=True)
class AccountSpending:
    """What one account's own charges cost a population, in nano-epsilon.

    Args:
        account: '' where there were no accounts.
        spent_nano: greatest loss that its own charges cause.
        today_nano: rise of `spent_nano` within the last 24 hours.
        n_charges: number of its charges.
        last_at: Unix time of the last, in seconds, or None.
        allowance: its bounds.
    """

    account: str
    spent_nano: int
    today_nano: int
    n_charges: int
    last_at: int | None
    allowance: Allowance


@dataclass(frozen=True)
class SpendingReport:
    """Who spent what of a population's budget, in nano-epsilon, the most first."""

    population: str
    limit_nano: int
    spent_nano: int
    accounts: tuple[AccountSpending, ...]


class Oversight:
    """The owner's view of one store. Thread-safe.

    Args:
        wall_clock: Unix time in seconds.
    """

    def __init__(self, store: Store, *, wall_clock: Callable[[], float] = time.time) -> None:
        self._log = store.audit
        self._book = AccountBook(store.client)
        self._wall_clock = wall_clock

    def changes(self, *, after: int, limit: int) -> AuditPage:
        """Changes of accounts, allowances, datasets and limits."""
        return _page(self._log.changes(after=after, limit=limit + 1), after=after, limit=limit)

    def charges(self, population: str, *, after: int, limit: int) -> AuditPage:
        """Charges of a population."""
        found = self._log.charges(population, after=after, limit=limit + 1)
        return _page(found, after=after, limit=limit)

    def spending(self, population: str) -> SpendingReport:
        """Who spent what; the whole log is read."""
        facts = self._log.ledger(population)
        metas = attached_metas(self._log.changes())
        entries = list(map(ChargeEntry.of, self._log.charges(population)))
        names = {entry.by for entry in entries} | {a.name for a in self._book.accounts()}
        found = []
        for name in sorted(names):
            ledger = OwnLedger(metas)
            ledger.extend(entry for entry in entries if entry.by == name)
            found.append(self._account(name, population, ledger))
        found.sort(key=lambda item: (-item.spent_nano, item.account))
        return SpendingReport(population, facts.limit_nano, facts.spent_nano, tuple(found))

    def _account(self, name: str, population: str, ledger: OwnLedger) -> AccountSpending:
        yesterday = int(self._wall_clock()) - DAY_S
        return AccountSpending(
            account=name,
            spent_nano=ledger.spent_nano,
            today_nano=ledger.spent_nano - ledger.spent_at(yesterday),
            n_charges=ledger.n_charges,
            last_at=ledger.marks[-1].at if ledger.marks else None,
            allowance=self._book.allowance(name, population),
        )


def _page(texts: Sequence[str], *, after: int, limit: int) -> AuditPage:
    """A page of at most `limit` of the entries, of which one more was read to see whether it is."""
    entries = tuple(
        AuditEntry(after + 1 + i, text, digest_of(text)) for i, text in enumerate(texts[:limit])
    )
    return AuditPage(entries, entries[-1].place if len(texts) > limit else None)
