"""The log of a population's charges, read once and then only what is new."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from qserver.ledger.account_ledger import ChargeEntry, OwnLedger, entries_of, follow_metas
from qserver.records.audit_chain import GENESIS, check_links
from qserver.records.dataset import DatasetMeta
from qserver.storage.audit import AuditLog
from qserver.storage.encoding.sealed import reading


class LogReader:
    """The own ledger of one account or group, or that of all accounts together. Thread-safe.

    Args:
        account: whose charges count; those of all accounts for None.
    """

    def __init__(self, log: AuditLog, population: str, account: str | None = None) -> None:
        self._log = log
        self._population = population
        self._account = account
        self._metas: dict[str, DatasetMeta] = {}
        self._ledger = OwnLedger(self._metas)
        self._n_charges = 0
        self._n_changes = 0
        self._charges_head = self._changes_head = GENESIS
        self._lock = threading.Lock()

    @contextmanager
    def refreshed(self) -> Iterator[OwnLedger]:
        """The ledger with all that the log has by now; nobody else uses it meanwhile."""
        with self._lock:
            self._read()
            yield self._ledger

    def _read(self) -> None:
        news = self._log.news(
            self._population,
            n_charges=self._n_charges,
            n_changes=self._n_changes,
            accounts=[self._account or ""],
        )
        self._changes_head = check_links(
            news.changes, name="the audit log", prev=self._changes_head
        )
        self._charges_head = check_links(news.charges, name="the charges", prev=self._charges_head)
        with reading("audit log"):
            follow_metas(self._metas, news.changes)
            entries = map(ChargeEntry.of, news.charges)
            self._ledger.extend(entries_of(self._account, entries))
        self._n_charges += len(news.charges)
        self._n_changes += len(news.changes)
