"""The documented contract of a route: path, bodies, parameters, problems.

Of query parameters known ones are taken only, each at most once, with bounds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from flask import Request
from pydantic import BaseModel

from qserver.api.errors import KINDS, STORE_CODES
from qserver.api.json_reader import JsonFaultError, parse_json
from qserver.errors import InputError
from qserver.query.request_fields import Field

_INTEGER = re.compile(r"-?[0-9]{1,15}\Z")


@dataclass(frozen=True)
class Parameter:
    """A query parameter or a request header in the documentation."""

    name: str
    description: str
    schema: Mapping[str, Any]

    @classmethod
    def of(cls, field: Field) -> Parameter:
        """The parameter of a whole number, from the table of fields."""
        default = {} if field.default is None else {"default": field.default}
        return cls(field.name, field.about, {"type": "integer", **field.schema, **default})


def read_parameters(request: Request, *known: Parameter) -> dict[str, str]:
    """The query parameters by name; InputError for an unknown or repeated one."""
    if not request.environ.get("QUERY_STRING"):
        return {}
    names = [parameter.name for parameter in known]
    values = {}
    for name, given in request.args.lists():
        if name not in names:
            allowed = ", ".join(f"`{n}`" for n in names) or "none"
            raise InputError(name[:80], f"be left out: the query parameters here are {allowed}")
        if len(given) > 1:
            raise InputError(name, "be given once")
        values[name] = given[0]
    return values


def integer_parameter(
    values: Mapping[str, str], name: str, *, default: int, least: int, most: int
) -> int:
    """An integer parameter; InputError for no integer or one out of bounds."""
    text = values.get(name)
    if text is None:
        return default
    if not _INTEGER.match(text) or not least <= int(text) <= most:
        raise InputError(name, f"be an integer from {least:,} to {most:,}", text)
    return int(text)


def object_parameter(values: Mapping[str, str], name: str) -> Mapping[str, Any] | None:
    """A parameter that holds a JSON object; None if absent.

    Raises:
        InputError: it is not a JSON object.
    """
    text = values.get(name)
    if text is None:
        return None
    try:
        value = parse_json(text)
    except JsonFaultError as exc:
        raise InputError(name, f"be JSON text: {exc}") from exc
    if not isinstance(value, dict):
        raise InputError(name, "be a JSON object")
    return value


_EVERYWHERE = ("method_not_allowed", "internal")
_ACCESS = ("unauthenticated", "forbidden", "rate_limited")
_JSON_BODY = ("malformed_json", "bad_request", "body_too_large", "unsupported_media_type")
Audience = Literal["public", "accounts", "owners"]
_View = TypeVar("_View", bound=Callable[..., Any])


@dataclass(frozen=True)
class Operation:
    """The documented contract of one route.

    Args:
        path: below the place of its views, as Flask has it.
        tag: the group it is shown in.
        responses: the body by status of success; a text names a media type instead.
        codes: codes of the problems it may answer with.
        request: the body that it takes, or None.
        parameters: the query parameters that it takes.
        headers: the request headers that it heeds.
        audience: who may call it: everybody, whoever has an account, or owners.
    """

    path: str
    tag: str
    responses: Mapping[int, type[BaseModel] | str]
    codes: tuple[str, ...]
    request: type[BaseModel] | None = None
    parameters: tuple[Parameter, ...] = ()
    headers: tuple[Parameter, ...] = ()
    audience: Audience = "accounts"

    def __post_init__(self) -> None:
        unknown = [code for code in self.codes if code not in KINDS]
        if unknown:
            raise ValueError(f"`codes` must be kinds of problem, got {unknown}.")

    @property
    def method(self) -> str:
        """POST with a body, else GET."""
        return "POST" if self.request else "GET"

    @property
    def is_public(self) -> bool:
        """Whether the route needs no token."""
        return self.audience == "public"

    @property
    def is_owners(self) -> bool:
        """Whether only owners get an answer."""
        return self.audience == "owners"

    @property
    def codes_by_status(self) -> dict[int, list[str]]:
        """The problem codes of each status, in the order of the table of kinds."""
        found: dict[int, list[str]] = {}
        for code in KINDS:
            if code in self.codes:
                found.setdefault(KINDS[code].status, []).append(code)
        return found


def operation(
    path: str,
    tag: str,
    responses: Mapping[int, type[BaseModel] | str],
    *codes: str,
    uses_store: bool = True,
    request: type[BaseModel] | None = None,
    parameters: tuple[Parameter, ...] = (),
    headers: tuple[Parameter, ...] = (),
    audience: Audience = "accounts",
) -> Callable[[_View], _View]:
    """Attach an Operation to a view; problems that follow from its kind are added to `codes`."""
    is_public = audience == "public"
    implied = _EVERYWHERE + (STORE_CODES if uses_store else ())
    implied += () if is_public else _ACCESS
    implied += _JSON_BODY if request else ()
    described = Operation(
        path=path,
        tag=tag,
        responses=responses,
        codes=(*codes, *implied),
        request=request,
        parameters=parameters,
        headers=headers,
        audience=audience,
    )

    def attach(view: _View) -> _View:
        vars(view)["operation"] = described
        return view

    return attach


def operation_of(view: Callable[..., Any]) -> Operation | None:
    """The contract of a view; None without one."""
    found = getattr(view, "operation", None)
    return found if isinstance(found, Operation) else None
