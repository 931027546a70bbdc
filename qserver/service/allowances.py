"""The price of a question on the asker's own ledger, told before asking.

The worker decides later, from a log that it has verified.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from qserver.errors import AllowanceExhaustedError
from qserver.ledger.account_ledger import OwnLedger, check_allowance
from qserver.ledger.forecast import DAY_S
from qserver.records.account import Allowance, payers_of
from qserver.records.answer import OwnPrice
from qserver.records.charge import AnyCharge
from qserver.service.cache.last_used import LastUsed
from qserver.service.log_reader import LogReader
from qserver.storage.accounts import AccountBook
from qserver.storage.store import Store

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
        # What bounds most: one that cannot pay, else its own.
        return next((price for price in found if not price.affordable), next(iter(found), None))

    def _price(self, asker: Asker, snapshot: str, charges: Sequence[AnyCharge]) -> OwnPrice | None:
        """The price on one ledger: that of the account, or of its group."""
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
