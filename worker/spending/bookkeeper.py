"""Ask the books before every reservation: about the store's facts, and about the plan.

The answers come from the journal alone, by code that shares nothing with the ledger that made the
plan. A difference refuses the plan with one constant public error. The worker's log and `doctor`
name it.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace

from qserver.errors import BooksError
from qserver.records.dataset import DatasetMeta
from qserver.storage.encoding.requests import Reservation
from qserver.storage.operation.facts import StoredFacts
from qserver.storage.store import Store
from worker.books.accountant import Accountant, Finding
from worker.books.faults import BookFaultError
from worker.journal.journal import Journal
from worker.spending.facts import differences, meta_differences


class Bookkeeper:
    """Keeps the books of all populations of a worker; for one thread.

    Args:
        log: the worker's private log.
    """

    def __init__(self, reader: Store, journals: Mapping[str, Journal], log: logging.Logger) -> None:
        self._reader = reader
        self._journals = journals
        self._log = log
        self._accountants: dict[str, Accountant] = {}
        self._at_start: dict[str, list[str]] = {}
        # By population: how the store differed when the group at hand was begun.
        self._differ: dict[str, list[str]] = {}

    def begin(self, population: str) -> None:
        """Begin a group of plans: the store is compared with the journal once for all of them."""
        self._differ.pop(population, None)
        self._accountant(population).expect_nothing()

    def expect(self, population: str) -> None:
        """The plan that was judged last will be charged: the next ones come after it."""
        self._accountants[population].expect()

    def judge(
        self, population: str, reservation: Reservation, meta: DatasetMeta, *, nominal_nano: int
    ) -> str:
        """What the books say of a plan: `verified` or `not verified`; under the lease.

        Args:
            meta: the facts that the plan was made with.
            nominal_nano: what all tables of a secret sample cost one record of it.

        Raises:
            BooksError: the store's facts are not the journal's, or the plan costs somebody more
                than it says.
        """
        try:
            if population not in self._differ:
                self._differ[population] = self.faults(population)
            found = self._at_start.get(population, []) + self._differ[population]
            found += meta_differences(meta, self._journals[population].state)
            if not found:
                accountant = self._accountants[population]
                return accountant.judge(reservation.to_json(), nominal_nano=nominal_nano)
        except BookFaultError as exc:
            found = [str(exc)]
        self._say(population, found)
        raise BooksError

    def compare(self, population: str) -> None:
        """Hold everything against the journal, as at a start, and write differences to the log.

        They refuse whatever is to be charged until the next start.
        """
        try:
            found = self.faults(population, with_jobs=True)
        except BookFaultError as exc:
            found = [str(exc)]
        self._at_start[population] = found
        if found:
            self._say(population, found)

    def faults(self, population: str, *, with_jobs: bool = False) -> list[str]:
        """How the store differs from the journal, in words for the owner.

        Raises:
            BookFaultError: a line of the journal is wrong.
        """
        accountant, journal = self._accountant(population), self._journals[population]
        stored = StoredFacts.read(self._reader.client, population, with_jobs=with_jobs)
        # The journal after the store: what was charged meanwhile is then in it.
        with journal.exclusive():
            accountant.read()
            accounts = accountant.accounts
            shares = {k: account.share for k, account in accounts.items()}
            paid = {k: account.paid for k, account in accounts.items() if not account.unknown}
            stored = replace(stored, paid={k: v for k, v in stored.paid.items() if k in paid})
            return differences(stored, journal.state, shares=shares, paid=paid)

    def examine(self, population: str) -> list[Finding]:
        """What the books say of every snapshot; BookFaultError."""
        return Accountant(self._journals[population].path, proves=True).examine()

    def _say(self, population: str, found: Sequence[str]) -> None:
        self._log.error("the books of population %s: %s", population, "; ".join(found))

    def _accountant(self, population: str) -> Accountant:
        if population not in self._accountants:
            self._accountants[population] = Accountant(self._journals[population].path)
        return self._accountants[population]
