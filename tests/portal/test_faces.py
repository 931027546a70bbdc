"""Every field of every request is on each face that offers the request, and says one thing."""

from __future__ import annotations

import argparse
import inspect
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, get_args
from urllib.parse import urlencode

import pytest
from pydantic import BaseModel

from qserver.api.bodies import models, requests, workloads_and_sql
from qserver.cli.console import Console
from qserver.cli.main import build_parser
from qserver.cli.runtime import Runtime
from qserver.client import model_requests
from qserver.client import requests as client
from qserver.query import request_fields as fields
from tests.portal.portal_site import PEOPLE, Browser

TABLE = [found for found in vars(fields).values() if isinstance(found, fields.Field)]


@dataclass(frozen=True)
class Request:
    """A request and its faces; an empty one does not offer it."""

    body: type[BaseModel]
    command: str
    functions: tuple[Callable[..., Any], ...]
    page: str = ""


REQUESTS = {
    "query": Request(requests.QueryRequest, "query", (client.query,), "ask"),
    "explain": Request(requests.QueryRequest, "explain", (client.explain,), "ask"),
    "probability": Request(
        requests.ProbabilityRequest, "probability", (client.probability,), "answer"
    ),
    "workload": Request(requests.WorkloadRequest, "workload", (client.workload,)),
    "sql": Request(workloads_and_sql.SqlRequest, "sql", (client.sql, client.price), "sql"),
    "learn": Request(
        models.ModelRequest,
        "model learn",
        (model_requests.learn_network, model_requests.learn_marginals, model_requests.learn),
        "models",
    ),
    "model": Request(
        models.ModelQuestion,
        "model ask",
        (model_requests.marginal, model_requests.most_probable, model_requests.check),
        "model",
    ),
    "audit": Request(models.ModelAuditRequest, "audit-structure", (model_requests.audit,)),
    "structure": Request(models.StructureRequest, "model propose", (model_requests.propose,)),
}
RULE = "each rule has a flag of its own, which takes m"
BUILDER = "the form's conditions, or its text, are the question"
EXACT = "a page leaves numerical detail to the method"
NOW = "a page of questions is about all periods that are sealed; conditions say which"
OBJECT = "its members stand on the face, and it has no field of its own"
LINK = "the address of the answer carries how the question was read"
TYPED = "the text of the form says it"
PRICED = "every page shows the price first"
USUAL = "a page learns by the usual one; HTTP, client and command line choose"
STATEMENT = "the statement is the argument of the command and of the method"
ELSEWHERE: Mapping[tuple[str, str, str], str] = {
    **{
        ("command line", name, field): RULE
        for name in ("query", "explain", "workload")
        for field in ("selected_from", "selected_from.m", "selected_from.rule")
    },
    **{
        ("page", name, field): why
        for name in ("query", "explain")
        for field, why in {
            "query": BUILDER,
            "selected_from": OBJECT,
            "step": EXACT,
            "draws": EXACT,
            "error": EXACT,
            "as_of": NOW,
        }.items()
    },
    **{("page", "probability", field): LINK for field in ("query", "step", "draws", "error")},
    ("page", "probability", "as_of"): LINK,
    ("command line", "workload", "questions.query"): "a member of the JSON that is the argument",
    ("client", "workload", "questions"): "`queries`, which may have names",
    ("client", "workload", "questions.query"): "`queries`, which may have names",
    ("command line", "sql", "sql"): STATEMENT,
    ("client", "sql", "sql"): STATEMENT,
    ("client", "sql", "explain"): "`price` is a method of its own",
    ("page", "sql", "explain"): PRICED,
    ("page", "sql", "spend"): PRICED,
    ("page", "sql", "as_of"): NOW,
    ("command line", "learn", "likelihood"): "by --field",
    **{("page", "learn", field): USUAL for field in ("allocation", "oracle", "likelihood")},
    ("page", "learn", "network"): "`structure`, which is easier to type",
    ("command line", "model", "check"): OBJECT,
    ("client", "model", "check"): OBJECT,
    **{
        ("client", "model", field): "a method of this name, whose variables are `variables`"
        for field in ("marginal", "most_probable")
    },
    ("client", "model", "count"): "`query` of the method `count`",
    ("page", "model", "most_probable"): "a page shows probabilities, the greatest among them",
    **{
        ("page", "model", field): "a count that is checked is asked on the page of the dataset"
        for field in ("check", "check.length", "check.confidence", "check.fallback_length")
    },
    ("command line", "audit", "gate"): OBJECT,
    ("command line", "structure", "gate"): OBJECT,
}


