"""Accounts, tokens and allowances in the store. Only the owner's commands write them.

Request rates: buckets in the store, from which a process takes a few requests at a time.
"""

from __future__ import annotations

import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from qserver.config import Settings
from qserver.errors import ConfigError, NotFoundError, RateLimitedError, StoreNotDurableError
from qserver.records.account import (
    NO_TOKEN,
    Account,
    Allowance,
    Role,
    Token,
    TokenRecord,
    is_provided,
    payers_of,
)
from qserver.storage.audit import AuditLog, read_allowance
from qserver.storage.constants import STORE
from qserver.storage.encoding.digests import reading, sealed, unsealed
from qserver.storage.keys import ACCOUNTS, AUDIT, TOKENS, Keys, rate_key
from qserver.storage.server.connection import Scripts, StoreClient, check_server, connect
from qserver.storage.store import Store, check_schema


class AccountBook:
    """The accounts of one store; `wall_clock`: Unix time in seconds."""

    def __init__(self, client: StoreClient, *, wall_clock: Callable[[], float] = time.time) -> None:
        self._client = client
        self._scripts = Scripts(client)
        self._log = AuditLog(client)
        self._wall_clock = wall_clock

    @classmethod
    def open(cls, settings: Settings, *, role: str) -> AccountBook:
        """The account book of the store at `settings.store_url`; StoreError as `Store.open`."""
        client = connect(settings.store_url, role=role)
        check_server(client)
        check_schema(client)
        return cls(client)

    def token_record(self, token_id: str) -> TokenRecord | None:
        """The record of a valid token, or None; one small round trip."""
        text: Any = self._client.hget(TOKENS, token_id)
        if text is None:
            return None
        with reading("record of a token"):
            return TokenRecord.from_json(unsealed(str(text), name=token_id))

    def accounts(self) -> list[Account]:
        """Every account that ever existed, by name."""
        found: dict[Any, Any] = self._client.hgetall(ACCOUNTS)
        return [_account(found[name], name) for name in sorted(found)]

    def account(self, name: str) -> Account:
        """One account; NotFoundError."""
        return _account(self._text(name), name)

    def known(self, names: Sequence[str]) -> dict[str, Account]:
        """The known ones of these names; one round trip."""
        texts: Any = self._client.hmget(ACCOUNTS, list(names))
        pairs = zip(names, texts, strict=True)
        return {name: _account(str(text), name) for name, text in pairs if text is not None}

    def let_in(self, name: str, role: Role) -> None:
        """Let in all members of a provider's group, `GROUP/`, with a role; or one member again.

        Raises:
            ConfigError: the name is malformed, or of no group.
            NotFoundError: the member's group was never let in.
        """
        if not is_provided(name):
            raise ConfigError("name", "be of a group, as `GROUP/` or `GROUP/NAME`", name)
        group = payers_of(name)[-1]
        if group != name and not self._payers(group):
            raise NotFoundError("account", group)
        while True:
            text: Any = self._client.hget(ACCOUNTS, name)
            after = Account(name, role, int(self._wall_clock()), NO_TOKEN)
            if self._change("group let in", str(text or ""), after, None):
                return

    def create(self, name: str, role: Role) -> Token:
        """The token of a new account.

        Raises:
            ConfigError: the name is malformed or taken. A revoked account keeps its name, since
                charges carry it.
        """
        if is_provided(name):
            raise ConfigError("name", "have no `/`; see `account let-in`", name)
        token = Token.new()
        account = Account(name, role, int(self._wall_clock()), token.id)
        if not self._change("account created", "", account, token):
            raise ConfigError("name", "be of no account yet", name, hint="See `account renew`.")
        return token

    def renew(self, name: str) -> Token:
        """A new token of an account, which replaces the old one.

        Raises:
            NotFoundError: there is no such account.
            ConfigError: the name is of a group: its members have the provider's tokens.
        """
        if is_provided(name):
            raise ConfigError("name", "be of an account with a token", name)
        token = Token.new()
        while True:
            text = self._text(name)
            before = _account(text, name)
            after = Account(name, before.role, before.created_at, token.id)
            if self._change("token renewed", text, after, token):
                return token

    def revoke(self, name: str) -> None:
        """End an account's token, or shut out a group or a member of one; NotFoundError.

        Its name and its spending stay.
        """
        while True:
            # A member has no record until it is shut out, so the group's record stands in.
            found = self._payers(name)
            before = found.get(name) or next(iter(found.values()), None)
            if before is None:
                raise NotFoundError("account", name)
            text = self._text(name) if name in found else ""
            after = Account(name, before.role, before.created_at, "")
            is_done = name in found and not before.token_id
            if is_done or self._change("token revoked", text, after, None):
                return

    def allow(self, name: str, population: str, allowance: Allowance) -> None:
        """Set the allowance of an account in a population's budget; NotFoundError."""
        if not self._payers(name):
            raise NotFoundError("account", name)
        if population not in self.populations():
            raise NotFoundError("population", population)
        facts = {
            "kind": "allowance set",
            "at": int(self._wall_clock()),
            "account": name,
            "population": population,
            "limit": allowance.limit_nano,
            "pace": allowance.pace_nano,
        }
        keys = [Keys(population).allowances, AUDIT]
        self._log.append(
            facts,
            lambda n, entry: self._scripts.run(
                "allow", keys=keys, args=[n, entry, name, sealed(allowance.to_json(), name=name)]
            ),
        )

    def allowance(self, name: str, population: str) -> Allowance:
        """The allowance of an account in a population's budget."""
        text: Any = self._client.hget(Keys(population).allowances, name)
        return read_allowance(text, account=name)

    def populations(self) -> frozenset[str]:
        """The populations of the attached datasets."""
        return self._log.populations()

    def deltas(self) -> dict[str, Fraction | None]:
        """At which delta the allowances of each population are epsilon; None under pure privacy."""
        store = Store(self._client)
        return {found: store.meta(name).delta for name, found in store.datasets().items()}

    def _payers(self, name: str) -> dict[str, Account]:
        """The account and its group, where known."""
        # The owner's user of the store may not send HMGET.
        texts: dict[str, Any] = {n: self._client.hget(ACCOUNTS, n) for n in payers_of(name)}
        return {n: _account(str(text), n) for n, text in texts.items() if text is not None}

    def _text(self, name: str) -> str:
        """The stored text of an account; NotFoundError."""
        text: Any = self._client.hget(ACCOUNTS, name)
        if text is None:
            raise NotFoundError("account", name)
        return str(text)

    def _change(self, kind: str, text: str, after: Account, token: Token | None) -> bool:
        """Change the account if its text is still `text`; returns whether that held."""
        before = _account(text, after.name) if text else None
        facts = {
            "kind": kind,
            "at": int(self._wall_clock()),
            "account": after.name,
            "role": after.role,
            "token": after.token_id or (before.token_id if before else NO_TOKEN),
        }
        record = token and TokenRecord.of(token, account=after.name, role=after.role).to_json()
        kept = record and sealed(record, name=after.token_id)
        args = [
            after.name,
            text,
            sealed(after.to_json(), name=after.name),
            before.token_id if before else "",
            token.id if token else "",
            kept or "",
        ]
        code = self._log.append(
            facts,
            lambda n, entry: self._scripts.run(
                "account", keys=[ACCOUNTS, TOKENS, AUDIT], args=[n, entry, *args]
            ),
        )
        return code == 1


