"""The worker's side of the job queues: take jobs from a stream, and end them.

A stream has a consumer group per dataset. The outcome of a job is written, made durable, and only
then shown.

So every later reader gets the same bits as the first one, even if the store is lost at that moment
and a replica, or its disk, replaces it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import redis

from qserver.errors import StoreError, StoreUnavailableError
from qserver.records.codec import ALWAYS, plain
from qserver.records.history import Estimator
from qserver.storage.constants import STORE
from qserver.storage.encoding.digests import reading, sealed, unsealed
from qserver.storage.encoding.jobs import estimator_from_json, estimator_json, kept_estimator
from qserver.storage.keys import DATASETS, GROUP, Keys, next_round
from qserver.storage.server.connection import Scripts, StoreClient

_LOST = "The store has lost its job queues."


@dataclass(frozen=True)
class Taken:
    """An open job that this worker took from the queue: its id and its stream entry.

    Args:
        entry: its entry in the stream of `dataset`; '' for a job that was taken from no queue.
        n_taken: how often it was taken in all; more than once if workers died over it.
        trace: traceparent of the request that asked; '' for none.
    """

    population: str
    job: str
    entry: str
    dataset: str
    n_taken: int = 1
    trace: str = ""


@dataclass(frozen=True)
class _Queue:
    """The queue of one dataset."""

    population: str
    dataset: str

    @property
    def stream(self) -> str:
        return Keys(self.population).jobs(self.dataset)


class JobQueue:
    """The queues of a worker's jobs; shares the connection of the spending side.

    Each dataset has one queue, and the queues of one population take turns. So a flood of questions
    on one dataset delays a question on another by one job at most.
    """

    def __init__(self, client: StoreClient, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._clock = clock
        self._scripts = Scripts(client)
        # A read of several streams may fetch jobs of each; the others wait here, oldest first.
        self._brought: dict[_Queue, list[Taken]] = {}
        self._known: set[_Queue] = set()
        # The queues of a population, and the time of the next look for new ones.
        self._listed: dict[str, tuple[_Queue, ...]] = {}
        self._list_again: dict[str, float] = {}
        # By population: the dataset of the last job taken.
        self._last: dict[str, str] = {}

    def make_queue(self, population: str) -> None:
        """Make the missing queues of the population's datasets.

        An older store had one queue for a population; its open jobs move to the new queues.
        """
        attached: dict[Any, Any] = self._client.hgetall(DATASETS)
        names = [str(name) for name, found in attached.items() if found == population]
        if names:
            self._client.sadd(Keys(population).queues, *names)
        self._divide(population)
        self._list(population)

    def _divide(self, population: str) -> None:
        """Move every job of the population's old queue to its dataset's queue, oldest first."""
        keys = Keys(population)
        if self._client.type(keys.alive) == "string":
            # An older worker's sign of life has another type, which today's cannot add to.
            self._client.delete(keys.alive)
        entries: Any = self._client.xrange(keys.undivided_jobs)
        for entry, fields in entries:
            dataset: Any = self._client.hget(keys.job(fields["job"]), "dataset")
            if dataset is None:
                self._client.xdel(keys.undivided_jobs, entry)
                continue
            streams = [keys.undivided_jobs, keys.jobs(dataset), keys.queues]
            self._scripts.run("requeue", keys=streams, args=[entry, fields["job"], dataset])

    def take(
        self, populations: Sequence[str], *, consumer: str, block_ms: int | None
    ) -> Taken | None:
        """The next open job of the first of these populations that has any.

        None if none came within `block_ms` milliseconds; None does not wait.

        Raises:
            StoreUnavailableError: the store has lost queues that it had.
        """
        queues = [queue for population in populations for queue in self._in_turn(population)]
        if len(queues) > 1:
            for queue in queues:
                self._read([queue], consumer=consumer, block_ms=None)
                if queue in self._brought:
                    break
        if not self._brought.keys() & set(queues):
            self._read(queues, consumer=consumer, block_ms=block_ms)
        first = next((queue for queue in queues if queue in self._brought), None)
        return None if first is None else self._pop(first)

    def more(self, population: str, *, consumer: str, most: int) -> list[Taken]:
        """Up to `most` more open jobs of a population, of its datasets in turn; it never waits."""
        if most <= 0:
            return []
        queues = self._in_turn(population)
        found, part = list[Taken](), -(-most // len(queues))
        self._read(queues, consumer=consumer, block_ms=None, count=part)
        while len(found) < most:
            if not self._brought.keys() & set(queues):
                # Few of the queues have jobs: these may give all the rest.
                self._read(queues, consumer=consumer, block_ms=None, count=most - len(found))
            first = next((q for q in self._in_turn(population) if q in self._brought), None)
            if first is None:
                break
            found.append(self._pop(first))
        return found

    def _pop(self, queue: _Queue) -> Taken:
        """The oldest fetched job of this queue, which then counts as served last."""
        self._last[queue.population] = queue.dataset
        taken = self._brought[queue].pop(0)
        if not self._brought[queue]:
            del self._brought[queue]
        return taken

    def _queues(self, population: str) -> tuple[_Queue, ...]:
        """The population's queues by dataset, as of the last look."""
        known = self._listed.get(population)
        if not known or self._clock() >= self._list_again[population]:
            self._list(population)
        return self._listed[population]

    def _list(self, population: str) -> None:
        """Look for the population's queues, and make their consumer groups."""
        members: Any = self._client.smembers(Keys(population).queues)
        found = [_Queue(population, str(name)) for name in sorted(members)]
        if not {q for q in self._known if q.population == population} <= set(found):
            raise StoreUnavailableError(_LOST)
        for queue in found:
            if queue not in self._known:
                self._make_group(queue)
        self._listed[population] = tuple(found)
        self._list_again[population] = self._clock() + STORE.queues_s

    def _make_group(self, queue: _Queue) -> None:
        try:
            self._client.xgroup_create(queue.stream, GROUP, id="0", mkstream=True)
        except redis.ResponseError as exc:
            if "BUSYGROUP" not in str(exc):
                raise StoreError("The job queue cannot be made.") from exc
        self._known.add(queue)

    def _in_turn(self, population: str) -> list[_Queue]:
        """The population's queues, the last served at the end."""
        found, last = self._queues(population), self._last.get(population, "")
        later = [queue for queue in found if queue.dataset > last]
        return [*later, *(queue for queue in found if queue.dataset <= last)]

    def _read(
        self, queues: Sequence[_Queue], *, consumer: str, block_ms: int | None, count: int = 1
    ) -> None:
        by_stream = {queue.stream: queue for queue in queues if queue not in self._brought}
        if not by_stream:
            return
        streams: dict[Any, Any] = dict.fromkeys(by_stream, ">")
        with _lost_queues_noticed():
            reply: Any = self._client.xreadgroup(
                GROUP, consumer, streams, count=count, block=block_ms
            )
        for stream, entries in _pairs(reply):
            queue = by_stream[stream]
            found = [_taken(queue, entry, fields) for entry, fields in entries]
            if found:
                self._brought[queue] = found

    def take_over(self, population: str, *, consumer: str, idle_ms: int) -> Taken | None:
        """A job whose worker has been silent for `idle_ms` milliseconds, or None."""
        for queue in self._in_turn(population):
            found = self._take_over(queue, consumer=consumer, idle_ms=idle_ms)
            if found is not None:
                return found
        return None

    def _take_over(self, queue: _Queue, *, consumer: str, idle_ms: int) -> Taken | None:
        with _lost_queues_noticed():
            reply: Any = self._client.xautoclaim(
                queue.stream, GROUP, consumer, min_idle_time=idle_ms, count=1
            )
        for entry, fields in reply[1]:
            if fields:
                found: Any = self._client.xpending_range(queue.stream, GROUP, entry, entry, 1)
                n_taken = int(found[0]["times_delivered"]) if found else 1
                return _taken(queue, entry, fields, n_taken=n_taken)
        return None

    def waiting(self, population: str) -> list[Taken]:
        """Every open job, taken or not; those of one dataset oldest first."""
        found: list[Taken] = []
        self._list(population)
        for queue in self._queues(population):
            entries: Any = self._client.xrange(queue.stream)
            found += [_taken(queue, entry, fields) for entry, fields in entries]
        return found

    def hand_back(self, taken: Taken, *, consumer: str, idle_ms: int) -> None:
        """Let others, who wait for `idle_ms` milliseconds of silence, take a job over at once."""
        self._client.xclaim(
            Keys(taken.population).jobs(taken.dataset),
            GROUP,
            consumer,
            min_idle_time=0,
            message_ids=[taken.entry],
            idle=idle_ms,
            justid=True,
        )

    def hand_back_brought(self, *, consumer: str, idle_ms: int) -> None:
        """Let others take over at once the jobs that were read but not taken."""
        while self._brought:
            _, brought = self._brought.popitem()
            for taken in brought:
                self.hand_back(taken, consumer=consumer, idle_ms=idle_ms)

    def give_up(self, population: str, *, consumer: str, idle_ms: int) -> None:
        """Let others take over at once the jobs of a dead consumer."""
        for queue in self._queues(population):
            found: Any = self._client.xpending_range(
                queue.stream, GROUP, "-", "+", STORE.given_up, consumername=consumer
            )
            for entry in found:
                taken = Taken(population, "", str(entry["message_id"]), queue.dataset)
                self.hand_back(taken, consumer=consumer, idle_ms=idle_ms)

    def beat(self, populations: Sequence[str], *, worker: str, ttl_ms: int) -> None:
        """Say that this worker of these populations is alive, for `ttl_ms` milliseconds."""
        for population in populations:
            self._scripts.run("beat", keys=[Keys(population).alive], args=[worker, ttl_ms])

    def leave(self, populations: Sequence[str], *, worker: str) -> None:
        """Say that this worker stops. Other workers of the populations stay alive."""
        for population in populations:
            self._client.srem(Keys(population).alive, worker)


