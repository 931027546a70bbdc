"""The worker's loop on a real store: refusals, takeover, stopping."""

from __future__ import annotations

import threading
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from qserver.answering.decide import decide
from qserver.errors import StoreBehindError, StoreNotDurableError, StoreUnavailableError
from qserver.query.question import Question
from qserver.query.requirement import Requirement
from qserver.records.answer import JobStatus
from qserver.storage.keys import Keys
from qserver.storage.queue import Ended
from qserver.storage.server.connection import StoreClient
from qserver.storage.spend import SpendingStore
from tests.deployment import LOG, PEOPLE, Deployment
from tests.worker.forge import forge_ledger
from worker.main_loop import AttachedData
from worker.owner.attach import MAX_PHI, AttachRequest, attach
from worker.private.registry import Registry
from worker.spending.group import planner
from worker.spending.loop import Loop
from worker.spending.spend import Spender

pytestmark = [
    pytest.mark.promise(
        "Faults and races",
        "one dataset's flood keeps no other waiting, in the same population or another",
    ),
    pytest.mark.promise(
        "Operations",
        "a worker that is asked to stop ends its job first, hands back what it took, and is not "
        "said to live any more",
    ),
]


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
    thread.join(timeout=120)
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
    forge_ledger(redis_client, {"version": "0"})
    with pytest.raises(StoreBehindError):
        a_loop(town)


def test_a_job_of_a_silent_worker_is_taken_over(town: Deployment) -> None:
    found = town.submit({"age": 20})
    assert isinstance(found, JobStatus)
    assert town.writer().queue.take(["town"], consumer="silent", block_ms=None) is not None
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
    town.registry.seal_path(town.registry.entry("people")).unlink()
    loaded = AttachedData(Registry(town.settings.state_dir), log=LOG).load()
    assert loaded.refused == ("people",)
    assert loaded.trusted.tables == {}


def attach_others(town: Deployment, *, population: str = "village") -> None:
    """Attach a second dataset, of other people unless the population is `town`."""
    request = AttachRequest(
        name="others",
        data=town.data,
        domain=PEOPLE,
        limit=Fraction(1),
        relation="add-remove",
        population=population,
        records_per_person=1,
        phi=MAX_PHI,
        same_data_other_people=population != "town",
    )
    attach(request, settings=town.settings, registry=town.registry, progress=lambda _text: None)
    town.writer().queue.beat([population], worker="test", ttl_ms=600_000)


def submit_to(town: Deployment, dataset: str, age: int = 20) -> str:
    service = town.service()
    query = service.parse(dataset, {"where": {"age": age}})
    found = service.ask(dataset, Question(query, Requirement(40, 0.95)), wait_s=0)
    assert isinstance(found, JobStatus)
    return found.id


def test_a_population_that_another_worker_holds_keeps_no_other_waiting(town: Deployment) -> None:
    attach_others(town)
    loop = a_loop(town)
    lease = town.writer().acquire("town")
    assert lease is not None
    held, free = submit_to(town, "people"), submit_to(town, "others")
    thread = threading.Thread(target=loop.run)
    thread.start()
    service = town.service()
    while service.job(free).state != "done":
        assert town.writer().renew(lease)
        thread.join(timeout=0.01)
    assert service.job(held).state == "queued"
    town.writer().release(lease)
    while service.job(held).state != "done":
        thread.join(timeout=0.01)
    loop.stop()
    thread.join(timeout=120)


@pytest.mark.parametrize(("loud", "quiet"), [("people", "others"), ("others", "people")])
@pytest.mark.parametrize("population", ["village", "town"])
def test_datasets_take_turns_however_many_questions_one_of_them_has(
    town: Deployment, population: str, loud: str, quiet: str
) -> None:
    """Ten questions wait for one dataset when one comes for another: it is second or first.

    So between groups of populations and, as one population is worked by one worker at a time,
    within a group.
    """
    attach_others(town, population=population)
    groups: list[list[str]] = []
    loop = a_loop(town)
    many = [submit_to(town, loud, 20 + i) for i in range(10)]
    one = submit_to(town, quiet)
    original = SpendingStore.acknowledge

    def acknowledging(self: SpendingStore, group: list[Ended]) -> None:
        original(self, group)
        groups.append([ended.taken.job for ended in group])
        if sum(map(len, groups)) == len(many) + 1:
            loop.stop()

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(SpendingStore, "acknowledge", acknowledging)
        loop.run()
    ended = [job for group in groups for job in group]
    assert one in (ended if population == "town" else [*groups[0][:1], *groups[1]])[:2]
    assert sorted(ended) == sorted([*many, one])


def test_a_job_that_worker_after_worker_died_over_fails(
    town: Deployment, redis_client: StoreClient
) -> None:
    job = submit_to(town, "people")
    writer = town.writer()
    for i in range(12):
        taken = writer.queue.take(["town"], consumer="dies", block_ms=None) or (
            writer.queue.take_over("town", consumer=f"dies{i}", idle_ms=0)
        )
        assert taken is not None
    town.work_off()
    status = town.service().job(job)
    assert (status.state, (status.problem or {}).get("code")) == ("failed", "measurement_failed")
    assert redis_client.llen(Keys("town").charges) == 0


