"""A history that was changed in the store: refused by HTTP and worker, and brought back."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from qserver.errors import StoreCorruptError
from qserver.records.digest_links import digest_of, linked
from qserver.storage.keys import Keys
from qserver.storage.owner import OwnerOperations
from qserver.storage.server.connection import StoreClient
from qserver.storage.spend import SpendingStore
from tests.deployment import LOG, Deployment
from tests.worker.crashes import Crash
from tests.worker.forge import forge_ledger
from worker.owner.checks.audit import examine
from worker.owner.restore import restore

TOWN = Keys("town")
WOMEN, MEN = {"sex": "Female"}, {"sex": "Male"}
QUESTION = {"query": {"where": WOMEN}, "length": 40, "confidence": 0.95}


@pytest.fixture
def town(tmp_path: Path, store_url: str) -> Deployment:
    """A dataset with three released answers."""
    made = Deployment.make(tmp_path, store_url)
    for where in (WOMEN, MEN, {"age": [20, 24]}):
        made.ask(where)
    return made


def _changed_digit(client: StoreClient, history: str) -> None:
    plain = json.loads(str(client.lindex(history, 1)))
    client.lset(history, 1, json.dumps({**plain, "index": str(int(plain["index"]) + 4000)}))


def _no_utf8(client: StoreClient, history: str) -> None:
    text = str(client.lindex(history, 1)).encode()
    client.lset(history, 1, text.replace(b'"job"', b'"j\xffb"'))  # type: ignore[arg-type]


def _missing(client: StoreClient, history: str) -> None:
    client.lrem(history, 1, str(client.lindex(history, 1)))


def _missing_at_the_end(client: StoreClient, history: str) -> None:
    client.rpop(history)


def _doubled(client: StoreClient, history: str) -> None:
    client.linsert(history, "BEFORE", *[str(client.lindex(history, 1))] * 2)


def _reordered(client: StoreClient, history: str) -> None:
    first, second = client.lrange(history, 0, 1)
    client.lset(history, 0, str(second))
    client.lset(history, 1, str(first))


def _emptied(client: StoreClient, history: str) -> None:
    client.delete(history)


def _of_another_kind(client: StoreClient, history: str) -> None:
    client.delete(history)
    client.set(history, "x")


DAMAGES = [
    _changed_digit,
    _no_utf8,
    _missing,
    _missing_at_the_end,
    _doubled,
    _reordered,
    _emptied,
    _of_another_kind,
]


@pytest.mark.slow
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_history_is_refused_and_brought_back(
    town: Deployment,
    redis_client: StoreClient,
    damage: Callable[[StoreClient, str], None],
) -> None:
    """A server that starts on it is not ready and answers nothing; the journal restores it."""
    history = TOWN.history(town.meta.snapshot)
    before = redis_client.lrange(history, 0, -1)
    damage(redis_client, history)
    web = town.web()
    asked = web.post("/v1/datasets/people/query", json=QUESTION)
    findings = {f.check: f for f in examine(town.registry, town.settings)}
    assert not findings["released answers of town"].ok
    assert "qserver-worker restore" in findings["released answers of town"].text
    for reply in (asked, web.get("/readyz"), web.get("/v1/datasets/people/history")):
        assert (reply.status_code, reply.get_json()["code"]) == (503, "store_corrupt")
        assert "restore" in reply.get_json()["detail"]
    said: list[str] = []
    assert restore(town.settings, registry=town.registry, accept_loss=(), log=LOG, say=said.append)
    assert "Changed answers were mended: 1 snapshots." in said[0]
    assert redis_client.lrange(history, 0, -1) == before
    again = web.post("/v1/datasets/people/query", json=QUESTION)
    assert (again.status_code, web.get("/readyz").status_code) == (200, 200)
    assert again.get_json()["estimate"] == town.ask(WOMEN).estimate


def test_a_head_that_was_changed_with_its_events_is_found_by_the_worker(
    town: Deployment, redis_client: StoreClient
) -> None:
    """The journal has the head of every history: a consistent forgery does not reach it."""
    snapshot = town.meta.snapshot
    history = TOWN.history(snapshot)
    last = json.loads(str(redis_client.lindex(history, -1)))
    forged = linked({**last, "index": "8822"}, prev=last["prev"])
    redis_client.lset(history, -1, forged)
    forge_ledger(redis_client, {f"head:{snapshot}": digest_of(forged)})
    town.service().ready()
    findings = {f.check: f for f in examine(town.registry, town.settings)}
    assert f"event 2 of snapshot {snapshot}" in findings["released answers of town"].text
    town.submit({"age": [22, 23]}, length=20)
    with pytest.raises(StoreCorruptError, match="journal"):
        town.work_off()


@pytest.mark.slow
@pytest.mark.parametrize("step", ["replace_history", "await_durable"])
@pytest.mark.parametrize("after", [False, True])
def test_a_restore_that_dies_while_it_mends_is_done_again(
    town: Deployment,
    redis_client: StoreClient,
    monkeypatch: pytest.MonkeyPatch,
    step: str,
    *,
    after: bool,
) -> None:
    history = TOWN.history(town.meta.snapshot)
    before = redis_client.lrange(history, 0, -1)
    _changed_digit(redis_client, history)
    owner = OwnerOperations if step == "replace_history" else SpendingStore
    original: Callable[..., None] = getattr(owner, step)

    def dying(*args: Any, **named: Any) -> None:
        if after:
            original(*args, **named)
        raise Crash

    def again() -> bool:
        return restore(
            town.settings, registry=town.registry, accept_loss=(), log=LOG, say=lambda _text: None
        )

    with monkeypatch.context() as deadly:
        deadly.setattr(owner, step, dying)
        with pytest.raises(Crash):
            again()
    redis_client.delete(TOWN.lease)
    assert again()
    assert redis_client.lrange(history, 0, -1) == before
    town.service().ready()
    assert town.ask({"age": [25, 29]}).source == "measured"
