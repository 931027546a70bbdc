"""Accounts and their tokens: who asks, in which role, and how a token is checked.

A token is `qs_ID_SECRET`. The id is public and finds the record; the secret is 256 random bits that
are shown once. Only a slow hash of it is kept, so that whoever reads the store cannot ask.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import secrets
from dataclasses import asdict, dataclass
from typing import Any, Literal, cast, get_args

from qserver.errors import ConfigError

Role = Literal["analyst", "owner"]
ROLES: tuple[Role, ...] = get_args(Role)

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.@-]{0,63}\Z")
_TOKEN = re.compile(r"qs_([0-9a-f]{16})_([A-Za-z0-9_-]{43})\Z", re.ASCII)
_ID_BYTES = 8
_SECRET_BYTES = 32
_SALT_BYTES = 16
# 16 MiB and some 40 ms: a checked token is remembered for a moment, so that few requests pay it.
_SCRYPT = {"n": 1 << 14, "r": 8, "p": 1}


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
        """The token that a text is, or None."""
        match = _TOKEN.match(text)
        return cls(match[1], match[2]) if match else None


@dataclass(frozen=True)
class TokenRecord:
    """What is kept of a token: whose it is, and a salted slow hash of its secret.

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
        """Whether the secret is the token's own; takes the same time whatever it is."""
        found = _slow_hash(token.secret, bytes.fromhex(self.salt))
        return hmac.compare_digest(found, bytes.fromhex(self.digest))

    def to_json(self) -> str:
        """The record as JSON text."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> TokenRecord:
        """The record that `to_json` wrote."""
        return cls(**json.loads(text))


@dataclass(frozen=True)
class Account:
    """An account. Its name is taken for ever: charges carry it.

    Args:
        created_at: Unix time in whole seconds.
        token_id: of the token in force; '' when it was revoked.

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
                "name", "be 1 to 64 letters, digits, `_`, `.`, `@` or `-`, a letter or digit first"
            )
        if self.role not in ROLES:
            raise ConfigError("role", f"be one of {', '.join(ROLES)}", self.role)

    def to_json(self) -> str:
        """The account as JSON text."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Account:
        """The account that `to_json` wrote."""
        return cls(**json.loads(text))


@dataclass(frozen=True)
class Caller:
    """Who sends a request.

    Args:
        account: its name; '' where the server is open to all who reach it.
        token_id: of the token that was sent, or ''.
    """

    account: str
    role: Role
    token_id: str


@dataclass(frozen=True)
class Allowance:
    """What one analyst may spend of a population's budget, within the population's own limit.

    Args:
        limit_nano: most that the analyst's own ledger may reach, in nano-epsilon; None: no bound.
        pace_nano: most that it may rise within any 24 hours, in nano-epsilon; None: no bound.
    """

    limit_nano: int | None = None
    pace_nano: int | None = None

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if value is not None and (type(value) is not int or value < 0):
                raise ConfigError(name, "be a whole number >= 0 of nano-epsilon, or absent", value)

    def to_json(self) -> str:
        """The allowance as JSON text."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Allowance:
        """The allowance that `to_json` wrote."""
        return cls(**cast("dict[str, Any]", json.loads(text)))


def _slow_hash(secret: str, salt: bytes) -> bytes:
    return hashlib.scrypt(secret.encode(), salt=salt, dklen=32, **_SCRYPT)
