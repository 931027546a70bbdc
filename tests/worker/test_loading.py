"""What a running worker has in memory, and the registry that says what that is."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest

from qserver.records.answer import JobStatus
from tests.deployment import LOG, Deployment, write_people
from tests.worker.spending.test_loop import attach_others, submit_to
from worker.main_loop import AttachedData
from worker.owner.changes import detach
from worker.owner.rotate import RotateRequest, rotate
from worker.private.registry import Registry
from worker.spending.group.spends import Spends
from worker.spending.loop import Loop

pytestmark = [
    pytest.mark.promise(
        "Faults and races",
        "every accepted job ends, in an answer or a failure with a code",
    ),
    pytest.mark.promise(
        "Guard rails",
        "a worker that runs measures what was rotated or attached meanwhile; commands at once "
        "lose nothing of its registry",
    ),
]

NEW_ROWS = [(20 + i % 5, "Male") for i in range(900)]


@pytest.fixture
def town(tmp_path: Path, store_url: str) -> Deployment:
    return Deployment.make(tmp_path, store_url)


def turn(town: Deployment) -> str:
    """Rotate the dataset; the id of its new snapshot."""
    data = write_people(town.settings.state_dir / "new.csv", NEW_ROWS)
    return rotate(
        RotateRequest("people", data),
        settings=town.settings,
        registry=Registry(town.settings.state_dir),
        progress=lambda _text: None,
        log=LOG,
    ).snapshot


def await_done(town: Deployment, job: str, thread: threading.Thread) -> None:
    while town.service().job(job).state != "done":
        assert thread.is_alive()
        assert town.service().job(job).state != "failed"
        thread.join(timeout=0.01)


@pytest.mark.slow
def test_a_running_worker_measures_what_was_rotated_and_attached_meanwhile(
    town: Deployment,
) -> None:
    attached = AttachedData(town.registry, log=LOG)
    trusted = attached.load().trusted
    loop = Loop(settings=town.settings, trusted=trusted, log=LOG, news=attached.news)
    thread = threading.Thread(target=loop.run)
    thread.start()
    try:
        await_done(town, submit_to(town, "people"), thread)
        turn(town)
        second = town.submit({"age": {"below": 25}}, length=40)
        assert isinstance(second, JobStatus)
        await_done(town, second.id, thread)
        attach_others(town)
        await_done(town, submit_to(town, "others"), thread)
    finally:
        loop.stop()
        thread.join(timeout=120)
    answer = town.service().job(second.id).result
    assert answer is not None
    assert abs(answer.estimate - len(NEW_ROWS)) < 200


def test_only_what_is_new_is_read_and_what_is_gone_is_forgotten(town: Deployment) -> None:
    attached = AttachedData(town.registry, log=LOG)
    before = attached.load().trusted
    assert attached.news() is None
    attach_others(town, population="town")
    after = attached.news()
    assert after is not None
    assert after.tables[town.meta.snapshot] is before.tables[town.meta.snapshot]
    assert len(after.tables) == 2
    new = turn(town)
    detach("others", settings=town.settings, registry=town.registry, log=LOG)
    last = attached.news()
    assert last is not None
    assert list(last.tables) == [new]
    assert set(last.journals) == {"town"}
    assert attached.news() is None


def test_commands_at_once_lose_nothing_of_the_registry(town: Deployment) -> None:
    """Each reads the list, changes it and writes it: without a lock the last one wins."""
    entry, n = town.registry.entry("people"), 16
    gate = threading.Barrier(n)

    def put(i: int) -> None:
        own = Registry(town.settings.state_dir)
        gate.wait()
        own.put(replace(entry, name=f"n{i}"))

    threads = [threading.Thread(target=put, args=(i,)) for i in range(n)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(town.registry.entries()) == {"people", *(f"n{i}" for i in range(n))}


def test_questions_on_a_dataset_that_is_detached_end_without_a_worker(town: Deployment) -> None:
    """One was charged and its worker died before it drew: burnt. The others are not found."""
    attach_others(town, population="town")
    waits = [submit_to(town, "people", 20)]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Spends, "_measure", _die)
        with pytest.raises(KeyboardInterrupt):
            town.work_off(town.spender())
    waits.append(submit_to(town, "people", 21))
    other = submit_to(town, "others")
    detach("people", settings=town.settings, registry=town.registry, log=LOG)
    problems = [town.service().job(job).problem or {} for job in waits]
    assert sorted(str(p["code"]) for p in problems) == ["measurement_failed", "not_found"]
    assert town.service().job(other).state in ("queued", "running")


def _die(*_args: object) -> None:
    raise KeyboardInterrupt
