"""The HTTP client: connections are kept, nothing is sent twice that may spend, no token strays."""

from __future__ import annotations

import asyncio
import functools
import os
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from qserver.client import AsyncClient, Client
from qserver.client import http as http_client
from qserver.client.dbapi import connect
from qserver.client.errors import ServerProblemError, ServerUnreachableError
from qserver.client.http import HttpClient, default_url
from qserver.errors import ConfigError
from tests.client.sites import (
    TLS,
    Behaviour,
    Site,
    answer,
    answer_and_hang_up,
    answer_half,
    hang_up,
    running_site,
    tunnel,
)

# What `openssl x509 -hash` says of authority.pem: by this name a folder of authorities has it.
AUTHORITY_HASH = "02cc8b52"
KEYED = {"Idempotency-Key": "k1"}


@pytest.fixture
def site() -> Iterator[Site]:
    with running_site() as found:
        yield found


@pytest.fixture
def secure() -> Iterator[Site]:
    with running_site(tls=True) as found:
        yield found


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of the machine that the tests run on."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    for name in ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUEST_METHOD"):
        monkeypatch.delenv(name, raising=False)


def post(client: HttpClient, headers: dict[str, str] | None = None) -> object:
    return client.post("v1", document={"a": 1}, headers=headers).document["n"]


def test_one_connection_serves_many_calls(site: Site) -> None:
    client = HttpClient(site.url)
    assert client.get("a").document == {"n": 1}
    assert post(client) == 2
    assert client.get_text("a") == '{"n": 3}'
    assert b"".join(client.chunks("a", query={"x": "1"})) == b'{"n": 4}'
    site.behave = [functools.partial(answer, document={"code": "c"}, status=404)]
    with pytest.raises(ServerProblemError):
        client.get("a")
    assert client.get("a").document == {"n": 6}
    assert site.n_connections == 1


def test_both_clients_keep_their_connection(site: Site) -> None:
    empty = functools.partial(answer, document={"datasets": [], "next_after": None})
    site.behave = [empty] * 10
    client, awaited = Client(site.url), AsyncClient(site.url)
    for _ in range(5):
        assert client.datasets() == []

    async def five() -> None:
        for _ in range(5):
            assert await awaited.datasets() == []

    asyncio.run(five())
    assert (len(site.seen), site.n_connections) == (10, 2)


def test_threads_share_a_client_without_mixing_replies(site: Site) -> None:
    client = HttpClient(site.url)
    site.behave = [lambda handler: answer(handler, {"path": handler.path})] * 200

    def ask(i: int) -> bool:
        return client.get(str(i)).document == {"path": f"/{i}"}

    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(ask, range(200)))
    assert site.n_connections <= 8


def test_a_connection_that_was_closed_while_idle_is_replaced_unseen(site: Site) -> None:
    client = HttpClient(site.url)
    site.behave = [answer_and_hang_up, answer_and_hang_up]
    assert client.get("a").document == {"n": 1}
    assert client.get("a").document == {"n": 2}
    assert post(client, KEYED) == 3
    assert [seen.connection for seen in site.seen] == [1, 2, 3]


@pytest.mark.parametrize("n_before", [0, 1])
@pytest.mark.parametrize(
    ("call", "n_sent"),
    [
        (lambda client: client.get("a"), 2),
        (lambda client: client.get_text("a"), 2),
        (lambda client: list(client.chunks("a", query={})), 2),
        (lambda client: post(client, KEYED), 2),
        (post, 1),
    ],
)
def test_what_may_be_repeated_is_sent_once_more_and_nothing_else_is(
    site: Site, call: Callable[[HttpClient], object], n_sent: int, n_before: int
) -> None:
    """The server takes the request and hangs up: whether it did anything is unknown."""
    client = HttpClient(site.url)
    for _ in range(n_before):
        client.get("a")
    site.behave = [hang_up]
    if n_sent == 1:
        with pytest.raises(ServerUnreachableError, match="No qserver answers"):
            call(client)
    else:
        call(client)
    again = site.seen[n_before:]
    assert len(again) == n_sent
    assert len({(seen.line, seen.body, seen.headers.get("idempotency-key")) for seen in again}) == 1


