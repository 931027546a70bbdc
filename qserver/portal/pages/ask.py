"""Pages of questions: the builder, the price, the purchase, the answer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf
from typing import Any
from urllib.parse import parse_qsl

from flask import Blueprint, Response, g, make_response, redirect, request
from werkzeug.datastructures import MultiDict
from werkzeug.wrappers import Response as BaseResponse

from qserver.api.replies import body_of
from qserver.errors import InputError, NotFoundError, QServerError
from qserver.portal.cookies import (
    JOBS_COOKIE,
    PAID_COOKIE,
    STEPS_COOKIE,
    jobs_of,
    key_of_steps,
    new_steps_token,
    paid_for,
    set_cookie,
    steps_of,
    with_job,
    with_payment,
    with_steps,
)
from qserver.portal.descriptions import Heading, describe_terms
from qserver.portal.faults import THRESHOLD_FIELDS, Fault, fault_of, question_fields
from qserver.portal.form_reader import OneQuestion, read_question
from qserver.portal.pages.answers import (
    AnswerView,
    Quote,
    Threshold,
    answer_csv,
    stop_of,
    worthwhile,
)
from qserver.portal.pages.sql import (
    TableQuote,
    TableView,
    heading_of,
    kept_view,
    known_job,
    known_view,
    table_csv,
    table_quote,
)
from qserver.portal.question import (
    MOST_GROUPS,
    FormQuestion,
    bin_hint,
    examples,
    form_attributes,
    is_as_priced,
    mark_of,
)
from qserver.portal.render import CSV_TYPE, download, page
from qserver.query.asking.method_and_prior import Reading
from qserver.query.domain import Domain
from qserver.query.exact_numbers import exact_number
from qserver.query.linear_query import LinearQuery
from qserver.records.answer import Answer, CurvePoint, DatasetStatus, JobStatus
from qserver.service.cache.statements import StatementKey
from qserver.service.service import Service
from qserver.service.statement_answers import StatementAnswer
from qserver.service.statements import Statements

# Needs a live worker, but does not wait for the answer.
NO_TIME_S = 1e-6
# Quotients are measured in steps, and a page waits for one job alone.
STEPS_WAIT_S = 5.0
# The field of a job's address with the page to return to after a look.
THEN, PRICE = "then", "price"
PRICE_LATER = "part_price_later.html"
# The field that only the SQL page's form has.
EDITOR_FIELD = "editor"
# The field of an address that chooses a table's chart.
CHART_FIELD = "chart"
# A request line holds 8,190 bytes at most.
_MAX_QUERY_PART = 6000
# The browser's kind of input for the periods of a unit.
_PICKERS = {"day": "date", "week": "week", "month": "month"}
_TEXT_EXAMPLE = "SELECT {1}, COUNT(*) FROM {0} GROUP BY {1}"


@dataclass(frozen=True)
class Asked:
    """A sent question: its dataset, and its fields as the query part of an address."""

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
        routes.get(f"{place}/sql")(self.show_sql)
        routes.post(f"{place}/price")(self.show_price)
        routes.post(f"{place}/ask")(self.ask)
        routes.get(f"{place}/answer")(self.show_answer)
        routes.get(f"{place}/answer.<ending>")(self.download_answer)

    def show_ask(self, dataset: str) -> BaseResponse:
        """The query builder, filled with the address's question; with its price after it.

        A text has a page of its own.
        """
        question = FormQuestion.of(request.args, self._service.domain(dataset))
        if question.text:
            query = request.query_string.decode("ascii", "replace")
            return redirect(f"/portal/datasets/{dataset}/sql?{query}", 303)
        with_quote = request.args.get(THEN) == PRICE
        return make_response(self._ask_page(dataset, question, with_quote=with_quote))

    def show_sql(self, dataset: str) -> str:
        """The page of SQL, with the statement in the address and its price."""
        question = FormQuestion.of(request.args, self._service.domain(dataset))
        with_quote = bool(question.text) and request.args.get(THEN) == PRICE
        return self._ask_page(dataset, question, with_quote=with_quote, is_sql=True)

    def show_price(self, dataset: str) -> BaseResponse:
        """The price of the question in the form, and its free interval.

        Where it takes long to find out what is known, a part of the page asks again, and a whole
        page is that of the job.
        """
        question = FormQuestion.of(request.form, self._service.domain(dataset))
        is_part = "HX-Request" in request.headers
        if _is_blank(question):
            blank = page("part_blank.html") if is_part else self._ask_page(dataset, question)
            return make_response(blank)
        job = look_of(self._service, dataset, question)
        if job is not None and not is_part:
            return to_job(job, question.encoded(), then=PRICE)
        if not is_part:
            return make_response(self._ask_page(dataset, question, with_quote=True))
        if job is not None:
            return make_response(page(PRICE_LATER, method="post", again=request.path))
        status = self._service.dataset(dataset)
        try:
            quote = quote_of(self._service, dataset, question)
        except QServerError as exc:
            fault = self._fault(exc, dataset, question)
            # A fault that the form can mend is no failure of the request.
            refused = 200 if isinstance(exc, InputError) else fault.status
            return make_response(page("part_fault.html", fault=fault), refused)
        part = page(
            _price_part(quote),
            quote=quote,
            question=question,
            dataset=status,
            as_sql=self._as_sql(dataset, question),
        )
        return make_response(part)

    def ask(self, dataset: str) -> BaseResponse:
        """Ask the question in the form; the next page shows its answer, or its job.

        If the question changed after its price was shown, it is priced again and not asked.
        """
        question = FormQuestion.of(request.form, self._service.domain(dataset))
        if _is_blank(question):
            return make_response(self._ask_page(dataset, question))
        if not is_as_priced(request.form, question.mark, within=question.within):
            priced = self._ask_page(dataset, question, with_quote=True, was_changed=True)
            return make_response(priced)
        fields = question.encoded()
        is_short = len(fields) <= _MAX_QUERY_PART
        # The page behind a refusal.
        g.asked = Asked(dataset, fields) if is_short else None
        job = look_of(self._service, dataset, question, wait_s=STEPS_WAIT_S)
        if job is not None:
            # The shown price used the knowledge of then: it is shown again, and not paid.
            return to_job(job, fields, then=PRICE)
        left_at = steps_of(request, mark_of(fields))
        try:
            found, token = self._asked(dataset, question, left_at)
        except InputError as exc:
            fault = self._fault(exc, dataset, question)
            return make_response(self._ask_page(dataset, question, fault=fault), fault.status)
        if not isinstance(found, JobStatus):
            if not is_short:
                return make_response(self._answer_page(dataset, question, paid=found.charged_nano))
            response = redirect(f"/portal/datasets/{dataset}/answer?{fields}", 303)
            # The next page spends nothing, but the asking may have.
            set_cookie(response, request, PAID_COOKIE, _payment(fields, found.charged_nano))
            set_cookie(response, request, STEPS_COOKIE, "")
            return response
        response = to_job(found, fields)
        if token:
            set_cookie(response, request, STEPS_COOKIE, with_steps(mark_of(fields), token))
        return response

    def show_answer(self, dataset: str) -> BaseResponse:
        """The answer of history to the address's question; nothing is spent.

        A table that takes long to compute is shown by the job that does it.
        """
        question = FormQuestion.of(request.args, self._service.domain(dataset))
        g.asked = Asked(dataset, fields := question.encoded())
        job = job_of(self._service, dataset, question)
        if job is not None:
            return to_job(job, fields)
        paid = paid_for(request, mark_of(fields))
        return make_response(self._answer_page(dataset, question, paid=paid))

    def download_answer(self, dataset: str, ending: str) -> BaseResponse:
        """The answer as a file."""
        question = FormQuestion.of(request.args, self._service.domain(dataset))
        job = job_of(self._service, dataset, question)
        if job is not None:
            return to_job(job, question.encoded())
        view = view_of(self._service, dataset, question)
        return answer_file(view, self._service.dataset(dataset), name=dataset, ending=ending)

    def _asked(
        self, dataset: str, question: FormQuestion, left_at: str
    ) -> tuple[Answer | StatementAnswer | JobStatus, str]:
        """Ask: a free answer comes at once, any other through a job.

        Args:
            left_at: the token under which this browser left the question at one of its steps.

        Returns:
            The outcome, and the token under which its steps are asked, so that the cost is that of
            all; '' for a question without steps.
        """
        asked, by = read_question(self._service, dataset, question), g.caller.account
        if isinstance(asked, OneQuestion):
            one = asked.question
            found = self._service.ask(dataset, one, wait_s=NO_TIME_S, by=by)
            return found, ""
        statements, statement = Statements(self._service), asked.statement
        if not statements.goes_on(dataset, statement):
            return statements.answer(dataset, statement, wait_s=NO_TIME_S, by=by), ""
        token = left_at or new_steps_token()
        key = key_of_steps(token, by)
        table = statements.answer(dataset, statement, wait_s=STEPS_WAIT_S, idempotency=key, by=by)
        return table, token

    def _fault(self, exc: QServerError, dataset: str, question: FormQuestion) -> Fault:
        """An error of the question in the form, in the form's words."""
        return fault_of(exc, question_fields(question, self._service.domain(dataset)))

    def _ask_page(
        self,
        dataset: str,
        question: FormQuestion,
        *,
        with_quote: bool = False,
        fault: Fault | None = None,
        was_changed: bool = False,
        is_sql: bool = False,
    ) -> str:
        quote = None
        if with_quote:
            try:
                quote = quote_of(self._service, dataset, question)
            except InputError as exc:
                fault = self._fault(exc, dataset, question)
        is_sql = is_sql or bool(question.text) or EDITOR_FIELD in request.form
        return page(
            "sql.html" if is_sql else "ask.html",
            dataset=self._service.dataset(dataset),
            **form_context(self._service, dataset, question),
            quote=quote,
            price_part="portal/" + _price_part(quote),
            fault=fault,
            was_changed=was_changed,
            pickers=_PICKERS,
            n_groups=MOST_GROUPS,
            as_sql="" if quote is None else self._as_sql(dataset, question),
            tab="sql" if is_sql else "ask",
        )

    def _as_sql(self, dataset: str, question: FormQuestion) -> str:
        """The builder's question as one in SQL, as the query part of an address; '' for a text."""
        if question.text:
            return ""
        return question.as_text(self._service.domain(dataset), dataset).encoded()

    def _answer_page(self, dataset: str, question: FormQuestion, *, paid: int) -> str:
        """The page of history's answer; `paid`: nano-epsilon that were just paid here."""
        status = self._service.dataset(dataset)
        view = view_of(self._service, dataset, question)
        if isinstance(view, TableView) and paid:
            view = replace(view, answer=replace(view.answer, charged_nano=paid))
        if isinstance(view, TableView):
            view = replace(view, drawn_as=request.args.get(CHART_FIELD, ""))
        template = "answer.html" if isinstance(view, AnswerView) else "table.html"
        editor = form_context(self._service, dataset, question) if question.text else {}
        return page(
            template, dataset=status, view=view, **editor, tab="sql" if question.text else "ask"
        )


