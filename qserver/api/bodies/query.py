"""JSON Schema of the structured query, which is parsed by `qserver.query.structured`."""

from __future__ import annotations

from typing import Any

# Marks a reference to a component; the document writes it as `$ref`.
JSON_REF = "x-component"

_NUMBER: dict[str, Any] = {
    "anyOf": [
        {"type": "number"},
        {
            "type": "string",
            "pattern": r"^[+-]?[0-9]+([.][0-9]*)?([eE][+-]?[0-9]+)?$|^[+-]?[0-9]+/[0-9]+$",
            "description": "a decimal or p/q, exact",
        },
    ]
}
_VALUE: dict[str, Any] = {"anyOf": [{"type": "string"}, {"type": "number"}]}

INTEGER_SCHEMA: dict[str, Any] = {
    "anyOf": [{"type": "integer"}, {"type": "string", "pattern": "^-?[0-9]+$"}],
    "description": "as a text beyond 2^53 - 1",
}
# Pairs are written without `prefixItems`, which not every tool reads.
PAIR_SCHEMA: dict[str, Any] = {
    "type": "array",
    "items": {"type": "number"},
    "minItems": 2,
    "maxItems": 2,
}
PRICE_POINT_SCHEMA: dict[str, Any] = {**PAIR_SCHEMA, "items": {"type": ["number", "null"]}}
TERMS_SCHEMA: dict[str, Any] = {
    "type": "array",
    "items": {
        "type": "array",
        "items": {
            "anyOf": [
                {"type": "string", "description": "first: coefficient, an exact fraction"},
                {
                    "type": "array",
                    "items": {"type": "array", "minItems": 3, "maxItems": 3},
                    "description": "second: per attribute [position, stops of runs, weights]",
                },
            ]
        },
        "minItems": 2,
        "maxItems": 2,
    },
    "description": "the row as a sum of terms, each a coefficient times weights per attribute",
}

AXES_SCHEMA: dict[str, Any] = {
    "type": "array",
    "items": {
        "type": "array",
        "minItems": 3,
        "maxItems": 3,
        "prefixItems": [
            {"type": "integer", "description": "position of the attribute"},
            {"type": "array", "items": {"type": "integer"}, "description": "stops of runs"},
            {"type": "array", "items": {"type": "integer"}, "description": "part of each run"},
        ],
    },
    "description": "per attribute that the table tells apart: [position, stops of runs, part of "
    "each run]; its cells are the products of parts, the last attribute running fastest. Part -1 "
    "is of values without a cell, such as periods that the table was not measured for",
}


def _operator(name: str, operand: dict[str, Any], description: str) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {name: operand},
        "required": [name],
        "additionalProperties": False,
        "description": description,
    }


_END: dict[str, Any] = {
    "anyOf": [
        {"type": "number"},
        {"type": "string", "description": "a decimal or p/q, exact; a period or date of a period"},
    ]
}
_PAIR = {"type": "array", "items": _END, "minItems": 2, "maxItems": 2}
_WEIGHTS = {"type": "object", "additionalProperties": _NUMBER}

QUERY_COMPONENTS: dict[str, dict[str, Any]] = {
    "Query": {
        "description": "What to count: an object with exactly one of `where`, `any` and `terms`, "
        "or a text of SQL.",
        "oneOf": [
            {"type": "string", "description": "such as `SELECT COUNT(*) FROM adult`"},
            _operator("where", {JSON_REF: "Where"}, "records that meet every condition"),
            _operator(
                "any",
                {"type": "array", "items": {JSON_REF: "Where"}, "minItems": 1},
                "records that meet at least one of the sets of conditions",
            ),
            _operator(
                "terms",
                {"type": "array", "items": {JSON_REF: "QueryTerm"}, "minItems": 1},
                "a linear combination of counts",
            ),
        ],
    },
    "QueryTerm": {
        "type": "object",
        "properties": {"coefficient": _NUMBER, "where": {JSON_REF: "Where"}},
        "additionalProperties": False,
    },
    "Where": {
        "type": "object",
        "additionalProperties": {JSON_REF: "Condition"},
        "description": "a condition per attribute; no condition is all records",
    },
    "Condition": {
        "description": "A value, a list of values, or an object with one operator.",
        "anyOf": [
            _VALUE,
            {"type": "array", "items": _VALUE, "minItems": 1},
            _operator(
                "between", _PAIR, "both ends included for integers and periods, else [low, high)"
            ),
            _operator("at_least", _END, "values >= v"),
            _operator("below", _END, "values < v"),
            _operator(
                "last",
                {"type": "integer", "minimum": 1},
                "the last n periods that have their data",
            ),
            _operator("not", {JSON_REF: "Condition"}, "the other values"),
            _operator("weights", _WEIGHTS, "a number per value; values not named weigh 0"),
        ],
    },
}
