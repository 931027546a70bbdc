"""Questions, workloads and statements of SQL, their prices, and their jobs."""

from __future__ import annotations

from functools import partial
from typing import Final

from flask import Response, request

from qserver.answering.consistency import ConsistentWorkload
from qserver.api.bodies.answers import AnswerBody, ExplanationBody, ProbabilityBody
from qserver.api.bodies.requests import ProbabilityRequest, QueryRequest, WorkloadRequest
from qserver.api.bodies.workloads_and_sql import (
    JobBody,
    SqlBody,
    SqlRequest,
    WorkloadAnswerBody,
    WorkloadExplanationBody,
)
from qserver.api.errors import with_delta
from qserver.api.gate import caller_of_request
from qserver.api.headers import preference_of
from qserver.api.json_reader import parse_object, read_body
from qserver.api.operation import Parameter, operation, read_parameters
from qserver.api.repeated_questions import AnswerCache, KeptAnswer
from qserver.api.replies import (
    ASKING_CODES,
    ASKING_HEADERS,
    QUERY_CODES,
    Terms,
    Views,
    bytes_reply,
    job_reply,
    json_reply,
    read_request,
    terms_of_request,
)
from qserver.query.linear_query import LinearQuery
from qserver.query.question import Workload
from qserver.records.answer import Answer, JobStatus, WorkloadAnswer
from qserver.service.cache.statements import MOST_KEPT
from qserver.service.parking import is_second_run, read_once
from qserver.service.service import Service
from qserver.service.statements import Statements
from qserver.storage.standings import Stamp

WAIT_HEADER = Parameter(
    "Prefer",
    "`wait=SECONDS` to wait for the job's end, up to the server's own limit",
    {"type": "string"},
)
_MOST_BODY_BYTES: Final = 1 << 18
"""Longest body of a workload whose reply is kept: about that of 1,000 questions."""


class JobViews(Views):
    """The view of a job, on one service."""

    name = "jobs"
    place = "/v1/jobs"

    @operation(
        "/<job_id>",
        "jobs",
        {200: JobBody},
        "invalid_input",
        "not_found",
        headers=(WAIT_HEADER,),
    )
    def get_job(self, job_id: str) -> Response:
        """Show a job's state: with `result` when done, with `problem` when failed.

        It is shown to the account that asked and to owners. To others there is no such job.
        """
        read_parameters(request)
        wait_s = min(preference_of(request).wait_s or 0.0, self._wait_s)
        found = self._service.job(job_id, reader=caller_of_request(), wait_s=wait_s)
        body, delta = JobBody.of(found), self._service.delta(found.dataset)
        if body.result is not None:
            body.result.delta = delta
        if body.problem is not None:
            body.problem = with_delta(body.problem, delta)
        return json_reply(body)


class _Keeping(Views):
    """Views whose replies are kept while nothing changes."""

    def _kept(
        self, cache: AnswerCache, dataset: str, body: bytes, state: Stamp, terms: Terms
    ) -> bytes | None:
        """The reply to an equal body, where nothing changed since and nothing was charged."""
        kept, key = cache.find(dataset, body), terms.idempotency
        # A caller that waited for a job, or repeats a key, is told what that cost.
        if kept is None or kept.version != state or is_second_run():
            return None
        return kept.payload if key is None or self._service.is_new(dataset, key) else None


