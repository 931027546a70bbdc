"""Statements of SQL over HTTP."""

from __future__ import annotations

from flask import Blueprint, Response, request

from qserver.answer import JobStatus
from qserver.api.asking_replies import ASKING_CODES, ASKING_HEADERS, job_reply
from qserver.api.gate import caller_of_request
from qserver.api.headers import idempotency_of, preference_of
from qserver.api.json_reader import parse_object, read_body
from qserver.api.operation import operation
from qserver.api.parameters import read_parameters
from qserver.api.port import QuestionService
from qserver.api.replies import json_reply
from qserver.api.sql_schemas import SqlBody, SqlRequest
from qserver.api.workload_schemas import JobBody
from qserver.statements import Statements


class SqlViews:
    """The view of statements, on one service.

    Args:
        service: the use cases.
        wait_s: how long a statement waits for its answers before it becomes a job, in seconds.
    """

    def __init__(self, service: QuestionService, *, wait_s: float) -> None:
        self._statements = Statements(service)
        self._wait_s = wait_s

    def blueprint(self) -> Blueprint:
        """The route."""
        routes = Blueprint("sql", __name__, url_prefix="/v1/datasets/<dataset>")
        routes.post("/sql")(self.sql)
        return routes

    @operation(
        "questions",
        {200: SqlBody, 202: JobBody},
        "invalid_input",
        "invalid_sql",
        "too_large",
        "not_found",
        *ASKING_CODES,
        request=SqlRequest,
        headers=ASKING_HEADERS,
    )
    def sql(self, dataset: str) -> Response:
        """Answer a statement of SQL with a table, or after EXPLAIN with its price.

        GROUP BY and several columns are asked as one workload. Averages and quotients come with
        an interval made of those of numerator and denominator, which hold together. A job's
        result is that of its questions: when it is done, send the statement again, for nothing.
        """
        read_parameters(request)
        body = read_body(request)
        asked = SqlRequest.read(parse_object(body))
        caller = caller_of_request()
        preference = preference_of(request)
        found = self._statements.run(
            dataset,
            asked.sql,
            wait_s=preference.wait_at_most(self._wait_s),
            idempotency=idempotency_of(
                request, dataset=dataset, body=body, token_id=caller.token_id
            ),
            by=caller.account,
        )
        if isinstance(found, JobStatus):
            return job_reply(found, preference)
        return json_reply(SqlBody.of(found))
