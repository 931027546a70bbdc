"""Accounts, tokens and allowances in the store. Only the owner's commands write them."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from qserver.config import Settings
from qserver.errors import ConfigError, NotFoundError
from qserver.records.account import Account, Allowance, Role, Token, TokenRecord
from qserver.storage.audit import AuditLog, read_allowance
from qserver.storage.encoding.sealed import reading, sealed, unsealed
from qserver.storage.keys import ACCOUNTS, AUDIT, TOKENS, Keys
from qserver.storage.server.connection import Scripts, StoreClient, check_server, connect
from qserver.storage.store import check_schema


class AccountBook:
    """The accounts of one store.

    Args:
        wall_clock: Unix time in seconds.
    """

    def __init__(self, client: StoreClient, *, wall_clock: Callable[[], float] = time.time) -> None:
        self._client = client
        self._scripts = Scripts(client)
        self._log = AuditLog(client)
        self._wall_clock = wall_clock

    @classmethod
    def open(cls, settings: Settings, *, role: str) -> AccountBook:
        """The accounts at `settings.store_url`; StoreError as `Store.open` raises it."""
        client = connect(settings.store_url, role=role)
        check_server(client)
        check_schema(client)
        return cls(client)

    def token_record(self, token_id: str) -> TokenRecord | None:
        """The record of a token in force, or None; one small round trip."""
        text: Any = self._client.hget(TOKENS, token_id)
        if text is None:
            return None
        with reading("record of a token"):
            return TokenRecord.from_json(unsealed(str(text), name=token_id))

    def accounts(self) -> list[Account]:
        """Every account that ever was, by name."""
        found: dict[Any, Any] = self._client.hgetall(ACCOUNTS)
        return [_account(found[name], name) for name in sorted(found)]

    def account(self, name: str) -> Account:
        """One account; NotFoundError."""
        return _account(self._text(name), name)

    def create(self, name: str, role: Role) -> Token:
        """The token of a new account.

        Raises:
            ConfigError: the name is malformed or taken. A revoked account keeps its name, since
                charges carry it.
        """
        token = Token.new()
        account = Account(name, role, int(self._wall_clock()), token.id)
        if not self._change("account created", "", account, token):
            raise ConfigError("name", "be of no account yet", name, hint="See `account renew`.")
        return token

    def renew(self, name: str) -> Token:
        """A new token of an account, which replaces the old one; NotFoundError."""
        token = Token.new()
        while True:
            text = self._text(name)
            before = _account(text, name)
            after = Account(name, before.role, before.created_at, token.id)
            if self._change("token renewed", text, after, token):
                return token

    def revoke(self, name: str) -> None:
        """End an account's token. Its name and its spending stay; NotFoundError."""
        while True:
            text = self._text(name)
            before = _account(text, name)
            after = Account(name, before.role, before.created_at, "")
            if not before.token_id or self._change("token revoked", text, after, None):
                return

    def allow(self, name: str, population: str, allowance: Allowance) -> None:
        """Set the allowance of an account in a population's budget; NotFoundError."""
        self.account(name)
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

    def _text(self, name: str) -> str:
        """The stored text of an account; NotFoundError."""
        text: Any = self._client.hget(ACCOUNTS, name)
        if text is None:
            raise NotFoundError("account", name)
        return str(text)

    def _change(self, kind: str, text: str, after: Account, token: Token | None) -> bool:
        """Change the account if its text still is `text`; returns whether it was."""
        before = _account(text, after.name) if text else None
        facts = {
            "kind": kind,
            "at": int(self._wall_clock()),
            "account": after.name,
            "role": after.role,
            "token": after.token_id or (before.token_id if before else ""),
        }
        record = token and TokenRecord.of(token, account=after.name, role=after.role).to_json()
        kept = record and sealed(record, name=after.token_id)
        args = [
            after.name,
            text,
            sealed(after.to_json(), name=after.name),
            before.token_id if before else "",
            after.token_id,
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
