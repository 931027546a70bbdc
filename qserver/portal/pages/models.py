"""Pages of models: the learnt ones, learning with its price first, asking, files."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from math import prod
from typing import Any

import numpy as np
from flask import Blueprint, Response, g, make_response, redirect, request
from werkzeug.wrappers import Response as BaseResponse

from qserver.answering.models.kinds import registry
from qserver.answering.models.price import ModelExplanation
from qserver.errors import CapacityError, InputError, QServerError
from qserver.portal import numbers
from qserver.portal.cookies import JOBS_COOKIE, jobs_of, set_cookie, with_job
from qserver.portal.descriptions import Heading, describe_axes, describe_terms, model_words
from qserver.portal.faults import RECORD_FIELDS, Fault, fault_of, learning_fields, model_fields
from qserver.portal.form_reader import LearnForm, OneQuestion, question_of, read_question
from qserver.portal.pages.answers import AnyQuote
from qserver.portal.pages.ask import NO_TIME_S
from qserver.portal.question import FormQuestion, is_as_priced
from qserver.portal.render import CSV_TYPE, download, page
from qserver.query import request_fields as fields
from qserver.query.domain import Domain
from qserver.query.exact_numbers import exact_number
from qserver.records.answer import JobStatus, ModelAnswer
from qserver.records.plan import PlannedTable
from qserver.service.models import ModelStatus, csv_lines
from qserver.service.service import Service

_MOST_LINES = 200


@dataclass(frozen=True)
class LearnQuote(AnyQuote):
    """The price of learning, before anything is spent.

    Args:
        text: what would be learnt.
        tables: what would be bought, in words.
    """

    text: str
    found: ModelExplanation
    tables: tuple[str, ...]


@dataclass(frozen=True)
class ModelLine:
    """A model of the list, in words."""

    status: ModelStatus
    text: str


@dataclass(frozen=True)
class ProbabilityLine:
    """Labels with their probability as a number and as a bar of at most 1,000."""

    labels: tuple[str, ...]
    probability: str
    bar: float


@dataclass(frozen=True)
class DistributionView:
    """A model's distribution of some variables; `n_hidden` lines are not shown.

    Args:
        is_held: whether one table of the model holds all of them; None where it does not say.
        merged: by variable the lists of labels that no table of the model tells apart.
    """

    variables: tuple[str, ...]
    given: str
    lines: tuple[ProbabilityLine, ...]
    n_hidden: int
    is_held: bool | None
    merged: dict[str, list[list[str]]]


@dataclass(frozen=True)
class Expected:
    """A count that a model expects."""

    heading: Heading
    number: str


class ModelPages:
    """The pages of models, on one service."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def add_to(self, routes: Blueprint) -> None:
        """Add the routes."""
        place = "/datasets/<dataset>/models"
        routes.get(place)(self.show_models)
        routes.post(f"{place}/price")(self.show_learn_price)
        routes.post(f"{place}/learn")(self.learn)
        routes.get(f"{place}/<model>")(self.show_model)
        routes.get(f"{place}/<model>/records.csv")(self.download_records)
        routes.get(f"{place}/<model>/export")(self.download_model)

    def show_models(self, dataset: str) -> str:
        """The models, and a form to learn another, filled from the address."""
        return self._models_page(dataset, LearnForm.of(request.args))

    def show_learn_price(self, dataset: str) -> BaseResponse:
        """The price of learning, and the tables to buy."""
        form = LearnForm.of(request.form)
        if "HX-Request" not in request.headers:
            return make_response(self._models_page(dataset, form, with_quote=True))
        quote, fault = self._quoted(dataset, form)
        part = page(
            "part_learn_price.html",
            quote=quote,
            fault=fault,
            form=form,
            dataset=self._service.dataset(dataset),
        )
        return make_response(part)

    def learn(self, dataset: str) -> BaseResponse:
        """Learn the model in the form; the next page is its job."""
        form = LearnForm.of(request.form)
        if not is_as_priced(request.form, form.mark):
            priced = self._models_page(dataset, form, with_quote=True, was_changed=True)
            return make_response(priced)
        g.back = f"/portal/datasets/{dataset}/models?{form.encoded()}"
        try:
            found = self._learn(dataset, form)
        except InputError as exc:
            fault = fault_of(exc, learning_fields(form.kind))
            return make_response(self._models_page(dataset, form, fault=fault), fault.status)
        if not isinstance(found, JobStatus):
            return redirect(f"/portal/datasets/{dataset}/models/{found.id}", 303)
        response = redirect(f"/portal/jobs/{found.id}", 303)
        set_cookie(response, request, JOBS_COOKIE, with_job(jobs_of(request), found.id))
        return response

    def _learn(self, dataset: str, form: LearnForm) -> ModelAnswer | JobStatus:
        document, epsilon_nano, by = form.document(), form.epsilon_nano(), g.caller.account
        return self._service.models.learn(
            dataset, form.kind, document, epsilon_nano, wait_s=NO_TIME_S, by=by
        )

    def show_model(self, dataset: str, model: str) -> str:
        """A model, and its answer to the address's question."""
        return self._model_page(dataset, model)

    def _model_page(self, dataset: str, model: str, fault: Fault | None = None) -> str:
        """The page, with the fault of a form other than those that ask the model."""
        status = self._service.dataset(dataset)
        g.back = f"/portal/datasets/{dataset}/models/{model}"
        found = self._service.models.one(dataset, model)
        facts = found.facts or {}
        domain = self._service.domain(dataset)
        attributes = [a for a in domain.attributes if a.name in facts.get("variables", ())]
        told, wrong = self._told(dataset, model, tuple(a.name for a in attributes))
        return page(
            "model.html",
            dataset=status,
            model=found,
            kind=registry.kind_of(found.learnt.kind).face,
            text=model_words(found.learnt.kind, found.specification, domain.names, whole=True),
            facts=facts,
            attributes=attributes,
            shown=request.args.getlist("show"),
            given={a.name: request.args.get(f"given:{a.name}", "") for a in attributes},
            count=request.args.get("count", ""),
            told=told,
            expected=told if isinstance(told, Expected) else None,
            distribution=told if isinstance(told, DistributionView) else None,
            fault=fault or wrong,
            n=request.args.get("n", f"{fields.RECORDS.default}"),
            seed=request.args.get("seed", ""),
            tab="models",
        )

    def download_records(self, dataset: str, model: str) -> Response:
        """Synthetic records as CSV."""
        g.back = f"/portal/datasets/{dataset}/models/{model}"
        try:
            n, seed = _whole(fields.RECORDS), _whole(fields.SEED)
        except InputError as exc:
            fault = fault_of(exc, RECORD_FIELDS)
            return make_response(self._model_page(dataset, model, fault), fault.status)
        columns = self._service.models.columns(dataset, model)
        records = self._service.models.records(dataset, model, n, seed=seed)
        response = Response(csv_lines(columns, records), content_type=CSV_TYPE)
        response.headers["Content-Disposition"] = f'attachment; filename="{model}-records.csv"'
        return response

    def download_model(self, dataset: str, model: str) -> Response:
        """A model in the format of its field."""
        face = registry.kind_of(self._service.models.learnt(dataset, model).kind).face
        text = self._service.models.export(dataset, model)
        name = f"{model}.{face.file_ending}"
        return download(text, name=name, content_type=face.media_type)

    def _models_page(
        self,
        dataset: str,
        form: LearnForm,
        *,
        with_quote: bool = False,
        fault: Fault | None = None,
        was_changed: bool = False,
    ) -> str:
        status = self._service.dataset(dataset)
        models = self._service.models.all(dataset)
        names = self._service.domain(dataset).names
        lines = [ModelLine(m, model_words(m.learnt.kind, m.specification, names)) for m in models]
        quote, fault = self._quoted(dataset, form) if with_quote else (None, fault)
        return page(
            "models.html",
            dataset=status,
            lines=lines,
            kinds={name: kind.face for name, kind in registry.KINDS.items()},
            form=form,
            names=names,
            quote=quote,
            fault=fault,
            was_changed=was_changed,
            tab="models",
        )

    def _quoted(self, dataset: str, form: LearnForm) -> tuple[LearnQuote | None, Fault | None]:
        """The price of learning, or the fault of the form."""
        domain = self._service.domain(dataset)
        try:
            document = form.document()
            found = self._service.models.explain(
                dataset, form.kind, document, form.epsilon_nano(), by=g.caller.account
            )
        except (InputError, CapacityError) as exc:
            return None, fault_of(exc, learning_fields(form.kind))
        text = model_words(form.kind, document, domain.names, whole=True)
        tables = tuple(_table_words(table, domain) for table in found.tables)
        return LearnQuote(text, found, tables), None

    def _told(
        self, dataset: str, model: str, variables: tuple[str, ...]
    ) -> tuple[DistributionView | Expected | None, Fault | None]:
        """The model's answer to the address's question, or that question's fault."""
        count = request.args.get("count", "").strip()
        try:
            if count:
                return self._expected(dataset, model, count), None
            question = question_of(request.args, variables)
            if question is None:
                return None, None
            found = self._service.models.ask(dataset, model, question).document
        except QServerError as exc:
            fault = fault_of(exc, model_fields(variables, text=count))
            if fault.status >= 500 or fault.status == 404:
                raise
            return None, replace(fault, title="The model cannot tell this", advice="")
        return _distribution(found, question["given"]), None

    def _expected(self, dataset: str, model: str, text: str) -> Expected:
        question = FormQuestion({}, {}, text, "1", "95")
        asked = read_question(self._service, dataset, question)
        if not isinstance(asked, OneQuestion):
            raise InputError("count", "ask for one count or sum, without GROUP BY")
        query = asked.question.query
        number = self._service.models.count(dataset, model, query)
        terms = query.to_document()
        said = describe_terms(terms, self._service.domain(dataset), whole=True)
        return Expected(Heading(text, said), numbers.number(number, 1 if abs(number) < 100 else 0))