def test_a_stopped_worker_hands_its_held_jobs_back_at_once(town: Deployment) -> None:
    loop = a_loop(town)
    lease = town.writer().acquire("town")
    assert lease is not None
    submit_to(town, "people")
    thread = threading.Thread(target=loop.run)
    thread.start()
    while not loop._held:
        thread.join(timeout=0.01)
    loop.stop()
    thread.join(timeout=120)
    idle_ms = town.settings.lease_ms
    assert town.writer().queue.take_over("town", consumer="next", idle_ms=idle_ms) is not None


def test_a_stopped_worker_hands_back_what_it_read_and_never_took(town: Deployment) -> None:
    """A read of two empty queues brings a job of each, should both come at once."""
    attach_others(town, population="town")
    jobs = {submit_to(town, "people"), submit_to(town, "others")}
    queue = town.writer().queue
    queue._read(queue._queues("town"), consumer="stops", block_ms=None)
    assert {taken.job for brought in queue._brought.values() for taken in brought} == jobs
    queue.hand_back_brought(consumer="stops", idle_ms=5000)
    found = [town.writer().queue.take_over("town", consumer=c, idle_ms=5000) for c in "ab"]
    assert {taken.job for taken in found if taken} == jobs


def test_a_worker_that_stops_is_not_said_to_live_and_one_that_stays_is(
    town: Deployment, redis_client: StoreClient
) -> None:
    alive = Keys("town").alive
    for others in (["stays"], []):
        redis_client.delete(alive)
        for other in others:
            town.writer().queue.beat(["town"], worker=other, ttl_ms=600_000)
        found = town.submit({"age": 20 + len(others)})
        assert isinstance(found, JobStatus)
        assert run_until_ended(a_loop(town), town, found.id) == "done"
        assert redis_client.smembers(alive) == set(others)


class Dying:
    """A store that dies under a worker at its work, so that the lease cannot be given back."""

    def __init__(self, patch: pytest.MonkeyPatch, *, n_deaths: int) -> None:
        self.n_left, self._is_away = n_deaths, False
        self._spent, self._release = Spender._spent, SpendingStore.release
        patch.setattr(Spender, "_spent", lambda *of: self._die(*of))
        patch.setattr(SpendingStore, "release", lambda *of: self._give_back(*of))

    def _die(self, *of: Any) -> Any:
        if self.n_left:
            self.n_left, self._is_away = self.n_left - 1, True
            raise StoreUnavailableError("It died.")
        return self._spent(*of)

    def _give_back(self, *of: Any) -> None:
        if self._is_away:
            self._is_away = False
            raise StoreUnavailableError("It is away.")
        self._release(*of)


def a_loop_that_waits_for_nothing(town: Deployment, *, most_turns: int) -> Loop:
    """Its clock stands still, so no lease expires and no silent worker's job is looked for."""
    turns: list[None] = []

    def turn() -> None:
        turns.append(None)
        assert len(turns) <= most_turns, "the job lies in nobody's hands"

    def pause(_s: float) -> None:
        raise AssertionError("it waits for a lease that it has itself")

    return Loop(
        settings=town.settings,
        trusted=town.trusted(),
        log=LOG,
        clock=lambda: 1.0,
        pause=pause,
        news=turn,
    )


def run_until_acknowledged(loop: Loop, patch: pytest.MonkeyPatch) -> None:
    original = SpendingStore.acknowledge

    def acknowledging(self: SpendingStore, group: list[Ended]) -> None:
        original(self, group)
        if group:
            loop.stop()

    patch.setattr(SpendingStore, "acknowledge", acknowledging)
    loop.run()


def test_a_worker_under_which_the_store_died_goes_on_at_once(
    town: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither its own lease nor the job at hand is waited for, which took a lease's time each."""
    job = submit_to(town, "people")
    loop = a_loop_that_waits_for_nothing(town, most_turns=6)
    Dying(monkeypatch, n_deaths=2)
    run_until_acknowledged(loop, monkeypatch)
    assert town.service().job(job).state == "done"


def test_a_job_over_which_the_store_dies_again_and_again_fails(
    town: Deployment, redis_client: StoreClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be what ends the store."""
    job = submit_to(town, "people")
    loop = a_loop_that_waits_for_nothing(town, most_turns=30)
    Dying(monkeypatch, n_deaths=1000)
    run_until_acknowledged(loop, monkeypatch)
    assert town.service().job(job).state == "failed"
    assert redis_client.llen(Keys("town").charges) == 0


def test_a_lease_of_another_worker_is_not_given_back(town: Deployment) -> None:
    writer = town.writer()
    assert writer.acquire("town", holder="other") is not None
    writer.give_back("town", "mine")
    assert writer.acquire("town", holder="mine") is None
    writer.give_back("town", "other")
    assert writer.acquire("town", holder="mine") is not None


def test_a_plan_that_was_found_outlives_the_store_that_died_meanwhile(
    town: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a store that lives for less than planning takes would let nothing be finished."""
    planned, deaths = list[str](), [1]
    reserve = SpendingStore.reserve

    def counted(*of: Any) -> Any:
        planned.append("plan")
        return decide(*of)

    def dying(*of: Any, **named: Any) -> Any:
        if deaths:
            deaths.pop()
            raise StoreUnavailableError("It died while the worker was planning.")
        return reserve(*of, **named)

    monkeypatch.setattr(planner, "decide", counted)
    monkeypatch.setattr(SpendingStore, "reserve", dying)
    job = submit_to(town, "people")
    loop = a_loop_that_waits_for_nothing(town, most_turns=8)
    run_until_acknowledged(loop, monkeypatch)
    assert town.service().job(job).state == "done"
    assert (deaths, planned) == ([], ["plan"])
