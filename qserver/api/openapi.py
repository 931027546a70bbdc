"""The OpenAPI document, built from the routes themselves."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from http import HTTPStatus
from importlib.resources import files
from typing import Any

from flask import Flask
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from qserver import __version__
from qserver.api.bodies.answers import FieldFault, Problem
from qserver.api.bodies.requests import JSON_REF, QUERY_COMPONENTS
from qserver.api.errors import KINDS, PROBLEM_TYPE
from qserver.api.operation import Operation, operation_of

OPENAPI_VERSION = "3.1.1"
_REF = "#/components/schemas/"
_VARIABLE = re.compile(r"<(?:[a-z]+:)?([a-z_]+)>")
_PATH_VARIABLES = {
    "dataset": "name of the dataset",
    "job_id": "id of the job",
    "model": "id of the model",
    "measurement": "id of the released row or table",
}
_SCHEME = "token"
_SECURITY_SCHEMES = {
    _SCHEME: {
        "type": "http",
        "scheme": "bearer",
        "description": "A token that `qserver account create` gave out; none on an open server.",
    }
}


@dataclass(frozen=True)
class Route:
    """A documented route: its path with {variables}, method, text and contract."""

    path: str
    method: str
    endpoint: str
    text: str
    operation: Operation

    @property
    def variables(self) -> list[str]:
        """The path's variables, in order."""
        return re.findall(r"{([a-z_]+)}", self.path)


def routes_of(app: Flask) -> Iterator[Route]:
    """The documented routes of an app, in the order of their paths."""
    for rule in sorted(app.url_map.iter_rules(), key=lambda r: r.rule):
        view = app.view_functions[rule.endpoint]
        found = operation_of(view)
        if found is None:
            continue
        path = _VARIABLE.sub(r"{\1}", rule.rule)
        yield Route(path, found.method, rule.endpoint, inspect.getdoc(view) or "", found)


def openapi_document(app: Flask) -> dict[str, Any]:
    """The OpenAPI 3.1 document of an app's documented routes."""
    routes = list(routes_of(app))
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation_object(route)
    document = {
        "openapi": OPENAPI_VERSION,
        "info": {
            "title": "qserver",
            "version": __version__,
            "description": "Linear counting queries over private data, answered with credible "
            "intervals; privacy budget is spent only where released answers do not suffice.",
        },
        "paths": paths,
        "security": [{_SCHEME: []}],
        "components": {"schemas": _components(routes), "securitySchemes": _SECURITY_SCHEMES},
    }
    resolved: dict[str, Any] = _resolved(document)
    return resolved


def _operation_object(route: Route) -> dict[str, Any]:
    described = route.operation
    summary, _, rest = route.text.partition("\n\n")
    found: dict[str, Any] = {
        "operationId": route.endpoint.rpartition(".")[2],
        "tags": [described.tag],
        "summary": summary.rstrip("."),
        "responses": _responses(described),
    }
    if described.is_public:
        found["security"] = []
    if rest:
        found["description"] = rest
    parameters = [*_path_parameters(route), *_other_parameters(described)]
    if parameters:
        found["parameters"] = parameters
    if described.request:
        schema = _ref(described.request.__name__)
        found["requestBody"] = {"required": True, "content": {"application/json": schema}}
    return found


def _path_parameters(route: Route) -> Iterator[dict[str, Any]]:
    for name in route.variables:
        yield {
            "name": name,
            "in": "path",
            "required": True,
            "description": _PATH_VARIABLES[name],
            "schema": {"type": "string"},
        }


def _other_parameters(described: Operation) -> Iterator[dict[str, Any]]:
    for place, found in (("query", described.parameters), ("header", described.headers)):
        for parameter in found:
            yield {
                "name": parameter.name,
                "in": place,
                "description": parameter.description,
                "schema": dict(parameter.schema),
            }


def _responses(described: Operation) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for status, body in described.responses.items():
        if isinstance(body, str):
            found[str(status)] = {"description": "OK", "content": {body: {}}}
            continue
        text = inspect.getdoc(body) or body.__name__
        content = {"application/json": _ref(body.__name__)}
        found[str(status)] = {"description": text, "content": content}
        if status == HTTPStatus.ACCEPTED:
            location = {"description": "URL of the job", "schema": {"type": "string"}}
            found[str(int(status))]["headers"] = {"Location": location}
    for status, codes in described.codes_by_status.items():
        found[str(status)] = _problem_response(codes)
    return found


def _problem_response(codes: list[str]) -> dict[str, Any]:
    only = {"properties": {"code": {"enum": codes}}}
    schema = {"allOf": [{JSON_REF: "Problem"}, only]}
    return {
        "description": "; ".join(f"`{code}`: {KINDS[code].title}" for code in codes),
        "content": {PROBLEM_TYPE: {"schema": schema}},
    }


def _components(routes: list[Route]) -> dict[str, Any]:
    requests = {r.operation.request for r in routes if r.operation.request}
    responses: set[type[BaseModel]] = {Problem, FieldFault}
    for route in routes:
        responses.update(b for b in route.operation.responses.values() if not isinstance(b, str))
    _, schemas = models_json_schema(
        [
            *((m, "validation") for m in sorted(requests, key=lambda m: m.__name__)),
            *((m, "serialization") for m in sorted(responses, key=lambda m: m.__name__)),
        ],
        ref_template=_REF + "{model}",
    )
    found: dict[str, Any] = {**schemas["$defs"], **QUERY_COMPONENTS}
    for name, examples in _examples().items():
        found[name] = {**found[name], "examples": examples}
    return found


def _examples() -> dict[str, list[Any]]:
    """Example bodies by component; the figures are illustrations."""
    text = files("qserver").joinpath("data", "http-examples.json").read_text(encoding="utf-8")
    found: dict[str, list[Any]] = json.loads(text)
    return found


def _ref(name: str) -> dict[str, Any]:
    return {"schema": {JSON_REF: name}}


def _resolved(value: Any) -> Any:
    """`value` with references to components in OpenAPI's spelling."""
    if isinstance(value, dict):
        return {
            ("$ref" if k == JSON_REF else k): _REF + str(v) if k == JSON_REF else _resolved(v)
            for k, v in value.items()
        }
    return [_resolved(v) for v in value] if isinstance(value, list) else value
