"""Where the budget went: the loss of cells, spending over time, the audit log, each account's
share.

The log of a population is read once, and then only what is new. The price of a question on the
asker's own ledger is told before asking; the worker decides later, from a log that it verified.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate

from qserver.errors import AllowanceExhaustedError, QueryError
from qserver.ledger.account_ledger import (
    ChargeEntry,
    OwnLedger,
    attached_metas,
    check_allowance,
    entries_of,
    follow_metas,
)
from qserver.ledger.forecast import DAY_S, BurnDown, SpendPoint, forecast, thinned
from qserver.query.asking.structured_question import parse_query
from qserver.query.domain import Domain
from qserver.records.account import Account, Allowance, payers_of
from qserver.records.answer import LedgerReport, OwnPrice
from qserver.records.charge import AnyCharge
from qserver.records.dataset import DatasetMeta
from qserver.records.digest_links import GENESIS, check_links, digest_of
from qserver.service.cache.last_used import LastUsed
from qserver.service.datasets import OpenDatasets
from qserver.storage.accounts import AccountBook
from qserver.storage.audit import AuditLog
from qserver.storage.encoding.digests import reading
from qserver.storage.store import Store

MAX_PAGE_CHARACTERS = 8 << 20
"""Most characters of the entries on one page of more than one entry."""

_MOST_READERS = 256
MOST_SPEND_POINTS = 400


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
    """The cost of one account's charges to a population, in nano-epsilon.

    Args:
        account: empty for what was spent without accounts.
        spent_nano: greatest loss that its own charges cause.
        today_nano: rise of `spent_nano` within the last 24 hours.
        n_charges: number of its charges.
        last_at: Unix time of its last charge, in seconds.
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
    """The charges of a population by account, in nano-epsilon, largest first."""

    population: str
    limit_nano: int
    spent_nano: int
    accounts: tuple[AccountSpending, ...]


