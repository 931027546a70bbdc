"""`domain check`: every fault of a domain file, also against the columns of a source.

Columns are compared by name and type alone; no record is read.

What a source shows of its columns: kinds by their own types, and cells for the owner's eyes.

Kinds come from names, never from values. What cells hold is part of a draft only where asked for.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date
from difflib import get_close_matches
from pathlib import Path
from typing import Literal

import duckdb
import pyarrow as pa

from qserver.query.domain import Attribute
from qserver.query.domain_loading import Checked, Fault, check_file
from worker.coding.names import as_read, kind_read, name_sql, number_names, whole_name
from worker.sources.address import Address
from worker.sources.kinds import open_source
from worker.sources.source import Column, Source, listed, no_values_in_errors

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
    """The kind of a column's type; '' for a column without a type, as in CSV."""
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


MOST_VALUES = 40
_BOOLEANS = frozenset({"true", "false", "t", "f", "yes", "no", "y", "n"})
MARKERS = ("NA", "N/A", "n/a", "NaN", "nan", "NULL", "null", "None", "none", "?", "-", ".")
"""Texts that many programs write for a missing value."""
_NUMBER, _DAY = "TRY_CAST(v AS DOUBLE)", "TRY_CAST(substr(v, 1, 10) AS DATE)"
_KNOWN = ", ".join(f"'{marker}'" for marker in MARKERS)
_SQL = f"""
WITH all_cells AS (SELECT {{text}} AS v FROM batch WHERE {{text}} <> ''),
cells AS (SELECT v FROM all_cells WHERE v NOT IN ({_KNOWN})),
few AS (SELECT DISTINCT v FROM cells LIMIT {MOST_VALUES + 1})
SELECT (SELECT list(v) FROM few), min({_NUMBER}), max({_NUMBER}), min({_DAY}), max({_DAY}),
  bool_and({_NUMBER} IS NOT NULL), bool_and(regexp_full_match(v, '[+-]?[0-9]+')),
  bool_and({_DAY} IS NOT NULL),
  (SELECT list(DISTINCT v) FROM all_cells WHERE v IN ({_KNOWN}))
FROM cells
"""  # noqa: S608 - constants alone


@dataclass
class Seen:
    """The findings on a column; private.

    Args:
        texts: its values, at most one more than a draft shows.
        low, high: the least and greatest number.
        first, last: the first and last day.
        numbers, whole, days: whether every cell is one, but for `markers`.
        markers: texts that usually stand for a missing value.
    """

    texts: set[str] = field(default_factory=set)
    low: float | None = None
    high: float | None = None
    first: date | None = None
    last: date | None = None
    numbers: bool = True
    whole: bool = True
    days: bool = True
    markers: set[str] = field(default_factory=set)

    @property
    def kind(self) -> Suggested:
        """The kind of all cells."""
        if not self.texts:
            return ""
        if {text.lower() for text in self.texts} <= _BOOLEANS:
            return "boolean"
        if self.whole:
            return "integer"
        if self.numbers:
            return "real"
        return "date" if self.days else "labels"

    @property
    def has_few(self) -> bool:
        """Whether `texts` are all of its values."""
        return len(self.texts) <= MOST_VALUES


def seen_in(source: Source, names: Sequence[str]) -> dict[str, Seen]:
    """The findings on the columns of a source, by a full read.

    Raises:
        PrivateDataError: the read fails; no value is in the message.
    """
    found = {name: Seen() for name in names}
    with duckdb.connect(":memory:", config={"threads": 2}) as connection:
        for batch in source.batches(names, None):
            for name, column in zip(names, batch.columns, strict=True):
                _look(connection, column, found[name])
    return found


def _look(connection: duckdb.DuckDBPyConnection, column: pa.Array, seen: Seen) -> None:
    with no_values_in_errors("The source", lambda _: "holds bytes that are no UTF-8."):
        column.validate(full=True)
        connection.register("batch", pa.table([as_read(column)], names=["s"]))
        text = name_sql("s", kind_read(column.type))
        rows = connection.execute(_SQL.format(text=text)).fetchall()
    row = rows[0]
    seen.markers.update(row[8] or ())
    if row[0] is None:
        return
    if seen.has_few:
        seen.texts.update(row[0])
    lows = [x for x in (seen.low, row[1]) if x is not None]
    highs = [x for x in (seen.high, row[2]) if x is not None]
    seen.low, seen.high = min(lows, default=None), max(highs, default=None)
    firsts = [x for x in (seen.first, row[3]) if x is not None]
    lasts = [x for x in (seen.last, row[4]) if x is not None]
    seen.first, seen.last = min(firsts, default=None), max(lasts, default=None)
    seen.numbers &= bool(row[5])
    seen.whole &= bool(row[6])
    seen.days &= bool(row[7])


_HOLDS = {"date": "dates", "boolean": "booleans", "integer": "whole numbers", "real": "numbers"}