class QuestionViews(_Keeping):
    """The views of questions, on one service.

    Args:
        service: the use cases.
        wait_s: how long a question waits for its answer before it becomes a job, in seconds.
        cache: takes the answers that cost nothing.
    """

    name = "questions"
    place = "/v1/datasets/<dataset>"

    def __init__(self, service: Service, *, wait_s: float, cache: AnswerCache) -> None:
        super().__init__(service, wait_s=wait_s)
        self._cache = cache

    @operation(
        "/query",
        "questions",
        {200: AnswerBody, 202: JobBody},
        *QUERY_CODES,
        *ASKING_CODES,
        request=QueryRequest,
        headers=ASKING_HEADERS,
    )
    def ask(self, dataset: str) -> Response:
        """Answer a linear counting query with an interval of the asked length and confidence.

        Where history suffices the answer is free. Otherwise the server measures what is missing,
        for the lowest price that it finds, and answers within its time limit, or with a job.
        """
        read_parameters(request)
        body = read_body(request)
        # Read before the answer is computed: an answer kept under an older version is never used.
        version = self._service.state(dataset)
        terms = terms_of_request(dataset, body, wait_s=self._wait_s)
        payload = self._kept(self._cache, dataset, body, version, terms)
        return self._ask(dataset, body, version, terms) if payload is None else bytes_reply(payload)

    @operation(
        "/explain",
        "questions",
        {200: ExplanationBody},
        *QUERY_CODES,
        "invalid_requirement",
        "period_retired",
        request=QueryRequest,
    )
    def explain(self, dataset: str) -> Response:
        """Show the price of an answer, how it is found, and the free interval. Spends nothing."""
        asked = read_request(QueryRequest)
        parse = partial(self._service.parse, dataset, asked.query, at=asked.as_of or "")
        by = caller_of_request().account
        found = self._service.explain(dataset, asked.question(parse), by=by)
        return json_reply(ExplanationBody.of(found, delta=self._service.delta(dataset)))

    @operation(
        "/probability",
        "questions",
        {200: ProbabilityBody},
        *QUERY_CODES,
        "not_estimable",
        request=ProbabilityRequest,
    )
    def probability(self, dataset: str) -> Response:
        """Give the probability that the answer is at least t, or in [a, b]. Spends nothing."""
        asked = read_request(ProbabilityRequest)
        (low, high), reading = asked.bounds(), asked.reading()
        query = self._service.parse(dataset, asked.query, at=asked.as_of or "")
        found = self._service.insight.probability(
            dataset, query, low=low, high=high, reading=reading
        )
        return json_reply(ProbabilityBody.of(found))

    def _ask(self, dataset: str, body: bytes, version: Stamp, terms: Terms) -> Response:
        asked = QueryRequest.read(parse_object(body))
        parse = partial(self._service.parse, dataset, asked.query, at=asked.as_of or "")
        found = self._service.ask(
            dataset,
            asked.question(partial(read_once, "query", LinearQuery, parse)),
            wait_s=terms.wait_s,
            idempotency=terms.idempotency,
            by=terms.by,
        )
        if isinstance(found, JobStatus):
            return job_reply(found, terms.preference)
        made = AnswerBody.of(found, delta=self._service.delta(dataset))
        payload = made.model_dump_json().encode()
        # The answer to a repeated key may belong to an older state.
        is_new = terms.idempotency is None or _is_at(found, version)
        if is_new and _is_free(found):
            self._cache.keep(dataset, body, KeptAnswer(version, payload))
        return bytes_reply(payload)


def _is_free(answer: Answer) -> bool:
    return answer.source != "measured" and answer.charged_nano == 0


