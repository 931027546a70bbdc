"""Pages of questions: the builder, the price beforehand, the asking, the answer."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from flask import Blueprint, Response, g, make_response, redirect, request
from werkzeug.wrappers import Response as BaseResponse

from qserver.answer import Answer, CurvePoint, Explanation
from qserver.api.json_reader import JsonFaultError, parse_json
from qserver.domain import Domain
from qserver.errors import InputError, NotFoundError, QServerError, QueryError
from qserver.numbers import exact_number
from qserver.portal import words
from qserver.portal.answers import AnswerView, Threshold, answer_csv, answer_json
from qserver.portal.describe import describe_terms
from qserver.portal.faults import fault_of
from qserver.portal.guard import JOBS_COOKIE, jobs_of, set_cookie, with_job
from qserver.portal.question import Question, bin_hint
from qserver.portal.render import CSV_TYPE, download, page
from qserver.query import LinearQuery
from qserver.requirement import Requirement
from qserver.service import Service

# Asks for a worker that lives, but does not wait for the answer.
_NO_TIME_S = 1e-6
# A request line holds 8,190 bytes at most.
_MAX_QUERY_PART = 6000
_COVERED = "It is about people who have lost less than others did, so the budget does not fall."
_TEXT_EXAMPLE = "SELECT COUNT(*) FROM {} WHERE ..."
KINDS = {
    "free": "What was released before already answers this.",
    "exact": "No record can change this: the answer is public.",
    "fresh": "One new measurement.",
    "combined": "A new measurement, together with what was released before.",
    "refined": "Earlier measurements are released again with less noise; only the difference is "
    "charged.",
    "blocks": "Tables are measured, which will answer later questions too.",
}


@dataclass(frozen=True)
class Stop:
    """A place of the slider.

    Args:
        length: of the interval; `text` as a form takes it.
        price: in epsilon, None where it is out of reach; `shown` in words.
        affordable: whether it fits into what remains.
    """

    length: float
    text: str
    price: float | None
    shown: str
    affordable: bool


@dataclass(frozen=True)
class Quote:
    """What a question costs, before anything is spent.

    Args:
        question: in words.
        stops: lengths in rising order with their prices; `chosen` is the place of the asked one.
    """

    question: str
    requirement: Requirement
    found: Explanation
    stops: tuple[Stop, ...]
    chosen: int
    query_part: str

    @property
    def is_free(self) -> bool:
        """Whether nothing would be spent."""
        return self.found.kind in ("free", "exact")

    @property
    def better(self) -> Stop | None:
        """The cheapest stop of a shorter interval that costs no more than the asked one."""
        asked = self.stops[self.chosen]
        found = [s for s in self.stops[: self.chosen] if _costs_no_more(s.price, asked.price)]
        return min(found, key=lambda s: s.price or 0.0, default=None)

    @property
    def stops_json(self) -> str:
        """The slider's places, for its script."""
        return json.dumps([asdict(stop) for stop in self.stops])

    @property
    def how(self) -> str:
        """How the answer would be found."""
        text = KINDS[self.found.kind]
        return text if self.is_free or self.found.price_nano else f"{text} {_COVERED}"

    @property
    def is_payable(self) -> bool:
        """Whether budget and allowance let it."""
        own = self.found.own
        return self.found.affordable and (own is None or own.affordable)


@dataclass(frozen=True)
class Asked:
    """A question that was sent: its dataset, and its fields as the query part of an address."""

    dataset: str
    query_part: str


