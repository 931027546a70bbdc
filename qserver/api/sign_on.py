"""Single sign-on: the caller behind a token that an OpenID Connect provider signed.

Nothing is kept of who signed in: each token says it again, and is checked again each second. Whom
the provider has in a group that the owner let in is the account `GROUP/NAME`. The online side
cannot write accounts, so it makes none: a name that was never seen may do what the owner allowed
its group, and one that was revoked stays out.
"""

from __future__ import annotations

import hmac
import json
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from qserver.config import Settings
from qserver.errors import AccessError, UnauthenticatedError
from qserver.records.account import Account, Caller, is_plain_name

# The providers' algorithms. No shared secret, which would let every checker sign.
_RSA = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
ALGORITHMS = (*_RSA, "ES256", "ES384", "ES512", "Ed25519")
SKEW_S = 60
"""How far the provider's clock may be from ours."""
_FETCH_EVERY_S = 10.0
_FRESH_S = 300.0
_MAX_GROUPS = 200
_FETCH_S = 5.0
_MAX_BYTES = 1 << 20
_MAX_TOKEN = 1 << 14
_log = logging.getLogger("qserver.sign_on")

Fetch = Callable[[str], Mapping[str, Any]]


class Accounts(Protocol):
    """The owner's accounts."""

    def known(self, names: Sequence[str]) -> dict[str, Account]:
        """The known ones of these names."""


