"""The worker's loop on a real store: refusals, takeover, stopping."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from qserver.answer import JobStatus
from qserver.errors import StoreBehindError, StoreNotDurableError
from qserver.storage.connection import StoreClient
from qserver.storage.keys import Keys
from qserver.storage.spending import SpendingStore
from tests.deployment import LOG, Deployment
from worker.loop import Loop, load
from worker.registry import Registry


@pytest.fixture
def town(tmp_path: Path, store_url: str) -> Deployment:
    return Deployment.make(tmp_path, store_url)


def a_loop(town: Deployment) -> Loop:
    return Loop(settings=town.settings, trusted=town.trusted(), log=LOG)


def run_until_ended(loop: Loop, town: Deployment, job: str) -> str:
    thread = threading.Thread(target=loop.run)
    thread.start()
    service = town.service()
    while service.job(job).state not in ("done", "failed"):
        thread.join(timeout=0.01)
    loop.stop()
    thread.join(timeout=20)
    assert not thread.is_alive()
    return service.job(job).state


def test_the_loop_works_jobs_off_and_stops_when_asked(town: Deployment) -> None:
    found = town.submit({"age": 20})
    assert isinstance(found, JobStatus)
    assert run_until_ended(a_loop(town), town, found.id) == "done"


@pytest.mark.parametrize(
    ("setting", "bad", "good"),
    [
        ("maxmemory-policy", "allkeys-lru", "noeviction"),
        ("appendfsync", "no", "always"),
        ("appendonly", "no", "yes"),
    ],
)
def test_a_store_that_may_lose_charges_is_refused_before_anything_is_spent(
    town: Deployment, redis_client: StoreClient, setting: str, bad: str, good: str
) -> None:
    town.submit({"age": 20})
    redis_client.config_set(setting, bad)
    try:
        with pytest.raises(StoreNotDurableError, match=setting):
            SpendingStore.open(town.settings)
        with pytest.raises(StoreNotDurableError, match=setting):
            a_loop(town)
    finally:
        redis_client.config_set(setting, good)
    assert redis_client.llen(Keys("town").charges) == 0


def test_a_loop_refuses_a_store_behind_its_journal(
    town: Deployment, redis_client: StoreClient
) -> None:
    town.ask({"age": 20})
    redis_client.hset(Keys("town").ledger, "version", "0")
    with pytest.raises(StoreBehindError):
        a_loop(town)


def test_a_job_of_a_silent_worker_is_taken_over(town: Deployment) -> None:
    found = town.submit({"age": 20})
    assert isinstance(found, JobStatus)
    assert town.writer().queue.take(["town"], consumer="silent", block_ms=10) is not None
    quick = Deployment(
        settings=type(town.settings)(
            redis_url=town.settings.redis_url,
            state_dir=town.settings.state_dir,
            slot_ms=0,
            lease_ms=1000,
        ),
        registry=town.registry,
        meta=town.meta,
        data=town.data,
    )
    assert run_until_ended(a_loop(quick), town, found.id) == "done"


def test_data_that_cannot_be_read_are_refused_and_named(town: Deployment) -> None:
    town.data.unlink()
    loaded = load(Registry(town.settings.state_dir), log=LOG)
    assert loaded.refused == ("people",)
    assert loaded.trusted.tables == {}
