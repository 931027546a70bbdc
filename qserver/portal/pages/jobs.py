"""Pages of jobs: the list of this browser's jobs, and one job with its progress and answer."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from urllib.parse import quote

from flask import Blueprint, Response, g, make_response, redirect, request
from werkzeug.wrappers import Response as BaseResponse

from qserver.errors import NotEstimableError, NotFoundError, QServerError
from qserver.inference.posterior.after_looking import table_readings
from qserver.inference.posterior.method_and_prior import ContradictedPriorError
from qserver.portal.cookies import STEPS_COOKIE, jobs_of, key_of_steps, set_cookie, steps_of
from qserver.portal.descriptions import Heading, describe_terms, model_words
from qserver.portal.faults import Fault, fault_of, learning_fields, question_fields
from qserver.portal.form_reader import OneQuestion, TableQuestion, read_question
from qserver.portal.numbers import interval_words, looking
from qserver.portal.pages.answers import AnswerView
from qserver.portal.pages.ask import (
    CHART_FIELD,
    PRICE,
    THEN,
    answer_file,
    form_context,
    look_of,
    to_job,
    with_threshold,
)
from qserver.portal.pages.sql import TableView, asks, heading_of, job_view
from qserver.portal.question import FormQuestion, mark_of
from qserver.portal.render import page
from qserver.query.asking.method_and_prior import Reading
from qserver.query.question import ModelAsked, Question, Workload
from qserver.records.answer import Answer, DatasetStatus, JobStatus, WorkloadAnswer
from qserver.records.problem import error_from_problem
from qserver.service.free_answers import AskedJob, Known
from qserver.service.service import Service
from qserver.text import LookedNumber

# How many questions of a workload one line names.
_MOST_QUESTIONS = 3


@dataclass(frozen=True)
class JobLine:
    """A job of the list."""

    status: JobStatus
    question: str

    @property
    def interval(self) -> str:
        """The interval of a job with one answer."""
        found = self.status.result
        return (
            interval_words(found.low, found.high, found.confidence)
            if isinstance(found, Answer)
            else ""
        )

    @property
    def is_open(self) -> bool:
        """Whether the job still runs."""
        return self.status.state in ("queued", "running")


@dataclass(frozen=True)
class WorkloadLine:
    """A question of a workload and its answer."""

    question: str
    answer: Answer


class JobPages:
    """The pages of jobs, on one service."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def add_to(self, routes: Blueprint) -> None:
        """Add the routes."""
        routes.get("/jobs")(self.list_jobs)
        routes.get("/jobs/<job_id>")(self.show_job)
        routes.get("/jobs/<job_id>/answer.<ending>")(self.download_job)

    def list_jobs(self) -> str:
        """The last jobs that this browser asked for."""
        lines = []
        for job_id in jobs_of(request):
            try:
                asked = self._service.insight.asked(job_id, g.caller)
                lines.append(JobLine(asked.status, self._words(asked)))
            except NotFoundError:
                continue
        return page("jobs.html", lines=lines, is_open=any(line.is_open for line in lines))

    def show_job(self, job_id: str) -> BaseResponse:
        """A job's progress, then its answer."""
        asked = self._service.insight.asked(job_id, g.caller)
        if "HX-Request" in request.headers and asked.status.state in ("done", "failed"):
            # The whole page changes now, and its head shows the budget left.
            return Response(status=204, headers={"HX-Refresh": "true"})
        if _has_looked(asked):
            return redirect(_behind(asked), 303)
        status = self._service.dataset(asked.status.dataset)
        if looks := self._look(asked, status):
            fields = FormQuestion.of(request.args, self._service.domain(status.name)).encoded()
            return to_job(looks, fields, then=job_id)
        question = FormQuestion.of(request.args, self._service.domain(status.name))
        is_sql = bool(question.text) and self._written(asked, status) is not None
        tab = "models" if isinstance(asked.asked, ModelAsked) else "sql" if is_sql else "ask"
        text = page(
            "job.html",
            job=asked.status,
            dataset=status,
            heading=self._heading(asked, status),
            view=self._view(asked, status),
            table=self._table(asked, status),
            lines=self._lines(asked),
            looking=_looking(asked),
            failure=self._fault(asked),
            query_part=_fields(),
            **(form_context(self._service, status.name, question) if is_sql else {}),
            tab=tab,
        )
        response = make_response(text)
        if asked.status.state == "failed":
            # Under its old key the question would fail again, without being asked.
            set_cookie(response, request, STEPS_COOKIE, "")
        return response

    def download_job(self, job_id: str, ending: str) -> BaseResponse:
        """A job's answer as a file."""
        asked = self._service.insight.asked(job_id, g.caller)
        status = self._service.dataset(asked.status.dataset)
        if self._look(asked, status):
            return redirect(f"/portal/jobs/{job_id}?{_fields()}", 303)
        view = self._table(asked, status) or self._view(asked, status)
        if view is None:
            raise NotFoundError("answer", job_id[:80])
        return answer_file(view, status, name=job_id, ending=ending)

    def _heading(self, asked: AskedJob, status: DatasetStatus) -> Heading:
        """The subject of a job, as the address writes it if that is the same question."""
        written = self._written(asked, status)
        if isinstance(written, TableQuestion):
            return heading_of(written.statement)
        text = request.args.get("text", "").strip() if written else ""
        return Heading(text, self._words(asked, whole=True))

    def _written(
        self, asked: AskedJob, status: DatasetStatus
    ) -> OneQuestion | TableQuestion | None:
        """The question in the address; None without one, or if the job asks another."""
        if asked.snapshot != status.snapshot or isinstance(asked.asked, ModelAsked):
            return None
        question = FormQuestion.of(request.args, self._service.domain(status.name))
        if not question.text and not question.is_table:
            return None
        try:
            read = read_question(self._service, status.name, question)
            if isinstance(read, TableQuestion):
                return read if asks(read.statement, asked.asked) else None
        except QServerError:
            return None
        return read if [read.question.query] == [q.query for q in asked.asked.questions] else None

    def _words(self, asked: AskedJob, *, whole: bool = False) -> str:
        """A job in words: a question, the first questions of a workload, or a model."""
        if isinstance(asked.asked, ModelAsked):
            names = self._service.domain(asked.status.dataset).names
            document = json.loads(asked.asked.specification)
            text = model_words(asked.asked.kind, document, names, whole=whole)
            return f"a model ({asked.asked.kind}): {text}"
        questions = asked.asked.questions
        if isinstance(asked.asked, Workload):
            shown = [self._question_words(asked, q) for q in questions[:_MOST_QUESTIONS]]
            more = len(questions) - len(shown)
            text = "; ".join(shown) + (f"; and {more:,} more" if more else "")
            return f"a workload of {len(questions):,} questions: {text}"
        return self._question_words(asked, questions[0], whole=whole)

    def _question_words(self, asked: AskedJob, question: Question, *, whole: bool = False) -> str:
        if asked.snapshot != self._service.dataset(asked.status.dataset).snapshot:
            return "a question about earlier data"
        domain = self._service.domain(asked.status.dataset)
        return describe_terms(question.query.to_document(), domain, whole=whole)

    def _lines(self, asked: AskedJob) -> list[WorkloadLine]:
        """The answers of a workload, each with its question."""
        result = asked.status.result
        if not isinstance(result, WorkloadAnswer):
            return []
        pairs = zip(asked.asked.questions, result.answers, strict=True)
        return [
            WorkloadLine(self._question_words(asked, q, whole=True), answer) for q, answer in pairs
        ]

    def _view(self, asked: AskedJob, status: DatasetStatus) -> AnswerView | None:
        answer, question = asked.status.result, asked.asked
        if not (isinstance(answer, Answer) and isinstance(question, Question)):
            return None
        known = self._known(asked, question, answer, status)
        fields = FormQuestion.of(request.args, self._service.domain(status.name)).encoded()
        view = AnswerView(
            heading=self._heading(asked, status),
            answer=answer,
            known=known,
            query_part=fields if request.query_string else "",
            files=f"/portal/jobs/{asked.status.id}/answer",
        )
        if not known:
            return view
        reading = _reading_of(question, answer)
        return with_threshold(view, self._service, status.name, question.query, reading)

    def _table(self, asked: AskedJob, status: DatasetStatus) -> TableView | None:
        """The table, where the address has the statement of the job."""
        written = self._written(asked, status)
        if asked.status.result is None or not isinstance(written, TableQuestion):
            return None
        fields = FormQuestion.of(request.args, self._service.domain(status.name)).encoded()
        token, account = steps_of(request, mark_of(fields)), g.caller.account
        key = key_of_steps(token, account) if token else None
        view = job_view(self._service, written.statement, asked, query=fields, idempotency=key)
        return view and replace(view, drawn_as=request.args.get(CHART_FIELD, ""))

    def _look(self, asked: AskedJob, status: DatasetStatus) -> JobStatus | None:
        """The job that computes a slow page of an answered job."""
        written = self._written(asked, status)
        if asked.status.result is None or not isinstance(written, TableQuestion):
            return None
        question = FormQuestion.of(request.args, self._service.domain(status.name))
        return look_of(self._service, status.name, question)

    def _fault(self, asked: AskedJob) -> Fault | None:
        """Why the job failed, in the words of the form that asked for it."""
        if asked.status.state != "failed":
            return None
        error: QServerError = error_from_problem(asked.status.problem or {})
        if isinstance(asked.asked, ModelAsked):
            return fault_of(error, learning_fields(asked.asked.kind))
        domain = self._service.domain(asked.status.dataset)
        return fault_of(error, question_fields(FormQuestion.of(request.args, domain), domain))

    def _known(
        self, asked: AskedJob, question: Question, answer: Answer, status: DatasetStatus
    ) -> Known | None:
        """The present answer of history; None if the data were replaced or history has none."""
        if asked.snapshot != status.snapshot:
            return None
        try:
            return self._service.insight.known(
                status.name,
                replace(question, reading=_reading_of(question, answer)),
            )
        except (NotEstimableError, ContradictedPriorError):
            return None


