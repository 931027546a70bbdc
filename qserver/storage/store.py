"""The store of the online side: all reads, and the few writes (questions, remembered weights)."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

from qserver.config import Settings
from qserver.errors import (
    BusyError,
    IdempotencyError,
    NotFoundError,
    NoWorkerError,
    StoreCorruptError,
    StoreUnavailableError,
    StoreUnsupportedError,
)
from qserver.program.telemetry import present, traceparent_of
from qserver.records.answer import AnyAnswer
from qserver.records.dataset import DatasetMeta
from qserver.records.history import AnyMeasurement, Estimator
from qserver.records.paid_question import PaidQuestion
from qserver.storage.audit import AuditLog
from qserver.storage.constants import STORE
from qserver.storage.encoding.digests import ADVICE, PAID, read_meta, reading, sealed, unsealed
from qserver.storage.encoding.jobs import (
    JobRecord,
    State,
    answer_json,
    kept_estimator,
    measurements_from_json,
    read_estimators,
    reply_code,
    state_with_rounds,
    with_rounds,
)
from qserver.storage.encoding.queued_requests import Request
from qserver.storage.histories import (
    Cursor,
    Entries,
    FrozenSnapshots,
    ModelStore,
    check_charges,
    check_history,
)
from qserver.storage.keys import DATASETS, SCHEMA, Keys, all_rounds, job_id, population_of_job
from qserver.storage.saved_questions import SavedQuestions
from qserver.storage.server.connection import (
    ForbiddenError,
    Scripts,
    StoreClient,
    check_server,
    connect,
)
from qserver.storage.server.durability import check_durable
from qserver.storage.standings import N_REPLIES, Stamp, Standings

SCHEMA_VERSION = 1


@dataclass(frozen=True)
class Changes:
    """The entries after a cursor, read at one moment. Charges are JSON texts of all snapshots.

    A measurement with an old id refines, and replaces, the one with that id.

    Args:
        is_covered: whether the entries up to the known position are those that were known. Then
            `charges` are those after it, and rows before it are read when they are first needed.
    """

    stamp: Stamp
    measurements: tuple[AnyMeasurement, ...]
    estimators: tuple[Estimator, ...]
    charges: tuple[str, ...]
    paid: tuple[PaidQuestion, ...]
    cursor: Cursor
    worker_alive: bool
    is_covered: bool = False


@dataclass(frozen=True)
class Submission:
    """A question's job, and whether this call made it or joined another's."""

    job: str
    joined: bool


@dataclass(frozen=True)
class LookJob:
    """A job that its own process does; the request as stored."""

    id: str
    dataset: str
    request: str


@dataclass(frozen=True)
class TakenJob:
    """The store's content on a job, not read yet.

    Args:
        fields: of its record; empty if there is none.
        reservation: its plan as JSON, if it was charged.
    """

    fields: Mapping[str, str]
    reservation: str | None

    @property
    def trace(self) -> str:
        """Traceparent of the asking request; '' for none. Whoever wrote it, it is short hex."""
        return traceparent_of(self.fields.get("trace", ""))


@dataclass(frozen=True)
class Binding:
    """The outcome behind an idempotency key; '' until known."""

    outcome: str


class Store:
    """The store for the online side; thread-safe."""

    def __init__(self, client: StoreClient) -> None:
        self._client = self.client = client
        self._scripts = Scripts(client)
        self.audit = AuditLog(client)
        self.frozen = FrozenSnapshots(client)
        self.models = ModelStore(client)
        self.saved = SavedQuestions(client, self._scripts)
        self._standings = Standings(client)

    @classmethod
    def open(cls, settings: Settings, *, role: str = "web") -> Store:
        """The store at `settings.store_url`, checked for version and schema.

        Raises:
            StoreError: it cannot be reached, is too old, or has another schema.
        """
        client = connect(settings.store_url, role=role)
        check_server(client)
        check_schema(client)
        return cls(client)

    def check_ready(self, *, allow_volatile: bool) -> None:
        """Raise StoreError unless the store answers and keeps acknowledged writes."""
        check_durable(self._client, allow_volatile=allow_volatile)

    def check_begun(self) -> None:
        """Raise StoreError while the store has no dataset, or another version's."""
        if not _has_schema(self._client):
            raise StoreUnavailableError("The store is empty: attach a dataset (`qserver-worker`).")

    def datasets(self) -> Mapping[str, str]:
        """Dataset -> population."""
        found: dict[Any, Any] = self._client.hgetall(DATASETS)
        return found

    def meta(self, name: str) -> DatasetMeta:
        """The public facts of a dataset; NotFoundError if there is none of this name."""
        population = self._client.hget(DATASETS, name)
        if population is None:
            raise NotFoundError("dataset", name, among=self.datasets())
        with reading("list of datasets"):
            keys = Keys(str(population))
        text = self._client.hget(keys.dataset(name), "meta")
        if text is None and self._client.hget(DATASETS, name) is None:
            raise NotFoundError("dataset", name)  # detached between the two readings
        found = read_meta(text, name=name)
        if found.population != population:
            raise StoreCorruptError(f"The facts of dataset {name!r} are another's. {ADVICE}")
        return found

    def stamp(self, meta: DatasetMeta) -> Stamp:
        """The present stamp; one round trip.

        Raises:
            NotFoundError: the dataset was detached or has another snapshot now.
        """
        pipe = self._client.pipeline(transaction=True)
        self._standings.ask(pipe, meta)
        return self._standings.stamp(meta, pipe.execute())

    def changes(
        self, meta: DatasetMeta, cursor: Cursor, *, shown_only: bool, known: Cursor | None = None
    ) -> Changes:
        """The entries after `cursor`; one round trip, read at one moment.

        Args:
            shown_only: leave out rows whose publication is not known to be durable yet.
            known: a position up to which everything was taken in before, by a checkpoint; with it
                `cursor` is the beginning.

        Raises:
            NotFoundError: the dataset has another snapshot, or its history was chained meanwhile.
            StoreCorruptError: the history is not as it was published.
        """
        keys = Keys(meta.population)
        pipe = self._client.pipeline(transaction=True)
        self._standings.ask(pipe, meta)
        pipe.lrange(keys.history(meta.snapshot), cursor.n_events, -1)
        pipe.lrange(keys.estimators(meta.snapshot), cursor.n_estimators, -1)
        pipe.lrange(keys.charges, cursor.n_charges, -1)
        pipe.lrange(keys.paid(meta.snapshot), cursor.n_paid, -1)
        pipe.exists(keys.alive)
        replies = pipe.execute()
        stamp = self._standings.stamp(meta, replies[:N_REPLIES])
        rows, estimators, charges, paid, alive = replies[N_REPLIES:]
        if cursor.head is None and stamp.head is not None:
            # The history was chained meanwhile, so it is read again and checked from its beginning.
            raise NotFoundError("history", meta.snapshot)
        check_history(rows, after=cursor.head, head=stamp.head, snapshot=meta.snapshot)
        check_charges(charges, after=cursor.charges_head, head=stamp.charges_head)
        if shown_only:
            rows = rows[: max(0, stamp.n_shown - cursor.n_events)]
        entries = Entries(rows, estimators, charges, paid)
        is_covered = known is not None and stamp.head is not None and entries.begin_with(known)
        first = known if known is not None and is_covered else Cursor()
        sizes = meta.domain.sizes
        with reading("released answers"):
            measurements = measurements_from_json(
                rows, next_id=cursor.n_measurements, sizes=sizes, n_known=first.n_events
            )
        ids, is_chained = [m.id for m in measurements], stamp.head is not None
        return Changes(
            stamp=stamp,
            measurements=measurements,
            estimators=read_estimators(estimators),
            charges=tuple(charges[first.n_charges :]),
            paid=_paid(paid, sizes, n_known=first.n_paid),
            cursor=entries.after(cursor, ids=ids, is_chained=is_chained),
            worker_alive=bool(alive),
            is_covered=is_covered,
        )

    def n_paid(self, meta: DatasetMeta) -> int:
        """The number of paid questions on this snapshot so far."""
        return int(self._client.llen(Keys(meta.population).paid(meta.snapshot)))

    def earlier_questions(self, meta: DatasetMeta) -> tuple[tuple[PaidQuestion, ...], ...]:
        """The questions paid for on each earlier snapshot that this one is planned for, in order.

        They never change: `demand_of` says how many of each list count.
        """
        keys, pipe = Keys(meta.population), self._client.pipeline(transaction=True)
        for snapshot, n in meta.demand_of:
            pipe.lrange(keys.paid(snapshot), 0, n - 1)
        sizes = meta.domain.sizes
        return tuple(_paid(texts, sizes, n_known=0) for texts in pipe.execute())

    def worker_alive(self, population: str) -> bool:
        """Whether a worker of the population is alive."""
        return bool(self._client.exists(Keys(population).alive))

    def submit(
        self, request: Request, *, population: str, digest: str, max_queue: int, need_worker: bool
    ) -> Submission:
        """Queue a question, or join the open job with the same question.

        Raises:
            NoWorkerError: `need_worker`, and none is alive.
            BusyError: the dataset's queue is full.
        """
        keys = Keys(population)
        job = job_id(population, secrets.token_hex(12))
        args: list[str | int | bytes] = [
            job,
            digest,
            request.dataset,
            sealed(request.to_json(), name=job),
            max_queue,
            int(need_worker),
            present(),
        ]
        reply = self._scripts.run(
            "submit",
            keys=[keys.asked, keys.jobs(request.dataset), keys.job(job), keys.alive, keys.queues],
            args=args,
        )
        code = reply_code(reply)
        if code == 0:
            raise NoWorkerError("No worker is alive to measure an answer. Try again later.")
        if code == 3:
            raise BusyError("Too many questions wait for a worker. Try again later.")
        return Submission(str(reply[1]), joined=code == 2)

    def looks(self, request: Request, *, population: str) -> LookJob:
        """A running job that the calling process does itself; it is forgotten after some time.

        So none stays whose process ended. A job that was forgotten is written anew when it ends.
        """
        job = job_id(population, secrets.token_hex(12))
        found = LookJob(job, request.dataset, sealed(request.to_json(), name=job))
        self._write(found, {"state": "running"}, STORE.look_s)
        return found

    def looked(self, job: LookJob, answer: AnyAnswer) -> None:
        """End such a job."""
        result = sealed(answer_json(answer), name=job.id)
        self._write(job, {"state": "done", "result": result}, STORE.looked_s)

    def _write(self, job: LookJob, fields: dict[str, str], seconds: int) -> None:
        key, pipe = Keys(population_of_job(job.id)).job(job.id), self._client.pipeline()
        written: dict[Any, Any] = {"dataset": job.dataset, "request": job.request, **fields}
        pipe.hset(key, mapping=written)
        pipe.expire(key, seconds)
        pipe.execute()

    def job(self, job: str) -> JobRecord:
        """The asker's view of a job, which ends when its answer is refined, if that takes longer.

        Raises:
            NotFoundError: there is none of this id.
        """
        own, *rounds = self._jobs(all_rounds(job))
        if own is None:
            raise NotFoundError("job", job)
        return with_rounds(own, [one for one in rounds if one is not None])

    def own_job(self, job: str) -> JobRecord:
        """A job without the rounds that refine its answer; NotFoundError."""
        [own] = self._jobs([job])
        if own is None:
            raise NotFoundError("job", job)
        return own

    def _jobs(self, jobs: Sequence[str]) -> list[JobRecord | None]:
        """Jobs of one population; None for a missing one."""
        population, pipe = population_of_job(jobs[0]), self._client.pipeline(transaction=False)
        if not population or set("{}") & set(population):
            raise NotFoundError("job", jobs[0])
        for job in jobs:
            pipe.hgetall(Keys(population).job(job))
        found = zip(jobs, pipe.execute(), strict=True)
        return [JobRecord.from_fields(job, fields) if fields else None for job, fields in found]

    def taken_jobs(self, population: str, jobs: Sequence[str]) -> list[TakenJob]:
        """The store's content on jobs of one population; one round trip."""
        keys = Keys(population)
        pipe = self._client.pipeline(transaction=True)
        for job in jobs:
            pipe.hgetall(keys.job(job))
            pipe.hget(keys.reservations, job)
        found = pipe.execute()
        return list(map(TakenJob, found[::2], found[1::2]))

    def job_state(self, job: str) -> State | None:
        """The state of a job for its asker, or None; one round trip."""
        return self._states([job])[job]

    def ended(self, jobs: Collection[str]) -> set[str]:
        """The jobs that are done, failed or forgotten; one round trip."""
        states = self._states(jobs)
        return {job for job, state in states.items() if state not in ("queued", "running")}

    def _states(self, jobs: Collection[str]) -> dict[str, State | None]:
        pipe, rounds = self._client.pipeline(transaction=False), list(map(all_rounds, jobs))
        for job in chain(*rounds):
            pipe.hget(Keys(population_of_job(job)).job(job), "state")
        found = iter(pipe.execute())
        return {one[0]: state_with_rounds(list(islice(found, len(one)))) for one in rounds}

    def remember(self, meta: DatasetMeta, estimator: Estimator) -> None:
        """Keep the certified weights of a free answer, up to a bound."""
        keys = Keys(meta.population)
        self._scripts.run(
            "remember",
            keys=[keys.estimators(meta.snapshot), keys.remembered(meta.snapshot)],
            args=[
                estimator.key,
                kept_estimator(estimator),
                STORE.estimators_per_key,
                STORE.estimators,
            ],
        )

    def note(self, meta: DatasetMeta, digest: str) -> str | None:
        """The note of a statement of SQL; None without one."""
        key = Keys(meta.population).remembered(meta.snapshot)
        text: Any = self._client.hget(key, f"statement {digest}")
        return text  # type: ignore[no-any-return]

    def keep_note(self, meta: DatasetMeta, digest: str, text: str) -> None:
        """Keep a note of a statement; a new one only while there is room."""
        key, field = Keys(meta.population).remembered(meta.snapshot), f"statement {digest}"
        if self._client.hlen(key) < STORE.notes or self._client.hexists(key, field):
            self._client.hset(key, field, text)

    def bind(self, meta: DatasetMeta, *, key: str, body_digest: str, outcome: str = "") -> Binding:
        """Bind an idempotency key to a body, and later to its outcome.

        Raises:
            IdempotencyError: the key is bound to another body.
        """
        reply = self._scripts.run(
            "bind",
            keys=[Keys(meta.population).idempotency(meta.name, key)],
            args=[body_digest, outcome, STORE.idempotency_s],
        )
        if reply_code(reply) == 0:
            raise _other_body()
        return Binding(str(reply[1]))

    def bound(self, meta: DatasetMeta, *, key: str, body_digest: str) -> str:
        """The outcome of an idempotency key, else ''; nothing is written.

        Raises:
            IdempotencyError: the key is bound to another body.
        """
        bound = Keys(meta.population).idempotency(meta.name, key)
        body, outcome = self._client.hmget(bound, ["body", "outcome"])
        if body is not None and body != body_digest:
            raise _other_body()
        return str(outcome or "")


def _other_body() -> IdempotencyError:
    return IdempotencyError(
        "`Idempotency-Key` must come with the same body as before. Use a new key."
    )


@reading("paid questions")
def _paid(texts: Sequence[str], sizes: Sequence[int], *, n_known: int) -> tuple[PaidQuestion, ...]:
    return tuple(
        PaidQuestion.from_json(unsealed(text, name=PAID), sizes, is_known=i < n_known)
        for i, text in enumerate(texts)
    )


def check_schema(client: StoreClient) -> None:
    """Check the schema; an empty store gets the present one if the caller may write.

    Raises:
        StoreUnsupportedError: it was written by another version.
    """
    if not _has_schema(client):
        with contextlib.suppress(ForbiddenError):
            client.set(SCHEMA, str(SCHEMA_VERSION), nx=True)
        _has_schema(client)


def _has_schema(client: StoreClient) -> bool:
    """Whether the store has our schema, or none yet; StoreUnsupportedError."""
    found: Any = client.get(SCHEMA)
    if found not in (None, str(SCHEMA_VERSION)):
        raise StoreUnsupportedError(
            f"The store has schema version {found}, this qserver reads {SCHEMA_VERSION}. "
            "Run the version that wrote it, or use an empty store."
        )
    return found is not None