class AskPages:
    """The pages of questions, on one service."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def add_to(self, routes: Blueprint) -> None:
        """Add the routes."""
        place = "/datasets/<dataset>"
        routes.get(place)(self.show_ask)
        routes.post(f"{place}/price")(self.show_price)
        routes.post(f"{place}/ask")(self.ask)
        routes.get(f"{place}/answer")(self.show_answer)
        routes.get(f"{place}/answer.<ending>")(self.download_answer)

    def show_ask(self, dataset: str) -> str:
        """The query builder, filled with the question in the address."""
        return self._ask_page(dataset, Question.of(request.args, self._service.domain(dataset)))

    def show_price(self, dataset: str) -> BaseResponse:
        """The price of the question in the form, and what is known of it for nothing."""
        question = Question.of(request.form, self._service.domain(dataset))
        if "HX-Request" not in request.headers:
            return make_response(self._ask_page(dataset, question, with_quote=True))
        status = self._service.dataset(dataset)
        try:
            quote = self._quote(dataset, question)
        except QServerError as exc:
            fault = fault_of(exc)
            part = page("part_fault.html", fault=fault, said=_for_people(fault.detail))
            # What can be mended in the form is no failure of the request.
            return make_response(part, 200 if isinstance(exc, InputError) else fault.status)
        return make_response(page("part_price.html", quote=quote, dataset=status))

    def ask(self, dataset: str) -> BaseResponse:
        """Ask the question in the form; the next page shows its answer, or its job."""
        question = Question.of(request.form, self._service.domain(dataset))
        fields = question.encoded()
        is_short = len(fields) <= _MAX_QUERY_PART
        # Where a refusal leads back to.
        g.asked = Asked(dataset, fields) if is_short else None
        query = self._query(dataset, question)
        requirement = question.requirement()
        found = self._service.ask(
            dataset, query, requirement, wait_s=_NO_TIME_S, by=g.caller.account
        )
        if isinstance(found, Answer):
            if not is_short:
                return make_response(self._answer_page(dataset, question))
            return redirect(f"/portal/datasets/{dataset}/answer?{fields}", 303)
        response = redirect(f"/portal/jobs/{found.id}" + (f"?{fields}" if is_short else ""), 303)
        set_cookie(response, request, JOBS_COOKIE, with_job(jobs_of(request), found.id))
        return response

    def show_answer(self, dataset: str) -> str:
        """What history says of the question in the address; nothing is spent."""
        question = Question.of(request.args, self._service.domain(dataset))
        g.asked = Asked(dataset, question.encoded())
        return self._answer_page(dataset, question)

    def download_answer(self, dataset: str, ending: str) -> Response:
        """The same as a file."""
        question = Question.of(request.args, self._service.domain(dataset))
        view = self._view(dataset, question)
        return answer_file(view, dataset=dataset, name=dataset, ending=ending)

    def _ask_page(self, dataset: str, question: Question, *, with_quote: bool = False) -> str:
        status = self._service.dataset(dataset)
        domain = self._service.domain(dataset)
        quote = fault = None
        if with_quote:
            try:
                quote = self._quote(dataset, question)
            except InputError as exc:
                fault = fault_of(exc)
        return page(
            "ask.html",
            dataset=status,
            attributes=domain.attributes,
            hints={a.name: bin_hint(a) for a in domain.attributes if a.kind != "labels"},
            question=question,
            quote=quote,
            fault=fault,
            said=_for_people(fault.detail) if fault else "",
            text_example=_TEXT_EXAMPLE.format(dataset),
            tab="ask",
        )

    def _answer_page(self, dataset: str, question: Question) -> str:
        status = self._service.dataset(dataset)
        view = self._view(dataset, question)
        return page("answer.html", dataset=status, view=view, tab="ask")

    def _view(self, dataset: str, question: Question) -> AnswerView:
        query, requirement = self._query(dataset, question), question.requirement()
        known = self._service.insight.known(dataset, query, requirement)
        fields = question.encoded()
        return AnswerView(
            question=describe_terms(query.to_document(), self._service.domain(dataset)),
            requirement=requirement,
            answer=known.answer,
            known=known,
            query_part=fields,
            files=f"/portal/datasets/{dataset}/answer",
            threshold=threshold_of(self._service, dataset, query),
        )

    def _query(self, dataset: str, question: Question) -> LinearQuery:
        if question.text:
            return self._service.parse(dataset, _document(question.text))
        domain: Domain = self._service.domain(dataset)
        return self._service.parse(dataset, {"where": question.where(domain)})

    def _quote(self, dataset: str, question: Question) -> Quote:
        query, requirement = self._query(dataset, question), question.requirement()
        found = self._service.explain(dataset, query, requirement, by=g.caller.account)
        curve = worthwhile(found.curve, requirement.length)
        stops = tuple(_stop(point, found.remaining_nano) for point in curve)
        nearest = min(range(len(stops)), key=lambda i: abs(curve[i].length - requirement.length))
        return Quote(
            question=describe_terms(query.to_document(), self._service.domain(dataset)),
            requirement=requirement,
            found=found,
            stops=stops,
            chosen=nearest,
            query_part=question.encoded(),
        )


def threshold_of(service: Service, dataset: str, query: LinearQuery) -> Threshold | None:
    """P(count >= t) for the t in the address, or None; InputError where it is no number."""
    text = request.args.get("at_least", "").replace(",", "").strip()
    if not text:
        return None
    value = float(exact_number(text, "at_least"))
    found = service.probability(dataset, query, low=value, high=float("inf"))
    return Threshold(value, found.probability)


def answer_file(view: AnswerView, *, dataset: str, name: str, ending: str) -> Response:
    """An answer as CSV or JSON; NotFoundError for any other ending."""
    if ending == "json":
        text, content_type = answer_json(view.answer), "application/json"
    elif ending == "csv":
        text = answer_csv(view.answer, dataset=dataset, question=view.question)
        content_type = CSV_TYPE
    else:
        raise NotFoundError("page", f"answer.{ending}"[:80])
    return download(text, name=f"{name}-answer.{ending}", content_type=content_type)


def worthwhile(curve: Sequence[CurvePoint], asked: float) -> list[CurvePoint]:
    """The points that no shorter interval beats by price, and the asked one.

    Where tables are bought for later questions too, a longer interval may cost more.
    """
    found: list[CurvePoint] = []
    for point in curve:
        shorter = [p for p in found if _costs_no_more(p.price_nano, point.price_nano)]
        if not shorter or not point.price_nano or point.length == asked:
            found.append(point)
    return found


def _costs_no_more(price: float | None, other: float | None) -> bool:
    return price is not None and other is not None and price <= other


def _stop(point: CurvePoint, remaining_nano: int) -> Stop:
    text, price = words.plain(point.length), point.price_nano
    if price is None:
        return Stop(point.length, text, None, "out of reach", affordable=False)
    shown = words.price(price)
    return Stop(point.length, text, price / words.NANO, shown, affordable=price <= remaining_nano)


def _document(text: str) -> object:
    """What a text asks: a JSON object as for HTTP, or else a text of SQL."""
    if not text.startswith("{"):
        return text
    try:
        return parse_json(text)
    except JsonFaultError as exc:
        raise QueryError("query", f"be a JSON object as for HTTP: {exc}") from exc


def _for_people(message: str) -> str:
    """A message on the form's fields, by the names that the form shows."""
    return message.replace("query.where.", "")
