"""A password is the token of an account, checked at the start and with each statement."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from qserver.api.access import OpenAccess, TokenAccess
from qserver.records.account import Allowance, Role
from qserver.storage.accounts import AccountBook, RateLimiter
from qserver.storage.store import Store
from tests.deployment import Deployment
from tests.postgres.client import RawClient, connected, message, startup
from tests.service.test_statements import spent


@dataclass
class Doors:
    """Accounts, and what lets them in; `now` moves on by hand."""

    book: AccountBook
    access: TokenAccess

    def token(self, name: str, role: Role = "analyst") -> str:
        return self.book.create(name, role).text


@pytest.fixture
def doors(town: Deployment) -> Doors:
    client = Store.open(town.settings).client
    book = AccountBook(client)
    # A second for each look at the clock: nothing that was checked is remembered.
    clock = iter(range(10**9)).__next__
    limiter = RateLimiter(client)
    access = TokenAccess(book, limiter, token_rate=0, address_rate=0, clock=clock)
    return Doors(book, access)


def given(client: RawClient, password: str) -> None:
    client.send(startup())
    assert client.message() == (b"R", b"\0\0\0\3")
    client.send(message(b"p", password.encode() + b"\0"))


def test_a_token_opens_and_the_user_is_the_account(town: Deployment, doors: Doors) -> None:
    with connected(town.service(), access=doors.access) as client:
        given(client, doors.token("ann"))
        reply = client.until()
        assert b"session_authorization\0ann\0" in reply.of(b"S")
        assert client.query("SHOW TABLES").rows == [["people"]]


@pytest.mark.parametrize("password", ["", "no token", "qs_00000000_" + "0" * 43, "x" * 5000])
def test_another_password_does_not(town: Deployment, doors: Doors, password: str) -> None:
    with connected(town.service(), access=doors.access) as client:
        given(client, password)
        error = client.last()
        assert (error["S"], error["C"]) == ("FATAL", "28P01")
        assert "token" in error["M"]


def test_nobody_is_heard_before_the_password(town: Deployment, doors: Doors) -> None:
    with connected(town.service(), access=doors.access) as client:
        client.send(startup() + message(b"Q", b"SHOW TABLES\0"))
        assert client.message()[0] == b"R"
        assert client.last()["C"] == "08P01"


def test_a_token_that_is_revoked_ends_what_a_connection_may(town: Deployment, doors: Doors) -> None:
    with connected(town.service(), access=doors.access) as client:
        given(client, doors.token("ann"))
        client.until()
        doors.book.revoke("ann")
        for text in ("SHOW TABLES", "SELECT COUNT(*) FROM people", "SET qserver.spend = on"):
            assert client.query(text).error["C"] == "28000"


@pytest.mark.usefixtures("worker")
def test_the_account_pays_and_only_what_its_owner_allows(town: Deployment, doors: Doors) -> None:
    token, text = doors.token("ann"), "SELECT COUNT(*) FROM people WITHIN 20"
    doors.book.allow("ann", "town", Allowance(limit_nano=1000))
    with connected(town.service(), access=doors.access) as client:
        given(client, token)
        client.until()
        client.query("SET qserver.spend = on")
        assert client.query(text).error["C"] == "53400"
        assert spent(town) == 0
        reply = client.query(f"EXPLAIN {text}")
        assert dict(zip(reply.columns, reply.rows[0], strict=True))["affordable"] == "f"
        assert reply.rows[0][-1] == "1e-06"
        doors.book.allow("ann", "town", Allowance(limit_nano=10**9))
        assert len(client.query(text).rows) == 1
        assert spent(town) > 0


def test_an_open_server_answers_this_machine_alone(town: Deployment) -> None:
    with connected(town.service(), access=OpenAccess(), address="192.0.2.7") as client:
        client.send(startup())
        assert client.last()["C"] == "42501"