def members(body: type[BaseModel], under: str = "") -> Iterator[tuple[str, str | None]]:
    """The names of a body's fields, and of those of objects in it, with their descriptions."""
    for name, found in body.model_fields.items():
        yield under + name, found.description
        for part in (found.annotation, *get_args(found.annotation)):
            if inspect.isclass(part) and issubclass(part, BaseModel):
                yield from members(part, f"{under}{name}.")


def on_command_line(command: str) -> set[str]:
    parser = build_parser(Runtime(Console(sys.stdout, sys.stderr), {}))
    for word in command.split():
        (below,) = (a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
        parser = below.choices[word]
    return {action.dest for action in parser._actions}


def on_client(functions: tuple[Callable[..., Any], ...]) -> set[str]:
    return {name for one in functions for name in inspect.signature(one).parameters}


@pytest.fixture
def pages(browser: Browser) -> Mapping[str, set[str]]:
    """The names of all inputs, by page."""
    fields = {"kind": "network", "structure": "sex > age", "epsilon": "0.1"}
    job = browser.post(f"{PEOPLE}/models/learn", fields).headers["Location"]
    browser.town.work_off()
    question = {"from:age": "22", "within": "40", "method": "convolution", "prior": "non-negative"}
    browser.post(f"{PEOPLE}/ask", question)
    browser.town.work_off()
    places = {
        "ask": PEOPLE,
        "answer": f"{PEOPLE}/answer?{urlencode(question)}",
        "sql": f"{PEOPLE}/sql",
        "models": f"{PEOPLE}/models",
        "model": f"{PEOPLE}/models/{job.rpartition('/')[2]}",
    }
    return {
        name: {
            found.partition(":")[0]
            for found in re.findall(r'<(?:input|select|textarea)[^>]* name="([^"]*)"', text)
        }
        for name, place in places.items()
        if (text := browser.text(place))
    }


def inputs_of(name: str, about: str | None) -> set[str]:
    """The inputs of a page that hold a field, and its own name."""
    found = [one.inputs for one in TABLE if one.name == name and one.about == about]
    return {name, *(found[0] if found else ())}


def test_every_field_of_every_request_is_on_each_face_that_offers_it(
    pages: Mapping[str, set[str]],
) -> None:
    missing = set[tuple[str, str, str]]()
    for name, request in REQUESTS.items():
        flags, arguments = on_command_line(request.command), on_client(request.functions)
        for field, about in members(request.body):
            names = {field.partition(".")[0], field.rpartition(".")[2]}
            if field.rpartition(".")[2] not in flags:
                missing.add(("command line", name, field))
            if not names & arguments:
                missing.add(("client", name, field))
            if request.page and not inputs_of(field, about) & pages[request.page]:
                missing.add(("page", name, field))
    assert missing == set(ELSEWHERE)


@pytest.mark.parametrize("name", REQUESTS)
def test_a_field_says_in_http_what_the_table_says(name: str) -> None:
    """Only the query and the questions have a description of their own component."""
    said = {one.about for one in TABLE}
    others = {field for field, about in members(REQUESTS[name].body) if about not in said}
    assert others <= {"query", "questions", "questions.query", "kind", "check", "gate", "network"}


def test_a_client_sends_what_was_said_though_it_is_zero_and_nothing_as_usual() -> None:
    text = "SELECT COUNT(*) FROM people"
    asked = client.sql(text, within=0, measure="auto", spend=True).call.document
    assert asked == {"sql": text, "within": 0, "measure": "auto"}
    usual = client.query("people", {"where": {}}, length=5, method="auto", independent=False)
    assert usual.call.document == {"query": {"where": {}}, "length": 5, "confidence": 0.95}


def test_the_names_of_a_refusal_are_those_of_the_face() -> None:
    text = "`draws` must be left out unless `method` is `monte-carlo`"
    flags = {one.name: f"`{one.flag}`" for one in fields.QUESTION}
    assert fields.told(text, flags) == (
        "`--draws` must be left out unless `--method` is `monte-carlo`"
    )
    assert fields.told(text, {}, "{}") == "draws must be left out unless method is monte-carlo"