def _table_words(table: PlannedTable, domain: Domain) -> str:
    axes = describe_axes(table.partition.to_document(), domain)
    text = f"{axes}, for {numbers.price(table.charge_nano)}"
    return text if table.refines is None else f"{text}, since history has it with more noise"


def _distribution(found: dict[str, Any], given: dict[str, str]) -> DistributionView:
    labels = [tuple(names) for names in found["labels"]]
    flat = np.asarray(found["probabilities"], dtype=float).ravel()
    top = max(float(flat.max()), 1e-300)
    pairs = zip(product(*labels), flat.tolist(), strict=True)
    lines = [
        ProbabilityLine(names, numbers.probability(p), round(1000 * p / top, 1))
        for (names, p), _ in zip(pairs, range(_MOST_LINES), strict=False)
    ]
    n = prod(map(len, labels))
    text = ", ".join(f"{name} {label}" for name, label in given.items())
    held = found.get("is_held")
    return DistributionView(
        tuple(found["variables"]),
        text,
        tuple(lines),
        max(0, n - _MOST_LINES),
        held,
        found.get("merged", {}),
    )


def _whole(field: fields.Field) -> Any:
    """The whole number in the address, or the field's default; InputError."""
    text = request.args.get(field.name, "").replace(",", "").strip()
    if not text:
        return field.default
    value = exact_number(text, field.name, InputError)
    least, most = field.schema["minimum"], field.schema["maximum"]
    if value.denominator != 1 or not least <= value <= most:
        raise InputError(field.name, f"be a whole number from {least:,} to {most:,}", text[:40])
    return int(value)
