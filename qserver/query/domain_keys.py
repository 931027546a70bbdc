"""Every key of a domain file: the one list behind the parser, the schema and the reference page.

It also makes the JSON Schema of domain files, for editors and generators.

The schema accepts whatever the parser accepts. Only the parser checks several entries together,
such as repeated labels, edges that do not increase, or a width that does not divide.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from qserver.query.calendar import UNITS
from qserver.query.domain import (
    MAX_ATTRIBUTES,
    MAX_COLUMN,
    MAX_DESCRIPTION,
    MAX_LICENCE,
    MAX_VALUES,
)
from qserver.query.labels import MAX_LEVELS

Kind = Literal["labels", "integer", "real", "date", "period"]
ALL: tuple[Kind, ...] = ("labels", "integer", "real", "date", "period")
_NUMBERS: tuple[Kind, ...] = ("integer", "real")
_TIMES: tuple[Kind, ...] = ("date", "period")


@dataclass(frozen=True)
class Key:
    """A key of an attribute.

    Args:
        name: as written.
        of: the kinds of attribute that may have it.
        value: its values, in words.
        default: in words.
        meaning: in one or two sentences.
        example: a line of TOML.
    """

    name: str
    of: tuple[Kind, ...]
    value: str
    default: str
    meaning: str
    example: str


KEYS: tuple[Key, ...] = (
    Key(
        "name",
        ALL,
        "1 to 64 letters, digits, `_`, `-` or `.`, no digit first",
        "none: it must be given",
        "What questions call the attribute. No two attributes or levels share a name.",
        'name = "blood_pressure"',
    ),
    Key(
        "description",
        ALL,
        f"a text on one line, of at most {MAX_DESCRIPTION:,} characters",
        "nothing",
        "What the attribute is, for whoever asks. It stands beside the name in the web pages, and "
        "changes no question.",
        'description = "Years of age at the first visit"',
    ),
    Key(
        "column",
        ALL,
        "any text",
        "the `name`",
        "The column that it is read from, where that is called otherwise. Two attributes may read "
        "the same column.",
        'column = "Blood pressure (mmHg) / 2nd visit"',
    ),
    Key(
        "kind",
        ALL,
        "`labels`, `integer`, `real`, `date` (or `timestamp`, the same) or `period`",
        "`labels` where `labels` is given; else it must be given",
        "What the values are: texts without an order, bins of whole numbers, bins of numbers, bins "
        "of the calendar, or periods by which data arrive.",
        'kind = "integer"',
    ),
    Key(
        "labels",
        ("labels", "period"),
        "a list of distinct texts, whole numbers or booleans",
        "none: kind `labels` needs it",
        "The values. A number or boolean is a label and its own code. For kind `period` they are "
        "texts in the order of time, in place of `every`, `first` and `count`.",
        'labels = ["never", "former", "current"]',
    ),
    Key(
        "codes",
        ("labels",),
        "a list of distinct texts, whole numbers or booleans, as long as `labels`",
        "the column holds the labels",
        "What the column holds for each label. `3` also stands for `3.0`, and `true` for `t`, "
        "`yes`, `y` and `1` in any capitals.",
        "codes = [0, 1, 2]",
    ),
    Key(
        "levels",
        ("labels",),
        "per level, an object of groups, each with a list of labels",
        "none",
        "Larger groups of the labels. Each label is in one group of each level. Questions use the "
        "name of a level like that of an attribute.",
        'levels = {region = {North = ["York"], South = ["Kent", "Essex"]}}',
    ),
    Key(
        "edges",
        _NUMBERS,
        "a list of two or more increasing numbers",
        "none: `edges` or `range` must be given",
        "k + 1 edges make k bins; a bin holds its lower edge and not its upper one.",
        "edges = [0, 18, 65, 120]",
    ),
    Key(
        "range",
        _NUMBERS,
        "a list of two numbers, [low, high]",
        "none: `edges` or `range` must be given",
        "Bins of equal width from low to high. High belongs to the last bin of whole numbers, and "
        "not to that of real ones.",
        "range = [0, 119]",
    ),
    Key(
        "width",
        _NUMBERS,
        "a number > 0 that divides the range into whole bins",
        "1",
        "The width of the bins that `range` makes. Only whole bins can be asked for.",
        "width = 10",
    ),
    Key(
        "every",
        _TIMES,
        "`day`, `week`, `month`, `quarter` or `year`",
        "none: kind `date` needs it, and `period` unless it has `labels`",
        "How long a bin or period is. Weeks begin on Monday (ISO 8601).",
        'every = "month"',
    ),
    Key(
        "first",
        _TIMES,
        "a text such as `2024-03-01`, `2024-W10`, `2024-03`, `2024-Q1` or `2024`",
        "none: it comes with `every`",
        "The first bin or period. TOML may have a date or a year without quotes.",
        'first = "2015-01"',
    ),
    Key(
        "count",
        _TIMES,
        "a whole number of 1 or more",
        "none: it comes with `every`",
        "How many bins or periods follow each other from `first` on.",
        "count = 180",
    ),
    Key(
        "outside",
        ALL,
        "`drop`, `other`, or `clamp` (numbers and dates)",
        "`drop`",
        "What happens to a record whose value is none of these: it is left out, counted under one "
        "more value, or put into the nearest bin. Only `drop` for kind `period`.",
        'outside = "other"',
    ),
    Key(
        "missing",
        ALL,
        "`drop` or `other`",
        "`drop`; `other` where `outside` is `other`",
        "The same for empty cells, for `missing_markers`, and for a text where a number belongs. "
        "Only `drop` for kind `period`. With `other`, SQL calls that value NULL.",
        'missing = "other"',
    ),
    Key(
        "missing_markers",
        ALL,
        "a list of texts",
        "empty cells alone",
        "Further texts that stand for a missing value.",
        'missing_markers = ["?", "NA"]',
    ),
    Key(
        "trim",
        ALL,
        "`true` or `false`",
        "blanks alone",
        "What cells lose at their ends before they are compared: all white space, such as tabs and "
        "fixed blanks, or nothing.",
        "trim = true",
    ),
    Key(
        "fold",
        ("labels",),
        "`true` or `false`",
        "`false`",
        "Whether capitals make no difference: `yes` is also `YES`.",
        "fold = true",
    ),
    Key(
        "decimal",
        _NUMBERS,
        "`.` or `,`",
        "`.`",
        "The sign before the fraction in a column of texts. With `,` a text that has a `.` is no "
        "number.",
        'decimal = ","',
    ),
    Key(
        "other",
        ALL,
        "a text; for numbers and dates one that begins like neither",
        "`other`",
        "The name of the one more value of `outside` and `missing`.",
        'other = "unknown"',
    ),
)

NAMES = tuple(key.name for key in KEYS)


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
    "description": {"type": "string", "maxLength": MAX_DESCRIPTION},
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
    """The rules for attributes of one kind."""
    names = ["date", "timestamp"] if kind == "date" else [kind]
    is_it: dict[str, Any] = {"required": ["kind"], "properties": {"kind": {"enum": names}}}
    if kind == "labels":
        is_it = {"anyOf": [is_it, {"not": {"required": ["kind"]}}]}
    absent = {name: False for name in NAMES if not _may_have(kind, name)}
    return {"if": is_it, "then": {**_NEEDS[kind], "properties": {**absent, **_RULES[kind]}}}


def _may_have(kind: Kind, name: str) -> bool:
    return any(key.name == name and kind in key.of for key in KEYS)