@reading("record of an account")
def _account(text: str, name: str) -> Account:
    return Account.from_json(unsealed(text, name=name))


@dataclass
class _Known:
    """The requests of one bucket that this process may let pass without asking the store.

    Args:
        own: requests that need no permission, as of `own_at`.
        held: requests that were taken from the store and not used, valid until `held_until`.
    """

    own: float
    own_at: float
    held: int = 0
    held_until: float = 0.0


class RateLimiter:
    """Counts requests by sender. Thread-safe; one per process.

    A process lets a tenth of the rate pass without the store. For more it takes the requests of a
    quarter of a second from the store, and keeps the unused ones for a second. So all processes
    together exceed the bound by at most a tenth of it for each process.

    Args:
        clock: seconds, monotonic.
    """

    def __init__(self, client: StoreClient, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._scripts = Scripts(client)
        self._clock = clock
        self._known: OrderedDict[str, _Known] = OrderedDict()
        self._lock = threading.Lock()

    def pass_one(self, whose: str, *, rate: int) -> None:
        """Count one request.

        Args:
            whose: names the bucket.
            rate: requests a second, 0 = no bound.

        Raises:
            RateLimitedError: there were too many.
            StoreError: the store does not answer.
        """
        if rate == 0 or self._passes_here(whose, rate):
            return
        batch = max(1, rate // STORE.rate_batches_per_s)
        try:
            granted, wait_ms = self._scripts.run(
                "take", keys=[rate_key(whose)], args=[rate, rate * STORE.burst_s, batch]
            )
        except StoreNotDurableError:
            # The store takes no writes: only this process's own part of the rate passes.
            granted, wait_ms = 0, 1000
        if not granted:
            raise RateLimitedError(retry_after_s=max(1, math.ceil(wait_ms / 1000)))
        with self._lock:
            known = self._of(whose, rate)
            known.held, known.held_until = int(granted) - 1, self._clock() + STORE.rate_hold_s

    def _passes_here(self, whose: str, rate: int) -> bool:
        with self._lock:
            known, now = self._of(whose, rate), self._clock()
            refilled = known.own + (now - known.own_at) * rate / STORE.own_rate_part
            known.own, known.own_at = min(refilled, max(1.0, rate / STORE.own_rate_part)), now
            if known.own >= 1:
                known.own -= 1
                return True
            if known.held >= 1 and now < known.held_until:
                known.held -= 1
                return True
            return False

    def _of(self, whose: str, rate: int) -> _Known:
        """The state of a bucket; a new one starts full. Call it with the lock held."""
        found = self._known.get(whose)
        if found is None:
            found = self._known[whose] = _Known(max(1.0, rate / STORE.own_rate_part), self._clock())
        self._known.move_to_end(whose)
        while len(self._known) > STORE.known_senders:
            self._known.popitem(last=False)
        return found
