"""Every route has a lane and stated limits: one line of docs/limits.md each."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from unittest.mock import MagicMock

import pytest
from flask import Flask

from qserver.answering import consistency, explain
from qserver.answering.models import correlated
from qserver.answering.models.kinds import network_kind
from qserver.api.ahead import FREE_BEFORE_KEY, lane_of
from qserver.api.app import create_app
from qserver.api.process import gunicorn, parking
from qserver.api.routes.datasets import MAX_LIMIT
from qserver.config import Settings
from qserver.errors import CapacityError
from qserver.planning.constants import PLANNER
from qserver.portal import guard
from qserver.portal.blueprint import Portal
from qserver.query import domain, linear, partition, question
from qserver.query.domain import Attribute, Domain
from qserver.query.sql import parser, tokens
from qserver.query.sql.plain import MAX_CHARACTERS
from qserver.query.structured import parse_query
from qserver.service import history, ledger, models, statement_steps

LIMITS = Path(__file__).parents[2] / "docs" / "limits.md"
_LANES = {"": "short", "questions": "questions", "costly": "costly", "long": "long"}


def the_app() -> Flask:
    """An app that is never asked anything."""
    pages = Portal(MagicMock())
    return create_app(MagicMock(), access=MagicMock(), wait_s=0, max_body_bytes=0, pages=pages)


def routes() -> Iterator[tuple[str, str]]:
    """Method and path of every route, with names in braces."""
    for rule in the_app().url_map.iter_rules():
        path = re.sub(r"<(?:[a-z]+:)?([a-z_]+)>", r"{\1}", rule.rule)
        for method in sorted((rule.methods or set()) - {"HEAD", "OPTIONS"}):
            yield method, path


def stated() -> dict[tuple[str, str], list[str]]:
    """The lines of the table of routes: lane, request, work, reply."""
    found: dict[tuple[str, str], list[str]] = {}
    text = LIMITS.read_text(encoding="utf-8")
    for line in re.findall(r"(?m)^\| `((?:GET|POST) /.*) \|$", text):
        named, *cells = [cell.strip() for cell in f"`{line}".split(" | ")]
        for method, path in re.findall(r"`(GET|POST) ([^`]+)`", named):
            assert (method, path) not in found, f"{method} {path} has two lines"
            found[method, path] = cells
    return found


def test_every_route_has_a_line_with_its_lane_and_its_limits() -> None:
    lines = stated()
    assert set(lines) == set(routes())
    for (_, path), cells in lines.items():
        assert len(cells) == 4
        assert all(cells), path
        assert cells[0] == _LANES[lane_of({"PATH_INFO": path})], path


@pytest.mark.parametrize(
    ("path", "lane"),
    [
        ("/healthz", ""),
        ("/v1/jobs/town~1", ""),
        ("/v1/datasets/people", ""),
        ("/v1/datasets/people/query", "questions"),
        ("/v1/datasets/people/probability", "questions"),
        ("/v1/datasets/people/explain", "costly"),
        ("/v1/datasets/people/models", "long"),
        ("/v1/datasets/people/models/m1/query", "long"),
        ("/v1/datasets/people/workload/explain", "long"),
        ("/v1/datasets/people/explained", ""),
        ("/portal/", "costly"),
        ("/portal/static/a.css", ""),
        ("/portal/sign-in", ""),
    ],
)
def test_a_path_has_its_lane(path: str, lane: str) -> None:
    assert lane_of({"PATH_INFO": path}) == lane


def test_what_was_free_before_is_short() -> None:
    environ = {"PATH_INFO": "/v1/datasets/people/query", FREE_BEFORE_KEY: True}
    assert lane_of(environ) == ""


def test_the_bounds_that_the_page_states_are_those_of_the_code() -> None:
    text = LIMITS.read_text(encoding="utf-8").replace("\n", " ")
    for stated_bound in (
        f"{parking.MOST_WAITING:,} requests and {parking.MOST_WAITING_BYTES:,} bytes of bodies",
        f"at most {gunicorn.limit_request_line:,} bytes with "
        f"{gunicorn.limit_request_fields} header fields",
        f"`QSERVER_MAX_BODY_BYTES` ({Settings().max_body_bytes:,})",
        f"{linear.MAX_TERMS:,} terms, {linear.MAX_FACTORS:,} weight vectors",
        f"{linear.MAX_RUNS:,} runs of weights;",
        f"{question.MAX_QUESTIONS:,} questions, {question.MAX_TERMS:,} terms in all",
        f"{MAX_CHARACTERS:,} characters, {tokens.MAX_TOKENS:,} words, {parser.MAX_CELLS:,} numbers",
        f"model: {question.MAX_SPECIFICATION:,} characters",
        f"the domain file's {domain.MAX_VALUES_IN_ALL:,} values",
        f"{MAX_LIMIT:,} items, {history.MAX_PAGE_RUNS:,} runs",
        f"{partition.MAX_TABLE_CELLS:,} values, or {linear.MAX_RUNS:,} runs of one row",
        f"{MAX_LIMIT:,} entries, {ledger.MAX_PAGE_CHARACTERS:,} characters",
        f"of an attribute, {domain.MAX_VALUES:,}",
        f"history answers: {Settings().max_rows:,} rows",
        f"eight plans of {PLANNER.question_work:,.0f} units",
        f"{consistency.MAX_STEPS:,} steps on {consistency.MAX_CELLS:,} cells",
        f"{PLANNER.workload_work:,.0f} units for a plan",
        f"{PLANNER.apart_work:,.0f} one by one",
        f"prices one by one within {explain.APART_WORK:,.0f}",
        f"takes at most {explain.CURVE_WORK:,.0f}",
        f"{statement_steps.MOST_STEPS} steps for a ratio",
        f"{models.MAX_MODELS:,} models",
        f"{network_kind.MAX_ANSWER_CELLS:,} probabilities",
        f"{models.MAX_RECORDS:,} records, drawn {network_kind._ROWS_AT_ONCE:,} at a time",
        f"{correlated.MAX_VARIABLES} variables, {correlated.MAX_PAIR_CELLS:,} cells of pairs",
        f"{guard.MAX_JOBS} jobs",
        f"{ledger._MOST_SPEND_POINTS} points",
    ):
        assert stated_bound in text, stated_bound


@pytest.mark.parametrize(("n_last", "is_refused"), [(2, False), (3, True)])
def test_a_question_has_so_many_weight_vectors(n_last: int, *, is_refused: bool) -> None:
    names = ("a", "b", "c")
    cells = Domain(tuple(Attribute(name, "labels", ("x", "y")) for name in names))
    n_whole = (linear.MAX_FACTORS - 2) // 3
    terms = [{"where": dict.fromkeys(names, "x")}] * n_whole
    terms.append({"where": dict.fromkeys(names[:n_last], "y")})
    bound = f"at most {linear.MAX_FACTORS:,} conditions"
    with pytest.raises(CapacityError, match=bound) if is_refused else nullcontext():
        parse_query({"terms": terms}, cells)