@dataclass(frozen=True)
class Report:
    """The findings of a check.

    Args:
        checked: the file.
        faults: all of them, in the order of the file.
        notes: what is right, and may be unwanted.
        n_columns: how many columns were compared; None for none.
    """

    checked: Checked
    faults: tuple[Fault, ...]
    notes: tuple[str, ...] = ()
    n_columns: int | None = None


def check(path: Path, address: Address | None, *, folder: Path) -> Report:
    """Check a domain file and, if a source is named, its columns.

    Columns are compared once the file itself is right.

    Raises:
        DomainError: the file cannot be read.
        PrivateDataError: the source cannot be read.
    """
    checked = check_file(path)
    if address is None or checked.domain is None:
        return Report(checked, checked.faults)
    with open_source(address, folder=folder) as source:
        columns, advice = source.columns, source.advice
    found = {column.name: column for column in columns}
    faults, notes = list[Fault](), list[str]()
    for i, attribute in enumerate(checked.domain.attributes):
        place = f"attributes[{i}]"
        column = found.get(attribute.source)
        if column is None:
            key = "column" if attribute.column else "name"
            faults.append(checked.fault(f"{place}.{key}", _lacking(attribute, list(found))))
        elif column.is_twice:
            faults.append(checked.fault(place, _twice(attribute, advice)))
        elif text := _misfit(attribute, column):
            faults.append(checked.fault(f"{place}.kind", text))
        else:
            notes += _notes(attribute, column)
    named = {attribute.source for attribute in checked.domain.attributes}
    if unread := [column.name for column in columns if column.name not in named]:
        notes.append(f"not read: {listed(unread)}")
    return Report(checked, tuple(faults), tuple(notes), len(columns))


def _lacking(attribute: Attribute, names: Sequence[str]) -> str:
    by_fold = {name.lower(): name for name in names}
    close = get_close_matches(attribute.source.lower(), by_fold, n=1, cutoff=0.6)
    nearest = f"Did you mean {_quoted(by_fold[close[0]])}? " if close else ""
    mend = "" if attribute.column else "Say `column`, if it is called otherwise. "
    return (
        f"`{attribute.name}` must have a column {_quoted(attribute.source)} in the source. "
        f"{nearest}{mend}Columns: {listed(names)}."
    )


def _twice(attribute: Attribute, advice: str) -> str:
    return (
        f"`{attribute.name}` must have one column {_quoted(attribute.source)} in the source, got "
        f"more than one. {advice}"
    )


def _misfit(attribute: Attribute, column: Column) -> str:
    """The reason that no value of a column can be one of the attribute; '' if some can."""
    holds = kind_of_type(column)
    name = f"`{attribute.name}` is of kind `{attribute.kind}`, and its column holds"
    if attribute.is_numeric and holds in ("date", "boolean"):
        return f"{name} {_HOLDS[holds]} ({column.type}). Nearest: {_nearest(holds)}."
    if attribute.periods is not None and holds in ("boolean", "integer", "real"):
        return f"{name} {_HOLDS[holds]} ({column.type}). Nearest: {_nearest(holds)}."
    if attribute.kind == "labels" and holds in ("boolean", "integer"):
        texts = attribute.codes or attribute.labels
        if not any(_is_of(text, holds) for text in texts):
            given = "[false, true]" if holds == "boolean" else "[1, 2, ...]"
            return (
                f"`{attribute.name}` has labels that are no {_HOLDS[holds]}, as its column holds "
                f"({column.type}). Say what it holds for each label: codes = {given}."
            )
    if attribute.kind == "labels" and holds in ("integer", "real"):
        known = Counter(n for t in attribute.codes or attribute.labels for n in {*number_names(t)})
        if one := next((name for name, n in known.items() if n > 1), None):
            return (
                f"`{attribute.name}` has two labels that are the number {one}, and its column "
                f"holds {_HOLDS[holds]} ({column.type}). Keep one of them."
            )
    return ""


def _is_of(text: str, holds: str) -> bool:
    if holds == "boolean":
        return text in ("true", "false")
    return whole_name(text).lstrip("-").isdigit()


def _nearest(holds: str) -> str:
    return {
        "date": 'kind = "date" with `every`, `first` and `count`',
        "boolean": "labels = [false, true]",
    }.get(holds, f'kind = "{holds}" with `range` or `edges`')


def _notes(attribute: Attribute, column: Column) -> Iterator[str]:
    if kind_of_type(column) == "nested":
        yield f"{attribute.name}: its column holds no single values ({column.type}): most are lost"
    if attribute.is_numeric and kind_of_type(column) == "labels":
        yield (
            f"{attribute.name}: its column holds text ({column.type}); what is no number counts as "
            "missing"
        )


def _quoted(text: str) -> str:
    return f"'{text[:80]}'"
