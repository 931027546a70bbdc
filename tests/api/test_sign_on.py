"""Single sign-on: which tokens of a provider count, and as whose; new keys, skewed clocks."""

from __future__ import annotations

import hmac
import json
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, OKPKey, RSAKey

from qserver.api.access import Credentials, TokenAccess
from qserver.api.sign_on import SKEW_S, Provider, SignOn
from qserver.config import Settings
from qserver.errors import (
    AccessError,
    ConfigError,
    UnauthenticatedError,
)
from qserver.records.account import NO_TOKEN, Account

ISSUER = "https://id.example/realm"
NOW = 1_800_000_000
SETTINGS = Settings(
    oidc_issuer=ISSUER,
    oidc_client_id="pages",
    oidc_audience="qserver",
)
KEY = ECKey.generate_key("P-256", {"kid": "one"})


@dataclass
class World:
    """A provider whose keys a test changes, the owner's accounts, and two clocks."""

    keys: list[Any] = field(default_factory=lambda: [KEY])
    accounts: dict[str, Account] = field(
        default_factory=lambda: {
            "analysts/": Account("analysts/", "analyst", 0, NO_TOKEN),
            "board/": Account("board/", "owner", 0, NO_TOKEN),
            "retired/": Account("retired/", "owner", 0, ""),
            "analysts/gone": Account("analysts/gone", "analyst", 0, ""),
            "analysts/back": Account("analysts/back", "analyst", 0, NO_TOKEN),
            "ann": Account("ann", "owner", 0, "t1"),
        }
    )
    issuer: str = ISSUER
    facts: dict[str, str] = field(default_factory=dict)
    is_away: bool = False
    n_fetched: int = 0
    uptime: float = 0.0

    def fetch(self, url: str) -> Mapping[str, Any]:
        self.n_fetched += 1
        if self.is_away:
            raise OSError("away")
        if url == f"{ISSUER}/.well-known/openid-configuration":
            facts = {"issuer": self.issuer, "jwks_uri": f"{ISSUER}/keys"}
            facts |= {f"{name}_endpoint": f"{ISSUER}/{name}" for name in ("authorization", "token")}
            return facts | self.facts
        assert url == f"{ISSUER}/keys"
        return {"keys": [key.as_dict(private=False) for key in self.keys]}

    def known(self, names: Sequence[str]) -> dict[str, Account]:
        return {name: self.accounts[name] for name in names if name in self.accounts}

    def sign_on(self, settings: Settings = SETTINGS, *, now: int = NOW) -> SignOn:
        provider = Provider(ISSUER, fetch=self.fetch, clock=lambda: self.uptime)
        return SignOn(settings, self, provider, wall_clock=lambda: now)


@pytest.fixture
def world() -> World:
    return World()


def token(key: Any = KEY, *, alg: str = "ES256", kid: str | None = "one", **changed: Any) -> str:
    """A token of the provider for Ann; None leaves a claim out."""
    claims: dict[str, Any] = {
        "iss": ISSUER,
        "aud": "qserver",
        "sub": "ann",
        "groups": ["analysts", "choir"],
    }
    claims |= {"iat": NOW - 10, "exp": NOW + 300, **changed}
    header = {"alg": alg} | ({} if kid is None else {"kid": kid})
    kept = {name: value for name, value in claims.items() if value is not None}
    return jwt.encode(header, kept, key, algorithms=[alg])


def test_a_token_of_the_provider_stands_for_an_account(world: World) -> None:
    caller = world.sign_on().caller(token())
    assert (caller.account, caller.role) == ("analysts/ann", "analyst")


@pytest.mark.parametrize(
    ("make", "alg"),
    [
        (lambda: RSAKey.generate_key(2048, {"kid": "one"}), "RS256"),
        (lambda: OKPKey.generate_key("Ed25519", {"kid": "one"}), "Ed25519"),
    ],
)
def test_other_kinds_of_public_keys_count(world: World, make: Any, alg: str) -> None:
    world.keys = [key := make()]
    assert world.sign_on().caller(token(key, alg=alg)).account == "analysts/ann"


def with_header(header: dict[str, str], sign: Callable[[bytes], bytes]) -> str:
    """A token that counts but for its header and its signature, made without a library."""
    head = urlsafe_b64encode(json.dumps(header).encode()).rstrip(b"=")
    signed = head + b"." + token().split(".")[1].encode()
    return (signed + b"." + urlsafe_b64encode(sign(signed)).rstrip(b"=")).decode()


def signed_with_the_public_key(text: bytes) -> bytes:
    """Signed by what everybody knows, as if it were a shared secret."""
    return hmac.digest(KEY.as_pem(private=False), text, "sha256")


