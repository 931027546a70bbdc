"""Ask a question or a workload: answered from history at once, or queued for the worker."""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeVar

from qserver.answering.answer import with_ends
from qserver.answering.decide import Free, ToAnswer, still_to_do, to_answer
from qserver.config import Settings
from qserver.errors import BusyError, NotFoundError, StoreError, StoreNotDurableError
from qserver.query.question import AnyAsked, ModelAsked, Workload
from qserver.records.account import HERE, Caller
from qserver.records.answer import Answer, AnyAnswer, JobStatus, ModelAnswer, WorkloadAnswer
from qserver.records.codec import plain
from qserver.records.dataset import DatasetMeta
from qserver.records.history import Estimator
from qserver.records.problem import error_from_problem
from qserver.service.cache.answers import KeptAnswers, State, names_prices, periods_of, state_of
from qserver.service.cache.shared_results import ResultKey, SharedResults
from qserver.service.datasets import OpenDataset, OpenDatasets
from qserver.service.parking import Parked, Visit, present_visit
from qserver.storage.encoding.digests import reading
from qserver.storage.encoding.jobs import JobRecord, answer_from_json
from qserver.storage.encoding.queued_requests import Request
from qserver.storage.store import Store, Submission

_A = TypeVar("_A", Answer, WorkloadAnswer, ModelAnswer)
_F = TypeVar("_F")
# A measurement takes some 15 ms: let it be at first, then look often, then ever less.
_LEAST_WAIT_S = 0.007
_FIRST_WAIT_S = 0.0015
_N_FIRST = 20
_LONGEST_WAIT_S = 0.05
_WAIT_GROWTH = 1.2
_LAWS_A_SECOND: Final = 100.0
"""Where answers disagree: a law takes 8 to 12 ms, of single numbers of three tables."""
SHORT_S: Final = 0.3
"""What takes no longer than this is computed at once, however short its asker waits."""


@dataclass(frozen=True)
class Idempotency:
    """A client's idempotency key with the digest of the body it came with."""

    key: str
    body_digest: str