def form_context(service: Service, dataset: str, question: FormQuestion) -> dict[str, Any]:
    """What the question forms show beside the price; for SQL also the saved questions."""
    domain = service.domain(dataset)
    saved = service.saved.all(dataset, g.caller.account)
    texts = ((dict(parse_qsl(one.fields)).get("text", ""), one) for one in saved)
    statements = [(one.title or " ".join(text.split()), one.fields) for text, one in texts if text]
    return {
        "attributes": form_attributes(domain),
        "joined": {level.name: a.name for a in domain.attributes for level in a.levels},
        "hints": {a.name: bin_hint(a) for a in domain.attributes if a.kind != "labels"},
        "question": question,
        "saved_statements": statements,
        "examples": [
            (words, FormQuestion.of(MultiDict(parse_qsl(fields)), domain).as_text(domain, dataset))
            for words, fields in examples(domain)
        ],
        "text_example": _TEXT_EXAMPLE.format(dataset, domain.attributes[0].name),
    }


def _is_blank(question: FormQuestion) -> bool:
    """Whether the page of SQL was sent without a text."""
    return EDITOR_FIELD in request.form and not question.text.strip()


def look_of(
    service: Service,
    dataset: str,
    question: FormQuestion,
    *,
    at: str = "",
    wait_s: float = NO_TIME_S,
) -> JobStatus | None:
    """The job that finds what history knows of a form's searched numbers.

    None where that takes no longer than `wait_s`, and for what cannot be read.
    """
    try:
        asked = read_question(service, dataset, question, at=at)
    except QServerError:
        return None
    if isinstance(asked, OneQuestion):
        return None
    key = _key_of(service, dataset, question, at)
    return Statements(service).look(key, asked.statement, wait_s=wait_s)


