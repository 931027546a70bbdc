"""Workloads: many questions asked, or priced, as one."""

from __future__ import annotations

from typing import Final

from flask import Response, request

from qserver.answering.consistency import ConsistentWorkload
from qserver.api.bodies.requests import WorkloadRequest
from qserver.api.bodies.workload import JobBody, WorkloadAnswerBody, WorkloadExplanationBody
from qserver.api.gate import caller_of_request
from qserver.api.json_reader import parse_object, read_body
from qserver.api.operation import operation, read_parameters
from qserver.api.repeated_questions import AnswerCache, KeptAnswer
from qserver.api.replies import (
    ASKING_CODES,
    ASKING_HEADERS,
    QUERY_CODES,
    Terms,
    bytes_reply,
    job_reply,
    json_reply,
    terms_of_request,
)
from qserver.api.routes.views import Views, read_request
from qserver.query.question import Workload
from qserver.records.answer import JobStatus, WorkloadAnswer
from qserver.service.cells.kept import MOST_KEPT
from qserver.service.service import Service
from qserver.service.visits import is_second_run
from qserver.storage.standings import Stamp

_MOST_BODY_BYTES: Final = 1 << 18
"""Longest body whose reply is kept: about that of 1,000 questions."""


class WorkloadViews(Views):
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
        if (payload := self._kept(dataset, body, state, terms)) is not None:
            return bytes_reply(payload)
        asked = WorkloadRequest.read(parse_object(body))
        workload = self._workload(dataset, asked)
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
            nearest = consistent.answers(found.answers, total=total, ends=found.ends)
        payload = WorkloadAnswerBody.of(found, consistent=nearest).model_dump_json().encode()
        if _is_of(found, state):
            self._cache.keep(dataset, body, KeptAnswer(state, payload))
        return bytes_reply(payload)

    def _kept(self, dataset: str, body: bytes, state: Stamp, terms: Terms) -> bytes | None:
        """The reply to the same body, where nothing has changed since and nothing was charged."""
        kept, key = self._cache.find(dataset, body), terms.idempotency
        # Whoever waited for a job, or comes again under a key, is told what that cost.
        if kept is None or kept.version != state or is_second_run():
            return None
        return kept.payload if key is None or self._service.is_new(dataset, key) else None

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
        """Show what a workload would cost, and its questions one by one. Spends nothing."""
        asked = read_request(WorkloadRequest)
        workload = self._workload(dataset, asked)
        consistent = _consistent(asked, workload)
        by = caller_of_request().account
        found = self._service.explain_workload(dataset, workload, by=by)
        # Consistent answers cost nothing more.
        added = None if consistent is None else {"price": 0}
        return json_reply(WorkloadExplanationBody.of(found, consistent=added))

    def _workload(self, dataset: str, asked: WorkloadRequest) -> Workload:
        at = asked.as_of or ""
        return asked.workload(lambda document: self._service.parse(dataset, document, at=at))


def _is_of(found: WorkloadAnswer, state: Stamp) -> bool:
    """Whether answers cost nothing, and are of this state of the dataset."""
    is_free = not found.charged_nano and all(
        a.source in ("history", "exact") for a in found.answers
    )
    return is_free and (found.version, found.remaining_nano) == (
        state.n_shown,
        state.remaining_nano,
    )


def _consistent(asked: WorkloadRequest, workload: Workload) -> ConsistentWorkload | None:
    """What will find consistent answers, where they are asked for."""
    if not asked.consistent:
        return None
    return ConsistentWorkload([q.query for q in workload.questions])
