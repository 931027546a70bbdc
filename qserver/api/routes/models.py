"""Models: price them, learn them, ask them, draw synthetic records, export them.

Also structures of networks: what one could leak, and which is proposed under a cap on that.
"""

from __future__ import annotations

from flask import Response, request
from werkzeug.routing import BaseConverter

from qserver.answering.models.price import verdict, would
from qserver.api.bodies.answers import AnswerBody, ExplanationBody
from qserver.api.bodies.models import (
    CheckRequest,
    LearntBody,
    ModelAuditBody,
    ModelAuditRequest,
    ModelBody,
    ModelExplanationBody,
    ModelListBody,
    ModelQuestion,
    ModelQuestionPriceBody,
    ModelReplyBody,
    ModelRequest,
    StructureBody,
    StructureRequest,
)
from qserver.api.bodies.workloads_and_sql import JobBody
from qserver.api.gate import caller_of_request
from qserver.api.json_reader import parse_object, read_body
from qserver.api.operation import Parameter, integer_parameter, operation, read_parameters
from qserver.api.replies import (
    ASKING_CODES,
    ASKING_HEADERS,
    QUERY_CODES,
    Terms,
    Views,
    job_reply,
    json_reply,
    read_request,
    terms_of_request,
)
from qserver.models.network.bif import structure_of_document
from qserver.models.tracing.bound import relation_of
from qserver.models.tracing.report import structural_report
from qserver.models.tracing.structure_proposal import proposed_structure
from qserver.query import request_fields as fields
from qserver.query.domain_file import domain_from_document
from qserver.query.linear_query import LinearQuery
from qserver.query.question import Question
from qserver.query.requirement import Requirement
from qserver.records.answer import Answer, Explanation, JobStatus
from qserver.service.models import csv_lines

SEEN_CODES = ("invalid_input", "not_found")
MODEL_CODES = (*SEEN_CODES, "invalid_network", "too_large")
_LEARNT = tuple(code for code in ASKING_CODES if code != "invalid_requirement")
_SAMPLE = tuple(map(Parameter.of, (fields.RECORDS, fields.SEED)))


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
        return json_reply(LearntBody.of(found, delta=self._service.delta(dataset)))

    @operation("", "models", {200: ModelListBody}, *SEEN_CODES)
    def list_models(self, dataset: str) -> Response:
        """List the models of a dataset's present snapshot."""
        read_parameters(request)
        delta = self._service.delta(dataset)
        found = [ModelBody.of(one, delta=delta) for one in self._service.models.all(dataset)]
        return json_reply(ModelListBody.model_validate({"models": found}))

    @operation("/<model:model>", "models", {200: ModelBody}, *SEEN_CODES)
    def get_model(self, dataset: str, model: str) -> Response:
        """Show a model, its tables and its public facts."""
        read_parameters(request)
        found = self._service.models.one(dataset, model)
        return json_reply(ModelBody.of(found, delta=self._service.delta(dataset)))

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
        n = integer_parameter(values, "n", default=1000, least=1, most=fields.MAX_RECORDS)
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
        """Put the check and its consequences into the reply; or the job to wait for.

        What the check released decides whether the fallback is bought: both are charged before
        they are drawn, each by itself.
        """
        requirement, fallback = check.requirement(), check.fallback()
        found = self._ask(dataset, query, requirement, terms)
        if isinstance(found, JobStatus):
            return found
        reply.guarantee = AnswerBody.of(found, delta=self._service.delta(dataset))
        reply.verdict = verdict(reply.estimate or 0.0, low=found.low, high=found.high)
        if fallback is None or reply.verdict == "confirmed":
            return None
        measured = self._ask(dataset, query, fallback, terms.of_second_question())
        if isinstance(measured, JobStatus):
            return measured
        reply.fallback = AnswerBody.of(measured, delta=self._service.delta(dataset))
        return None

    def _ask(
        self, dataset: str, query: LinearQuery, requirement: Requirement, terms: Terms
    ) -> Answer | JobStatus:
        return self._service.ask(
            dataset,
            Question(query, requirement),
            wait_s=terms.wait_s,
            idempotency=terms.idempotency,
            by=terms.by,
        )


