"""Accounts from end to end: real store, real worker, the real app; two analysts and an owner."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient

from qserver.api.access import TokenAccess
from qserver.api.app import create_app
from qserver.records.account import Allowance
from qserver.service.service import Service
from qserver.storage.accounts import AccountBook, RateLimiter
from qserver.storage.store import Store
from tests.deployment import Deployment

QUERY = "/v1/datasets/people/query"


@dataclass(frozen=True)
class Site:
    """A deployment behind its app, with tokens by account."""

    town: Deployment
    book: AccountBook
    client: FlaskClient
    tokens: Mapping[str, str]

    def get(self, path: str, by: str) -> Any:
        headers = {"Authorization": f"Bearer {self.tokens[by]}"}
        return self.client.get(path, headers=headers).get_json()

    def ask(self, age: int, by: str, *, length: float = 60) -> dict[str, Any]:
        """The job of a question, worked off."""
        document = {"query": {"where": {"age": age}}, "length": length, "confidence": 0.95}
        headers = {"Authorization": f"Bearer {self.tokens[by]}", "Prefer": "respond-async"}
        reply = self.client.post(QUERY, json=document, headers=headers)
        if reply.status_code == 200:
            return {"state": "done", "result": reply.get_json()}
        assert reply.status_code == 202, reply.data
        self.town.work_off()
        found: dict[str, Any] = self.get(reply.headers["Location"], by)
        return found


@pytest.fixture
def site(tmp_path: Path, store_url: str) -> Site:
    town = Deployment.make(tmp_path, store_url, limit="1")
    store = Store.open(town.settings)
    book = AccountBook(store.client)
    tokens = {name: book.create(name, "analyst").text for name in ("ann", "ben")}
    tokens["boss"] = book.create("boss", "owner").text
    access = TokenAccess(book, RateLimiter(store.client), token_rate=0, address_rate=0)
    service = Service(store, town.settings)
    app = create_app(service, access=access, wait_s=1, max_body_bytes=4096)
    return Site(town, book, app.test_client(), tokens)


def test_an_allowance_that_is_used_up_is_told_with_what_is_left(site: Site) -> None:
    paid = site.ask(21, "ann")["result"]["epsilon_charged"]
    site.book.allow("ann", "town", Allowance(limit_nano=round(paid * 1e9) + 5))
    refused = site.ask(21, "ann", length=20)
    assert refused["state"] == "failed"
    problem = refused["problem"]
    assert (problem["status"], problem["code"]) == (409, "allowance_exhausted")
    assert problem["price"] == pytest.approx(2 * paid, rel=1e-4)
    assert (problem["remaining"], problem["more_at"]) == (5e-9, None)
    # What ben pays for is free for ann as well.
    assert site.ask(21, "ben", length=20)["result"]["source"] == "refined"
    assert site.ask(21, "ann", length=20)["result"]["source"] == "history"


def test_a_pace_that_is_used_up_is_told_with_the_time(site: Site) -> None:
    paid = site.ask(21, "ann")["result"]["epsilon_charged"]
    site.book.allow("ann", "town", Allowance(pace_nano=round(paid * 1e9 * 2.5)))
    problem = site.ask(21, "ann", length=20)["problem"]
    assert problem["code"] == "pace_exceeded"
    last = site.get("/v1/datasets/people/spending", "boss")["accounts"][0]["last_at"]
    assert problem["more_at"] == last + 86_400


def test_an_owner_reads_who_spent_what_and_the_whole_log(site: Site) -> None:
    site.ask(21, "ann")
    site.ask(22, "ben", length=30)
    spending = site.get("/v1/datasets/people/spending", "boss")
    assert [(a["account"], a["n_charges"]) for a in spending["accounts"]] == [
        ("ben", 1),
        ("ann", 1),
        ("boss", 0),
    ]
    # Disjoint questions: the population has spent what the dearer one cost.
    assert spending["spent"] == spending["accounts"][0]["spent"]
    charges = site.get("/v1/datasets/people/audit", "boss")["entries"]
    assert [entry["entry"]["by"] for entry in charges] == ["ann", "ben"]
    assert charges[1]["entry"]["prev"] == charges[0]["digest"]
    first = site.get("/v1/audit?limit=2", "boss")
    rest = site.get(f"/v1/audit?after={first['next_after']}", "boss")
    kinds = [entry["entry"]["kind"] for entry in first["entries"] + rest["entries"]]
    assert kinds == ["dataset attached"] + ["account created"] * 3
    assert charges[0]["entry"]["changes"] == rest["entries"][-1]["digest"]
    assert rest["next_after"] is None