def _key_of(service: Service, dataset: str, question: FormQuestion, at: str = "") -> StatementKey:
    """The key of a form's job; each account has its own."""
    key = StatementKey.of_form(dataset, service.state(dataset), question.encoded(), at)
    return replace(key, by=g.caller.account)


def job_of(service: Service, dataset: str, question: FormQuestion) -> JobStatus | None:
    """The job that computes the table of `view_of`; None if that takes no longer."""
    key = _key_of(service, dataset, question)
    if kept_view(service, replace(key, by="")) is not None:
        return None
    asked = read_question(service, dataset, question)
    if isinstance(asked, OneQuestion):
        return None
    return known_job(service, key, asked.statement, wait_s=NO_TIME_S)


def to_job(job: JobStatus, fields: str, *, then: str = "") -> BaseResponse:
    """The page of a job, for the question of these fields where an address can hold them.

    Args:
        then: where a job that looked leads: '' to the answer, `PRICE` to the price, or to the job
            of this id.
    """
    query = "&".join(filter(None, (fields, f"{THEN}={then}" if then else "")))
    query = query if len(query) <= _MAX_QUERY_PART else ""
    response = redirect(f"/portal/jobs/{job.id}" + (f"?{query}" if query else ""), 303)
    set_cookie(response, request, JOBS_COOKIE, with_job(jobs_of(request), job.id))
    return response


