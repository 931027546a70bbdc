"""What all views share: their routes, reading requests, making responses.

Those have headers and problems of their own, and the reply of a job.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, TypeVar

from flask import Blueprint, Response, request
from pydantic import BaseModel

from qserver.api.bodies.answers import AnswerBody
from qserver.api.bodies.requests import RequestBody
from qserver.api.bodies.workloads_and_sql import JobBody, SqlTableBody
from qserver.api.gate import caller_of_request
from qserver.api.headers import Preference, idempotency_of, preference_of
from qserver.api.json_reader import parse_object, read_body
from qserver.api.operation import Parameter, operation_of, read_parameters
from qserver.records.answer import Answer, JobStatus
from qserver.service.ask import Idempotency
from qserver.service.service import Service
from qserver.service.statement_answers import StatementAnswer

JSON_TYPE = "application/json"


def json_reply(body: BaseModel, *, status: int = 200) -> Response:
    """The body as a JSON response."""
    return bytes_reply(body.model_dump_json().encode(), status=status)


def bytes_reply(payload: bytes, *, status: int = 200) -> Response:
    """Encoded JSON as a response."""
    return Response(payload, status=status, content_type=JSON_TYPE)


def body_of(found: Answer | StatementAnswer, *, delta: float | None = None) -> BaseModel:
    """The body of an answer or a table in HTTP."""
    if isinstance(found, StatementAnswer):
        return SqlTableBody.of_answer(found, delta=delta)
    return AnswerBody.of(found, delta=delta)


POLL_S = 1

QUERY_CODES = (
    "invalid_input",
    "invalid_query",
    "invalid_sql",
    "period_not_sealed",
    "too_large",
    "not_found",
)
ASKING_CODES = (
    "invalid_requirement",
    "budget_exhausted",
    "allowance_exhausted",
    "pace_exceeded",
    "disclosure_guard",
    "claim_guard",
    "period_retired",
    "snapshot_replaced",
    "idempotency_mismatch",
    "measurement_failed",
    "unanswerable",
    "population_closed",
    "books_differ",
    "no_worker",
    "busy",
)
ASKING_HEADERS = (
    Parameter(
        "Prefer",
        "`respond-async` for a job at once where something must be measured; `wait=SECONDS` to "
        "wait less than the server would",
        {"type": "string"},
    ),
    Parameter(
        "Idempotency-Key",
        "bound to the token, the dataset and the exact body; the same request under the same key "
        "is asked once",
        {"type": "string", "pattern": "^[ -~]{1,255}$"},
    ),
)


@dataclass(frozen=True)
class Terms:
    """How a request asks: who pays, how long it waits, under which key."""

    preference: Preference
    wait_s: float
    idempotency: Idempotency | None
    by: str

    def of_second_question(self) -> Terms:
        """The terms of a second question of the same request; it has another idempotency key."""
        if self.idempotency is None:
            return self
        # No key of a client holds a line end, so nobody's other request has this one.
        own = replace(self.idempotency, key=self.idempotency.key + "\n2")
        return replace(self, idempotency=own)


def terms_of_request(dataset: str, body: bytes, *, wait_s: float) -> Terms:
    """The terms of the present request.

    Args:
        body: as it was sent; the idempotency key is bound to it.
        wait_s: how long the server would wait, in seconds.

    Raises:
        InputError: the idempotency key is malformed.
    """
    caller, preference = caller_of_request(), preference_of(request)
    return Terms(
        preference,
        preference.wait_at_most(wait_s),
        idempotency_of(request, dataset=dataset, body=body, token_id=caller.token_id),
        caller.account,
    )


def job_reply(job: JobStatus, preference: Preference) -> Response:
    """202: the job that finds the answer, where to look for it, and when."""
    reply = json_reply(JobBody.of(job), status=202)
    reply.headers["Location"] = f"/v1/jobs/{job.id}"
    reply.headers["Retry-After"] = str(POLL_S)
    if preference.is_async:
        reply.headers["Preference-Applied"] = "respond-async"
    return reply


_Body = TypeVar("_Body", bound=RequestBody)


class Views:
    """The views of one resource, on one service; each method with an operation is a route.

    Args:
        service: the use cases.
        wait_s: how long a request waits before it becomes a job, in seconds.
    """

    name: ClassVar[str]
    place: ClassVar[str] = ""
    """Where all paths of the resource begin."""

    def __init__(self, service: Service, *, wait_s: float = 0.0) -> None:
        self._service = service
        self._wait_s = wait_s

    def blueprint(self) -> Blueprint:
        """The routes."""
        routes = Blueprint(self.name, __name__)
        for name, view in vars(type(self)).items():
            found = operation_of(view)
            if found is not None:
                bound = getattr(self, name)
                routes.add_url_rule(self.place + found.path, name, bound, methods=[found.method])
        return routes


def read_request(body: type[_Body]) -> _Body:
    """The body of the present request, which takes no parameters.

    Raises:
        RequestError, BadRequest: it is no JSON object, or a field is wrong.
        InputError: the address has parameters.
    """
    read_parameters(request)
    return body.read(parse_object(read_body(request)))