def _reading_of(question: Question, answer: Answer) -> Reading:
    """The reading of the question; without its prior where the answer stands without one."""
    return replace(question.reading, prior=answer.statement.prior)


def _has_looked(asked: AskedJob) -> bool:
    """Whether the job looked at what history knows, so that its table's page is quick."""
    result = asked.status.result
    return isinstance(result, WorkloadAnswer) and not result.answers


def _fields() -> str:
    """The query part of the address."""
    return request.query_string.decode("ascii", "replace")


def _behind(asked: AskedJob) -> str:
    """The page behind a job that looked: the answer, the price, or the job that waits for it."""
    fields, then = _fields(), request.args.get(THEN, "")
    page_of = f"/portal/datasets/{asked.status.dataset}"
    if not fields:
        return page_of
    if not then:
        return f"{page_of}/answer?{fields}"
    if then == PRICE:
        return f"{page_of}{'/sql' if request.args.get('text') else ''}?{fields}"
    return f"/portal/jobs/{quote(then, safe='~')}?{fields}"


def _looking(asked: AskedJob) -> str:
    """What holds after looking at all answers of a workload, in one line."""
    result = asked.status.result
    if not isinstance(result, WorkloadAnswer) or result.answers[0].selected_from is not None:
        return ""
    numbers = []
    for answer, reading in zip(result.answers, table_readings(result.ends), strict=False):
        top, all_ = reading.largest, reading.at_once
        reach = (answer.estimate - top.low, top.high - answer.estimate)
        numbers.append(LookedNumber(answer.high - answer.low, all_.high - all_.low, reach))
    return looking(numbers, n=len(result.answers))