UNSIGNED = with_header({"alg": "none", "kid": "one"}, lambda _text: b"")
CONFUSED = with_header({"alg": "HS256", "kid": "one"}, signed_with_the_public_key)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(token(exp=NOW - SKEW_S), id="expired"),
        pytest.param(token(exp=None), id="never expires"),
        pytest.param(token(exp=float("nan")), id="expires at no number"),
        pytest.param(token(nbf=NOW + SKEW_S + 1), id="not yet in force"),
        pytest.param(token(iat=NOW + SKEW_S + 1), id="issued in the future"),
        pytest.param(token(aud="another"), id="wrong audience"),
        pytest.param(token(aud=["another", "third"]), id="wrong audiences"),
        pytest.param(token(aud=None), id="no audience"),
        pytest.param(token(iss="https://id.example/other"), id="wrong issuer"),
        pytest.param(token(iss=ISSUER + "/"), id="nearly the issuer"),
        pytest.param(token(iss=None), id="no issuer"),
        pytest.param(token(sub=None), id="nobody"),
        pytest.param(token(sub="gone"), id="revoked"),
        pytest.param(token(ECKey.generate_key("P-256")), id="another's key"),
        pytest.param(token(kid="two"), id="unknown key"),
        pytest.param(UNSIGNED, id="not signed"),
        pytest.param(CONFUSED, id="public key as a secret"),
        pytest.param(token()[:-4] + "AAAA", id="changed signature"),
        pytest.param("a.b.c", id="no token"),
        pytest.param("ä.b.c", id="not ASCII"),
        pytest.param("e30.e30.", id="empty"),
        pytest.param(token(pad="x" * (1 << 14)), id="very long"),
    ],
)
def test_a_token_that_does_not_count_is_refused_without_a_reason(world: World, text: str) -> None:
    with pytest.raises(UnauthenticatedError):
        world.sign_on().caller(text)


@pytest.mark.parametrize(
    "changed", [{"exp": NOW - SKEW_S + 1}, {"iat": NOW + SKEW_S}, {"nbf": NOW + SKEW_S}]
)
def test_a_clock_that_is_a_minute_off_does_no_harm(world: World, changed: dict[str, Any]) -> None:
    assert world.sign_on().caller(token(**changed)).account == "analysts/ann"


@pytest.mark.parametrize(
    ("groups", "name", "role"),
    [
        (["analysts"], "analysts/ann", "analyst"),
        (["choir", "analysts", "board"], "board/ann", "owner"),
        ("analysts board", "board/ann", "owner"),
        (["retired", "analysts"], "analysts/ann", "analyst"),
        (["board/", "board/x", "", 7, None, "analysts"], "analysts/ann", "analyst"),
    ],
)
def test_a_role_is_that_of_a_group_which_the_owner_let_in(
    world: World, groups: object, name: str, role: str
) -> None:
    caller = world.sign_on().caller(token(groups=groups))
    assert (caller.account, caller.role) == (name, role)


def test_a_name_of_the_provider_is_never_an_account_with_a_token(world: World) -> None:
    """`ann` of our own is an owner, and the provider's Ann an analyst."""
    caller = world.sign_on().caller(token(sub="ann"))
    assert (caller.account, caller.role) == ("analysts/ann", "analyst")


def test_who_was_shut_out_of_one_group_comes_in_by_no_other(world: World) -> None:
    with pytest.raises(UnauthenticatedError):
        world.sign_on().caller(token(sub="gone", groups=["analysts", "board"]))
    assert world.sign_on().caller(token(sub="back")).account == "analysts/back"


@pytest.mark.parametrize(
    ("claims", "said"),
    [
        ({"groups": ["choir"]}, "None of your groups"),
        ({"groups": ["retired"]}, "None of your groups"),
        ({"groups": None}, "None of your groups"),
        ({"groups": []}, "None of your groups"),
        ({"groups": {"analysts": 1}}, "None of your groups"),
        ({"sub": "auth0|7"}, "`sub` at the provider cannot be the name"),
        ({"sub": "analysts/ann"}, "`sub` at the provider cannot be the name"),
        ({"sub": "x" * 65}, "`sub` at the provider cannot be the name"),
    ],
)
def test_a_person_who_may_not_ask_is_told_why(
    world: World, claims: dict[str, Any], said: str
) -> None:
    with pytest.raises(AccessError, match=said) as caught:
        world.sign_on().caller(token(**claims))
    assert not isinstance(caught.value, UnauthenticatedError)


def test_an_address_may_be_the_name_once_the_provider_proved_it(world: World) -> None:
    sign_on = world.sign_on(replace(SETTINGS, oidc_account_claim="email"))
    sent: dict[str, Any] = {"email": "ann@example.org", "email_verified": True}
    assert sign_on.caller(token(**sent)).account == "analysts/ann@example.org"
    with pytest.raises(AccessError, match="`email` at the provider cannot"):
        sign_on.caller(token(email="ann@example.org"))


def test_a_new_key_is_found_and_an_old_one_ends_with_it(world: World) -> None:
    sign_on = world.sign_on()
    sign_on.caller(token())
    world.keys = [new := ECKey.generate_key("P-256", {"kid": "two"})]
    world.uptime += 10
    assert sign_on.caller(token(new, kid="two")).account == "analysts/ann"
    with pytest.raises(UnauthenticatedError):
        sign_on.caller(token())