class Provider:
    """The public facts of a provider: its endpoints and its keys. Thread-safe.

    They are read when a token names a key that is not known, at most every ten seconds, and anew
    after five minutes, so that a key that the provider withdrew ends. While the provider is away
    the keys that are known stay in force.

    Args:
        issuer: its address, as its tokens have it.
        fetch: reads a JSON object from an address; OSError or ValueError if it cannot.
        clock: seconds, monotonic.
    """

    def __init__(
        self, issuer: str, *, fetch: Fetch, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.issuer = issuer
        self._fetch = fetch
        self._clock = clock
        self._lock = threading.Lock()
        self._facts: Mapping[str, Any] = {}
        self._keys: dict[str | None, Any] = {}
        self._next_fetch = 0.0
        self._stale_at = 0.0

    def endpoint(self, name: str) -> str:
        """The address of `authorization_endpoint` or another.

        Raises:
            AccessError: the provider cannot be reached, or has none.
        """
        with self._lock:
            if not self._facts:
                self._read()
            found = self._facts.get(name)
        if not isinstance(found, str):
            raise AccessError("The provider of single sign-on cannot be reached. Try again later.")
        return found

    def key(self, kid: str | None) -> Any:
        """The key of this id, or the only one; None if there is none."""
        found = self._fresh(kid)
        # Once there are keys nobody waits while another reads them: a flood of tokens with unknown
        # keys must not hold every thread.
        if found is None and self._lock.acquire(blocking=not self._keys):
            try:
                if self._fresh(kid) is None:
                    self._read()
            finally:
                self._lock.release()
        return self._find(kid)

    def _fresh(self, kid: str | None) -> Any:
        """The key, unless it was read long ago."""
        return self._find(kid) if self._clock() < self._stale_at else None

    def _find(self, kid: str | None) -> Any:
        if kid is None and len(self._keys) == 1:
            return next(iter(self._keys.values()))
        return None if kid is None else self._keys.get(kid)

    def _read(self) -> None:
        """Read facts and keys anew, unless they were read a moment ago."""
        now = self._clock()
        if now < self._next_fetch:
            return
        self._next_fetch = now + _FETCH_EVERY_S
        try:
            facts = self._fetch(f"{self.issuer.rstrip('/')}/.well-known/openid-configuration")
            self._check(facts)
            self._keys = _public_keys(self._fetch(facts["jwks_uri"]))
            self._facts, self._stale_at = facts, now + _FRESH_S
        except (OSError, ValueError) as exc:
            # Known keys stay in force.
            _log.warning("the provider %s cannot be read: %s", self.issuer, exc)

    def _check(self, facts: Mapping[str, Any]) -> None:
        if facts.get("issuer") != self.issuer:
            raise ValueError(f"it calls itself {facts.get('issuer')!r}")
        scheme = self.issuer.partition(":")[0]
        for name in ("jwks_uri", "authorization_endpoint", "token_endpoint"):
            if not str(facts.get(name)).startswith(f"{scheme}://"):
                raise ValueError(f"its {name} is no {scheme}:// address")


class SignOn:
    """Checks tokens of one provider. Thread-safe.

    Args:
        settings: those that begin with `oidc_`.
        accounts: the owner's.
        wall_clock: Unix time in seconds.
    """

    def __init__(
        self,
        settings: Settings,
        accounts: Accounts,
        provider: Provider,
        *,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self.settings = settings
        self.provider = provider
        self._accounts = accounts
        self._wall_clock = wall_clock

    @classmethod
    def of(cls, settings: Settings, accounts: Accounts) -> SignOn | None:
        """The sign-on of the settings, or None.

        Raises:
            ConfigError: its libraries are not installed.
        """
        if not settings.oidc_issuer:
            return None
        settings.check_installed()
        return cls(settings, accounts, Provider(settings.oidc_issuer, fetch=fetch_json))

    def caller(self, text: str) -> Caller:
        """The caller behind a token.

        Raises:
            UnauthenticatedError: it is none of ours, or out of date; which of them is not told.
            AccessError: none of the person's groups was let in; says which name is missing.
        """
        return self._caller(self._claims(text))

    def signed_in(self, text: str, *, nonce: str) -> Caller:
        """The caller behind a sign-in's ID token; raises as `caller`, also at another nonce."""
        claims = self._claims(text)
        audience, given = claims["aud"], claims.get("nonce")
        names = audience if isinstance(audience, list) else [audience]
        is_fresh = isinstance(given, str) and hmac.compare_digest(given.encode(), nonce.encode())
        if self.settings.oidc_client_id not in names or not is_fresh:
            raise UnauthenticatedError
        return self._caller(claims)

    def _claims(self, text: str) -> Mapping[str, Any]:
        from joserfc import jws, jwt
        from joserfc.errors import JoseError

        if len(text) > _MAX_TOKEN:
            raise UnauthenticatedError
        try:
            kid = jws.extract_compact(text.encode()).headers().get("kid")
            key = self.provider.key(kid) if isinstance(kid, str | None) else None
            if key is None:
                raise UnauthenticatedError
            claims: Mapping[str, Any] = jwt.decode(text, key, algorithms=list(ALGORITHMS)).claims
            self._rules().validate(claims)
        except (JoseError, ValueError) as exc:
            raise UnauthenticatedError from exc
        return claims

    def _rules(self) -> Any:
        from joserfc.jwt import JWTClaimsRegistry

        ours = sorted({self.settings.oidc_client_id, self.settings.oidc_audience} - {""})
        return JWTClaimsRegistry(
            now=int(self._wall_clock()),
            leeway=SKEW_S,
            iss={"essential": True, "value": self.settings.oidc_issuer},
            aud={"essential": True, "values": ours},
            exp={"essential": True},
            sub={"essential": True},
        )

    def _caller(self, claims: Mapping[str, Any]) -> Caller:
        person = self._name(claims)
        groups = _groups(claims.get(self.settings.oidc_groups_claim))
        names = [f"{group}/" for group in groups] + [f"{group}/{person}" for group in groups]
        known = self._accounts.known(names) if names else {}
        if any(not one.token_id for name, one in known.items() if not name.endswith("/")):
            raise UnauthenticatedError  # shut out of one group, out of all
        open_groups = [one for name, one in known.items() if name.endswith("/") and one.token_id]
        if not open_groups:
            raise AccessError(
                "None of your groups may ask here. The owner lets one in with: "
                "qserver account let-in GROUP/"
            )
        # A group of owners before others, then by name: so a person always is the same account.
        group = min(open_groups, key=lambda one: (one.role != "owner", one.name))
        name = f"{group.name}{person}"
        return Caller(name, group.role, f"sso:{name}")

    def _name(self, claims: Mapping[str, Any]) -> str:
        claim = self.settings.oidc_account_claim
        found = claims.get(claim)
        is_proven = claim != "email" or claims.get("email_verified") is True
        if not isinstance(found, str) or not is_proven or not is_plain_name(found):
            raise AccessError(
                f"Your `{claim}` at the provider cannot be the name of an account. "
                "Whoever runs this server chooses another claim by QSERVER_OIDC_ACCOUNT_CLAIM."
            )
        return found


def _groups(claim: object) -> list[str]:
    """The groups of a claim, a list or one text, that can be names here."""
    found = claim.split() if isinstance(claim, str) else claim
    named = found[:_MAX_GROUPS] if isinstance(found, list) else []
    return sorted({one for one in named if isinstance(one, str) and is_plain_name(one)})


def _public_keys(found: Mapping[str, Any]) -> dict[str | None, Any]:
    """The public keys of a set by id; other entries are left out."""
    from joserfc.errors import JoseError
    from joserfc.jwk import import_key

    keys: dict[str | None, Any] = {}
    for one in found.get("keys") or ():
        if isinstance(one, dict) and one.get("kty") in ("RSA", "EC", "OKP"):
            try:
                keys[one.get("kid")] = import_key(one)
            except (JoseError, ValueError):
                continue  # of a kind that we do not know
    return keys


def fetch_json(url: str) -> Mapping[str, Any]:
    """The JSON object at an address; OSError or ValueError without one."""
    import urllib3

    try:
        reply = urllib3.request(
            "GET", url, timeout=_FETCH_S, retries=False, redirect=False, preload_content=False
        )
        body = reply.read(_MAX_BYTES)
        reply.release_conn()
    except urllib3.exceptions.HTTPError as exc:
        raise OSError(str(exc)) from exc
    found = json.loads(body)
    if reply.status != 200 or not isinstance(found, dict):
        raise ValueError(f"{url} answers {reply.status}")
    return found
