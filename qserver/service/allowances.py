"""What a question would cost the asker's own ledger, as the online side sees it.

The worker decides, from a log whose links it has checked; this only tells beforehand.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from qserver.errors import AllowanceExhaustedError
from qserver.ledger.account_ledger import (
    DAY_S,
    ChargeEntry,
    OwnLedger,
    attached_metas,
    check_allowance,
    own_spend,
)
from qserver.records.account import Allowance
from qserver.records.answer import OwnPrice
from qserver.records.charge import AnyCharge
from qserver.records.dataset import DatasetMeta
from qserver.storage.accounts import AccountBook
from qserver.storage.audit import AuditLog
from qserver.storage.store import Store

_MAX_KEPT = 256


@dataclass(frozen=True)
class Asker:
    """An account that asks a population."""

    account: str
    population: str


class Allowances:
    """The own ledgers of the accounts that asked this process lately. Thread-safe.

    Args:
        wall_clock: Unix time in seconds.
    """

    def __init__(self, store: Store, *, wall_clock: Callable[[], float] = time.time) -> None:
        self._log = store.audit
        self._book = AccountBook(store.client)
        self._wall_clock = wall_clock
        self._kept: OrderedDict[Asker, _KeptLedger] = OrderedDict()
        self._lock = threading.Lock()

    def price(self, asker: Asker, snapshot: str, charges: Sequence[AnyCharge]) -> OwnPrice | None:
        """What the charges would cost the asker; None where nothing but the budget bounds it.

        An account's first price reads the whole log of charges, a later one what came since.
        """
        if not asker.account:
            return None
        allowance = self._book.allowance(asker.account, asker.population)
        if allowance == Allowance():
            return None
        kept = self._get(asker)
        with kept.lock:
            kept.refresh(self._log, asker)
            at = int(self._wall_clock())
            after = own_spend(kept.ledger, allowance, snapshot=snapshot, charges=charges, at=at)
            return _own_price(kept.ledger, allowance, spent_after_nano=after.spent_nano, at=at)

    def _get(self, asker: Asker) -> _KeptLedger:
        with self._lock:
            found = self._kept.setdefault(asker, _KeptLedger())
            self._kept.move_to_end(asker)
            while len(self._kept) > _MAX_KEPT:
                self._kept.popitem(last=False)
            return found


@dataclass
class _KeptLedger:
    """An own ledger and how much of the log it has read; hold the lock while using it."""

    metas: dict[str, DatasetMeta] = field(default_factory=dict)
    n_charges: int = 0
    n_changes: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.ledger = OwnLedger(self.metas)

    def refresh(self, log: AuditLog, asker: Asker) -> None:
        """Take in what is new."""
        news = log.news(
            asker.population,
            n_charges=self.n_charges,
            n_changes=self.n_changes,
            account=asker.account,
        )
        self.metas.update(attached_metas(news.changes))
        entries = map(ChargeEntry.of, news.charges)
        self.ledger.extend(entry for entry in entries if entry.by == asker.account)
        self.n_charges += len(news.charges)
        self.n_changes += len(news.changes)


def _own_price(
    ledger: OwnLedger, allowance: Allowance, *, spent_after_nano: int, at: int
) -> OwnPrice:
    spent = ledger.spent_nano
    affordable, more_at = True, None
    try:
        check_allowance(ledger, allowance, spent_after_nano=spent_after_nano, at=at)
    except AllowanceExhaustedError as exc:
        affordable, more_at = False, exc.more_at
    return OwnPrice(
        price_nano=spent_after_nano - spent,
        affordable=affordable,
        more_at=more_at,
        spent_nano=spent,
        today_nano=spent - ledger.spent_at(at - DAY_S),
        limit_nano=allowance.limit_nano,
        pace_nano=allowance.pace_nano,
    )
