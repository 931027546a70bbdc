"""Accounts in a real store: made, renewed, revoked, bounded, and every change logged."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from qserver.errors import ConfigError, NotFoundError
from qserver.records.account import Allowance, Token
from qserver.records.digest_links import check_links
from qserver.storage.accounts import AccountBook
from qserver.storage.audit import AuditLog
from qserver.storage.keys import DATASETS
from qserver.storage.server.connection import StoreClient

pytestmark = [
    pytest.mark.promise(
        "Accounts",
        "the store keeps a salted slow hash and no token; secrets are compared in constant time",
    ),
]


@pytest.fixture
def book(redis_client: StoreClient) -> AccountBook:
    return AccountBook(redis_client, wall_clock=lambda: 1_800_000_000.7)


def in_force(book: AccountBook, token: Token) -> bool:
    record = book.token_record(token.id)
    return record is not None and record.accepts(token)


def test_a_new_account_has_a_token_in_force_and_its_role(book: AccountBook) -> None:
    token = book.create("ann", "owner")
    record = book.token_record(token.id)
    assert record is not None
    assert (record.account, record.role, record.accepts(token)) == ("ann", "owner", True)
    account = book.account("ann")
    assert (account.token_id, account.created_at) == (token.id, 1_800_000_000)


def test_the_secret_of_a_token_is_nowhere_in_the_store(
    book: AccountBook, redis_client: StoreClient
) -> None:
    secret = book.create("ann", "analyst").secret
    everything: list[object] = [
        redis_client.hgetall("qs:accounts"),
        redis_client.hgetall("qs:tokens"),
    ]
    everything.append(redis_client.lrange("qs:audit", 0, -1))
    assert "ann" in str(everything)
    assert secret not in str(everything)


def test_a_renewed_token_ends_the_one_before(book: AccountBook) -> None:
    first = book.create("ann", "analyst")
    second = book.renew("ann")
    assert (in_force(book, first), in_force(book, second)) == (False, True)
    assert book.account("ann").role == "analyst"


def test_a_revoked_token_is_gone_and_the_name_stays_taken(book: AccountBook) -> None:
    token = book.create("ann", "analyst")
    book.revoke("ann")
    book.revoke("ann")
    assert not in_force(book, token)
    assert [(a.name, a.token_id) for a in book.accounts()] == [("ann", "")]
    with pytest.raises(ConfigError, match="of no account yet"):
        book.create("ann", "owner")
    assert in_force(book, book.renew("ann"))


def test_a_group_of_the_provider_has_no_token_and_is_shut_out_like_a_member(
    book: AccountBook, redis_client: StoreClient
) -> None:
    book.let_in("team/", "analyst")
    book.revoke("team/ann")
    known = book.known(["team/", "team/ann", "team/ben"])
    assert {name: bool(one.token_id) for name, one in known.items()} == {
        "team/": True,
        "team/ann": False,
    }
    book.let_in("team/ann", "analyst")
    book.revoke("team/")
    assert [(a.name, bool(a.token_id)) for a in book.accounts()] == [
        ("team/", False),
        ("team/ann", True),
    ]
    assert redis_client.hlen("qs:tokens") == 0
    changes = [json.loads(text) for text in AuditLog(redis_client).changes()]
    assert [(c["kind"], c["account"]) for c in changes] == [
        ("group let in", "team/"),
        ("token revoked", "team/ann"),
        ("group let in", "team/ann"),
        ("token revoked", "team/"),
    ]


def test_names_with_and_without_a_group_are_not_mixed_up(book: AccountBook) -> None:
    for act in (book.renew, lambda name: book.create(name, "analyst")):
        with pytest.raises(ConfigError, match="`name` must"):
            act("team/ann")
    with pytest.raises(ConfigError, match="be of a group"):
        book.let_in("ann", "analyst")
    for wrong in ("a b/", "team/ann/x", "/ann", "team//"):
        with pytest.raises((ConfigError, NotFoundError)):
            book.let_in(wrong, "analyst")
    with pytest.raises(NotFoundError, match="No account is called 'never/'"):
        book.let_in("never/ann", "analyst")
    with pytest.raises(NotFoundError, match="No account is called 'never/ann'"):
        book.revoke("never/ann")


def test_an_account_that_is_not_there_is_not_found(book: AccountBook) -> None:
    for act in (book.renew, book.revoke, book.account):
        with pytest.raises(NotFoundError, match="No account is called 'ann'"):
            act("ann")


def test_an_allowance_is_of_one_account_and_population(
    book: AccountBook, redis_client: StoreClient
) -> None:
    redis_client.hset(DATASETS, "people", "town")
    book.create("ann", "analyst")
    book.allow("ann", "town", Allowance(limit_nano=5, pace_nano=None))
    assert book.allowance("ann", "town") == Allowance(5, None)
    assert book.allowance("ann", "village") == book.allowance("ben", "town") == Allowance()
    with pytest.raises(NotFoundError):
        book.allow("ann", "village", Allowance())
    with pytest.raises(NotFoundError):
        book.allow("ben", "town", Allowance())


def test_every_change_is_in_the_log_and_the_log_holds(
    book: AccountBook, redis_client: StoreClient
) -> None:
    redis_client.hset(DATASETS, "people", "town")
    book.create("ann", "analyst")
    book.renew("ann")
    book.allow("ann", "town", Allowance(pace_nano=7))
    book.revoke("ann")
    texts = AuditLog(redis_client).changes()
    kinds = ["account created", "token renewed", "allowance set", "token revoked"]
    assert [json.loads(text)["kind"] for text in texts] == kinds
    assert {json.loads(text)["at"] for text in texts} == {1_800_000_000}
    check_links(texts, name="log")


@pytest.mark.slow
def test_changes_at_once_are_logged_one_after_another(
    book: AccountBook, redis_client: StoreClient
) -> None:
    """12 writers, 3 of whom want the same name: the log has 10 entries in a whole chain."""
    names = [f"a{i}" for i in range(9)] + ["same"] * 3

    def create(name: str) -> bool:
        try:
            AccountBook(redis_client).create(name, "analyst")
        except ConfigError:
            return False
        return True

    with ThreadPoolExecutor(12) as pool:
        made = list(pool.map(create, names))
    texts = AuditLog(redis_client).changes()
    assert sum(made) == len(texts) == len(book.accounts()) == 10
    check_links(texts, name="log")
