"""Workloads: many questions asked, or priced, as one."""

from __future__ import annotations

from flask import Blueprint, Response, request

from qserver.answer import JobStatus
from qserver.api.asking_replies import (
    ASKING_CODES,
    ASKING_HEADERS,
    QUERY_CODES,
    job_reply,
    terms_of_request,
)
from qserver.api.gate import caller_of_request
from qserver.api.json_reader import parse_object, read_body
from qserver.api.operation import operation
from qserver.api.parameters import read_parameters
from qserver.api.port import QuestionService
from qserver.api.replies import json_reply
from qserver.api.workload_requests import WorkloadRequest
from qserver.api.workload_schemas import JobBody, WorkloadAnswerBody, WorkloadExplanationBody
from qserver.asked import Workload


class WorkloadViews:
    """The views of workloads, on one service.

    Args:
        service: the use cases.
        wait_s: how long a workload waits for its answers before it becomes a job, in seconds.
    """

    def __init__(self, service: QuestionService, *, wait_s: float) -> None:
        self._service = service
        self._wait_s = wait_s

    def blueprint(self) -> Blueprint:
        """The routes."""
        routes = Blueprint("workloads", __name__, url_prefix="/v1/datasets/<dataset>/workload")
        routes.post("")(self.ask_workload)
        routes.post("/explain")(self.explain_workload)
        return routes

    @operation(
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
        intervals hold at once with one confidence.
        """
        read_parameters(request)
        body = read_body(request)
        workload = self._workload(dataset, body)
        terms = terms_of_request(dataset, body, wait_s=self._wait_s)
        found = self._service.ask_workload(
            dataset, workload, wait_s=terms.wait_s, idempotency=terms.idempotency, by=terms.by
        )
        if isinstance(found, JobStatus):
            return job_reply(found, terms.preference)
        return json_reply(WorkloadAnswerBody.of(found))

    @operation(
        "questions",
        {200: WorkloadExplanationBody},
        *QUERY_CODES,
        "invalid_requirement",
        request=WorkloadRequest,
    )
    def explain_workload(self, dataset: str) -> Response:
        """Show what a workload would cost, beside its questions asked one by one.

        Nothing is spent and nothing is measured.
        """
        read_parameters(request)
        workload = self._workload(dataset, read_body(request))
        by = caller_of_request().account
        found = self._service.explain_workload(dataset, workload, by=by)
        return json_reply(WorkloadExplanationBody.of(found))

    def _workload(self, dataset: str, body: bytes) -> Workload:
        asked = WorkloadRequest.read(parse_object(body))
        return asked.workload(lambda document: self._service.parse(dataset, document))
