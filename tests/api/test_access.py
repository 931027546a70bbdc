"""Who gets in: tokens, roles, rates and open access, over real HTTP where that matters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from threading import Thread
from typing import cast

import pytest
from flask import Flask
from werkzeug.serving import make_server

from qserver.api.access import Credentials, OpenAccess, TokenAccess
from qserver.api.app import create_app
from qserver.api.gate import PUBLIC_PATHS
from qserver.api.openapi import openapi_document, routes_of
from qserver.errors import AccessError, RateLimitedError, StoreError, UnauthenticatedError
from qserver.records import account as accounts
from qserver.records.account import Role, Token, TokenRecord
from qserver.service.service import Service
from tests.api.calls import ASK, QUESTION, Caller, Reply, assert_problem
from tests.api.fake_answers import MEASURED
from tests.api.fake_service import FakeService
from tests.api.quiet_server import QuietHandler

pytestmark = [
    pytest.mark.promise(
        "Accounts",
        "only a token in force gets in; revocation ends it within a second; kept answers lie "
        "behind the gate",
    ),
    pytest.mark.promise(
        "Accounts",
        "nobody without a token learns a dataset's name",
    ),
    pytest.mark.promise(
        "Accounts",
        "rates hold over all processes, of IPv6 by network, and IPv4 however it is spelled",
    ),
]

OWNERS = ("/v1/audit", "/v1/datasets/adult/audit", "/v1/datasets/adult/spending")
READ = tuple(f"/v1/datasets{rest}" for rest in ("", "/adult", "/adult/history", "/adult/history/0"))
NAMES = ("ann", "boss", "gone")
ROLES: dict[str, Role] = {"ann": "analyst", "boss": "owner", "gone": "analyst"}
TOKENS = {name: Token.new() for name in NAMES}


@pytest.fixture(scope="module")
def records() -> dict[str, TokenRecord]:
    """A record for each token; the slow hash is paid once for this module."""
    return {t.id: TokenRecord.of(t, account=n, role=ROLES[n]) for n, t in TOKENS.items()}


@dataclass
class Site:
    """Accounts in memory, counted, with a clock of the test's own."""

    records: dict[str, TokenRecord]
    limited: set[str] = field(default_factory=set)
    passed: Counter[tuple[str, int]] = field(default_factory=Counter)
    asked: list[str] = field(default_factory=list)
    now: float = 0.0
    failure: Exception | None = None

    def token_record(self, token_id: str) -> TokenRecord | None:
        if self.failure:
            raise self.failure
        self.asked.append(token_id)
        return self.records.get(token_id)

    def pass_one(self, whose: str, *, rate: int) -> None:
        self.passed[whose, rate] += 1
        if whose in self.limited:
            raise RateLimitedError(retry_after_s=3)

    def access(self) -> TokenAccess:
        return TokenAccess(self, self, token_rate=10, address_rate=20, clock=lambda: self.now)


@pytest.fixture
def site(records: dict[str, TokenRecord]) -> Site:
    return Site(dict(records))


def bearer(name: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {TOKENS[name].text}"}


def sent(text: str, address: str = "192.0.2.1") -> Credentials:
    return Credentials(text, address)


@dataclass(frozen=True)
class Served:
    """The app on a free port, with its service and its accounts."""

    caller: Caller
    service: FakeService
    site: Site
    app: Flask


@pytest.fixture
def served(site: Site) -> Iterator[Served]:
    service = FakeService()
    app = create_app(
        cast("Service", service), access=site.access(), wait_s=1, max_body_bytes=4096, n_proxies=1
    )
    server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=QuietHandler)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield Served(Caller("127.0.0.1", server.server_port), service, site, app)
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_token_admits_its_account_in_its_role(site: Site) -> None:
    caller = site.access().admit(sent(f"Bearer {TOKENS['boss'].text}"))
    assert (caller.account, caller.role, caller.token_id) == ("boss", "owner", TOKENS["boss"].id)
    assert site.access().admit(sent(f"bearer  {TOKENS['ann'].text} ")).account == "ann"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Bearer",
        "Bearer ",
        TOKENS["ann"].text,
        f"Basic {TOKENS['ann'].text}",
        f"Bearer {TOKENS['ann'].text}x",
        f"Bearer {TOKENS['ann'].text},{TOKENS['boss'].text}",
        f"Bearer {Token.new().text}",
        f"Bearer {Token(TOKENS['ann'].id, TOKENS['boss'].secret).text}",
        f"Bearer {Token(TOKENS['boss'].id, TOKENS['ann'].secret).text}",
    ],
    ids=range(10),
)
def test_whatever_is_no_token_in_force_is_refused_in_the_same_words(site: Site, text: str) -> None:
    with pytest.raises(UnauthenticatedError) as refusal:
        site.access().admit(sent(text))
    assert str(refusal.value) == str(UnauthenticatedError())