def view_of(
    service: Service, dataset: str, question: FormQuestion, *, at: str = ""
) -> AnswerView | TableView:
    """The answer of history to the question in a form; nothing is spent.

    Args:
        at: the last period to count, as for `Service.domain`.

    Raises:
        NotEstimableError: history says nothing of it.
        InputError, CapacityError: it cannot be answered.
    """
    fields = question.encoded()
    key = StatementKey.of_form(dataset, service.state(dataset), fields, at)
    if (kept := kept_view(service, key)) is not None:
        return kept
    asked = read_question(service, dataset, question, at=at)
    if not isinstance(asked, OneQuestion):
        by = g.caller.account
        table = known_view(service, dataset, asked.statement, query=fields, by=by)
        if key.keeps(table.answer):
            service.kept_statements.keep(key, table.answer)
        return table
    one = asked.question
    known = service.insight.known(dataset, one)
    view = AnswerView(
        heading=_heading(service.domain(dataset), question, asked),
        answer=known.answer,
        known=known,
        query_part=fields,
        files=f"/portal/datasets/{dataset}/answer",
    )
    return with_threshold(view, service, dataset, one.query, one.reading)


def quote_of(service: Service, dataset: str, question: FormQuestion) -> Quote | TableQuote:
    """The price of the question in a form; raises as `view_of` does."""
    asked, fields = read_question(service, dataset, question), question.encoded()
    if isinstance(asked, OneQuestion):
        heading = _heading(service.domain(dataset), question, asked)
        return _quote_of_one(service, dataset, asked, heading, fields)
    length = None if asked.has_length else question.requirement().length
    return table_quote(
        service,
        dataset,
        asked.statement,
        by=g.caller.account,
        length=length,
        query=fields,
    )


