"""Models: learn them, ask them, draw synthetic records, export them."""

from __future__ import annotations

from flask import Response, request
from werkzeug.routing import BaseConverter

from qserver.answering.models.price import verdict
from qserver.api.asking_replies import (
    ASKING_CODES,
    ASKING_HEADERS,
    QUERY_CODES,
    Terms,
    job_reply,
    terms_of_request,
)
from qserver.api.bodies.answers import AnswerBody
from qserver.api.bodies.model import (
    CheckRequest,
    LearntBody,
    ModelBody,
    ModelListBody,
    ModelQuestion,
    ModelReplyBody,
    ModelRequest,
)
from qserver.api.bodies.workload import JobBody
from qserver.api.json_reader import parse_object, read_body
from qserver.api.operation import operation
from qserver.api.parameters import Parameter, integer_parameter, read_parameters
from qserver.api.replies import json_reply
from qserver.api.routes.views import Views
from qserver.query.linear import LinearQuery
from qserver.query.requirement import Requirement
from qserver.records.answer import Answer, JobStatus
from qserver.service.models import MAX_RECORDS, csv_lines

SEEN_CODES = ("invalid_input", "not_found")
MODEL_CODES = (*SEEN_CODES, "invalid_network", "too_large")
_LEARNT = tuple(code for code in ASKING_CODES if code != "invalid_requirement")
_SAMPLE = (
    Parameter(
        "n",
        "number of records",
        {"type": "integer", "minimum": 1, "maximum": MAX_RECORDS, "default": 1000},
    ),
    Parameter(
        "seed",
        "the same seed draws the same records of a model",
        {"type": "integer", "minimum": 0, "maximum": 2**48},
    ),
)


class ModelId(BaseConverter):
    """A model's id in a path. Neither `audit` nor `explain`: these have methods of their own."""

    regex = r"(?!(?:audit|explain)(?![^/]))[^/]+"


class ModelViews(Views):
    """The views of models, on one service.

    Args:
        service: the use cases of questions, for what a check buys.
        wait_s: how long a request waits before it becomes a job, in seconds.
    """

    name = "models"
    place = "/v1/datasets/<dataset>/models"

    @operation(
        "",
        "models",
        {200: LearntBody, 202: JobBody},
        *MODEL_CODES,
        *_LEARNT,
        request=ModelRequest,
        headers=ASKING_HEADERS,
    )
    def learn_model(self, dataset: str) -> Response:
        """Learn a model from tables: those of history, and those bought for `epsilon`.

        The tables enter history, so counts on them are free from then on; the model's parameters
        follow from them. A table that history has is raised for the difference.
        """
        read_parameters(request)
        body = read_body(request)
        asked = ModelRequest.read(parse_object(body))
        terms = terms_of_request(dataset, body, wait_s=self._wait_s)
        found = self._service.models.learn(
            dataset,
            asked.kind,
            asked.document(),
            asked.epsilon_nano(),
            wait_s=terms.wait_s,
            idempotency=terms.idempotency,
            by=terms.by,
        )
        if isinstance(found, JobStatus):
            return job_reply(found, terms.preference)
        return json_reply(LearntBody.of(found))

    @operation("", "models", {200: ModelListBody}, *SEEN_CODES)
    def list_models(self, dataset: str) -> Response:
        """List the models of a dataset's present snapshot."""
        read_parameters(request)
        found = {"models": self._service.models.all(dataset)}
        return json_reply(ModelListBody.model_validate(found))

    @operation("/<model:model>", "models", {200: ModelBody}, *SEEN_CODES)
    def get_model(self, dataset: str, model: str) -> Response:
        """Show a model: what it was made from, and its public facts."""
        read_parameters(request)
        return json_reply(ModelBody.of(self._service.models.one(dataset, model)))

    @operation(
        "/<model:model>/query",
        "models",
        {200: ModelReplyBody, 202: JobBody},
        *MODEL_CODES,
        *[code for code in (*QUERY_CODES, *ASKING_CODES) if code not in MODEL_CODES],
        request=ModelQuestion,
        headers=ASKING_HEADERS,
    )
    def ask_model(self, dataset: str, model: str) -> Response:
        """Ask a model for probabilities, most probable labels, or a count, free.

        A model's answer has no guarantee. With `check` a count also gets an interval, from history
        or measured, which confirms the model's answer or contradicts it. Where it contradicts,
        `fallback_length` has the count measured more exactly. 202 is a job that measures: the same
        request again, under the same key, goes on from there.
        """
        read_parameters(request)
        body = read_body(request)
        asked = ModelQuestion.read(parse_object(body))
        learnt = self._service.models.learnt(dataset, model)
        reply = ModelReplyBody.of(learnt)
        if asked.form() != "count":
            reply.answer = self._service.models.ask(dataset, model, asked.document()).document
            return json_reply(reply)
        query = self._service.parse(dataset, asked.count)
        reply.estimate = self._service.models.count(dataset, model, query)
        if asked.check is None:
            return json_reply(reply)
        terms = terms_of_request(dataset, body, wait_s=self._wait_s)
        job = self._check(dataset, query, asked.check, reply, terms)
        return json_reply(reply) if job is None else job_reply(job, terms.preference)

    @operation(
        "/<model:model>/sample",
        "models",
        {200: "text/csv"},
        *SEEN_CODES,
        parameters=_SAMPLE,
    )
    def sample_model(self, dataset: str, model: str) -> Response:
        """Draw synthetic records from a model, as CSV with a header."""
        values = read_parameters(request, *_SAMPLE)
        n = integer_parameter(values, "n", default=1000, least=1, most=MAX_RECORDS)
        seed = integer_parameter(values, "seed", default=-1, least=-1, most=2**48)
        columns = self._service.models.columns(dataset, model)
        records = self._service.models.records(dataset, model, n, seed=None if seed < 0 else seed)
        return Response(csv_lines(columns, records), content_type="text/csv; charset=utf-8")

    @operation(
        "/<model:model>/export",
        "models",
        {200: "text/plain"},
        *SEEN_CODES,
    )
    def export_model(self, dataset: str, model: str) -> Response:
        """Give a model as text in the format of its field: a network as BIF."""
        read_parameters(request)
        text = self._service.models.export(dataset, model)
        return Response(text, content_type="text/plain; charset=utf-8")

    def _check(
        self,
        dataset: str,
        query: LinearQuery,
        check: CheckRequest,
        reply: ModelReplyBody,
        terms: Terms,
    ) -> JobStatus | None:
        """Put the check, and what follows from it, into the reply; the job that is waited for.

        What the check released decides whether the fallback is bought: both are charged before
        they are drawn, each by itself.
        """
        requirement, fallback = check.requirement(), check.fallback()
        found = self._ask(dataset, query, requirement, terms)
        if isinstance(found, JobStatus):
            return found
        reply.guarantee = AnswerBody.of(found)
        reply.verdict = verdict(reply.estimate or 0.0, low=found.low, high=found.high)
        if fallback is None or reply.verdict == "confirmed":
            return None
        measured = self._ask(dataset, query, fallback, terms.of_second_question())
        if isinstance(measured, JobStatus):
            return measured
        reply.fallback = AnswerBody.of(measured)
        return None

    def _ask(
        self, dataset: str, query: LinearQuery, requirement: Requirement, terms: Terms
    ) -> Answer | JobStatus:
        return self._service.ask(
            dataset,
            query,
            requirement,
            wait_s=terms.wait_s,
            idempotency=terms.idempotency,
            by=terms.by,
        )
