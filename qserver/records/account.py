"""Accounts, their roles and allowances, and their tokens.

A token is `qs_ID_SECRET`. The id is public and finds the record. The secret is 256 random bits that
are shown once. Only a slow hash of it is kept, so that a reader of the store cannot use it.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import secrets
from dataclasses import dataclass
from typing import Literal, Self, get_args

from qserver.errors import ConfigError

Role = Literal["analyst", "owner"]
ROLES: tuple[Role, ...] = get_args(Role)

_PLAIN = r"[A-Za-z0-9][A-Za-z0-9_.@-]{0,63}"
_PLAIN_NAME = re.compile(rf"{_PLAIN}\Z")
_NAME = re.compile(rf"{_PLAIN}(/({_PLAIN})?)?\Z")
NO_TOKEN = "-"  # noqa: S105 - says that there is none
_TOKEN = re.compile(r"qs_([0-9a-f]{16})_([A-Za-z0-9_-]{43})\Z", re.ASCII)
_ID_BYTES = 8
_SECRET_BYTES = 32
_SALT_BYTES = 16
# 16 MiB and about 40 ms. A checked token is remembered for a moment, so few requests pay this.
_SCRYPT = {"n": 1 << 14, "r": 8, "p": 1}


class _Flat:
    """A dataclass of plain values as JSON text."""

    def to_json(self) -> str:
        """The record as JSON text."""
        return json.dumps(vars(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The record that `to_json` wrote."""
        return cls(**json.loads(text))


@dataclass(frozen=True)
class Token:
    """A token in two parts; `text` is what its bearer sends."""

    id: str
    secret: str

    @property
    def text(self) -> str:
        """The whole token. A secret."""
        return f"qs_{self.id}_{self.secret}"

    @classmethod
    def new(cls) -> Token:
        """A token from the operating system's entropy."""
        return cls(secrets.token_hex(_ID_BYTES), secrets.token_urlsafe(_SECRET_BYTES))

    @classmethod
    def parse(cls, text: str) -> Token | None:
        """The token in a text, or None."""
        match = _TOKEN.match(text)
        return cls(match[1], match[2]) if match else None


@dataclass(frozen=True)
class TokenRecord(_Flat):
    """The stored part of a token: its account, and a salted slow hash of its secret.

    Args:
        salt, digest: in hexadecimal.
    """

    account: str
    role: Role
    salt: str
    digest: str

    @classmethod
    def of(cls, token: Token, *, account: str, role: Role) -> TokenRecord:
        """The record of a new token."""
        salt = secrets.token_bytes(_SALT_BYTES)
        return cls(account, role, salt.hex(), _slow_hash(token.secret, salt).hex())

    def accepts(self, token: Token) -> bool:
        """Whether the secret is right; takes the same time for every secret."""
        found = _slow_hash(token.secret, bytes.fromhex(self.salt))
        return hmac.compare_digest(found, bytes.fromhex(self.digest))


@dataclass(frozen=True)
class Account(_Flat):
    """An account. Its name is taken for ever, since charges carry it.

    `GROUP/` is everybody whom the identity provider has in a group, and `GROUP/NAME` one of them.
    These have no token of ours.

    Args:
        created_at: Unix time in whole seconds.
        token_id: of the token in force; '' when it was revoked; `NO_TOKEN` of a group that is let
            in, or of one of its members.

    Raises:
        ConfigError: the name or the role is malformed.
    """

    name: str
    role: Role
    created_at: int
    token_id: str

    def __post_init__(self) -> None:
        if not _NAME.match(self.name):
            raise ConfigError(
                "name",
                "be 1 to 64 letters, digits, `_`, `.`, `@` or `-`, a letter or digit first; "
                "of a group, `GROUP/` or `GROUP/NAME`",
            )
        if self.role not in ROLES:
            raise ConfigError("role", f"be one of {', '.join(ROLES)}", self.role)


def is_plain_name(text: str) -> bool:
    """Whether a text may name an account, a group or a member."""
    return _PLAIN_NAME.match(text) is not None


def is_provided(account: str) -> bool:
    """Whether the name is a group of the identity provider, or a member of one."""
    return "/" in account


def payers_of(account: str) -> tuple[str, ...]:
    """Those whose allowances bound an account's spending: itself, and its group."""
    group, slash, name = account.partition("/")
    return (account, group + slash) if name else (account,)


@dataclass(frozen=True)
class Caller:
    """The sender of a request.

    Args:
        account: its name; '' if the server is open to everybody who reaches it.
        token_id: id of the sent token, or ''.
    """

    account: str
    role: Role
    token_id: str

    def sees_of(self, account: str) -> bool:
        """Whether the caller sees what an account asked: the account itself and owners do."""
        return self.role == "owner" or (self.account != "" and self.account == account)


HERE = Caller("", "owner", "")
"""Whoever is on this machine, where nobody needs an account."""


@dataclass(frozen=True)
class Allowance(_Flat):
    """The part of a population's budget that one analyst, or a group together, may spend.

    Args:
        limit_nano: most that the ledger of its own may reach, in nano-epsilon; None: no bound.
        pace_nano: most that it may rise within any 24 hours, in nano-epsilon; None: no bound.
    """

    limit_nano: int | None = None
    pace_nano: int | None = None

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if value is not None and (type(value) is not int or value < 0):
                raise ConfigError(name, "be a whole number >= 0 of nano-epsilon, or absent", value)


def _slow_hash(secret: str, salt: bytes) -> bytes:
    return hashlib.scrypt(secret.encode(), salt=salt, dklen=32, **_SCRYPT)
