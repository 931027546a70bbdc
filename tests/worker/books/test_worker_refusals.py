"""A real worker asks the books before it charges: what they refuse is neither charged nor drawn."""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from qserver.errors import QServerError, StoreCorruptError, StoreError
from qserver.records.answer import JobStatus
from qserver.records.claim import claims_from_plain
from qserver.storage.encoding.digests import PAID, sealed, sealed_fields, unsealed
from qserver.storage.encoding.queued_requests import Reservation
from qserver.storage.keys import Keys
from qserver.storage.server.connection import StoreClient
from qserver.storage.store import Store
from tests.deployment import Deployment
from worker.owner.checks import audit
from worker.owner.checks.population import WorkerFinding
from worker.spending.group import planner, spends
from worker.spending.reservation import reservation_of

pytestmark = [
    pytest.mark.promise(
        "Privacy",
        "who changes k, relation, domain, guard, limit, pairs or spending in the store, or cuts "
        "the journal, gets no answer for it",
    ),
]

KEYS = Keys("town")
DATASET = KEYS.dataset("people")
CLAIMS = claims_from_plain(
    {"name": "young", "query": {"where": {"age": {"below": 25}}}, "width": 1, "p": 0.9}
)


@pytest.fixture
def town(tmp_path: Path, store_url: str) -> Deployment:
    """Some charges on a dataset with a guard, one of which a second question would refine."""
    town = Deployment.make(tmp_path, store_url, limit="2", disclosure_cap=0.7, k=2, claims=CLAIMS)
    town.ask({"age": {"below": 25}})
    town.ask({"sex": "Male"})
    return town


def refused(town: Deployment, caplog: pytest.LogCaptureFixture) -> str:
    """The words of the worker's log when a question is refused for the books' sake."""
    n_charges = len(charges(town))
    job = town.submit({"age": {"below": 24}}, length=30)
    assert isinstance(job, JobStatus)
    with caplog.at_level(logging.ERROR):
        town.work_off()
    problem = town.service().job(job.id).problem
    assert problem is not None
    assert problem["code"] == "books_differ"
    assert len(charges(town)) == n_charges
    return caplog.text


def charges(town: Deployment) -> list[Any]:
    found: Any = Store.open(town.settings).audit.charges("town")
    return list(found)


def books_of_doctor(town: Deployment) -> WorkerFinding:
    findings = audit.examine(town.registry, town.settings)
    return next(f for f in findings if f.check == "books of town")


def kept(client: StoreClient) -> str:
    """The facts of the dataset in the store."""
    return unsealed(str(client.hget(DATASET, "meta")), name="people")


def keep(client: StoreClient, text: str) -> object:
    """Write them as somebody does who knows how they are sealed."""
    return client.hset(DATASET, "meta", sealed(text, name="people"))


def meta(**changes: object) -> Callable[[StoreClient], object]:
    def attack(client: StoreClient) -> object:
        return keep(client, json.dumps(json.loads(kept(client)) | changes))

    return attack


def swap_labels(client: StoreClient) -> object:
    text = kept(client)
    for old, new in (("Female", "?"), ("Male", "Female"), ("?", "Male")):
        text = text.replace(f'"{old}"', f'"{new}"')
    return keep(client, text)


def ledger(**changes: int | str) -> Callable[[StoreClient], object]:
    texts = {name: str(value) for name, value in changes.items()}
    return lambda client: client.hset(KEYS.ledger, mapping=dict[Any, Any](sealed_fields(texts)))


def lower_spending(client: StoreClient) -> object:
    share = next(k for k in map(str, client.hkeys(KEYS.ledger)) if k.startswith("spent:"))
    return ledger(**{"spent": 1, share: 1})(client)


def take_guard_away(client: StoreClient) -> object:
    guard = next(k for k in map(str, client.hkeys(KEYS.ledger)) if k.startswith("guard:"))
    client.hdel(KEYS.ledger, guard, f"seal:{guard}")
    return meta(disclosure_cap=None)(client)


def add_pair(client: StoreClient) -> object:
    snapshot = json.loads(kept(client))["snapshot"]
    return client.hset(KEYS.disjoint, f"0000 {snapshot}", "1")


