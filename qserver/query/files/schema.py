"""The JSON Schema of domain files, made from the list of keys, for editors and generators.

It accepts whatever the parser accepts. What is about several entries together, such as labels that
are named twice, edges that do not increase or a width that does not divide, only the parser sees.
"""

from __future__ import annotations

from typing import Any

from qserver.query.calendar.units import UNITS
from qserver.query.domain import (
    MAX_ATTRIBUTES,
    MAX_COLUMN,
    MAX_DESCRIPTION,
    MAX_LICENCE,
    MAX_VALUES,
)
from qserver.query.files.keys import ALL, KEYS, NAMES, Kind
from qserver.query.labels.levels import MAX_LEVELS

_ID = "https://qserver.example/domain.schema.json"
_NAME = r"^[A-Za-z_][A-Za-z0-9_.-]{0,63}$"
_CODE = {"anyOf": [{"type": "string", "minLength": 1}, {"type": "integer"}, {"type": "boolean"}]}
_CODES = {"type": "array", "minItems": 1, "items": _CODE}
_NUMBER = {"anyOf": [{"type": "number"}, {"type": "string", "minLength": 1}]}
_POSITIVE = {
    "anyOf": [{"type": "number", "exclusiveMinimum": 0}, {"type": "string", "minLength": 1}]
}
_GROUPS = {"type": "object", "minProperties": 1, "additionalProperties": _CODES}
_VALUES: dict[str, dict[str, Any]] = {
    "name": {"type": "string", "pattern": _NAME},
    "column": {"type": "string", "minLength": 1, "maxLength": MAX_COLUMN},
    "kind": {"enum": [*ALL, "timestamp"]},
    "labels": _CODES,
    "codes": _CODES,
    "levels": {
        "type": "object",
        "minProperties": 1,
        "maxProperties": MAX_LEVELS,
        "propertyNames": {"pattern": _NAME},
        "additionalProperties": _GROUPS,
    },
    "edges": {"type": "array", "minItems": 2, "items": _NUMBER},
    "range": {"type": "array", "minItems": 2, "maxItems": 2, "items": _NUMBER},
    "width": _NUMBER,
    "every": {"enum": list(UNITS)},
    "first": {"type": ["string", "integer"]},
    "count": {"type": "integer", "minimum": 1, "maximum": MAX_VALUES},
    "outside": {"enum": ["drop", "clamp", "other"]},
    "missing": {"enum": ["drop", "other"]},
    "missing_markers": {"type": "array", "items": {"type": "string"}},
    "trim": {"type": "boolean"},
    "fold": {"type": "boolean"},
    "decimal": {"enum": [".", ","]},
    "other": {"type": "string", "minLength": 1},
}
_CALENDAR = {"required": ["every", "first", "count"]}
_NEEDS: dict[Kind, dict[str, Any]] = {
    "labels": {"required": ["labels"]},
    "integer": {"oneOf": [{"required": ["edges"]}, {"required": ["range"]}]},
    "real": {"oneOf": [{"required": ["edges"]}, {"required": ["range"]}]},
    "date": _CALENDAR,
    "period": {"oneOf": [_CALENDAR, {"required": ["labels"]}]},
}
_RULES: dict[Kind, dict[str, Any]] = {
    "labels": {"outside": {"enum": ["drop", "other"]}},
    "integer": {},
    "real": {},
    "date": {},
    "period": {
        "outside": {"const": "drop"},
        "missing": {"const": "drop"},
        "labels": {"items": {"type": "string"}},
    },
}


def domain_schema() -> dict[str, Any]:
    """The schema, by JSON Schema 2020-12."""
    described = {
        key.name: {**_VALUES[key.name], "description": key.meaning.replace("`", "")} for key in KEYS
    }
    attribute = {
        "type": "object",
        "required": ["name"],
        "properties": described,
        "additionalProperties": False,
        "dependentRequired": {"width": ["range"]},
        "anyOf": [{"required": ["kind"]}, {"required": ["labels"]}],
        "allOf": [_of_kind(kind) for kind in ALL],
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": _ID,
        "title": "Domain of a qserver dataset",
        "type": "object",
        "required": ["attributes"],
        "properties": {
            "$schema": {"type": "string"},
            "description": {"type": "string", "maxLength": MAX_DESCRIPTION},
            "licence": {"type": "string", "maxLength": MAX_LICENCE},
            "within": _POSITIVE,
            "attributes": {
                "type": "array",
                "minItems": 1,
                "maxItems": MAX_ATTRIBUTES,
                "items": attribute,
            },
        },
        "additionalProperties": False,
    }


def _of_kind(kind: Kind) -> dict[str, Any]:
    """What holds for the attributes of one kind."""
    names = ["date", "timestamp"] if kind == "date" else [kind]
    is_it: dict[str, Any] = {"required": ["kind"], "properties": {"kind": {"enum": names}}}
    if kind == "labels":
        is_it = {"anyOf": [is_it, {"not": {"required": ["kind"]}}]}
    absent = {name: False for name in NAMES if not _may_have(kind, name)}
    return {"if": is_it, "then": {**_NEEDS[kind], "properties": {**absent, **_RULES[kind]}}}


def _may_have(kind: Kind, name: str) -> bool:
    return any(key.name == name and kind in key.of for key in KEYS)
