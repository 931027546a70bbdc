"""Statements of SQL over HTTP."""

from __future__ import annotations

from flask import Response, request

from qserver.api.bodies.sql import SqlBody, SqlRequest
from qserver.api.bodies.workload import JobBody
from qserver.api.json_reader import parse_object, read_body
from qserver.api.operation import operation, read_parameters
from qserver.api.replies import (
    ASKING_CODES,
    ASKING_HEADERS,
    job_reply,
    json_reply,
    terms_of_request,
)
from qserver.api.routes.views import Views
from qserver.records.answer import JobStatus
from qserver.service.statements import Statements


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
        return json_reply(SqlBody.of(found))
