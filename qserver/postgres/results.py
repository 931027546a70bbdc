"""The result of a statement: columns and rows, and the client's last line.

The table of a statement becomes rows of PostgreSQL here: which columns, in what order, how rounded.
COPY (SELECT ...) TO STDOUT has them as lines of text or CSV, or in PostgreSQL's binary form.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from fractions import Fraction
from typing import Any, Final

from qserver.postgres.session import Session
from qserver.postgres.wire.faults import NOT_SUPPORTED, READ_ONLY, SYNTAX, PostgresError
from qserver.postgres.wire.texts import Text
from qserver.postgres.wire.values import (
    BOOL,
    DATE,
    FLOAT8,
    INT8,
    TEXT,
    TIMESTAMP,
    Column,
    Literal,
    Type,
    encoder,
    formats_of,
    values_of,
)
from qserver.query.sealed_periods import first_and_last
from qserver.query.sql.functions.quantile import DAYS_SAID, is_day
from qserver.query.sql.functions.thresholds import EPOCH
from qserver.query.sql.shaping.rounding import rounded, rounded_down, rounded_up
from qserver.query.sql.statement import GroupKind, Statement
from qserver.query.sql.text import Piece
from qserver.service.cache.statements import is_of_nobody
from qserver.service.cells.remarks import said_beside
from qserver.service.statement_answers import AnsweredCell, StatementAnswer
from qserver.text import ADDS_NOTHING, at_delta, decimals_of


@dataclass(frozen=True)
class Asked:
    """The values and formats that a statement runs with.

    Args:
        literals: for its parameters.
        formats: of its columns, 0 for text and 1 for binary: each its own, one for all, or none.
    """

    literals: Sequence[Literal] = ()
    formats: Sequence[int] = ()


@dataclass(frozen=True)
class Copied:
    """How the rows of a result are copied out: in text or in binary, so many columns."""

    is_binary: bool
    n_columns: int


@dataclass(frozen=True)
class Result:
    """The result of a statement.

    Args:
        tag: what it did, such as `SET`; to `SELECT` and the like the number of rows is added.
        columns: None where it gives no rows.
        rows: as they are sent, each the bytes of its values.
        notices: lines for people beside it.
        warnings: the same, of what was not done.
        parameters: settings that changed, and of which clients are told.
        copied: how its rows are copied out; None where they are not.
    """

    tag: str
    columns: tuple[Column, ...] | None = None
    rows: Sequence[bytes] = ()
    notices: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    parameters: dict[str, str] = field(default_factory=dict)
    copied: Copied | None = None


@dataclass(frozen=True)
class Plan:
    """What a statement would do; planning spends and changes nothing.

    Args:
        columns: of its rows, by the text alone; None where it gives none.
        run: does it.
        survives: whether it runs in a transaction that failed, as ROLLBACK does.
        types: of its parameters, by where they stand.
    """

    columns: Callable[[], tuple[Column, ...] | None]
    run: Callable[[Asked], Result]
    survives: bool = False
    types: Callable[[], Sequence[Type]] = tuple


def nothing() -> None:
    """The columns of a statement without rows."""


def given(tag: str, columns: Sequence[Column], rows: Iterable[Sequence[Any]]) -> Plan:
    """The plan of a result at hand."""
    found = tuple(columns)
    values = [*rows]

    def run(asked: Asked) -> Result:
        return Result(tag, found, encoded(found, values, asked))

    return Plan(lambda: found, run)


def encoded(columns: Sequence[Column], rows: Iterable[Sequence[Any]], asked: Asked) -> list[bytes]:
    """The encoded rows, in the asked formats."""
    return [*map(encoder(columns, formats_of(asked.formats, len(columns))), rows)]


@dataclass(frozen=True)
class _Place:
    """A group, or a number with its interval, by its index; a rank is the last of the numbers."""

    index: int
    is_group: bool


def columns_of(statement: Statement, session: Session) -> tuple[Column, ...]:
    """The items of SELECT in their order: groups as texts, of each number n the columns n, n_low
    and n_high. Behind them what SELECT does not name, unless the session wants no intervals.
    """
    names = (*statement.columns, *(rank.name for rank in statement.ranks))
    numbers, days = _unlike(names, statement.groups), _days(statement)
    found = list[Column]()
    for place in _places(statement, session):
        if place.is_group:
            kind = _TYPES[statement.kinds[place.index]] if statement.kinds else TEXT
            found.append(Column(statement.groups[place.index], kind))
            continue
        ends = ("", "_low", "_high") if session.has_intervals else ("",)
        number = DATE if place.index in days else FLOAT8
        found += [Column(numbers[place.index] + end, number) for end in ends]
        if statement.clauses.consistent:
            found.append(Column(f"{numbers[place.index]}_consistent", FLOAT8))
    return tuple(found)


def table(
    found: StatementAnswer, session: Session, asked: Asked, delta: float | None = None
) -> Result:
    """The rows of an answer, and its cost; `delta`: at which that is epsilon."""
    statement = found.asked.statement
    places, days = list(_places(statement, session)), _days(statement)
    rows = [
        tuple(
            value
            for place in places
            for value in (
                (_group(row.group[place.index], statement, place.index),)
                if place.is_group
                else _as_days(cells[place.index], session)
                if place.index in days
                else _values(cells[place.index], statement, session)
            )
        )
        for row, cells in zip(statement.rows, found.cells, strict=True)
    ]
    columns = columns_of(statement, session)
    return Result("SELECT", columns, encoded(columns, rows, asked), tuple(_notices(found, delta)))


_TYPES: Mapping[GroupKind, Type] = {
    "text": TEXT, "whole": INT8, "number": FLOAT8, "truth": BOOL, "day": DATE, "time": TIMESTAMP
}  # fmt: skip


def _group(name: str | None, statement: Statement, i: int) -> Any:
    """A name of a group as a value of its type: of a period its first day, of a bin its first
    number; None for what has none, such as a label for all other values.
    """
    kind = statement.kinds[i] if statement.kinds else "text"
    if name is None or kind == "text":
        return name
    if kind == "truth":
        return name == "true"
    if kind in ("day", "time"):
        days = first_and_last(name[: len("0000-00-00")])
        if days is None or kind == "day":
            return days and days[0]
        return datetime(*days[0].timetuple()[:3])
    try:
        if kind == "whole":
            return int(name.partition("..")[0])
        return float(Fraction(re.split(r",|\.\.", name)[0].strip("[")))
    except ValueError:
        return None


def _notices(found: StatementAnswer, delta: float | None) -> Iterator[str]:
    """Notices beside a table: cost, how far it counts, remarks on groups and ends."""
    left = f"{found.remaining_nano / 1e9:.4g} remain."
    if found.charged_nano:
        yield f"This cost {found.charged_nano / 1e9:.4g} epsilon{at_delta(delta)}; {left}"
    elif not is_of_nobody(found):
        yield f"This {ADDS_NOTHING}, but charged people who had lost less; {left}"
    if found.as_of:
        yield f"Counted up to {found.as_of}."
    yield from (one for one in found.asked.statement.remarks if one != DAYS_SAID)
    yield from said_beside(found)
    yield from _drowned(found)


def _drowned(found: StatementAnswer) -> Iterator[str]:
    """A notice that a tool without intervals would draw noise."""
    values = [cell.value for cells in found.cells for cell in cells]
    n = sum(
        value.estimate is not None
        and None not in (ends := (value.interval.low, value.interval.high))
        and float(ends[1] or 0) - float(ends[0] or 0) > abs(value.estimate)
        for value in values
    )
    if n:
        yield f"{n:,} of {len(values):,} numbers are smaller than their intervals are long."


def _places(statement: Statement, session: Session) -> Iterator[_Place]:
    """The subjects of the columns, in order."""
    n_groups, n_said = len(statement.groups), len(statement.places)
    is_short = n_said and not session.has_intervals
    for i in statement.order[:n_said] if is_short else statement.order:
        yield _Place(i if i < n_groups else i - n_groups, is_group=i < n_groups)


def _unlike(names: Sequence[str], taken: Sequence[str]) -> list[str]:
    """The names, each once: repeated ones get numbers."""
    found = list[str]()
    for name in names:
        own, n = name, 1
        while own in found or own in taken:
            n += 1
            own = f"{name}_{n}"
        found.append(own)
    return found


def _days(statement: Statement) -> frozenset[int]:
    """The columns of numbers that are days."""
    return frozenset(k for row in statement.rows for k, one in enumerate(row.cells) if is_day(one))


def _as_days(cell: AnsweredCell, session: Session) -> tuple[date | None, ...]:
    """The day, and the ends of its interval."""
    ends = cell.value.interval
    numbers = (cell.value.estimate, ends.low, ends.high)
    days = tuple(None if n is None else EPOCH + timedelta(round(n)) for n in numbers)
    return days if session.has_intervals else days[:1]


def _values(cell: AnsweredCell, statement: Statement, session: Session) -> tuple[float | None, ...]:
    """The number, the ends of its interval, and its consistent value; an open end is infinite."""
    value, ends = cell.value.estimate, cell.value.interval
    low = -math.inf if ends.low is None else float(ends.low)
    high = math.inf if ends.high is None else float(ends.high)
    if session.rounds and value is not None and math.isfinite(high - low) and high > low:
        digits = decimals_of(high - low)
        value = rounded(value, digits)
        low, high = rounded_down(low, digits) or 0.0, rounded_up(high, digits) or 0.0
    number = None if value is None else float(value)
    found = (number, low, high) if session.has_intervals else (number,)
    return (*found, cell.consistent) if statement.clauses.consistent else found


_BEFORE: Final = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_AFTER: Final = b"\xff\xff"
_ESCAPED: Final = str.maketrans(
    {"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r", "\b": "\\b", "\f": "\\f", "\v": "\\v"}
)
_FORCED: Final = ["FORCE", "QUOTE"]
_FALSE: Final = ("FALSE", "OFF", "0")


@dataclass(frozen=True)
class _Form:
    """How rows are written.

    Args:
        quotes: columns whose values are always quoted; `*` for all.
    """

    kind: str
    header: bool
    delimiter: str
    null: str
    quote: str
    quotes: frozenset[str]


def copying(text: Text, plan_of: Callable[[Text], Plan]) -> Plan:
    """The plan of a COPY: the rows of its SELECT, copied out; PostgresError."""
    i = _to(text.pieces)
    inner = _inner(text, i)
    words = [piece for piece in text.pieces[i + 2 :] if piece.text not in ("(", ")", ",", "=")]
    form = _form(_joined(words))
    of = plan_of(inner)

    def run(asked: Asked) -> Result:
        is_binary = form.kind == "binary"
        found = of.run(Asked(asked.literals, (1,) if is_binary else ()))
        columns = found.columns or ()
        quotes = [bool(form.quotes & {c.name, "*"}) for c in columns]
        rows = [row if is_binary else _line(values_of(row), form, quotes) for row in found.rows]
        if is_binary:  # what is before the first row comes with it
            first, *others = (*rows, _AFTER)
            rows = [_BEFORE + first, *others]
        elif form.header:
            names = [c.name.encode() for c in columns]
            rows = [_line(names, form, [False] * len(names)), *rows]
        tag, copied = f"COPY {len(found.rows)}", Copied(is_binary, len(columns))
        return Result(tag, None, rows, found.notices, found.warnings, copied=copied)

    return Plan(nothing, run, types=of.types)


def _to(parts: Sequence[Piece]) -> int:
    """The place of `TO STDOUT`; PostgresError."""
    words, depth = [piece.upper for piece in parts], 0
    for i, word in enumerate(words):
        depth += {"(": 1, ")": -1}.get(word, 0)
        if depth == 0 and word == "FROM":
            raise PostgresError(
                READ_ONLY, "COPY FROM is not possible: nothing can be written here."
            )
        if depth == 0 and words[i : i + 2] == ["TO", "STDOUT"]:
            return i
    raise PostgresError(SYNTAX, "COPY writes TO STDOUT only.", hint="COPY (SELECT ...) TO STDOUT.")


def _inner(text: Text, to: int) -> Text:
    """The SELECT in parentheses, or of all columns of a table."""
    parts = text.pieces[1:to]
    if parts and parts[0].text == "(" and parts[-1].text == ")":
        return text.part(parts[0].stop, parts[-1].start)
    name = text.text[parts[0].start : parts[-1].stop] if parts else ""
    return Text(f"TABLE {name}", text.start)


def _joined(words: Sequence[Piece]) -> list[Piece]:
    """The words, `FORCE QUOTE` as the one that it is in parentheses."""
    joins = [i for i in range(1, len(words)) if [w.upper for w in words[i - 1 : i + 1]] == _FORCED]
    found = [replace(w, text="FORCE_QUOTE") if i in joins else w for i, w in enumerate(words)]
    return [word for i, word in enumerate(found) if i + 1 not in joins]


def _form(words: Sequence[Piece]) -> _Form:
    said, i, quotes = dict[str, str](), 0, frozenset[str]()
    known = {"FORCE_QUOTE", "FORMAT", "HEADER", "DELIMITER", "NULL", "QUOTE", "ENCODING", "ESCAPE"}
    while i < len(words):
        word, after = words[i].upper, words[i + 1] if i + 1 < len(words) else None
        if word == "FORCE_QUOTE":
            after_all = (k for k in range(i + 1, len(words)) if words[k].upper in known)
            stop = next(after_all, len(words))
            quotes, i = frozenset(piece.name for piece in words[i + 1 : stop]), stop - 1
        elif word in ("CSV", "BINARY", "TEXT"):
            said["FORMAT"] = word
        elif word in known and after is not None and after.upper not in known:
            said[word] = after.name
            i += 1
        elif word == "HEADER":
            said[word] = "TRUE"
        elif word not in ("WITH", "AS"):
            raise PostgresError(NOT_SUPPORTED, f"COPY has no option {words[i].text[:40]} here.")
        i += 1
    kind = said.get("FORMAT", "text").lower()
    if kind not in ("text", "csv", "binary"):
        raise PostgresError(NOT_SUPPORTED, "COPY writes text, csv or binary.")
    is_csv = kind == "csv"
    form = _Form(
        kind,
        said.get("HEADER", "FALSE").upper() not in _FALSE,
        said.get("DELIMITER", "," if is_csv else "\t"),
        said.get("NULL", "" if is_csv else "\\N"),
        said.get("QUOTE", '"'),
        quotes,
    )
    if quotes and not is_csv:
        raise PostgresError(NOT_SUPPORTED, "Only the format csv has FORCE_QUOTE.")
    if len(form.delimiter) != 1 or len(form.quote) != 1 or (form.header and kind == "binary"):
        raise PostgresError(
            SYNTAX, "COPY takes one character as delimiter and as quote; binary has no header."
        )
    return form


def _line(values: Sequence[bytes | None], form: _Form, quotes: Sequence[bool]) -> bytes:
    texts = [None if value is None else value.decode("utf-8", "replace") for value in values]
    if form.kind == "text":
        shown = (form.null if one is None else one.translate(_ESCAPED) for one in texts)
        return (form.delimiter.join(shown) + "\n").encode()
    cells = (_cell(one, form, is_quoted=by) for one, by in zip(texts, quotes, strict=True))
    return form.delimiter.join(cells).encode() + b"\n"


def _cell(text: str | None, form: _Form, *, is_quoted: bool) -> str:
    """A value as CSV, quoted where another value reads alike."""
    if text is None:
        return form.null
    special = (form.delimiter, form.quote, "\n", "\r")
    if not is_quoted and text != form.null and not any(sign in text for sign in special):
        return text
    return form.quote + text.replace(form.quote, form.quote * 2) + form.quote
