"""What a statement gives: columns and rows, and what a client prints when it is done.

The table of a statement becomes rows of PostgreSQL here: which columns, in what order, how rounded.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from fractions import Fraction
from typing import Any

from qserver.postgres.session import Session
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
)
from qserver.query.sealed import first_and_last
from qserver.query.sql.functions.quantile import DAYS_SAID, is_day
from qserver.query.sql.functions.values import EPOCH
from qserver.query.sql.shaping.rounding import rounded, rounded_down, rounded_up
from qserver.query.sql.statement import GroupKind, Statement
from qserver.service.cache.statements import is_of_nobody
from qserver.service.cells.remarks import said_beside
from qserver.service.statement_answers import AnsweredCell, StatementAnswer
from qserver.text import ADDS_NOTHING, decimals_of


@dataclass(frozen=True)
class Asked:
    """What a statement is run with.

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
    """What a statement would do; making it spends nothing and changes nothing.

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
    """The columns of what gives no rows."""


def given(tag: str, columns: Sequence[Column], rows: Iterable[Sequence[Any]]) -> Plan:
    """The plan of a result that is there already."""
    found = tuple(columns)
    values = [*rows]

    def run(asked: Asked) -> Result:
        return Result(tag, found, encoded(found, values, asked))

    return Plan(lambda: found, run)


def encoded(columns: Sequence[Column], rows: Iterable[Sequence[Any]], asked: Asked) -> list[bytes]:
    """The rows as they are sent, in the formats that were asked for."""
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


def table(found: StatementAnswer, session: Session, asked: Asked) -> Result:
    """The rows of an answer, and what it cost."""
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
    return Result("SELECT", columns, encoded(columns, rows, asked), tuple(_notices(found)))


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


def _notices(found: StatementAnswer) -> Iterator[str]:
    """What people read beside a table: cost, how far it counts, what its groups and ends are."""
    left = f"{found.remaining_nano / 1e9:.4g} remain."
    if found.charged_nano:
        yield f"This cost {found.charged_nano / 1e9:.4g} epsilon; {left}"
    elif not is_of_nobody(found):
        yield f"This {ADDS_NOTHING}, but charged people who had lost less; {left}"
    if found.as_of:
        yield f"Counted up to {found.as_of}."
    yield from (one for one in found.asked.statement.remarks if one != DAYS_SAID)
    yield from said_beside(found)
    yield from _drowned(found)


def _drowned(found: StatementAnswer) -> Iterator[str]:
    """That a tool which draws numbers alone would draw noise."""
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
    """What the columns are about, in order."""
    n_groups, n_said = len(statement.groups), len(statement.places)
    is_short = n_said and not session.has_intervals
    for i in statement.order[:n_said] if is_short else statement.order:
        yield _Place(i if i < n_groups else i - n_groups, is_group=i < n_groups)


def _unlike(names: Sequence[str], taken: Sequence[str]) -> list[str]:
    """The names, each once: others are numbered."""
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