class ModelPriceViews(Views):
    """The views of what models cost, on one service."""

    name = "model_prices"
    place = "/v1/datasets/<dataset>/models"

    @operation(
        "/explain",
        "models",
        {200: ModelExplanationBody},
        *MODEL_CODES,
        request=ModelRequest,
    )
    def explain_learning(self, dataset: str) -> Response:
        """Show what learning a model would cost, and which tables it would buy. Spends nothing."""
        asked = read_request(ModelRequest)
        found = self._service.models.explain(
            dataset,
            asked.kind,
            asked.document(),
            asked.epsilon_nano(),
            by=caller_of_request().account,
        )
        return json_reply(ModelExplanationBody.of(found, delta=self._service.delta(dataset)))

    @operation(
        "/<model:model>/explain",
        "models",
        {200: ModelQuestionPriceBody},
        *MODEL_CODES,
        *[code for code in (*QUERY_CODES, "invalid_requirement") if code not in MODEL_CODES],
        request=ModelQuestion,
    )
    def explain_question(self, dataset: str, model: str) -> Response:
        """Show the price of a check of a model's answer, and of its fallback. Spends nothing."""
        asked = read_request(ModelQuestion)
        reply = ModelQuestionPriceBody.of(self._service.models.learnt(dataset, model))
        if asked.form() != "count":
            # The price costs nothing; a refusal of the question is a refusal here.
            self._service.models.ask(dataset, model, asked.document())
            return json_reply(reply)
        query = self._service.parse(dataset, asked.count)
        estimate = reply.estimate = self._service.models.count(dataset, model, query)
        if asked.check is None:
            return json_reply(reply)
        by = caller_of_request().account
        requirement, fallback = asked.check.requirement(), asked.check.fallback()
        check = self._service.explain(dataset, Question(query, requirement), by=by)
        reply.check = ExplanationBody.of(check, delta=self._service.delta(dataset))
        reply.would = would(estimate, known=_known(check))
        if fallback is not None:
            found = self._service.explain(dataset, Question(query, fallback), by=by)
            reply.fallback = ExplanationBody.of(found, delta=self._service.delta(dataset))
        return json_reply(reply)


def _known(check: Explanation) -> tuple[float, float] | None:
    """The check's interval if history gives one."""
    if check.kind not in ("free", "exact") or check.free is None:
        return None
    return check.free.low, check.free.high


class ModelStructureViews(Views):
    """The views of structures, on one service."""

    name = "model_structures"
    place = "/v1/datasets/<dataset>/models"

    @operation(
        "/audit",
        "models",
        {200: ModelAuditBody},
        "invalid_input",
        "invalid_network",
        "too_large",
        "not_found",
        request=ModelAuditRequest,
    )
    def audit_model(self, dataset: str) -> Response:
        """Show how well members of the training set could be told from a model, before learning.

        By its structure, the number of records and epsilon alone: nothing is spent, and no record
        is read.
        """
        asked = read_request(ModelAuditRequest)
        status = self._service.dataset(dataset)
        structure = structure_of_document(asked.network, domain_from_document(status.domain))
        audit = asked.audit(structure, relation_of(status.relation))
        return json_reply(ModelAuditBody.of(structural_report(audit)))

    @operation(
        "/<model:model>/structure",
        "models",
        {200: StructureBody},
        *MODEL_CODES,
        request=StructureRequest,
    )
    def propose_structure(self, dataset: str, model: str) -> Response:
        """Propose the richest structure of a network that a cap on leaks allows.

        By how a released model correlates its attributes: nothing is spent, and no record is read.
        """
        asked = read_request(StructureRequest)
        audit = asked.audit(relation_of(self._service.dataset(dataset).relation))
        correlated = self._service.models.correlations(dataset, model, asked.variables)
        candidates = correlated.candidates(
            max_parents=asked.max_parents, min_gain=float(asked.min_gain)
        )
        return json_reply(StructureBody.of(proposed_structure(candidates, audit)))
