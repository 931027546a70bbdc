"""The OpenAPI document, the page and the reference say what the routes do."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from typing import Any

import pytest
from flask import Flask
from openapi_schema_validator import OAS31Validator
from openapi_spec_validator import OpenAPIV31SpecValidator

from deploy.site.pages.http import http_page
from qserver.api.errors import KINDS
from qserver.api.openapi import openapi_document, routes_of
from tests.api.calls import QUESTION, Caller
from tests.api.every_reply import D, Replies

EXAMPLE = re.compile(r"^\w+, `(\w+)`:\n\n```json\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def reference(api_app: Flask) -> str:
    """The page of HTTP on the site."""
    return http_page(openapi_document(api_app))


def _validator(document: dict[str, Any], schema: dict[str, Any]) -> Any:
    return OAS31Validator({**schema, "components": document["components"]})


def _properties(document: dict[str, Any], name: str) -> set[str]:
    schema = document["components"]["schemas"][name]
    choices = [choice["$ref"].rpartition("/")[2] for choice in schema.get("anyOf", ())]
    return {*schema.get("properties", ()), *(p for c in choices for p in _properties(document, c))}


@pytest.mark.slow
def test_the_document_is_valid_openapi(caller: Caller, api_app: Flask) -> None:
    document = caller.get("/openapi.json").document
    OpenAPIV31SpecValidator(document).validate()
    assert document == json.loads(json.dumps(openapi_document(api_app)))


def test_every_success_is_documented_and_has_the_documented_members_and_no_more(
    caller: Caller, replies: Replies
) -> None:
    document = caller.get("/openapi.json").document
    documented = {
        (path, method, status)
        for path, item in document["paths"].items()
        for method, operation in item.items()
        for status in operation["responses"]
        if status < "400"
    }
    assert documented == set(replies)
    for name, schema in document["components"]["schemas"].items():
        if "properties" in schema and name != "Problem":  # whose code says what more it has
            schema["additionalProperties"] = False
    for (path, method, status), found in replies.items():
        content = document["paths"][path][method]["responses"][status]["content"]
        for reply in found:
            assert str(reply.status) == status
            media_type = reply.headers["Content-Type"].partition(";")[0]
            if "schema" in content[media_type]:
                _validator(document, content[media_type]["schema"]).validate(reply.document)


@pytest.mark.parametrize(
    "change",
    [
        {"length": "1"},
        {"length": 0},
        {"confidence": 1},
        {"query": {}},
        {"query": {"where": {"age": {"over": 1}}}},
        {"query": {"where": {"sex": {"weights": {"Male": "one"}}}}},
        {"more": 1},
    ],
)
def test_the_documented_schema_refuses_what_the_server_refuses(
    caller: Caller, api_app: Flask, change: dict[str, Any]
) -> None:
    document = openapi_document(api_app)
    validator = _validator(document, {"$ref": "#/components/schemas/QueryRequest"})
    assert validator.is_valid(QUESTION)
    assert caller.post(f"{D}/query", QUESTION).status == 200
    assert not validator.is_valid({**QUESTION, **change})
    assert caller.post(f"{D}/query", {**QUESTION, **change}).status == 422


class _Page(HTMLParser):
    """The texts, anchors and loaded resources of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: set[str] = set()
        self.tags: set[str] = set()
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        values = {name: value or "" for name, value in attrs}
        self.ids.update(values[n] for n in ("id",) if n in values)
        self.links.update(values[n] for n in ("href", "src") if n in values)

    def handle_data(self, data: str) -> None:
        self.text += data


def test_the_page_lists_every_route_and_problem_and_loads_nothing(
    caller: Caller, api_app: Flask
) -> None:
    reply = caller.get("/docs")
    page = _Page(reply.body.decode())
    assert reply.headers["Content-Type"].startswith("text/html")
    for route in routes_of(api_app):
        assert f"{route.method} {route.path}" in page.text
    assert set(KINDS) <= page.ids
    assert {link for link in page.links if not link.startswith("#")} == {"/openapi.json"}
    assert not {"script", "img", "link", "iframe"} & page.tags


def test_the_type_of_every_problem_leads_to_its_place_on_the_page(caller: Caller) -> None:
    path, _, anchor = caller.get("/nowhere").document["type"].partition("#")
    assert anchor in _Page(caller.get(path).body.decode()).ids


def test_the_reference_mentions_every_route_and_every_problem(
    reference: str, api_app: Flask
) -> None:
    for route in routes_of(api_app):
        assert f"### `{route.method} {route.path}`" in reference
        for parameter in route.operation.parameters:
            assert f"`{parameter.name}`" in reference
        for header in route.operation.headers:
            assert f"`{header.name}" in reference
    section = reference.partition("## Problems")[2]
    for code in KINDS:
        assert f"`{code}`" in section


def test_the_reference_gives_the_right_status_of_every_problem(reference: str) -> None:
    rows = [line for line in reference.splitlines() if line.startswith("| `")]
    stated = {}
    for row in rows:
        first, second, *_ = row.strip("| ").split(" | ")
        if second.isdigit():
            stated.update(dict.fromkeys(re.findall(r"`(\w+)`", first), int(second)))
    assert stated == {code: kind.status for code, kind in KINDS.items()}


def test_every_body_has_examples_of_its_documented_shape(api_app: Flask) -> None:
    document = openapi_document(api_app)
    schemas = document["components"]["schemas"]
    examples = {name: found["examples"] for name, found in schemas.items() if "examples" in found}
    for name, of_one in examples.items():
        for example in of_one:
            _validator(document, {"$ref": f"#/components/schemas/{name}"}).validate(example)
            assert set(example) <= {
                *_properties(document, name),
                *(("errors", "price", "remaining", "free") if name == "Problem" else ()),
            }
    bodies = {
        body.__name__
        for route in routes_of(api_app)
        for body in (*route.operation.responses.values(), route.operation.request)
        if isinstance(body, type)
    }
    assert bodies == set(examples) - {"Problem"}


def test_the_bodies_in_the_reference_are_examples_of_the_document(
    reference: str, api_app: Flask
) -> None:
    schemas = openapi_document(api_app)["components"]["schemas"]
    shown = [(name, json.loads(text)) for name, text in EXAMPLE.findall(reference)]
    assert all(example in schemas[name]["examples"] for name, example in shown)
    requests = {r.operation.request.__name__ for r in routes_of(api_app) if r.operation.request}
    assert requests <= {name for name, _ in shown}