def test_a_request_is_repeated_once_and_not_for_ever(site: Site) -> None:
    site.behave = [hang_up] * 9
    with pytest.raises(ServerUnreachableError):
        HttpClient(site.url).get("a")
    assert len(site.seen) == 2


def test_a_reply_that_breaks_off_or_goes_on_too_long_spoils_no_other(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = HttpClient(site.url)
    site.behave = [answer_half]
    with pytest.raises(ServerUnreachableError):
        client.get("a")
    monkeypatch.setattr(http_client, "MAX_REPLY_BYTES", 100)
    site.behave = [functools.partial(answer, document={"long": "x" * 10**6})]
    with pytest.raises(ServerProblemError, match="is not qserver's"):
        client.get("a")
    site.behave = [functools.partial(answer, document={"long": "x" * 10**6})]
    next(client.chunks("a", query={}))
    assert client.get("a").document == {"n": 4}


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("keyed", [True, False])
def test_no_redirection_is_followed_so_the_token_stays_where_it_was_given(
    site: Site, status: int, keyed: bool
) -> None:
    with running_site() as other:
        client = HttpClient(site.url, token="secret")
        to_other: Behaviour = functools.partial(answer, status=status, Location=f"{other.url}/b")
        site.behave = [to_other] * 4
        headers = KEYED if keyed else None
        calls: list[Callable[[], object]] = [
            lambda: client.get("a"),
            lambda: client.get_text("a"),
            lambda: list(client.chunks("a", query={})),
            lambda: post(client, headers),
        ]
        for call in calls:
            with pytest.raises(ServerProblemError, match="sends us to another address") as caught:
                call()
            assert (caught.value.code, caught.value.status) == ("bad_reply", status)
        assert {seen.headers["authorization"] for seen in site.seen} == {"Bearer secret"}
        assert other.n_connections == 0


def test_the_proxy_of_the_environment_is_used_with_its_credentials(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", f"http://ann:a%40b@127.0.0.1:{site.port}")
    client = HttpClient("http://qserver.test:8123/prefix")
    assert client.get("a").document == {"n": 1}
    assert post(client) == 2
    assert [seen.line for seen in site.seen] == [
        "GET http://qserver.test:8123/prefix/a",
        "POST http://qserver.test:8123/prefix/v1",
    ]
    assert site.seen[0].headers["proxy-authorization"] == "Basic YW5uOmFAYg=="
    assert site.n_connections == 1


def test_a_server_that_is_away_is_one_line_that_names_the_address() -> None:
    """No screen of what lies below; the reason is in the line, and the error still to be had."""
    with pytest.raises(ServerUnreachableError) as caught:
        Client("http://127.0.0.1:1", retries=0).datasets()
    text = str(caught.value)
    assert "\n" not in text
    assert text.startswith("No qserver answers at http://127.0.0.1:1 (Connection refused).")
    assert "QSERVER_URL" in text
    shown = "".join(traceback.format_exception(caught.value))
    assert shown.count("Traceback") == 1
    assert "urllib3" not in shown
    assert caught.value.__context__ is not None


CLIENTS: dict[str, Callable[[], object]] = {
    "Client": lambda: Client().datasets(),
    "AsyncClient": lambda: asyncio.run(AsyncClient().datasets()),
    "connect": lambda: connect().client.datasets(),
}


@pytest.mark.parametrize("name", CLIENTS)
def test_the_address_is_that_of_the_environment_where_none_is_given(
    site: Site, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    empty = functools.partial(answer, document={"datasets": [], "next_after": None})
    site.behave = [empty]
    monkeypatch.setenv("QSERVER_URL", site.url)
    assert CLIENTS[name]() == []
    assert len(site.seen) == 1


def test_an_address_that_is_given_comes_before_the_environment(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QSERVER_URL", "http://127.0.0.1:1")
    site.behave = [functools.partial(answer, document={"datasets": [], "next_after": None})]
    assert Client(site.url).datasets() == []
    monkeypatch.setenv("QSERVER_URL", "")
    assert default_url(os.environ) == "http://127.0.0.1:8000"


def test_this_machine_is_reached_through_a_proxy_only_when_told(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    assert HttpClient(site.url).get("a").document == {"n": 1}
    with running_site() as proxy:
        assert HttpClient(site.url, proxy=proxy.url).get("a").document == {"n": 1}
        assert proxy.seen[0].line == f"GET {site.url}/a"
    assert len(site.seen) == 1


def test_no_proxy_is_honoured_and_so_is_an_explicit_none(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", site.url)
    monkeypatch.setenv("NO_PROXY", "elsewhere, .invalid")
    for client in (
        HttpClient("http://qserver.invalid", timeout_s=5),
        HttpClient("http://qserver.example.invalid", timeout_s=5),
        HttpClient("http://other.test.invalid:1", timeout_s=5, proxy=""),
    ):
        with pytest.raises(ServerUnreachableError, match="No qserver answers at"):
            client.get("a")
    assert site.n_connections == 0


def test_a_proxy_that_is_away_or_refuses_is_named_and_its_password_is_not(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://ann:hidden@127.0.0.1:1")
    with pytest.raises(ServerUnreachableError, match="The proxy on the way to") as caught:
        HttpClient("https://qserver.test").get("a")
    assert "hidden" not in str(caught.value)
    site.behave = [functools.partial(answer, status=403)]
    with pytest.raises(ServerUnreachableError, match=r"refuses the connection \(.*403"):
        HttpClient("https://qserver.test", proxy=site.url).get("a")
    with pytest.raises(ConfigError, match="`proxy` must be http://") as wrong:
        HttpClient("https://qserver.test", proxy="socks5://ann:hidden@host")
    assert "hidden" not in str(wrong.value)


def test_a_private_authority_is_accepted_by_name_and_refused_without(
    secure: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = TLS / "authority.pem"
    with pytest.raises(ServerUnreachableError, match=r"cannot be trusted.*SSL_CERT_FILE"):
        HttpClient(secure.url).get("a")
    assert secure.seen == []
    (tmp_path / f"{AUTHORITY_HASH}.0").write_bytes(authority.read_bytes())
    for ca in (authority, str(authority), tmp_path):
        assert HttpClient(secure.url, ca=ca).get("a").status == 200
    for name, place in (("SSL_CERT_FILE", authority), ("SSL_CERT_DIR", tmp_path)):
        with monkeypatch.context() as patched:
            patched.setenv(name, str(place))
            assert HttpClient(secure.url).get("a").status == 200
    assert Client(secure.url, ca=authority)._driver.http.get("a").document == {"n": 6}


def test_a_certificate_for_another_name_is_refused(secure: Site) -> None:
    """The server listens on all that is 127.0.0.1 alone; a tunnel leads there by another name."""
    with running_site() as proxy:
        proxy.behave = [tunnel, tunnel]
        for host, is_named in (("qserver.test", True), ("other.test", False)):
            client = HttpClient(
                f"https://{host}:{secure.port}", ca=TLS / "authority.pem", proxy=proxy.url
            )
            if is_named:
                assert client.get("a").document == {"n": 1}
                assert client.get("a").document == {"n": 2}
            else:
                with pytest.raises(ServerUnreachableError, match="cannot be trusted"):
                    client.get("a")
        assert [seen.line.split()[0] for seen in proxy.seen] == ["CONNECT", "CONNECT"]
    assert "proxy-authorization" not in secure.seen[0].headers


@pytest.mark.parametrize("name", ["missing.pem", "empty.pem"])
def test_authorities_that_are_none_are_a_config_error(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty.pem").touch()
    with pytest.raises(ConfigError, match="`ca` must be a file or folder of certificates"):
        HttpClient("https://qserver.test", ca=tmp_path / name)