@contextmanager
def _lost_queues_noticed() -> Iterator[None]:
    """Raise StoreUnavailableError if a queue lost its consumer group."""
    try:
        yield
    except redis.ResponseError as exc:
        if "NOGROUP" in str(exc):
            raise StoreUnavailableError(_LOST) from exc
        raise


def _taken(queue: _Queue, entry: Any, fields: Mapping[str, Any], *, n_taken: int = 1) -> Taken:
    return Taken(queue.population, str(fields["job"]), str(entry), queue.dataset, n_taken)


def _pairs(reply: Any) -> list[tuple[str, list[tuple[str, dict[str, str]]]]]:
    if not reply:
        return []
    if isinstance(reply, dict):
        # RESP3 gives a mapping of lists of pages.
        return [(k, [entry for page in v for entry in page]) for k, v in reply.items()]
    return list(reply)


@dataclass(frozen=True)
class Outcome:
    """The outcome of a job.

    Args:
        state: `done` with an answer's JSON, or `failed` with a problem's JSON.
        keep_s: seconds to keep the job, 0 = for ever.
        n_show: events of the snapshot's history to show from now on.
        estimators: certified weights of answered rows that nobody would find again.
        refines: JSON of the request whose job refines the answer; '' where it is as short as asked.
    """

    state: Literal["done", "failed"]
    text: str
    snapshot: str
    n_show: int
    keep_s: int
    estimators: tuple[Estimator, ...] = field(default=(), metadata=ALWAYS)
    refines: str = ""

    def to_json(self) -> str:
        """Canonical JSON."""
        return json.dumps(plain(self, {Estimator: estimator_json}), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Outcome:
        """The outcome that `to_json` wrote."""
        found = json.loads(text)
        # Older texts have one estimator at most.
        alone = found.pop("estimator", "")
        kept = found.pop("estimators", [alone] if alone else [])
        return cls(**found, estimators=tuple(map(estimator_from_json, kept)))


@dataclass(frozen=True)
class Ended:
    """A job and its outcome."""

    taken: Taken
    outcome: Outcome


@dataclass(frozen=True)
class Concluded:
    """A written outcome, and whether this call wrote it."""

    outcome: Outcome
    is_new: bool


class Endings:
    """The last steps of a job; shares the connection of the spending side."""

    def __init__(self, client: StoreClient) -> None:
        self._client = client
        self._scripts = Scripts(client)

    def conclude(self, group: Sequence[Ended]) -> list[Concluded]:
        """Write the outcomes of jobs of one population; an earlier outcome stands."""
        keys = Keys(group[0].taken.population)
        reply = self._scripts.run(
            "conclude",
            keys=[keys.job(one.taken.job) for one in group],
            args=[sealed(one.outcome.to_json(), name=one.taken.job) for one in group],
        )
        return [
            Concluded(read_outcome(str(text), one.taken), is_new=int(code) == 1)
            for code, text, one in zip(reply[::2], reply[1::2], group, strict=True)
        ]

    def show(self, group: Sequence[Ended]) -> None:
        """End jobs and show their rows, after `conclude` and durability; idempotent."""
        keys = Keys(group[0].taken.population)
        self._scripts.run(
            "acknowledge",
            keys=[keys.asked, keys.ledger, *(key for one in group for key in _keys(keys, one))],
            args=[GROUP, *(argument for one in group for argument in _arguments(one))],
        )


def _keys(keys: Keys, one: Ended) -> tuple[str, ...]:
    job, queue = keys.job(one.taken.job), keys.jobs(one.taken.dataset)
    after = keys.job(next_round(one.taken.job))
    return job, queue, keys.estimators(one.outcome.snapshot), after


def _arguments(one: Ended) -> list[str | int | bytes]:
    taken, outcome = one.taken, one.outcome
    after = next_round(taken.job)
    return [
        taken.job,
        taken.entry,
        outcome.state,
        sealed(outcome.text, name=taken.job),
        outcome.snapshot,
        outcome.n_show,
        outcome.keep_s,
        taken.dataset,
        after,
        sealed(outcome.refines, name=after) if outcome.refines else "",
        len(outcome.estimators),
        *map(kept_estimator, outcome.estimators),
    ]


@reading("outcome of a job")
def read_outcome(text: str, taken: Taken) -> Outcome:
    """The outcome that a job's record was ended with; StoreCorruptError."""
    return Outcome.from_json(unsealed(text, name=taken.job))
