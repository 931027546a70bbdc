"""Ask a question: from history at once, or through a job that a worker works off."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from qserver.answer import Answer, JobStatus
from qserver.answering import answer_from, exact_answer, refusal
from qserver.config import Settings
from qserver.open_datasets import OpenDatasets
from qserver.planning.planner import Plan
from qserver.primitive import Primitive, primitive
from qserver.problems import error_from_problem
from qserver.query import LinearQuery
from qserver.requirement import Requirement
from qserver.storage.records import DatasetMeta, Request, answer_from_json, answer_json
from qserver.storage.store import Store

# A measurement takes some 15 ms: let it be at first, then look often, then ever less.
_LEAST_WAIT_S = 0.007
_FIRST_WAIT_S = 0.0015
_N_FIRST = 20
_LONGEST_WAIT_S = 0.05
_WAIT_GROWTH = 1.2


@dataclass(frozen=True)
class Idempotency:
    """A client's idempotency key with the digest of the body it came with."""

    key: str
    body_digest: str


class Asking:
    """Questions of one process. Thread-safe.

    Args:
        clock: seconds, monotonic.
        sleep: waits for so many seconds.
    """

    def __init__(
        self,
        store: Store,
        datasets: OpenDatasets,
        settings: Settings,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._store = store
        self._datasets = datasets
        self._settings = settings
        self._clock = clock
        self._sleep = sleep

    def ask(
        self,
        name: str,
        query: LinearQuery,
        requirement: Requirement,
        *,
        wait_s: float,
        idempotency: Idempotency | None,
        by: str = "",
    ) -> Answer | JobStatus:
        """The answer, or after `wait_s` seconds the job that is finding it; see Service.ask."""
        if idempotency is None:
            found = self._start(name, query, requirement, wait_s, by)
        else:
            meta = self._datasets.meta(name)
            earlier = self._bind(meta, idempotency, "")
            if earlier:
                return self._resume(json.loads(earlier), wait_s)
            found = self._start(name, query, requirement, wait_s, by)
            self._bind(meta, idempotency, _outcome_json(found))
        return self._wait(found.id, wait_s) if isinstance(found, JobStatus) else found

    def job(self, job_id: str) -> JobStatus:
        """A job's state, result or problem; NotFoundError."""
        record = self._store.job(job_id)
        return JobStatus(
            id=record.id,
            state=record.state,
            dataset=record.dataset,
            result=answer_from_json(record.result) if record.result else None,
            problem=json.loads(record.problem) if record.problem else None,
        )

    def _start(
        self, name: str, query: LinearQuery, requirement: Requirement, wait_s: float, by: str
    ) -> Answer | JobStatus:
        row = primitive(query)
        opened = self._datasets.refresh(name)
        with opened.lock:
            replica = opened.replica
            remaining = replica.present.remaining_nano
            version = replica.present.n_shown
            if row.is_zero:
                return exact_answer(requirement, remaining_nano=remaining, version=version)
            plan = replica.plan(row, requirement)
            refused = refusal(row, plan, requirement, replica=replica)
        if plan.kind == "free" and plan.estimate is not None:
            self._remember(opened.meta, row, plan)
            return answer_from(
                row,
                requirement,
                plan.estimate,
                source="history",
                charged_nano=0,
                remaining_nano=remaining,
                version=version,
            )
        if refused is not None:
            raise refused
        request = Request(opened.meta.name, opened.meta.snapshot, query, requirement, by)
        return self._submit(opened.meta, row, request, need_worker=wait_s > 0)

    def _submit(
        self, meta: DatasetMeta, row: Primitive, request: Request, *, need_worker: bool
    ) -> JobStatus:
        submission = self._store.submit(
            request,
            population=meta.population,
            digest=_digest(request, row),
            max_queue=self._settings.max_queue,
            need_worker=need_worker,
        )
        return JobStatus(submission.job, "queued", meta.name)

    def _remember(self, meta: DatasetMeta, row: Primitive, plan: Plan) -> None:
        """Keep the weights of a free answer, so that it stays free whatever comes after.

        Weights that are the only ones are found again: inference starts from them as well.
        """
        estimate = plan.estimate
        if estimate is None or not estimate.needs_storing:
            return
        self._store.remember(meta, estimate.estimator(row.key))

    def _bind(self, meta: DatasetMeta, idempotency: Idempotency, outcome: str) -> str:
        key, digest = idempotency.key, idempotency.body_digest
        return self._store.bind(meta, key=key, body_digest=digest, outcome=outcome).outcome

    def _wait(self, job_id: str, wait_s: float) -> Answer | JobStatus:
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
        status = self.job(job_id)
        if status.result is not None:
            return status.result
        raise error_from_problem(status.problem or {})

    def _resume(self, plain: Mapping[str, object], wait_s: float) -> Answer | JobStatus:
        if "job" in plain:
            return self._wait(str(plain["job"]), wait_s)
        return answer_from_json(str(plain["answer"]))


def _outcome_json(found: Answer | JobStatus) -> str:
    if isinstance(found, JobStatus):
        return json.dumps({"job": found.id})
    return json.dumps({"answer": answer_json(found)})


def _digest(request: Request, row: Primitive) -> str:
    """Digest that identical questions share: equal vectors, however they were written.

    Each account has jobs of its own: a job that its payer's allowance refuses must not fail for
    others. The worker plans each anew, so only the first is charged.
    """
    parts = [
        request.by,
        request.dataset,
        request.snapshot,
        row.key,
        str(row.multiplier),
        repr(request.requirement.length),
        repr(request.requirement.confidence),
    ]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()
