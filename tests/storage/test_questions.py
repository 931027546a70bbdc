"""Questions on their way to a worker: jobs, queues, idempotency keys."""

from __future__ import annotations

from dataclasses import replace

import pytest

from qserver.errors import (
    BusyError,
    IdempotencyError,
    NotFoundError,
    NoWorkerError,
)
from qserver.storage.queue import Taken
from qserver.storage.spend import SpendingStore
from qserver.storage.store import Store
from tests.storage.one_dataset import LIMIT, META, submit


def test_identical_questions_share_one_open_job(reader: Store) -> None:
    first = submit(reader)
    assert submit(reader) == first
    assert submit(reader, "other") != first


def test_a_question_without_a_worker_is_refused_when_it_needs_one(
    writer: SpendingStore, reader: Store
) -> None:
    with pytest.raises(NoWorkerError):
        submit(reader, need_worker=True)
    writer.queue.beat(["town"], worker="w", ttl_ms=60_000)
    assert reader.worker_alive("town")
    assert submit(reader, need_worker=True)


def test_a_full_queue_is_refused(reader: Store) -> None:
    submit(reader, "1", queue=1)
    with pytest.raises(BusyError, match="Too many"):
        submit(reader, "2", queue=1)


def test_a_silent_worker_s_job_is_taken_over(writer: SpendingStore, reader: Store) -> None:
    job = submit(reader)
    taken = writer.queue.take(["town"], consumer="dead", block_ms=None)
    assert taken == Taken("town", job, taken.entry if taken else "", META.name)
    assert writer.queue.take(["town"], consumer="next", block_ms=None) is None
    found = writer.queue.take_over("town", consumer="next", idle_ms=0)
    assert found is not None
    assert found.job == job


def test_an_idempotency_key_is_bound_to_one_body(reader: Store) -> None:
    assert reader.bind(META, key="k", body_digest="a").outcome == ""
    assert reader.bind(META, key="k", body_digest="a", outcome="first").outcome == "first"
    assert reader.bind(META, key="k", body_digest="a", outcome="second").outcome == "first"
    with pytest.raises(IdempotencyError):
        reader.bind(META, key="k", body_digest="b")


def test_jobs_are_found_by_id_alone(reader: Store) -> None:
    for unknown in ("nope", "town~none", "a{b}~c", "~", ""):
        with pytest.raises(NotFoundError):
            reader.job(unknown)
    assert reader.job(submit(reader)).state == "queued"


def test_a_job_runs_from_the_moment_its_lease_is_taken(
    writer: SpendingStore, reader: Store
) -> None:
    job = submit(reader)
    assert writer.acquire("town", jobs=[job]) is not None
    assert reader.job(job).state == "running"


def test_one_dataset_of_many_fills_a_group(writer: SpendingStore, reader: Store) -> None:
    """The other datasets' empty queues leave no place of the group empty."""
    for i in range(8):
        writer.attach(replace(META, name=f"other{i}", snapshot=f"o{i}"), limit_nano=LIMIT)
    writer.queue.make_queue("town")
    writer.queue.beat(["town"], worker="w", ttl_ms=60_000)
    for i in range(6):
        submit(reader, str(i))
    assert len(writer.queue.more("town", consumer="w", most=6)) == 6