class LedgerViews:
    """Where a budget went: by cell, over time, by charge and by account. Thread-safe.

    Args:
        wall_clock: Unix time in seconds.
    """

    def __init__(
        self,
        store: Store,
        datasets: OpenDatasets,
        *,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._log = store.audit
        self._book = AccountBook(store.client)
        self._datasets = datasets
        self._wall_clock = wall_clock
        self._readers = LastUsed[str, LogReader](_MOST_READERS)

    def loss(
        self, name: str, *, where: Mapping[str, object] | None, attribute: str | None
    ) -> LedgerReport:
        """Where the budget went: the loss of a set of cells, and by an attribute's values.

        Raises:
            QueryError: `where` or `attribute` does not fit the domain.
        """
        domain = self._datasets.meta(name).domain
        cells = _box(domain, where)
        axis = _axis(domain, attribute)
        opened = self._datasets.refresh(name)
        with opened.lock:
            replica = opened.replica
            stamp = replica.present
            loss = replica.ledger.loss_nano(cells)
            by_value = () if axis is None else replica.ledger.loss_by_value(axis)
            n_charges = replica.n_charges
        shown, budget = stamp.shown, stamp.shown_budget
        by_value = [shown.nano(one) for one in by_value]
        return LedgerReport(
            limit_nano=budget.limit_nano,
            spent_nano=budget.spent_nano,
            remaining_nano=stamp.remaining_nano,
            relation=opened.meta.relation,
            n_charges=n_charges,
            loss_nano=shown.nano(loss),
            by_value=None if axis is None else _named(domain, axis, by_value),
        )

    def burn_down(self, name: str) -> BurnDown:
        """The course of the population's budget over time; NotFoundError.

        The first call reads the whole log of charges, a later one what came since.
        """
        meta = self._datasets.meta(name)
        stamp = self._datasets.stamp(name)
        reader = self._readers.get(meta.population, lambda: LogReader(self._log, meta.population))
        with reader.refreshed() as ledger:
            marks, shown = ledger.marks, meta.shown
            points = tuple(SpendPoint(mark.at, shown.nano(mark.spent_nano)) for mark in marks)
        now, budget = int(self._wall_clock()), stamp.shown_budget
        return BurnDown(
            points=thinned(points, MOST_SPEND_POINTS),
            now=now,
            limit_nano=budget.limit_nano,
            spent_nano=budget.spent_nano,
            forecast=forecast(
                points,
                now=now,
                spent_nano=budget.spent_nano,
                remaining_nano=budget.remaining_nano,
            ),
        )

    def changes(self, *, after: int, limit: int) -> AuditPage:
        """Changes of accounts, allowances, datasets and limits above the place `after`."""
        return _page(self._log.changes(after=after, limit=limit + 1), after=after, limit=limit)

    def charges(self, name: str, *, after: int, limit: int) -> AuditPage:
        """Charges of the dataset's population above the place `after`; NotFoundError."""
        population = self._datasets.meta(name).population
        found = self._log.charges(population, after=after, limit=limit + 1)
        return _page(found, after=after, limit=limit)

    def n_changes(self) -> int:
        """Entries of the list of changes."""
        return self._log.n_changes()

    def n_charges(self, name: str) -> int:
        """Entries of the list of charges of the dataset's population; NotFoundError."""
        return self._log.n_charges(self._datasets.meta(name).population)

    def attached(self) -> dict[str, DatasetMeta]:
        """The facts of every snapshot ever attached, by id, from the log of changes.

        Raises:
            StoreCorruptError: an entry does not follow the one before it.
        """
        changes = self._log.changes()
        check_links(changes, name="the audit log")
        with reading("audit log"):
            return dict(attached_metas(changes))

    def accounts(self) -> list[Account]:
        """Every account that ever existed, by name."""
        return self._book.accounts()

    def spending(self, name: str) -> SpendingReport:
        """The spending of each account of the population, from the whole log. NotFoundError."""
        meta = self._datasets.meta(name)
        population, shown = meta.population, meta.shown
        facts = self._log.ledger(population)
        changes, charges = self._log.changes(), self._log.charges(population)
        check_links(changes, name="the audit log")
        check_links(charges, name="the charges")
        with reading("audit log"):
            metas, entries = attached_metas(changes), list(map(ChargeEntry.of, charges))
        names = {entry.by for entry in entries} | {a.name for a in self._book.accounts()}
        found = []
        for name in sorted(names):
            ledger = OwnLedger(metas)
            ledger.extend(entries_of(name, entries))
            found.append(self._account(name, population, ledger))
        found.sort(key=lambda item: (-item.spent_nano, item.account))
        limit, spent = shown.nano(facts.limit_nano), shown.nano(facts.spent_nano)
        return SpendingReport(population, limit, spent, tuple(found))

    def _account(self, name: str, population: str, ledger: OwnLedger) -> AccountSpending:
        yesterday, shown = int(self._wall_clock()) - DAY_S, ledger.shown
        return AccountSpending(
            account=name,
            spent_nano=shown.nano(ledger.spent_nano),
            today_nano=shown.rise_nano(ledger.spent_at(yesterday), ledger.spent_nano),
            n_charges=ledger.n_charges,
            last_at=ledger.marks[-1].at if ledger.marks else None,
            allowance=self._book.allowance(name, population),
        )


def _page(texts: Sequence[str], *, after: int, limit: int) -> AuditPage:
    """A page of at most `limit` entries; `texts` has one more if a page follows.

    It ends earlier where more would have more than `MAX_PAGE_CHARACTERS`.

    Raises:
        StoreCorruptError: an entry does not follow the one before it.
    """
    with reading("audit log"):
        first = GENESIS if after < 0 or not texts else json.loads(texts[0])["prev"]
    check_links(texts, name=f"the page after {after}", prev=first)
    n_fitting = sum(1 for n in accumulate(map(len, texts[:limit])) if n <= MAX_PAGE_CHARACTERS)
    entries = tuple(
        AuditEntry(after + 1 + i, text, digest_of(text))
        for i, text in enumerate(texts[: max(1, n_fitting)])
    )
    return AuditPage(entries, entries[-1].place if len(texts) > len(entries) else None)


def _axis(domain: Domain, attribute: str | None) -> int | None:
    if attribute is None:
        return None
    axis = domain.axis(attribute)
    if axis is None:
        raise QueryError("attribute", "name an attribute of the dataset", attribute)
    return axis


def _named(domain: Domain, axis: int, losses: Sequence[int]) -> dict[str, int]:
    return dict(zip(domain.attributes[axis].value_names, losses, strict=True))


def _box(domain: Domain, where: Mapping[str, object] | None) -> dict[int, list[int]]:
    """The set of cells that `where` names: the allowed values by axis; an absent axis has all."""
    if where is None:
        return {}
    cells = parse_query({"where": where}, domain, name="where")
    for term in cells.terms:
        if term.coefficient != 1 or not all(f.weights.is_indicator for f in term.factors):
            raise QueryError("where", "name a set of cells, without `weights`")
    if cells.is_zero:
        raise QueryError("where", "name a set of cells that is not empty")
    return {f.axis: f.weights.dense.nonzero()[0].tolist() for t in cells.terms for f in t.factors}


class LogReader:
    """The own ledger of one account or group, or the ledgers of all accounts. Thread-safe.

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
        """The ledger with the whole log so far; callers take turns."""
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


_MAX_KEPT = 256


@dataclass(frozen=True)
class Asker:
    """An account that asks a population."""

    account: str
    population: str


class Allowances:
    """The own ledgers of the accounts that asked recently. Thread-safe.

    Args:
        wall_clock: Unix time in seconds.
    """

    def __init__(self, store: Store, *, wall_clock: Callable[[], float] = time.time) -> None:
        self._log = store.audit
        self._book = AccountBook(store.client)
        self._wall_clock = wall_clock
        self._readers = LastUsed[Asker, LogReader](_MAX_KEPT)

    def price(self, asker: Asker, snapshot: str, charges: Sequence[AnyCharge]) -> OwnPrice | None:
        """The price of the charges for the asker, or None if only the budget bounds the asker.

        An account's first price reads the whole log of charges, later ones only what is new.
        """
        if not asker.account:
            return None
        payers = payers_of(asker.account)
        prices = [self._price(Asker(name, asker.population), snapshot, charges) for name in payers]
        found = [price for price in prices if price is not None]
        # The tightest bound: an account that cannot pay, else its own.
        return next((price for price in found if not price.affordable), next(iter(found), None))

    def bound(self, account: str, population: str) -> bool:
        """Whether anything beyond the budget bounds the account's charges."""
        payers = payers_of(account) if account else ()
        return any(self._book.allowance(name, population) != Allowance() for name in payers)

    def _price(self, asker: Asker, snapshot: str, charges: Sequence[AnyCharge]) -> OwnPrice | None:
        """The price on one ledger: the account's or its group's."""
        allowance = self._book.allowance(asker.account, asker.population)
        if allowance == Allowance():
            return None
        reader = self._readers.get(
            asker, lambda: LogReader(self._log, asker.population, asker.account)
        )
        with reader.refreshed() as ledger:
            at = int(self._wall_clock())
            after = ledger.spent_after(snapshot, charges)
            return _own_price(ledger, allowance, spent_after_nano=after.spent_nano, at=at)


def _own_price(
    ledger: OwnLedger, allowance: Allowance, *, spent_after_nano: int, at: int
) -> OwnPrice:
    shown = ledger.shown
    spent, after_nano = shown.nano(ledger.spent_nano), shown.nano(spent_after_nano)
    affordable, more_at = True, None
    try:
        check_allowance(ledger, allowance, spent_after_nano=spent_after_nano, at=at)
    except AllowanceExhaustedError as exc:
        affordable, more_at = False, exc.more_at
    return OwnPrice(
        price_nano=after_nano - spent,
        affordable=affordable,
        more_at=more_at,
        spent_nano=spent,
        today_nano=spent - shown.nano(ledger.spent_at(at - DAY_S)),
        limit_nano=allowance.limit_nano,
        pace_nano=allowance.pace_nano,
    )