def test_a_checked_token_is_hashed_once_and_looked_up_once_a_second(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    hashed: list[str] = []
    slow = accounts._slow_hash
    monkeypatch.setattr(accounts, "_slow_hash", lambda s, salt: hashed.append(s) or slow(s, salt))
    access = site.access()
    for tenth in range(30):
        site.now = tenth / 10
        access.admit(sent(f"Bearer {TOKENS['ann'].text}"))
    assert len(hashed) == 1
    assert len(site.asked) == 3


def test_a_revoked_token_ends_within_a_second(site: Site) -> None:
    access = site.access()
    access.admit(sent(f"Bearer {TOKENS['gone'].text}"))
    del site.records[TOKENS["gone"].id]
    site.now = 1.0
    with pytest.raises(UnauthenticatedError):
        access.admit(sent(f"Bearer {TOKENS['gone'].text}"))


def test_a_changed_record_is_checked_anew(site: Site) -> None:
    access = site.access()
    access.admit(sent(f"Bearer {TOKENS['gone'].text}"))
    one = TOKENS["gone"].id
    site.records[one] = replace(site.records[one], role="owner")
    site.now = 1.0
    assert access.admit(sent(f"Bearer {TOKENS['gone'].text}")).role == "owner"
    site.records[one] = replace(site.records[one], digest="00" * 32)
    site.now = 2.0
    with pytest.raises(UnauthenticatedError):
        access.admit(sent(f"Bearer {TOKENS['gone'].text}"))


def test_the_address_is_counted_before_a_secret_is_tried(site: Site) -> None:
    access = site.access()
    site.limited = {"address:192.0.2.1"}
    with pytest.raises(RateLimitedError):
        access.admit(sent(f"Bearer {TOKENS['ann'].text}"))
    assert site.asked == []
    site.limited = {f"token:{TOKENS['ann'].id}"}
    with pytest.raises(RateLimitedError):
        access.admit(sent(f"Bearer {TOKENS['ann'].text}"))
    access.admit(sent(f"Bearer {TOKENS['boss'].text}"))


def test_an_ipv6_sender_is_counted_by_its_network(site: Site) -> None:
    access = site.access()
    for address in ("2001:db8::1", "2001:db8::ffff:1", "2001:db8:0:1::1", "no address"):
        access.admit(sent(f"Bearer {TOKENS['ann'].text}", address))
    keys = [("address:2001:db8::", 20), ("address:2001:db8:0:1::", 20), ("address:unknown", 20)]
    assert [site.passed[key] for key in keys] == [2, 1, 1]


@pytest.mark.parametrize(
    ("address", "forwarded", "inside"),
    [
        ("127.0.0.1", False, True),
        ("::1", False, True),
        ("127.0.0.1", True, False),
        ("192.168.0.7", False, False),
        ("", False, False),
    ],
)
def test_open_access_is_for_this_machine_alone(address: str, forwarded: bool, inside: bool) -> None:
    credentials = Credentials("", address, forwarded)
    if inside:
        assert OpenAccess().admit(credentials).role == "owner"
        return
    with pytest.raises(AccessError, match="open to its own machine alone"):
        OpenAccess().admit(credentials)


def test_every_path_but_the_public_ones_needs_a_token(served: Served) -> None:
    document = openapi_document(served.app)
    for route in routes_of(served.app):
        path = route.path.replace("{dataset}", "adult").replace("{job_id}", "j")
        path = path.replace("{measurement}", "0").replace("{model}", "m1")
        assert "{" not in path
        reply = served.caller.call(route.method, path)
        is_public = route.path in PUBLIC_PATHS
        assert is_public == route.operation.is_public
        security = document["paths"][route.path][route.method.lower()].get("security")
        assert (security == []) == is_public
        if is_public:
            assert reply.status == 200
        else:
            assert_problem(reply, 401, "unauthenticated")
            assert reply.headers["WWW-Authenticate"] == 'Bearer realm="qserver"'
    assert_problem(served.caller.get("/nowhere"), 401, "unauthenticated")
    assert_problem(served.caller.get("/healthz/"), 401, "unauthenticated")
    assert served.service.calls_of("ask") == []


def test_an_analyst_asks_and_reads_and_only_an_owner_audits(served: Served) -> None:
    assert served.caller.post(ASK, QUESTION, bearer("ann")).status == 200
    for path in READ:
        assert served.caller.get(path, bearer("ann")).status == 200
    for path in OWNERS:
        assert_problem(served.caller.get(path, bearer("ann")), 403, "forbidden")
        assert served.caller.get(path, bearer("boss")).status == 200


def test_a_question_is_asked_in_the_name_of_its_account(served: Served) -> None:
    served.service.outcome = MEASURED
    served.caller.post(ASK, QUESTION, bearer("ann"))
    served.caller.post(ASK, QUESTION, bearer("boss"))
    assert [call["by"] for call in served.service.calls_of("ask")] == ["ann", "boss"]
    served.caller.post("/v1/datasets/adult/explain", QUESTION, bearer("ann"))
    assert [call["by"] for call in served.service.calls_of("explain")] == ["ann"]


def test_a_kept_answer_is_given_to_no_stranger(served: Served) -> None:
    first = served.caller.post(ASK, QUESTION, bearer("ann"))
    again = served.caller.post(ASK, QUESTION, bearer("ann"))
    assert first.body == again.body
    assert len(served.service.calls_of("ask")) == 1
    assert_problem(served.caller.post(ASK, QUESTION), 401, "unauthenticated")


def test_two_tokens_may_use_one_idempotency_key(served: Served) -> None:
    def ask(name: str, length: int) -> Reply:
        headers = {**bearer(name), "Idempotency-Key": "k"}
        return served.caller.post(ASK, {**QUESTION, "length": length}, headers)

    assert ask("ann", 100).status == 200
    assert ask("boss", 200).status == 200
    assert_problem(ask("ann", 200), 422, "idempotency_mismatch")


def test_too_many_requests_are_told_when_to_come_back(served: Served) -> None:
    served.site.limited = {f"token:{TOKENS['ann'].id}"}
    reply = served.caller.post(ASK, QUESTION, bearer("ann"))
    assert_problem(reply, 429, "rate_limited")
    assert reply.headers["Retry-After"] == "3"


def test_the_address_is_the_one_that_our_own_proxy_saw(served: Served) -> None:
    """What the client itself wrote into X-Forwarded-For stands further left."""
    headers = {**bearer("ann"), "X-Forwarded-For": "203.0.113.9, 198.51.100.2"}
    served.caller.get("/v1/datasets", headers)
    assert served.site.passed["address:198.51.100.2", 20] == 1


def test_nobody_gets_in_while_accounts_cannot_be_read(served: Served) -> None:
    served.site.failure = StoreError("redis://secret@host")
    reply = served.caller.get("/v1/datasets", bearer("ann"))
    assert "secret" not in assert_problem(reply, 503, "store_error")["detail"]
    served.site.failure = RuntimeError("private")
    reply = served.caller.get("/v1/datasets", bearer("ann"))
    problem = assert_problem(reply, 500, "internal")
    assert "private" not in str(problem)
    assert problem["request_id"] == reply.headers["X-Request-Id"]


def test_readiness_names_no_dataset_to_who_has_no_token(served: Served) -> None:
    """An open server names them (`test_http_answers.py`)."""
    ready = {"status": "ready", "workers": "some", "worker_alive": {}}
    assert served.caller.get("/readyz").document == ready


def test_an_ipv4_address_is_the_same_on_a_socket_for_both_kinds(site: Site) -> None:
    """Else all of them would share the one rate of `::/64`."""
    access = site.access()
    for address in ("::ffff:192.0.2.1", "192.0.2.1", "::ffff:192.0.2.2"):
        access.admit(sent(f"Bearer {TOKENS['ann'].text}", address))
    counted = {whose: n for (whose, _), n in site.passed.items() if whose.startswith("address:")}
    assert counted == {"address:192.0.2.1": 2, "address:192.0.2.2": 1}
    assert OpenAccess().admit(sent("", "::ffff:127.0.0.1")).role == "owner"
    with pytest.raises(AccessError):
        OpenAccess().admit(sent("", "::ffff:192.0.2.1"))