class WorkloadViews(_Keeping):
    """The views of workloads, on one service.

    Args:
        service: the use cases.
        wait_s: how long a workload waits for its answers before it becomes a job, in seconds.
    """

    name = "workloads"
    place = "/v1/datasets/<dataset>/workload"

    def __init__(self, service: Service, *, wait_s: float = 0.0) -> None:
        super().__init__(service, wait_s=wait_s)
        self._cache = AnswerCache(max_entries=MOST_KEPT, max_body_bytes=_MOST_BODY_BYTES)

    @operation(
        "",
        "questions",
        {200: WorkloadAnswerBody, 202: JobBody},
        *QUERY_CODES,
        *ASKING_CODES,
        request=WorkloadRequest,
        headers=ASKING_HEADERS,
    )
    def ask_workload(self, dataset: str) -> Response:
        """Answer many questions, planned, charged and measured as one.

        All or nothing: the budget pays for the whole, or it is refused. With `simultaneous` all
        intervals hold at once with one confidence. With `consistent` the reply also has the answers
        of one non-negative table, free. A job's result has none: send the workload again.
        """
        read_parameters(request)
        body = read_body(request)
        terms = terms_of_request(dataset, body, wait_s=self._wait_s)
        # Read before the answer is computed, so that it is never kept under a later state.
        state = self._service.state(dataset)
        if (payload := self._kept(self._cache, dataset, body, state, terms)) is not None:
            return bytes_reply(payload)
        asked = WorkloadRequest.read(parse_object(body))
        workload = read_once("workload", Workload, partial(self._workload, dataset, asked))
        # Before anything is spent: it may be refused.
        consistent = _consistent(asked, workload)
        found = self._service.ask_workload(
            dataset, workload, wait_s=terms.wait_s, idempotency=terms.idempotency, by=terms.by
        )
        if isinstance(found, JobStatus):
            return job_reply(found, terms.preference)
        nearest = None
        if consistent is not None:
            total = self._service.insight.total(dataset)
            law = self._service.smooth.law(dataset)
            nearest = consistent.answers(found.answers, total=total, law=law, ends=found.ends)
        delta = self._service.delta(dataset)
        made = WorkloadAnswerBody.of(found, consistent=nearest, delta=delta)
        payload = made.model_dump_json().encode()
        if _is_of(found, state):
            self._cache.keep(dataset, body, KeptAnswer(state, payload))
        return bytes_reply(payload)

    @operation(
        "/explain",
        "questions",
        {200: WorkloadExplanationBody},
        *QUERY_CODES,
        "invalid_requirement",
        "period_retired",
        request=WorkloadRequest,
    )
    def explain_workload(self, dataset: str) -> Response:
        """Show the price of a workload, and of its questions one by one. Spends nothing."""
        asked = read_request(WorkloadRequest)
        workload = self._workload(dataset, asked)
        consistent = _consistent(asked, workload)
        by = caller_of_request().account
        found = self._service.explain_workload(dataset, workload, by=by)
        # Consistent answers cost nothing more.
        added = None if consistent is None else {"price": 0}
        delta = self._service.delta(dataset)
        return json_reply(WorkloadExplanationBody.of(found, consistent=added, delta=delta))

    def _workload(self, dataset: str, asked: WorkloadRequest) -> Workload:
        at = asked.as_of or ""
        return asked.workload(lambda document: self._service.parse(dataset, document, at=at))


def _is_of(found: WorkloadAnswer, state: Stamp) -> bool:
    """Whether answers cost nothing and belong to this state of the dataset."""
    is_free = not found.charged_nano and all(
        a.source in ("history", "exact") for a in found.answers
    )
    return is_free and _is_at(found, state)


def _is_at(found: Answer | WorkloadAnswer, state: Stamp) -> bool:
    """Whether an answer belongs to this state."""
    return (found.version, found.remaining_nano) == (state.n_shown, state.remaining_nano)


def _consistent(asked: WorkloadRequest, workload: Workload) -> ConsistentWorkload | None:
    """The search for consistent answers, where the request asks for these."""
    if not asked.consistent:
        return None
    return ConsistentWorkload([q.query for q in workload.questions])


class SqlViews(Views):
    """The view of statements, on one service.

    Args:
        service: the use cases.
        wait_s: how long a statement waits for its answers before it becomes a job, in seconds.
    """

    name = "sql"
    place = "/v1/datasets/<dataset>"

    @operation(
        "/sql",
        "questions",
        {200: SqlBody, 202: JobBody},
        "invalid_input",
        "invalid_sql",
        "unconfirmed",
        "over_at_most",
        "period_not_sealed",
        "too_large",
        "not_found",
        *ASKING_CODES,
        request=SqlRequest,
        headers=ASKING_HEADERS,
    )
    def sql(self, dataset: str) -> Response:
        """Answer a statement of SQL with a table; after EXPLAIN, or with `explain`, with its price.

        GROUP BY and several columns are asked as one workload. A job's result is that of its
        questions: when it is done, send the statement again, free.
        """
        read_parameters(request)
        body = read_body(request)
        asked = SqlRequest.read(parse_object(body))
        terms = terms_of_request(dataset, body, wait_s=self._wait_s)
        found = Statements(self._service).run(
            dataset,
            asked.sql,
            explain=asked.explain,
            measure=asked.measure,
            default=asked.default(),
            spends=asked.spend,
            at=asked.as_of or "",
            wait_s=terms.wait_s,
            idempotency=terms.idempotency,
            by=terms.by,
        )
        if isinstance(found, JobStatus):
            return job_reply(found, terms.preference)
        return json_reply(SqlBody.of(found, delta=self._service.delta(dataset)))
