"""Query parameters: known ones only, each at most once, with bounds."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from flask import Request

from qserver.api.json_reader import JsonFaultError, parse_json
from qserver.errors import InputError

_INTEGER = re.compile(r"-?[0-9]{1,15}\Z")


@dataclass(frozen=True)
class Parameter:
    """A query parameter or a request header, as the documentation shows it."""

    name: str
    description: str
    schema: Mapping[str, Any]


def read_parameters(request: Request, *known: Parameter) -> dict[str, str]:
    """The query parameters by name.

    Raises:
        InputError: one is unknown, or comes twice.
    """
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
    """An integer parameter within its bounds.

    Raises:
        InputError: not an integer, or out of bounds.
    """
    text = values.get(name)
    if text is None:
        return default
    if not _INTEGER.match(text) or not least <= int(text) <= most:
        raise InputError(name, f"be an integer from {least:,} to {most:,}", text)
    return int(text)


def object_parameter(values: Mapping[str, str], name: str) -> Mapping[str, Any] | None:
    """A parameter that holds a JSON object, or None where it is not given.

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
