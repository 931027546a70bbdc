"""Numbers and truth values of every request body are themselves, and no texts of such."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

import pytest
from pydantic import BaseModel, ValidationError

from qserver.api import bodies
from qserver.api.bodies.requests import RequestBody

for _module in iter_modules(bodies.__path__):
    import_module(f"{bodies.__name__}.{_module.name}")


def _below(kind: type[RequestBody]) -> list[type[RequestBody]]:
    return [kind, *(one for below in kind.__subclasses__() for one in _below(below))]


def _fields(*types: str) -> list[tuple[type[BaseModel], str]]:
    """The fields of all request bodies that the HTTP reference calls one of these types."""
    found = list[tuple[type[BaseModel], str]]()
    for body in _below(RequestBody)[1:]:
        for name, schema in body.model_json_schema(by_alias=True)["properties"].items():
            said = {schema.get("type"), *(one.get("type") for one in schema.get("anyOf", []))}
            if said & set(types):
                found.append((body, name))
    return found


def _is_refused(body: type[BaseModel], name: str, value: object) -> bool:
    """Whether the value is at fault, whatever other fields lack."""
    try:
        body.model_validate({name: value})
    except ValidationError as exc:
        return any(error["loc"][:1] == (name,) for error in exc.errors())
    return False


@pytest.mark.parametrize(("body", "name"), _fields("number", "integer"))
def test_a_number_is_no_text_and_no_truth_value(body: type[BaseModel], name: str) -> None:
    for wrong in ("0.5", "1", True):
        assert _is_refused(body, name, wrong), wrong
    assert not all(_is_refused(body, name, right) for right in (0.5, 1))


@pytest.mark.parametrize(("body", "name"), _fields("boolean"))
def test_a_truth_value_is_no_text_and_no_number(body: type[BaseModel], name: str) -> None:
    for wrong in ("true", "1", 1, 0.0):
        assert _is_refused(body, name, wrong), wrong
    assert not _is_refused(body, name, True)


def test_the_bodies_have_such_fields() -> None:
    assert len(_fields("number", "integer")) > 15
    assert len(_fields("boolean")) > 4
