"""The kinds that a source's own types of columns suggest: from their names, never from values."""

from __future__ import annotations

import re
from typing import Literal

from worker.sources.source import Column

Suggested = Literal["labels", "boolean", "integer", "real", "date", "identifier", "nested", ""]
"""'' where neither type nor name says anything."""

_WHOLE = re.compile(
    r"u?(tiny|small|medium|big|huge)?int(eger)?(\d|\b)|(small|big)?serial", re.IGNORECASE
)
_REAL = re.compile(r"float|double|real|numeric|decimal|half|number", re.IGNORECASE)
_DATE = re.compile(r"date|timestamp", re.IGNORECASE)
_NESTED = re.compile(
    r".*\[\d*\]$|(large_|fixed_size_)?list|struct|map\b|array|union|json|xml", re.IGNORECASE
)
_BOOLEAN = re.compile(r"bool", re.IGNORECASE)
_WORDS: tuple[tuple[Suggested, frozenset[str]], ...] = (
    ("identifier", frozenset({"id", "ids", "pid", "uid", "uuid", "guid", "ssn", "email", "phone"})),
    ("date", frozenset({"date", "time", "timestamp", "datetime", "at", "birthday", "dob"})),
    ("boolean", frozenset({"is", "has"})),
    (
        "real",
        frozenset({"price", "amount", "rate", "income", "cost", "weight", "height", "ratio", "bmi"})
        | {"temperature", "latitude", "longitude", "percent", "pct", "length", "width", "depth"},
    ),
    (
        "integer",
        frozenset({"age", "count", "number", "num", "hours", "minutes", "days", "years", "year"})
        | {"quantity", "qty", "score", "rank", "size"},
    ),
)


def kind_of_type(column: Column) -> Suggested:
    """What the type of a column holds; '' for a column without a type, as those of CSV."""
    if _NESTED.match(column.type):
        return "nested"
    if column.type.lower() in ("uuid", "oid"):
        return "identifier"
    if column.is_date or _DATE.match(column.type):
        return "date"
    if _BOOLEAN.match(column.type):
        return "boolean"
    if _WHOLE.match(column.type):
        return "integer"
    if _REAL.match(column.type):
        return "real"
    return "labels" if column.type else ""


def kind_of_name(name: str) -> Suggested:
    """What the words in a column's name suggest, or ''."""
    spaced = re.sub(r"([a-z])([A-Z])", r"\1 \2", name).lower()
    words = set(re.split(r"[^a-z]+", spaced))
    return next((kind for kind, known in _WORDS if words & known), "")
