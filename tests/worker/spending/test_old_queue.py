"""A store from before each dataset had a queue of its own: its open jobs are worked off."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from qserver.records.answer import JobStatus
from qserver.storage.keys import GROUP, Keys
from qserver.storage.server.connection import StoreClient
from tests.deployment import LOG, Deployment
from tests.faults.checks import Books, faults
from worker.spending.loop import Heartbeat, Loop

pytestmark = [
    pytest.mark.promise(
        "Faults and races",
        "open jobs of an older store, with one queue for all datasets of a population, are worked"
        " off too",
    ),
]

KEYS = Keys("town")
ASKED: tuple[dict[str, object], ...] = ({"sex": "Male"}, {"age": 20}, {"age": {"below": 25}})


@pytest.fixture
def town(tmp_path: Path, store_url: str) -> Deployment:
    return Deployment.make(tmp_path, store_url, limit="10")


def submitted(town: Deployment) -> list[str]:
    found = [town.submit(where) for where in ASKED]
    return [status.id for status in found if isinstance(status, JobStatus)]


def made_old(client: Any) -> None:
    """Give the store one queue for all datasets, of which a worker that died took a job."""
    client.xgroup_create(KEYS.undivided_jobs, GROUP, id="0", mkstream=True)
    for _, fields in client.xrange(KEYS.jobs("people")):
        client.xadd(KEYS.undivided_jobs, fields)
    client.xreadgroup(GROUP, "dead", {KEYS.undivided_jobs: ">"}, count=1)
    client.delete(KEYS.jobs("people"), KEYS.queues, KEYS.alive)
    client.set(KEYS.alive, "of a worker that died", px=600_000)


def started(town: Deployment) -> Loop:
    """A worker at its start."""
    return Loop(settings=town.settings, trusted=town.trusted(), log=LOG)


def test_open_jobs_of_the_old_queue_are_worked_off_in_their_order(
    town: Deployment, redis_client: StoreClient
) -> None:
    jobs = submitted(town)
    made_old(redis_client)
    started(town)
    waiting = [taken.job for taken in town.writer().queue.waiting("town")]
    assert waiting == jobs
    assert town.work_off() == len(ASKED)
    assert {town.service().job(job).state for job in jobs} == {"done"}
    journal = town.registry.journal("town", create=False)
    assert faults(Books.read(redis_client, "town", journal)) == []


def test_a_second_start_moves_nothing_twice(town: Deployment, redis_client: StoreClient) -> None:
    jobs = submitted(town)
    made_old(redis_client)
    started(town)
    started(town)
    assert [taken.job for taken in town.writer().queue.waiting("town")] == jobs


def test_an_entry_without_its_job_is_dropped(town: Deployment, redis_client: StoreClient) -> None:
    jobs = submitted(town)
    made_old(redis_client)
    redis_client.delete(KEYS.job(jobs[0]))
    started(town)
    assert [taken.job for taken in town.writer().queue.waiting("town")] == jobs[1:]
    assert redis_client.xlen(KEYS.undivided_jobs) == 0


def test_a_worker_is_said_to_live_where_an_old_one_left_its_sign(
    town: Deployment, redis_client: StoreClient
) -> None:
    """An older worker kept one text, not a set, under that name."""
    made_old(redis_client)
    started(town)
    Heartbeat(town.settings, ["town"]).beat(town.writer())
    assert redis_client.type(KEYS.alive) in ("set", "zset")
