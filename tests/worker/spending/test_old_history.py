"""Histories of an earlier version: read as before, and chained when a worker starts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from qserver.errors import StoreCorruptError
from qserver.records.answer import Answer
from qserver.storage.keys import Keys
from qserver.storage.server.connection import StoreClient
from tests.deployment import LOG, Deployment
from tests.worker.crashes import die_at
from worker.journal.journal import Journal
from worker.journal.records import GENESIS, Released, Reserved, write_line
from worker.owner.checks.population import histories_finding
from worker.owner.restore import restore

TOWN = Keys("town")
WHERES: tuple[dict[str, object], ...] = ({"sex": "Female"}, {"sex": "Male"}, {"age": [20, 24]})


@pytest.fixture(params=["add-remove", "replace-one"])
def town(
    tmp_path: Path, store_url: str, redis_client: StoreClient, request: pytest.FixtureRequest
) -> Deployment:
    """Released answers as an earlier version left them in store and journal."""
    made = Deployment.make(tmp_path, store_url, relation=request.param)
    for where in WHERES:
        made.ask(where)
    make_old(made, redis_client)
    return made


def make_old(town: Deployment, client: StoreClient) -> None:
    """Take the links out of the history, and the heads out of ledger and journal."""
    snapshot = town.meta.snapshot
    history = TOWN.history(snapshot)
    for i, text in enumerate(client.lrange(history, 0, -1)):
        plain = json.loads(text)
        del plain["prev"]
        client.lset(history, i, json.dumps(plain))
    seals = [field for field in map(str, client.hkeys(TOWN.ledger)) if field.startswith("seal:")]
    client.hdel(TOWN.ledger, f"head:{snapshot}", "charges", *seals)
    rewrite(town.registry.journal("town", create=False), with_plans=True)


def rewrite(journal: Journal, *, with_plans: bool) -> None:
    """Write a journal anew as earlier versions wrote it."""
    with journal.exclusive():
        records = list(journal.records())
    text, digest = b"", GENESIS
    for i, record in enumerate(records):
        old = record
        if isinstance(record, Released):
            old = Released(record.job, record.rows)
        elif isinstance(record, Reserved) and not with_plans:
            old = Reserved(
                record.job, record.ledger_version, record.spent_nano_after, record.charges
            )
        line = write_line(old, sequence=i, previous=digest)
        text, digest = text + line.text, line.digest
    journal.path.write_bytes(text)


def is_chained(town: Deployment, client: StoreClient) -> bool:
    """Whether events, ledger and journal have the chain, and agree."""
    snapshot = town.meta.snapshot
    head = client.hget(TOWN.ledger, f"head:{snapshot}")
    known = town.registry.journal("town", create=False).state.heads.get(snapshot)
    events = map(json.loads, client.lrange(TOWN.history(snapshot), 0, -1))
    return all("prev" in event for event in events) and head == known is not None


def test_an_old_history_is_read_as_before_and_chained_at_the_next_start(
    town: Deployment, redis_client: StoreClient
) -> None:
    """A process that read it unchained goes on: it reads the chained one from its beginning."""
    service = town.service()
    before = town.submit(WHERES[0])
    assert isinstance(before, Answer)
    service.history.page("people", after=-1, limit=10)
    assert not is_chained(town, redis_client)
    assert histories_finding(town.registry, "town", town.settings).ok
    town.work_off()
    assert is_chained(town, redis_client)
    assert len(service.history.page("people", after=-1, limit=10).rows) >= len(WHERES)
    assert town.submit(WHERES[0]) == before
    assert town.ask({"age": [25, 29]}).source == "measured"
    assert is_chained(town, redis_client)


def test_an_old_history_that_was_changed_is_not_chained_but_brought_back(
    town: Deployment, redis_client: StoreClient
) -> None:
    history = TOWN.history(town.meta.snapshot)
    old = redis_client.lrange(history, 0, -1)
    plain = json.loads(old[-1])
    redis_client.lset(history, -1, json.dumps(plain | {"index": "8822"}))
    with pytest.raises(StoreCorruptError, match="journal"):
        town.work_off()
    assert "not what was released" in histories_finding(town.registry, "town", town.settings).text
    assert restore(
        town.settings, registry=town.registry, accept_loss=(), log=LOG, say=lambda _text: None
    )
    town.work_off()
    assert is_chained(town, redis_client)
    indices = [json.loads(text)["index"] for text in redis_client.lrange(history, 0, -1)]
    assert indices == [json.loads(text)["index"] for text in old]


def test_plans_that_an_old_journal_lacks_are_no_obstacle(
    town: Deployment, redis_client: StoreClient
) -> None:
    """Then the answers alone are compared: they are in every journal."""
    rewrite(town.registry.journal("town", create=False), with_plans=False)
    history = TOWN.history(town.meta.snapshot)
    last = str(redis_client.lindex(history, -1))
    redis_client.lset(history, -1, json.dumps(json.loads(last) | {"index": "8822"}))
    with pytest.raises(StoreCorruptError, match="journal"):
        town.work_off()
    redis_client.lset(history, -1, last)
    town.work_off()
    assert is_chained(town, redis_client)


STEPS = ["_histories._replace", "_histories._keep_head"]


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("step", STEPS)
def test_a_worker_killed_while_it_chains_is_followed_by_one_that_does(
    town: Deployment, redis_client: StoreClient, step: str, *, after: bool
) -> None:
    town.submit({"age": [25, 29]})
    die_at(town, redis_client, step, after=after)
    assert isinstance(town.submit(WHERES[0]), Answer)
    town.work_off()
    assert is_chained(town, redis_client)
    assert isinstance(town.submit({"age": [25, 29]}), Answer)


def test_a_job_that_was_open_at_the_change_of_version_is_published_and_chained(
    town: Deployment, redis_client: StoreClient
) -> None:
    """Its answer is in the old journal without a head, and not in the store yet."""
    town.submit({"age": [25, 29]})
    die_at(town, redis_client, "_writer.publish", after=False)
    make_old(town, redis_client)
    town.work_off()
    assert is_chained(town, redis_client)
    assert isinstance(town.submit({"age": [25, 29]}), Answer)
