"""What clients rely on stays: routes, members and their types; what is added lets nobody down."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
from flask import Flask

from qserver.api.openapi import openapi_document
from tests.api.relied_on import KEPT, Contract, broken, read, relied_on, text_of

ASK = "POST /v1/datasets/{dataset}/query"
Document = dict[str, Any]
Alter = Callable[[Document, Document], object]
BrokenBy = Callable[[Alter], set[str]]


@pytest.fixture(scope="module")
def document(api_app: Flask) -> Document:
    return openapi_document(api_app)


@pytest.fixture(scope="module")
def contract(document: Document) -> Contract:
    return relied_on(document)


@pytest.fixture
def broken_by(document: Document, contract: Contract) -> BrokenBy:
    """What an alteration of the document, of its schemas and operations, breaks."""

    def found(alter: Alter) -> set[str]:
        altered = copy.deepcopy(document)
        alter(altered["components"]["schemas"], altered["paths"])
        return set(broken(contract, relied_on(altered)))

    return found


def _member(schemas: Document, body: str, name: str) -> Document:
    found: Document = schemas[body]["properties"][name]
    return found


def _rename(schemas: Document, paths: Document) -> None:
    schemas["Words"] = schemas.pop("StatementBody")
    for body in schemas.values():
        for member in body.get("properties", {}).values():
            if "StatementBody" in str(member):
                member.clear()
                member["$ref"] = "#/components/schemas/Words"


def test_nothing_that_clients_rely_on_is_gone_or_of_another_type(contract: Contract) -> None:
    """Meant so? `python -m tests.api` keeps what holds now, and CHANGELOG.md tells it."""
    assert sorted(broken(read(KEPT.read_text(encoding="utf-8")), contract)) == []


def test_what_is_kept_is_read_back_equal(document: Document, contract: Contract) -> None:
    assert read(text_of(contract)) == contract
    assert {place for place in contract if " gives 2" in place} >= {
        f"{method.upper()} {path} gives 200"
        for path, operations in document["paths"].items()
        for method in operations
    }


@pytest.mark.parametrize(
    ("alter", "place"),
    [
        (lambda s, _: s["AnswerBody"]["properties"].pop("estimate"), f"{ASK} gives 200.estimate"),
        (
            lambda s, _: s["StatementBody"]["properties"].pop("law"),
            f"{ASK} gives 200.statement.law",
        ),
        (
            lambda s, _: _member(s, "AnswerBody", "estimate").update(type="string"),
            f"{ASK} gives 200.estimate",
        ),
        (
            lambda s, _: _member(s, "AnswerBody", "version").update(type="number"),
            f"{ASK} gives 200.version",
        ),
        (
            lambda s, _: _member(s, "AnswerBody", "interval")["items"].update(
                type=["number", "null"]
            ),
            f"{ASK} gives 200.interval[]",
        ),
        (lambda s, _: s["AnswerBody"]["required"].remove("source"), f"{ASK} gives 200.source"),
        (lambda _, p: p.pop("/v1/jobs/{job_id}"), "GET /v1/jobs/{job_id} gives 200"),
        (
            lambda _, p: p["/v1/datasets/{dataset}/query"]["post"]["responses"].pop("202"),
            f"{ASK} gives 202",
        ),
        (lambda s, _: s["QueryRequest"]["properties"].pop("prior"), f"{ASK} takes body.prior"),
        (
            lambda s, _: _member(s, "QueryRequest", "method")["enum"].remove("convolution"),
            f"{ASK} takes body.method",
        ),
        (
            lambda s, _: _member(s, "QueryRequest", "length").update(type="integer"),
            f"{ASK} takes body.length",
        ),
        (lambda s, _: s["QueryRequest"]["required"].append("error"), f"{ASK} takes body.error"),
        (
            lambda _, p: p["/v1/audit"]["get"]["parameters"].clear(),
            "GET /v1/audit takes query limit",
        ),
        (
            lambda _, p: p["/v1/audit"]["get"]["parameters"].append(
                {"in": "query", "name": "why", "required": True, "schema": {"type": "string"}}
            ),
            "GET /v1/audit takes query why",
        ),
    ],
)
def test_what_lets_a_client_down_is_noticed(broken_by: BrokenBy, alter: Alter, place: str) -> None:
    assert place in broken_by(alter)


@pytest.mark.parametrize(
    "alter",
    [
        lambda s, _: s["AnswerBody"]["properties"].update(more={"type": "string"}),
        lambda s, _: s["QueryRequest"]["properties"].update(more={"type": "string"}),
        lambda s, _: _member(s, "AnswerBody", "source")["enum"].append("guessed"),
        lambda s, _: _member(s, "QueryRequest", "method")["enum"].append("guess"),
        lambda s, _: _member(s, "QueryRequest", "length").update(type=["number", "string"]),
        lambda s, _: _member(s, "AnswerBody", "as_of").update(anyOf=[{"type": "string"}]),
        lambda s, _: _member(s, "AnswerBody", "estimate").update(description="Other words."),
        lambda s, _: s.update(AnswerBody=dict(reversed(s["AnswerBody"].items()))),
        lambda _, p: p.update({"/v2": p["/v1/audit"]}),
        _rename,
    ],
)
def test_what_is_added_reworded_or_renamed_inside_is_no_break(
    broken_by: BrokenBy, alter: Alter
) -> None:
    assert broken_by(alter) == set()
