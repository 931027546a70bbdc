"""Who may send a request: checked ahead of the app, before a body is read.

A token that was checked is remembered for a second under a keyed digest of its text, so that few
requests pay the slow hash, and a revoked token ends within that second.
"""

from __future__ import annotations

import hmac
import ipaddress
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

from qserver.api.sign_on import SignOn
from qserver.errors import AccessError, UnauthenticatedError
from qserver.records.account import HERE, Caller, Token, TokenRecord

_FRESH_S = 1.0
_MAX_REMEMBERED = 4096
_SCHEME = "bearer "


@dataclass(frozen=True)
class Credentials:
    """The credentials of a request.

    Args:
        authorization: the header of this name, or ''.
        address: where the request comes from.
        forwarded: whether a proxy passed it on.
        host: the name by which it was sent here, without a port.
    """

    authorization: str
    address: str
    forwarded: bool = False
    host: str = "localhost"


class Access(Protocol):
    """Decides who sends a request."""

    @property
    def is_open(self) -> bool:
        """Whether requests need no account."""

    def admit(self, credentials: Credentials) -> Caller:
        """The caller; AccessError if it may not ask, StoreError if that cannot be known."""


class OpenAccess:
    """No accounts: anybody on this machine may do everything. For demos."""

    is_open = True

    def admit(self, credentials: Credentials) -> Caller:
        """The owner on this machine; AccessError elsewhere."""
        # A page of another origin can point its own name at this machine, and then read everything.
        here = credentials.host == "localhost" or _is_loopback(credentials.host)
        if credentials.forwarded or not here or not _is_loopback(credentials.address):
            raise AccessError(
                "This server is open to its own machine alone. Start it with accounts instead."
            )
        return HERE


class TokenSource(Protocol):
    """The store of token records."""

    def token_record(self, token_id: str) -> TokenRecord | None:
        """The record of a valid token, or None."""


class RequestRates(Protocol):
    """Counts requests."""

    def pass_one(self, whose: str, *, rate: int) -> None:
        """Count a request of a sender, whose rate is `rate` a second; RateLimitedError."""


@dataclass(frozen=True)
class _Remembered:
    caller: Caller
    record: TokenRecord | None
    until: float


class TokenAccess:
    """Accounts: a token with every request, and rates by address and by token.

    Args:
        tokens: the records.
        rates: counts requests, of a failed attempt as well.
        token_rate, address_rate: requests a second, 0 = without a bound.
        sign_on: takes tokens of a provider beside ours; None for no provider.
        clock: seconds, monotonic.
    """

    is_open = False

    def __init__(
        self,
        tokens: TokenSource,
        rates: RequestRates,
        *,
        token_rate: int,
        address_rate: int,
        sign_on: SignOn | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._tokens = tokens
        self._rates = rates
        self._token_rate = token_rate
        self._address_rate = address_rate
        self._sign_on = sign_on
        self._clock = clock
        self._key = secrets.token_bytes(32)
        self._remembered: OrderedDict[bytes, _Remembered] = OrderedDict()
        self._lock = threading.Lock()

    def admit(self, credentials: Credentials) -> Caller:
        """The bearer of the token, once both rates let the request pass."""
        # First of all: this bounds how often a secret can be tried.
        network = _network(credentials.address)
        self._rates.pass_one(f"address:{network}", rate=self._address_rate)
        caller = self._bearer(_bearer_of(credentials.authorization))
        self._rates.pass_one(f"token:{caller.token_id}", rate=self._token_rate)
        return caller

    def _bearer(self, text: str) -> Caller:
        token = Token.parse(text)
        if token is not None:
            return self._caller(token)
        if self._sign_on is None or text.count(".") != 2:
            raise UnauthenticatedError
        return self._signed_on(text, self._sign_on)

    def _signed_on(self, text: str, sign_on: SignOn) -> Caller:
        digest = hmac.digest(self._key, text.encode(), "sha256")
        with self._lock:
            known = self._remembered.get(digest)
        now = self._clock()
        if known is not None and now < known.until:
            return known.caller
        try:
            caller = sign_on.caller(text)
        except AccessError:
            self._forget(digest)
            raise
        self._remember(digest, _Remembered(caller, None, now + _FRESH_S))
        return caller

    def _caller(self, token: Token) -> Caller:
        digest = hmac.digest(self._key, token.text.encode(), "sha256")
        with self._lock:
            known = self._remembered.get(digest)
        now = self._clock()
        if known is not None and now < known.until:
            return known.caller
        record = self._tokens.token_record(token.id)
        # The same record once accepted this very text: only what changed is hashed again.
        is_known = known is not None and known.record == record
        if record is None or not (is_known or record.accepts(token)):
            self._forget(digest)
            raise UnauthenticatedError
        caller = Caller(record.account, record.role, token.id)
        self._remember(digest, _Remembered(caller, record, now + _FRESH_S))
        return caller

    def _remember(self, digest: bytes, found: _Remembered) -> None:
        with self._lock:
            self._remembered[digest] = found
            self._remembered.move_to_end(digest)
            while len(self._remembered) > _MAX_REMEMBERED:
                self._remembered.popitem(last=False)

    def _forget(self, digest: bytes) -> None:
        with self._lock:
            self._remembered.pop(digest, None)


def _bearer_of(authorization: str) -> str:
    """The token that was sent, or ''."""
    is_bearer = authorization[: len(_SCHEME)].lower() == _SCHEME
    return authorization[len(_SCHEME) :].strip(" ") if is_bearer else ""


@lru_cache(maxsize=4096)
def _network(address: str) -> str:
    """The address; of IPv6 the first half, since one sender owns the other."""
    try:
        found = _read(address)
    except ValueError:
        return "unknown"
    if found.version == 4:
        return str(found)
    return str(ipaddress.ip_network((int(found), 64), strict=False).network_address)


def _is_loopback(address: str) -> bool:
    try:
        return _read(address).is_loopback
    except ValueError:
        return False


def _read(address: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """The address; an IPv4 one also in the spelling of a socket for both kinds."""
    found = ipaddress.ip_address(address)
    return getattr(found, "ipv4_mapped", None) or found