def test_unknown_keys_do_not_send_us_to_the_provider_again_and_again(world: World) -> None:
    sign_on = world.sign_on()
    sign_on.caller(token())
    before = world.n_fetched
    for i in range(50):
        with pytest.raises(UnauthenticatedError):
            sign_on.caller(token(kid=f"unknown-{i}"))
    assert world.n_fetched == before


def test_known_keys_stay_in_force_while_the_provider_is_away(world: World) -> None:
    sign_on = world.sign_on()
    sign_on.caller(token())
    world.is_away, world.uptime = True, 1000.0
    with pytest.raises(UnauthenticatedError):
        sign_on.caller(token(kid="unknown"))
    assert sign_on.caller(token()).account == "analysts/ann"


def test_a_key_that_the_provider_withdrew_ends_in_five_minutes(world: World) -> None:
    """Though nobody sends a token with a new one."""
    sign_on = world.sign_on()
    sign_on.caller(token())
    world.keys, world.uptime = [ECKey.generate_key("P-256", {"kid": "two"})], 299.0
    assert sign_on.caller(token()).account == "analysts/ann"
    world.uptime = 301.0
    with pytest.raises(UnauthenticatedError):
        sign_on.caller(token())


@pytest.mark.parametrize("name", ["jwks_uri", "authorization_endpoint", "token_endpoint"])
def test_a_provider_whose_addresses_have_no_tls_is_not_believed(world: World, name: str) -> None:
    world.facts = {name: "http://id.example/there"}
    with pytest.raises(UnauthenticatedError):
        world.sign_on().caller(token())


def test_a_provider_that_calls_itself_otherwise_is_not_believed(world: World) -> None:
    world.issuer = "https://elsewhere.example"
    with pytest.raises(UnauthenticatedError):
        world.sign_on().caller(token())


@pytest.mark.parametrize(
    ("claims", "nonce"),
    [({"nonce": "n"}, "other"), ({}, "n"), ({"nonce": "n", "aud": "qserver"}, "n")],
)
def test_an_id_token_of_another_sign_in_or_client_is_refused(
    world: World, claims: dict[str, Any], nonce: str
) -> None:
    with pytest.raises(UnauthenticatedError):
        world.sign_on().signed_in(token(**{"aud": "pages", **claims}), nonce=nonce)


def test_the_id_token_of_this_sign_in_counts(world: World) -> None:
    found = world.sign_on().signed_in(token(aud=["pages", "x"], nonce="n"), nonce="n")
    assert found.account == "analysts/ann"


class Rates:
    """Counts nothing, and knows no token of ours."""

    def pass_one(self, whose: str, *, rate: int) -> None:
        self.last = whose

    def token_record(self, token_id: str) -> None:
        return None


def test_a_token_is_checked_again_each_second(world: World) -> None:
    rates, uptime = Rates(), [0.0]
    access = TokenAccess(
        rates,
        rates,
        token_rate=1,
        address_rate=1,
        sign_on=world.sign_on(),
        clock=lambda: uptime[0],
    )
    sent = Credentials(f"Bearer {token()}", "192.0.2.1")
    assert access.admit(sent).account == "analysts/ann"
    assert rates.last == "token:sso:analysts/ann"
    world.accounts["analysts/ann"] = Account("analysts/ann", "analyst", 0, "")
    assert access.admit(sent).account == "analysts/ann"
    uptime[0] += 1.0
    with pytest.raises(UnauthenticatedError):
        access.admit(sent)


def test_without_a_provider_its_tokens_are_refused() -> None:
    rates = Rates()
    access = TokenAccess(rates, rates, token_rate=1, address_rate=1)
    with pytest.raises(UnauthenticatedError):
        access.admit(Credentials(f"Bearer {token()}", "192.0.2.1"))


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"oidc_issuer": "http://id.example"}, "oidc_issuer"),
        ({"oidc_issuer": "id.example"}, "oidc_issuer"),
        ({"oidc_client_id": ""}, "oidc_client_id"),
        ({"oidc_issuer": "https://id.example/?x=1"}, "oidc_issuer"),
        ({"oidc_issuer": ""}, "oidc_issuer"),
        ({"oidc_groups_claim": ""}, "oidc_groups_claim"),
    ],
)
def test_settings_that_cannot_work_are_refused(changed: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigError, match=f"`{named}` must"):
        replace(SETTINGS, **changed)


def test_what_is_not_installed_is_said_with_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("qserver.config.find_spec", lambda name: name != "joserfc" or None)
    with pytest.raises(ConfigError, match=r"`oidc_issuer` must .* pip install 'qserver\[sso\]'"):
        SETTINGS.check_installed()
    Settings().check_installed()


def test_it_is_off_without_an_issuer(world: World) -> None:
    assert SignOn.of(Settings(), world) is None
