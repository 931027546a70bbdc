"""requests.md: what each route may take, with the bounds that the code has."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from qserver.answering import consistency, explain
from qserver.answering.models import correlations
from qserver.answering.models.kinds import network_kind
from qserver.api.lanes import lane_of
from qserver.api.process import gunicorn, parking
from qserver.api.routes.datasets import MAX_LIMIT
from qserver.config import Settings
from qserver.planning.constants import PLANNER
from qserver.portal import cookies
from qserver.query import class_grid, domain, linear_query, question
from qserver.query import request_fields as fields
from qserver.query.sql import parser, tokens
from qserver.query.sql.text import MAX_CHARACTERS
from qserver.service import history, ledger, models
from qserver.service.steps.statement import MOST_STEPS

_DATASET = "/v1/datasets/{dataset}"
_MODEL = f"{_DATASET}/models/{{model}}"
_PAGES = "/portal/datasets/{dataset}"
_LANES = {"": "short"}


@dataclass(frozen=True)
class Bounds:
    """What some routes may take.

    Args:
        routes: method and path of each, with names in braces.
        request: what is sent.
        work: what is done for it.
        reply: how long the reply may be.
    """

    routes: tuple[str, ...]
    request: str
    work: str
    reply: str

    def line(self) -> str:
        """A line of the page's table."""
        lanes = {lane_of({"PATH_INFO": route.split(" ")[1]}) for route in self.routes}
        [lane] = {_LANES.get(lane, lane) for lane in lanes}
        named = ", ".join(f"`{route}`" for route in self.routes)
        return f"| {named} | {lane} | {self.request} | {self.work} | {self.reply} |"


def route_bounds() -> Iterator[Bounds]:
    """One for each kind of route; every route is in one of them."""
    yield from _of_the_server()
    yield from _of_questions()
    yield from _of_models()
    yield from _of_pages()


def _of_the_server() -> Iterator[Bounds]:
    body, line = "a body", "a line"
    runs = f"{linear_query.MAX_RUNS:,} runs of one row"
    yield Bounds(("GET /healthz",), line, "none", "one word")
    yield Bounds(("GET /readyz",), line, "one look at the store for each dataset", "their names")
    documents = ("GET /openapi.json", "GET /docs")
    yield Bounds(documents, line, "made once in a process", "one document")
    files = ("GET /", "GET /portal", "GET /portal/sign-in", "GET /portal/static/{filename}")
    yield Bounds(files, line, "none", "one small page or file")
    yield Bounds(("POST /portal/sign-in",), body, "one token", "one small page")
    listed = f"{MAX_LIMIT:,} datasets, without attributes"
    yield Bounds(("GET /v1/datasets",), line, "one look at the store for each dataset", listed)
    values = f"the domain file's {domain.MAX_VALUES_IN_ALL:,} values"
    yield Bounds((f"GET {_DATASET}",), line, "the schema", values)
    items = f"{MAX_LIMIT:,} items, {history.MAX_PAGE_RUNS:,} runs"
    yield Bounds((f"GET {_DATASET}/history",), line, "one page", items)
    item = f"{class_grid.MAX_TABLE_CELLS:,} values, or {runs}"
    yield Bounds((f"GET {_DATASET}/history/{{measurement}}",), line, "one item", item)
    entries = f"{MAX_LIMIT:,} entries, {ledger.MAX_PAGE_CHARACTERS:,} characters"
    yield Bounds(("GET /v1/audit", f"GET {_DATASET}/audit"), line, "one page", entries)
    yield Bounds(("GET /v1/jobs/{job_id}",), line, "one job", f"{MAX_LIMIT:,} answers")
    figures = f"a figure for each value of an attribute, {domain.MAX_VALUES:,}"
    yield Bounds((f"GET {_DATASET}/ledger",), line, "grows with the charges", figures)
    each = "one line for each account"
    yield Bounds((f"GET {_DATASET}/spending",), line, "reads every charge; no bound", each)


def _of_questions() -> Iterator[Bounds]:
    asked, many = "a body; a question", "a body; a workload"
    rows = f"{Settings().max_rows:,} rows"
    yield Bounds((f"POST {_DATASET}/query",), asked, f"whether {rows} answer it", "one answer")
    yield Bounds((f"POST {_DATASET}/probability",), asked, rows, "one figure")
    plans = f"eight plans of {PLANNER.question_work:,.0f} units"
    yield Bounds((f"POST {_DATASET}/explain",), asked, plans, "one plan")
    steps = f"{consistency.MAX_STEPS:,} steps on {consistency.MAX_CELLS:,} cells"
    known = f"history alone; with `consistent` {steps}"
    yield Bounds((f"POST {_DATASET}/workload",), many, known, f"{question.MAX_QUESTIONS:,} answers")
    apart = PLANNER.work_part * PLANNER.workload_work
    units = (
        f"{PLANNER.workload_work:,.0f} units for a plan, {apart:,.0f} one by one, "
        f"prices one by one within {explain.APART_WORK:,.0f}, two other lengths if that takes at "
        f"most {explain.CURVE_WORK:,.0f}"
    )
    yield Bounds((f"POST {_DATASET}/workload/explain",), many, units, "one plan")
    ratio = f"as of a workload; {MOST_STEPS} steps for a ratio, which waits apart"
    numbers = f"{parser.MAX_CELLS:,} numbers"
    yield Bounds((f"POST {_DATASET}/sql",), "a body; a statement", ratio, numbers)