def _quote_of_one(
    service: Service, dataset: str, asked: OneQuestion, heading: Heading, fields: str
) -> Quote:
    one, length = asked.question, asked.question.requirement.length
    found = service.explain(dataset, one, by=g.caller.account)
    curve = worthwhile(found.curve, CurvePoint(length, found.price_nano))
    if asked.has_length:
        # The slider sets the form's length, so that length does not count here.
        curve = [p for p in curve if p.length == length]
    free_from = inf if found.free is None else found.free.free_length
    stops = tuple(
        stop_of(p.length, p.price_nano, found.remaining_nano, is_free=p.length >= free_from)
        for p in curve
    )
    return Quote(
        heading=heading,
        requirement=one.requirement,
        found=found,
        stops=stops,
        chosen=min(range(len(stops)), key=lambda i: abs(2 * stops[i].within - length)),
        query_part=fields,
    )


def _payment(fields: str, charged_nano: int) -> str:
    return with_payment(mark_of(fields), charged_nano) if charged_nano else ""


def words_of(service: Service, dataset: str, question: FormQuestion) -> str:
    """The question in a form: its text, or words."""
    asked, domain = read_question(service, dataset, question), service.domain(dataset)
    if isinstance(asked, OneQuestion):
        return _heading(domain, question, asked).text
    return heading_of(asked.statement).text


def _heading(domain: Domain, question: FormQuestion, asked: OneQuestion) -> Heading:
    words = describe_terms(asked.question.query.to_document(), domain, whole=True)
    return Heading(question.text.strip(), words)


def _price_part(quote: Quote | TableQuote | None) -> str:
    return "part_table_price.html" if isinstance(quote, TableQuote) else "part_price.html"


def with_threshold(
    view: AnswerView, service: Service, dataset: str, query: LinearQuery, reading: Reading
) -> AnswerView:
    """The view with P(a <= count <= b) for the ends in the address, or with their fault."""
    try:
        return replace(view, threshold=_threshold(service, dataset, query, reading))
    except InputError as exc:
        return replace(view, fault=fault_of(exc, THRESHOLD_FIELDS))


def _threshold(
    service: Service, dataset: str, query: LinearQuery, reading: Reading
) -> Threshold | None:
    """P(a <= count <= b) for the ends in the address, or None; InputError."""
    low, high = _end("at_least"), _end("at_most")
    if low is None and high is None:
        return None
    if low is not None and high is not None and low > high:
        raise InputError("at_most", "be no less than the other end", high)
    found = service.insight.probability(
        dataset,
        query,
        low=-inf if low is None else low,
        high=inf if high is None else high,
        reading=reading,
    )
    return Threshold(low, high, found.probability)


def _end(name: str) -> float | None:
    text = request.args.get(name, "").replace(",", "").strip()
    return float(exact_number(text, name)) if text else None


def answer_file(
    view: AnswerView | TableView, status: DatasetStatus, *, name: str, ending: str
) -> Response:
    """An answer or a table as CSV or JSON; NotFoundError for other endings."""
    if ending not in ("csv", "json"):
        raise NotFoundError("page", f"answer.{ending}"[:80])
    is_json, delta = ending == "json", status.delta
    if is_json:
        text = body_of(view.answer, delta=delta).model_dump_json(indent=1) + "\n"
    elif isinstance(view, TableView):
        text = table_csv(view.answer)
    else:
        text = answer_csv(view.answer, dataset=status.name, question=view.heading.text, delta=delta)
    content_type = "application/json" if is_json else CSV_TYPE
    return download(text, name=f"{name}-answer.{ending}", content_type=content_type)