FACTS = {
    "k 2 to 1": (meta(records_per_person=1), "records_per_person"),
    "records_verified": (meta(records_verified=True), "records_verified"),
    "labels swapped": (swap_labels, "domain"),
    "phi": (meta(phi=0.05), "phi"),
    "relation of the facts": (meta(relation="replace-one"), "relation"),
    "relation of the ledger": (ledger(relation="replace-one"), "neighbour relation"),
    "another name for the file before": (meta(snapshot="00"), "not one that was attached"),
    "no claims": (meta(claims=[]), "claims"),
    "a claim that allows more": (
        meta(claims=[{**CLAIMS[0].to_plain(), "p": 0.99}]),
        "claims",
    ),
    "guard": (take_guard_away, "disclosure_cap"),
    "limit": (ledger(limit=9 * 10**9), "limit"),
    "spent and share lowered": (lower_spending, "share of snapshot"),
    "a pair": (add_pair, "nobody declared"),
    "a dataset": (ledger(**{"snapshot:other": "11"}), "other is not one that was attached"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", FACTS)
def test_changed_facts_are_refused_and_named(
    town: Deployment,
    redis_client: StoreClient,
    name: str,
) -> None:
    attack, word = FACTS[name]
    assert books_of_doctor(town).ok, books_of_doctor(town).text
    # The question waits already when the store is changed.
    job = town.submit({"age": {"below": 24}}, length=30)
    assert isinstance(job, JobStatus)
    n_charges = len(charges(town))
    attack(redis_client)
    # The ledger itself notices some of them, and stops the worker.
    with contextlib.suppress(StoreError):
        town.work_off()
    assert town.service().job(job.id).state != "done"
    assert len(charges(town)) == n_charges
    found = books_of_doctor(town)
    assert not found.ok
    assert word in found.text


def test_the_cut_end_of_a_journal_is_noticed(
    town: Deployment,
) -> None:
    path = town.registry.journal("town", create=False).path
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:-2]))
    assert "charged jobs that the other lacks" in books_of_doctor(town).text
    job = town.submit({"age": {"below": 24}}, length=30)
    assert isinstance(job, JobStatus)
    n_charges = len(charges(town))
    # The answer that the journal lacks is noticed as well, and before.
    with pytest.raises(StoreCorruptError):
        town.work_off()
    assert len(charges(town)) == n_charges


def test_an_edited_paid_question_is_named_at_the_next_start(
    town: Deployment, redis_client: StoreClient, caplog: pytest.LogCaptureFixture
) -> None:
    snapshot = town.meta.snapshot
    text = unsealed(str(redis_client.lindex(KEYS.paid(snapshot), 0)), name=PAID)
    changed = json.dumps(json.loads(text) | {"price": 1})
    redis_client.lset(KEYS.paid(snapshot), 0, sealed(changed, name=PAID))
    assert "paid questions" in books_of_doctor(town).text
    with caplog.at_level(logging.ERROR):
        town.spender().compare("town")
    assert "paid questions" in caplog.text


def test_a_burnt_job_that_was_cut_from_a_journal_is_noticed(
    town: Deployment, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with monkeypatch.context() as broken:
        broken.setattr(spends, "draw_all", lambda *_args, **_named: 1 / 0)
        town.submit({"age": {"below": 23}})
        town.work_off()
    assert books_of_doctor(town).ok
    path = town.registry.journal("town", create=False).path
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:-2]))
    found = town.submit({"age": {"below": 24}}, length=30)
    assert isinstance(found, JobStatus)
    with contextlib.suppress(QServerError), caplog.at_level(logging.ERROR):
        town.work_off()
    assert town.service().job(found.id).state != "done"
    assert not books_of_doctor(town).ok


def test_an_undercharge_by_the_ledger_is_refused(
    town: Deployment, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    made = reservation_of

    def cheaper(*args: Any, **named: Any) -> Reservation:
        found = made(*args, **named)
        after = found.before.after(found.after.share_nano - 1)
        return replace(found, after=after)

    monkeypatch.setattr(planner, "reservation_of", cheaper)
    assert "a person loses" in refused(town, caplog)


def test_the_journal_says_that_the_books_agreed(town: Deployment) -> None:
    with town.registry.journal("town", create=False).exclusive() as journal:
        assert [r.books for r in journal.state.reserved.values()] == ["verified", "verified"]
    assert "epsilon" in books_of_doctor(town).text