def _of_models() -> Iterator[Bounds]:
    line, specified, asked = "a line", "a body; a specification", "a body; a question"
    of_all = (f"POST {_DATASET}/models", f"POST {_DATASET}/models/explain")
    of_one = (f"POST {_MODEL}/query", f"POST {_MODEL}/explain")
    counts = f"{network_kind.MAX_ANSWER_CELLS:,} probabilities"
    drawn = f"{fields.MAX_RECORDS:,} records, drawn {network_kind.ROWS_AT_ONCE:,} at a time"
    listed = f"{models.MAX_MODELS:,} models"
    yield Bounds((f"GET {_DATASET}/models",), line, "one look at the store", listed)
    yield Bounds(of_all, specified, "by [kind](models.md)", "one plan or model")
    yield Bounds((f"GET {_MODEL}",), line, "one model", "one model")
    yield Bounds(of_one, asked, "the model's own cells; a check is a question", counts)
    yield Bounds((f"GET {_MODEL}/sample",), line, drawn, "as many lines, sent as they are drawn")
    yield Bounds((f"GET {_MODEL}/export",), line, "one model", "the model's own cells")
    structures = (f"POST {_DATASET}/models/audit", f"POST {_MODEL}/structure")
    pairs = (
        f"{correlations.MAX_VARIABLES} variables, {correlations.MAX_PAIR_CELLS:,} cells of pairs"
    )
    yield Bounds(structures, specified, pairs, "one report")


def _of_pages() -> Iterator[Bounds]:
    line, either, asked = "a line", "a line, or a body", "a line, or a body; a question"
    shown = "one page, drawing or table"
    lists = ("GET /portal/", "GET /portal/jobs", "GET /portal/{rest}", "POST /portal/sign-out")
    yield Bounds(lists, either, "as of the lists", "one page")
    forms = tuple(f"GET {_PAGES}{end}" for end in ("", "/sql", "/answer", "/answer.{ending}"))
    forms += tuple(f"POST {_PAGES}{end}" for end in ("/ask", "/price"))
    yield Bounds(forms, asked, "as of the question", shown)
    jobs = ("GET /portal/jobs/{job_id}", "GET /portal/jobs/{job_id}/answer.{ending}")
    yield Bounds(jobs, line, f"{cookies.MAX_JOBS} jobs", shown)
    saved = f"{_PAGES}/saved"
    numbers = (f"GET {saved}/{{number}}/price", f"POST {saved}/{{number}}/remove")
    yield Bounds((f"GET {saved}", f"POST {saved}", *numbers), asked, "24 questions", "one page")
    points = f"{ledger.MOST_SPEND_POINTS} points"
    yield Bounds((f"GET {_PAGES}/budget",), line, "every charge once, then new ones", points)
    whole = "reads every entry; no bound"
    yield Bounds(("GET /portal/owner",), line, whole, "one line for each account")
    owner = ("GET /portal/owner/requests", "POST /portal/owner/requests/{kind}")
    yield Bounds(owner, either, "one request", "one line for each request")
    one_page = ("GET /portal/owner/changes", f"GET {_PAGES}/charges")
    yield Bounds(one_page, line, "one page", "50 entries")
    of_files = ("GET /portal/owner/changes.csv", f"GET {_PAGES}/charges.csv")
    yield Bounds(of_files, line, whole, "one line for each entry")
    released = (f"GET {_PAGES}/history", f"GET {_PAGES}/history.csv")
    yield Bounds(released, line, "the history from the place on", "50 lines; of the file, all")
    ends = ("models", "models/{model}", "models/{model}/export", "models/{model}/records.csv")
    learnt = tuple(f"GET {_PAGES}/{end}" for end in ends)
    learnt += (f"POST {_PAGES}/models/learn", f"POST {_PAGES}/models/price")
    yield Bounds(learnt, either, "as of models", "as of models")


def requests_page() -> str:
    """The page."""
    return "\n".join([_head(), *(bounds.line() for bounds in route_bounds())]) + "\n"


def routes_of(page: str) -> list[str]:
    """Method and path of each route that the page names."""
    return re.findall(r"`((?:GET|POST) /[^`]*)`", page)


def _head() -> str:
    return f"""# What a request may take

Made from the code when the site is built. Each HTTP process runs requests in lanes that do not
wait for each other: *short* ones in `QSERVER_HTTP_THREADS` threads, and *questions*, *costly* and
*long* ones in two threads each. What waits has a bound: {parking.MOST_WAITING:,} requests and
{parking.MOST_WAITING_BYTES:,} bytes of bodies in a process. One more gets its job at once, or 503
`busy`. A unit of work is about a microsecond; a search ends there with the best plan found.

| what | at most |
|---|---|
| a line, with its header | {gunicorn.limit_request_line:,} bytes, \
{gunicorn.limit_request_fields} fields |
| a body | `QSERVER_MAX_BODY_BYTES` ({Settings().max_body_bytes:,}) |
| a question | {linear_query.MAX_TERMS:,} terms, {linear_query.MAX_FACTORS:,} conditions, \
{linear_query.MAX_RUNS:,} runs of weights |
| a workload | {question.MAX_QUESTIONS:,} questions, {question.MAX_TERMS:,} terms in all |
| a statement | {MAX_CHARACTERS:,} characters, {tokens.MAX_TOKENS:,} words, \
{parser.MAX_CELLS:,} numbers |
| a specification of a model | {question.MAX_SPECIFICATION:,} characters |

Beyond a bound the reply is 413 `body_too_large`, or 422 `too_large`, `invalid_sql` or
`invalid_input`, which names field and bound.

Without a bound are the price of a workload on a long ledger, the posteriors of large tables where
answers disagree, and what reads every charge.

| route | lane | request | work | reply |
|---|---|---|---|---|"""
