"""Texts in the store that qserver never wrote: every route tells of damage, and none fails."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest

from qserver.storage.server.connection import StoreClient
from tests.deployment import Deployment
from tests.faults.flips import Site, replies_of, site_of
from tests.sweeps import n_of, share, share_of_each

JUNK = (b"\xff", b"", b"{", b"[]", b"{}", b"-1", b'"a"', b'{"prev": ""}')
DAMAGED = '503 {"code": "store_corrupt"'


@pytest.fixture
def site(tmp_path: Path, store_url: str) -> Site:
    return site_of(Deployment.make(tmp_path, store_url))


def _texts(client: StoreClient) -> Iterator[tuple[Any, str, Any]]:
    """Every text that the store keeps: its key, the command that replaces it, its place."""
    for key in sorted(client.keys()):
        kind = client.type(key)
        if kind == "hash":
            yield from ((key, "HSET", field) for field in sorted(client.hkeys(key)))
        elif kind == "list":
            yield from ((key, "LSET", i) for i in range(client.llen(key)))


@pytest.mark.slow
@pytest.mark.parametrize("first", share(range(0, len(JUNK), 4), 1))
def test_no_text_makes_a_route_fail(site: Site, redis_client: StoreClient, first: int) -> None:
    """Each text in turn is replaced by junk: the reply is as before, or a problem, never a 500."""
    junk, n_refused, failed = cycle(JUNK[first:] + JUNK[:first]), 0, list[object]()
    for key, command, place in share(_texts(redis_client), 18):
        read = "HGET" if command == "HSET" else "LINDEX"
        before = redis_client.execute_command(read, key, place)
        redis_client.execute_command(command, key, place, next(junk))
        for path, reply in replies_of(site, site.town).items():
            if reply.startswith("500"):
                failed.append((key, place, path))
            n_refused += reply.startswith(DAMAGED)
        redis_client.execute_command(command, key, place, before)
    assert failed == []
    assert n_refused > n_of(100, share=8)
    # A question that was asked meanwhile may have left other weights, so the answers may be others.
    assert all(reply[:3] in ("200", "303") for reply in replies_of(site, site.town).values())


def _sealed(client: StoreClient) -> Iterator[tuple[Any, Any, Any]]:
    """Key, field and text of what is kept with a seal."""
    for key in sorted(client.keys()):
        if client.type(key) == "hash":
            for field, text in client.hgetall(key).items():
                if "\n" in text:
                    yield key, field, text


def kind_of(key: str) -> str:
    return key.split(":")[1 if "{" not in key else 2]


@pytest.mark.slow
def test_every_changed_byte_of_a_sealed_text_is_told(site: Site, redis_client: StoreClient) -> None:
    """Of jobs, models, accounts, tokens, allowances and facts: a digit more is no reply's digit."""
    kinds = set()
    for key, field, text in share_of_each(_sealed(redis_client), 2, kind=lambda s: kind_of(s[0])):
        kinds.add(kind_of(key))
        middle = len(text) // 2
        changed = text[:middle] + chr(ord(text[middle]) ^ 1) + text[middle + 1 :]
        redis_client.hset(key, field, changed)
        for path, reply in replies_of(site, site.town).items():
            assert reply == site.replies[path] or reply.startswith("503"), (key, field, path)
        redis_client.hset(key, field, text)
    assert kinds == {"accounts", "tokens", "allowances", "dataset", "job", "models"}