class Asking:
    """Asks questions and workloads for one process. Thread-safe.

    Args:
        workloads: what workloads are answered from; they may take long, and questions shall not
            wait for them.
        starting_s: how long questions wait for a worker that is not there yet: whoever starts this
            process may be about to start it, too.
        most_laws: of one workload that are computed here; more are a worker's, however long its
            asker waits.
        clock: seconds, monotonic.
        sleep: waits for so many seconds.
    """

    def __init__(
        self,
        store: Store,
        datasets: OpenDatasets,
        workloads: OpenDatasets,
        settings: Settings,
        *,
        starting_s: float = 0.0,
        most_laws: float = math.inf,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._store = store
        self._datasets = datasets
        self._workloads = workloads
        self._settings = settings
        self._clock = clock
        self._started_at = clock() + starting_s
        self._sleep = sleep
        self._most_laws = most_laws
        self._kept, self._shared = KeptAnswers(), SharedResults(store)

    def ask(
        self,
        name: str,
        asked: AnyAsked,
        *,
        wait_s: float,
        idempotency: Idempotency | None,
        by: str = "",
        most_nano: int | None = None,
    ) -> AnyAnswer | JobStatus:
        """The answer, or after `wait_s` seconds the job that is finding it; see Service.ask."""
        request = Request(name, "", asked, by, most_nano=most_nano)
        return self._waited(
            request,
            wait_s,
            lambda: self._found(name, asked, wait_s, idempotency, by, most_nano),
        )

    def known(
        self, name: str, workload: Workload, *, wait_s: float | None, by: str
    ) -> WorkloadAnswer | JobStatus | None:
        """The answers of history, or after `wait_s` seconds the job that is computing them.

        None where they take no longer than that, or history does not answer all: nothing is asked.
        Where they were kept, they are there at once.

        Args:
            wait_s: None for answers that were computed already, or else None.
        """
        if (kept := self._known_before(name, workload)) is not None:
            return narrowed(kept, WorkloadAnswer)
        if wait_s is None:
            job = self._later(name, workload, math.inf, by)
            if job is None or self._store.job_state(job.id) != "done":
                return None
            return narrowed(self._outcome(job.id), WorkloadAnswer)
        find = partial(self._later, name, workload, wait_s, by)
        found = self._waited(Request(name, "", workload, by), wait_s, find)
        return None if found is None else narrowed(found, WorkloadAnswer)

    def free(self, name: str, workload: Workload, *, by: str) -> WorkloadAnswer | None:
        """The answer of history, kept or computed here; None where it does not answer all."""
        found: AnyAnswer | JobStatus | None = self.known(name, workload, wait_s=None, by=by)
        if found is None:
            _, _, found = self._free(name, workload)
        return found if isinstance(found, WorkloadAnswer) else None

    def _waited(
        self, request: Request, wait_s: float, find: Callable[[], _F | JobStatus]
    ) -> _F | AnyAnswer | JobStatus:
        """What `find` returns, or after `wait_s` seconds the job that runs it."""
        visit = present_visit() if wait_s > _LEAST_WAIT_S else None
        digest = digest_of(request) if visit else ""
        if visit and digest in visit.jobs:
            return self._parked(visit.jobs[digest], wait_s, visit)
        found = find()
        if not isinstance(found, JobStatus):
            return found
        if visit is None:
            return self._wait(found.id, wait_s)
        visit.jobs[digest] = found.id
        return self._parked(found.id, wait_s, visit)

    def _found(
        self,
        name: str,
        asked: AnyAsked,
        wait_s: float,
        idempotency: Idempotency | None,
        by: str,
        most_nano: int | None,
    ) -> AnyAnswer | JobStatus:
        """The answer, or the job that is finding it, perhaps since an earlier request.

        A key is bound only where something may be charged: what is free is free again.
        """
        if idempotency is not None and (earlier := self._earlier(name, idempotency)):
            return _outcome_of(earlier)
        if isinstance(asked, Workload):
            if (known := self._known_before(name, asked)) is not None:
                return known
            if later := self._later(name, asked, wait_s, by):
                return later
        opened, asked, answer = self._free(name, asked)
        if answer is not None:
            return answer
        meta, need_worker = opened.meta, self._needs_worker(wait_s)
        request = Request(meta.name, meta.snapshot, asked, by, most_nano=most_nano)
        if idempotency is None:
            return self._submit(meta, request, need_worker=need_worker)
        if earlier := self._bind(meta, idempotency, ""):
            return _outcome_of(earlier)
        job = self._submit(meta, request, need_worker=need_worker)
        self._bind(meta, idempotency, json.dumps({"job": job.id}))
        return job

    def asked_before(
        self, name: str, idempotency: Idempotency, *, wait_s: float
    ) -> AnyAnswer | JobStatus | None:
        """The answer asked for under a key, or its job after `wait_s`; None if the key is new."""
        outcome = self._earlier(name, idempotency)
        if not outcome:
            return None
        found = _outcome_of(outcome)
        return self._wait(found.id, wait_s) if isinstance(found, JobStatus) else found

    def job(self, job_id: str, *, reader: Caller = HERE, wait_s: float = 0.0) -> JobStatus:
        """A job's state, result or problem; NotFoundError.

        Args:
            reader: who wants to see it.
            wait_s: how long to wait for its end, in seconds, where no thread is held by that.
        """
        record = shown_job(self._store, job_id, reader)
        status = job_status(record)
        if isinstance(status.result, WorkloadAnswer) and status.result.charged_nano:
            self._share(record, status.result)
        visit = present_visit() if wait_s > 0 else None
        if visit and not visit.is_over and status.state not in ("done", "failed"):
            raise Parked(job=job_id, wait_s=wait_s, ended=self._store.ended)
        return status

    def _parked(self, job_id: str, wait_s: float, visit: Visit) -> AnyAnswer | JobStatus:
        """As `_wait`, but holds no thread: raises Parked until the job ends or the time is over."""
        if self._store.job_state(job_id) not in ("queued", "running"):
            return self._outcome(job_id)
        if visit.is_over:
            return self.job(job_id)
        raise Parked(job=job_id, wait_s=wait_s, ended=self._store.ended)

    def _earlier(self, name: str, idempotency: Idempotency) -> str:
        """The outcome that a key is bound to; '' for none."""
        meta, key = self._datasets.meta(name), idempotency.key
        return self._store.bound(meta, key=key, body_digest=idempotency.body_digest)

    def _later(self, name: str, workload: Workload, wait_s: float, by: str) -> JobStatus | None:
        """The job that answers a workload from history, where its laws would take this process too
        long.

        There is one for all who ask the same of the same state, also when it is done. None where
        it takes no longer, or where no worker can do it: then it is answered here.
        """
        few = min(SHORT_S * _LAWS_A_SECOND, self._most_laws)
        if len(workload.questions) <= few:
            return None
        opened = self._workloads.refresh(name)
        with opened.lock:
            workload = opened.replica.chosen(workload)
            left = still_to_do(opened.replica, workload)
        if left.n_laws <= few:
            return None
        if left.estimators:
            self._remember(opened.meta, left.estimators)
            opened = self._workloads.refresh(name)
        request = Request(opened.meta.name, opened.meta.snapshot, workload, by)
        is_long = left.n_laws > min(wait_s * _LAWS_A_SECOND, self._most_laws)
        return self._of_state(opened, request, is_made=is_long)

    def _of_state(
        self, opened: OpenDataset, request: Request, *, is_made: bool
    ) -> JobStatus | None:
        """The job for this state if there is one and it did not fail.

        Args:
            is_made: whether one is made where there is none yet.
        """
        with opened.lock:
            state, alive = state_of(opened.replica), opened.replica.worker_alive
        digest = hashlib.sha256(request.to_json().encode()).hexdigest()
        key = ResultKey("job", state, digest)
        if outcome := self._shared.find(opened.meta, key):
            job = _outcome_of(outcome)
            of_use = ("queued", "running", "done") if alive else ("done",)
            is_of_use = isinstance(job, JobStatus) and self._store.job_state(job.id) in of_use
            return job if isinstance(job, JobStatus) and is_of_use else None
        if not (is_made and alive):
            return None
        try:
            found = self._submission(opened.meta, request, need_worker=False)
            if not found.joined:
                self._shared.keep(opened.meta, key, json.dumps({"job": found.job}))
        except (BusyError, StoreNotDurableError):
            return None
        return JobStatus(found.job, "queued", opened.meta.name)

    def _remember(self, meta: DatasetMeta, estimators: Sequence[Estimator]) -> None:
        """Keep weights, so that an answer free now stays free."""
        for estimator in estimators:
            # A store without room changes no answer; the weights are found again.
            with contextlib.suppress(StoreError):
                self._store.remember(meta, estimator)

    def _known_before(self, name: str, asked: Workload) -> AnyAnswer | None:
        """The free answer found earlier, if what bears on it has not changed.

        What the worker or another process found is kept here, too, if the state is still that of
        its answer.
        """
        opened = self._workloads.refresh(name)
        with opened.lock:
            replica, state = opened.replica, state_of(opened.replica)
            known = self._kept.find(replica, asked)
            job = "" if known is None else self._kept.job_to_share(replica, asked)
        if known is not None and not job:
            return known
        key = _answers_key(opened.meta, asked, state)
        if known is not None:
            self._shared.keep(opened.meta, key, json.dumps({"job": job}))
            return known
        text = self._shared.find(opened.meta, key)
        shared = _outcome_of(text) if text else None
        if not isinstance(shared, JobStatus) or self._store.job_state(shared.id) != "done":
            return None
        found = self.job(shared.id).result
        with opened.lock:
            if isinstance(found, WorkloadAnswer) and state_of(opened.replica) == state:
                self._kept.keep_shared(opened.replica, asked, found, job=shared.id)
            return self._kept.find(opened.replica, asked)

    def _shared_job(
        self, meta: DatasetMeta, asked: AnyAsked, found: AnyAnswer, state: State
    ) -> str:
        """The job by which all processes find what takes long: many laws given disagreements.

        '' for anything else, and where the store keeps nothing.
        """
        if not (isinstance(asked, Workload) and isinstance(found, WorkloadAnswer)):
            return ""
        if sum(a.statement.disagreements > 0 for a in found.answers) <= SHORT_S * _LAWS_A_SECOND:
            return ""
        with contextlib.suppress(StoreError):
            request = Request(meta.name, meta.snapshot, asked)
            job = self._store.looks(request, population=meta.population)
            self._store.looked(job, found)
            key = _answers_key(meta, asked, state)
            self._shared.keep(meta, key, json.dumps({"job": job.id}))
            return job.id
        return ""

    def _share(self, record: JobRecord, bought: WorkloadAnswer) -> None:
        """Let every process find what was bought, as long as nothing since bears on it."""
        # A charged answer is given, whatever the store says now.
        with contextlib.suppress(StoreError, NotFoundError):
            request, meta = request_of(record), self._datasets.meta(record.dataset)
            if isinstance(request.asked, Workload) and request.snapshot == meta.snapshot:
                # Its prices were those of the periods that had records then.
                if meta.growth is not None and names_prices(bought):
                    return
                periods = periods_of(self._datasets.stamp(meta.name))
                state = bought.version, bought.remaining_nano, *periods
                key = _answers_key(meta, request.asked, state)
                self._shared.keep(meta, key, json.dumps({"job": record.id}))

    def _free(self, name: str, asked: AnyAsked) -> tuple[OpenDataset, AnyAsked, AnyAnswer | None]:
        """The dataset, the question as read there, and the answer of history."""
        is_many = isinstance(asked, Workload)
        opened = (self._workloads if is_many else self._datasets).refresh(name)
        # What is to be bought is planned by the worker alone. Of a model it also keeps what the
        # model was made from.
        if isinstance(asked, ModelAsked):
            return opened, asked, None
        replica = opened.replica
        with opened.lock:
            asked = with_ends(replica, replica.chosen(asked))
            if (known := self._kept.find(replica, asked)) is not None:
                return opened, asked, known
            since, found = replica.engine.n_changes, to_answer(replica, asked)
            state = state_of(replica)
        if found is None:
            return opened, asked, None
        answer = found.answer if isinstance(found, Free) else _answered(opened, found)
        job = self._shared_job(opened.meta, asked, answer, state)
        with opened.lock:
            self._kept.keep(replica, asked, answer, since=since, job=job)
        # Sole weights are found again: inference starts from them as well.
        self._remember(opened.meta, found.estimators)
        return opened, asked, answer

    def _submit(self, meta: DatasetMeta, request: Request, *, need_worker: bool) -> JobStatus:
        found = self._submission(meta, request, need_worker=need_worker)
        return JobStatus(found.job, "queued", meta.name)

    def _submission(self, meta: DatasetMeta, request: Request, *, need_worker: bool) -> Submission:
        return self._store.submit(
            request,
            population=meta.population,
            digest=digest_of(request),
            max_queue=self._settings.max_queue,
            need_worker=need_worker,
        )

    def _needs_worker(self, wait_s: float) -> bool:
        """Whether a question is refused where no worker is alive."""
        return wait_s > 0 and self._clock() >= self._started_at

    def _bind(self, meta: DatasetMeta, idempotency: Idempotency, outcome: str) -> str:
        key, digest = idempotency.key, idempotency.body_digest
        return self._store.bind(meta, key=key, body_digest=digest, outcome=outcome).outcome

    def _wait(self, job_id: str, wait_s: float) -> AnyAnswer | JobStatus:
        deadline = self._clock() + wait_s
        pause, n_first = _FIRST_WAIT_S, _N_FIRST
        self._sleep(min(_LEAST_WAIT_S, wait_s))
        while self._store.job_state(job_id) not in ("done", "failed"):
            left = deadline - self._clock()
            if left <= 0:
                return self.job(job_id)
            self._sleep(min(pause, left))
            n_first -= 1
            if n_first <= 0:
                pause = min(pause * _WAIT_GROWTH, _LONGEST_WAIT_S)
        return self._outcome(job_id)

    def _outcome(self, job_id: str) -> AnyAnswer:
        """The answer that an ended job found; raises its problem."""
        status = self.job(job_id)
        if status.result is not None:
            return status.result
        with reading("problem of a job"):
            problem = error_from_problem(status.problem or {})
        raise problem


def _answers_key(meta: DatasetMeta, asked: Workload, state: State) -> ResultKey:
    """The key of a workload's answers, whoever asked."""
    digest = digest_of(Request(meta.name, meta.snapshot, asked.with_measure("auto")))
    return ResultKey("answers", state, digest)


def narrowed(found: AnyAnswer | JobStatus, answer: type[_A]) -> _A | JobStatus:
    """The outcome, narrowed to a job or an answer of this type.

    Raises:
        StoreError: the store holds an answer to something else.
    """
    if isinstance(found, JobStatus | answer):
        return found
    raise StoreError(f"The store answers with a {type(found).__name__}, not {answer.__name__}.")


def shown_job(store: Store, job_id: str, reader: Caller) -> JobRecord:
    """A job as its account and the owners see it.

    Raises:
        NotFoundError: there is none of this id, or the reader may not know of it.
    """
    record = store.job(job_id)
    if not reader.sees_of(record.by):
        raise NotFoundError("job", job_id)
    return record


@reading("question of a job")
def request_of(record: JobRecord) -> Request:
    """What a job asks."""
    return Request.from_json(record.request)


@reading("job")
def job_status(record: JobRecord) -> JobStatus:
    """The public state of a job."""
    return JobStatus(
        id=record.id,
        state=record.state,
        dataset=record.dataset,
        result=answer_from_json(record.result) if record.result else None,
        problem=json.loads(record.problem) if record.problem else None,
    )


def _answered(opened: OpenDataset, found: ToAnswer) -> AnyAnswer:
    """The answer; the dataset stays unlocked while its law is computed."""
    answer = found.answer()
    with opened.lock:
        return found.free(opened.replica, answer).answer


def _outcome_of(text: str) -> AnyAnswer | JobStatus:
    """The job that a key is bound to, without its state; or an answer."""
    with reading("idempotency key"):
        plain = json.loads(text)
        answer, job = plain.get("answer"), str(plain.get("job"))
        return answer_from_json(str(answer)) if answer is not None else JobStatus(job, "queued", "")


def digest_of(request: Request) -> str:
    """The digest of a request. Questions with equal vectors share it, however they are written.

    Accounts do not share jobs, nor do those who allow another charge: a job may fail because of its
    payer's allowance, or of what it may cost, and must not fail for others.
    The worker plans each job again, so only the first one is charged.
    """
    parts: list[object] = [request.by, request.dataset, request.snapshot]
    if request.most_nano is not None:
        parts.append({"most": request.most_nano})
    for question in request.asked.questions:
        row, requirement = question.row, question.requirement
        parts += [row.key, str(row.multiplier)]
        parts += [repr(float(requirement.length)), repr(requirement.confidence)]
        if looked := plain(question.looking):
            parts.append(looked)
        if question.as_of:
            parts.append({"as_of": question.as_of})
        if read := plain(question.reading):
            parts.append({"reading": read})
    if isinstance(request.asked, Workload):
        parts += _of_workload(request.asked)
    if isinstance(request.asked, ModelAsked):
        asked = request.asked
        parts.append({"model": [asked.kind, asked.specification, asked.epsilon_nano]})
    elif request.asked.measure == "only_this":
        parts.append({"measure": request.asked.measure})
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def _of_workload(asked: Workload) -> list[object]:
    """What distinguishes workloads of the same questions."""
    parts: list[object] = [{"simultaneous": asked.simultaneous}]
    if asked.selected_from is not None:
        parts.append(plain(asked.selected_from))
    # Answers without posteriors are no answers to those who need them.
    if asked.for_quotients:
        parts.append({"unneeded": list(asked.for_quotients)})
    if asked.as_drawn:
        parts.append("as drawn")
    return parts
