"""Questions: ask, explain, and the probability that history gives."""

from __future__ import annotations

from collections.abc import Hashable

from flask import Response, request

from qserver.api.bodies.answers import AnswerBody, ExplanationBody, ProbabilityBody
from qserver.api.bodies.requests import ProbabilityRequest, QueryRequest
from qserver.api.bodies.workload import JobBody
from qserver.api.gate import caller_of_request
from qserver.api.json_reader import parse_object, read_body
from qserver.api.operation import operation, read_parameters
from qserver.api.repeated_questions import AnswerCache, KeptAnswer
from qserver.api.replies import (
    ASKING_CODES,
    ASKING_HEADERS,
    QUERY_CODES,
    bytes_reply,
    job_reply,
    json_reply,
    terms_of_request,
)
from qserver.api.routes.views import Views, read_request
from qserver.records.answer import Answer, JobStatus
from qserver.service.service import Service


class QuestionViews(Views):
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
        version = self._service.version(dataset)
        return self._ask(dataset, body, version)

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
        """Show what an answer would cost, how it is found, and what is free. Spends nothing."""
        asked = read_request(QueryRequest)
        requirement, looking = asked.requirement(), asked.looking()
        asked.reading()  # changes no price, but what is wrong in it is wrong here too
        query = self._service.parse(dataset, asked.query, at=asked.as_of or "")
        found = self._service.explain(
            dataset,
            query,
            requirement,
            measure=asked.measure,
            looking=looking,
            by=caller_of_request().account,
        )
        return json_reply(ExplanationBody.of(found))

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
        bounds, reading = asked.bounds(), asked.reading()
        query = self._service.parse(dataset, asked.query, at=asked.as_of or "")
        found = self._service.insight.probability(
            dataset, query, low=bounds.low, high=bounds.high, reading=reading
        )
        return json_reply(ProbabilityBody.of(found))

    def _ask(self, dataset: str, body: bytes, version: Hashable) -> Response:
        asked = QueryRequest.read(parse_object(body))
        requirement, looking = asked.requirement(), asked.looking()
        reading = asked.reading()
        terms = terms_of_request(dataset, body, wait_s=self._wait_s)
        found = self._service.ask(
            dataset,
            self._service.parse(dataset, asked.query, at=asked.as_of or ""),
            requirement,
            measure=asked.measure,
            looking=looking,
            reading=reading,
            wait_s=terms.wait_s,
            idempotency=terms.idempotency,
            by=terms.by,
        )
        if isinstance(found, JobStatus):
            return job_reply(found, terms.preference)
        payload = AnswerBody.of(found).model_dump_json().encode()
        if terms.idempotency is None and _is_free(found):
            self._cache.keep(dataset, body, KeptAnswer(version, payload))
        return bytes_reply(payload)


def _is_free(answer: Answer) -> bool:
    return answer.source != "measured" and answer.charged_nano == 0
