"""Every route has a lane and stated limits: one line of the page of requests each."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from contextlib import nullcontext
from unittest.mock import MagicMock

import pytest
from flask import Flask

from deploy.site.pages.requests import requests_page, routes_of
from qserver.api.app import create_app
from qserver.api.lanes import lane_of
from qserver.api.repeated_questions import FREE_BEFORE_KEY
from qserver.errors import CapacityError
from qserver.portal.blueprint import Portal
from qserver.query import linear_query
from qserver.query.asking.structured_question import parse_query
from qserver.query.domain import Attribute, Domain


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


def test_the_page_of_requests_has_every_route_once() -> None:
    page = requests_page()
    assert Counter(routes_of(page)) == Counter(f"{method} {path}" for method, path in routes())
    assert "`GET /readyz` | short |" in page
    assert f"{linear_query.MAX_TERMS:,} terms, {linear_query.MAX_FACTORS:,} conditions" in page


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


@pytest.mark.limit("8,192")
@pytest.mark.parametrize(("n_last", "is_refused"), [(2, False), (3, True)])
def test_a_question_has_so_many_weight_vectors(n_last: int, *, is_refused: bool) -> None:
    names = ("a", "b", "c")
    cells = Domain(tuple(Attribute(name, "labels", ("x", "y")) for name in names))
    n_whole = (linear_query.MAX_FACTORS - 2) // 3
    terms = [{"where": dict.fromkeys(names, "x")}] * n_whole
    terms.append({"where": dict.fromkeys(names[:n_last], "y")})
    bound = "at most 8,192 conditions"
    with pytest.raises(CapacityError, match=bound) if is_refused else nullcontext():
        parse_query({"terms": terms}, cells)
