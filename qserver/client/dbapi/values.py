"""Values of PEP 249: types of columns, constructors, and what is put in place of a `?`.

A `?` in a quoted text, a quoted name or a comment stays as it is. A text is put in single quotes,
each quote in it doubled; the server knows no other escape. So a value is always one literal.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime, time
from decimal import Decimal
from numbers import Integral, Real
from typing import Any, Final

from qserver.client.dbapi.errors import NotSupportedError, ProgrammingError
from qserver.query.sql.plain import pieces
from qserver.query.sql.text import SqlText

STRING: Final = "string"
NUMBER: Final = "number"
# No column has one of these.
BINARY: Final = "binary"
DATETIME: Final = "datetime"
ROWID: Final = "rowid"

Date = date
Time = time
Timestamp = datetime
Binary = bytes


def DateFromTicks(ticks: float) -> date:  # noqa: N802 - PEP 249 names it so
    """The day of a Unix time, by the clock of this machine."""
    return date.fromtimestamp(ticks)


def TimeFromTicks(ticks: float) -> time:  # noqa: N802
    """The time of day of a Unix time, by the clock of this machine."""
    return datetime.fromtimestamp(ticks).time()


def TimestampFromTicks(ticks: float) -> datetime:  # noqa: N802
    """The day and time of a Unix time, by the clock of this machine."""
    return datetime.fromtimestamp(ticks)


def bound(text: str, values: Sequence[Any] | None) -> str:
    """The statement with a literal in place of each `?`; as it is where `values` is None.

    Raises:
        ProgrammingError: there are more values than places, or fewer.
        NotSupportedError: there is no literal of a value's type.
        SqlError: a quoted text or a comment does not end.
    """
    if values is None:
        return text
    if isinstance(values, str | bytes) or not isinstance(values, Sequence):
        raise ProgrammingError("`parameters` must be a sequence, with a value for each `?`.")
    places = [piece.start for piece in pieces(SqlText(text)) if piece.text == "?"]
    if len(places) != len(values):
        raise ProgrammingError(
            f"The statement has {len(places)} `?`, but there are {len(values)} values."
        )
    found, last = "", 0
    for place, value in zip(places, values, strict=True):
        # Blanks around it, so that it joins no word and no sign: `x -?` with -1 is no comment.
        found += f"{text[last:place]} {literal(value)} "
        last = place + 1
    return found + text[last:]


def literal(value: Any) -> str:
    """A value as SQL has it; raises NotSupportedError, or ProgrammingError for NaN."""
    if value is None:
        return "NULL"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, bool) or type(value).__name__ in ("bool", "bool_"):  # numpy's, too
        return "TRUE" if value else "FALSE"
    if isinstance(value, Integral):
        return str(int(value))
    if isinstance(value, Decimal | Real):
        return _number(value)
    if isinstance(value, datetime) and value == datetime.combine(value, time.min):
        value = value.date()
    if isinstance(value, date) and not isinstance(value, datetime):
        return f"'{value.isoformat()}'"
    raise NotSupportedError(
        f"A value must be a text, a number, a boolean, a day or None, not {type(value).__name__}."
    )


def _number(value: Decimal | Real) -> str:
    number = value if isinstance(value, Decimal) else Decimal(repr(float(value)))
    if not number.is_finite():
        raise ProgrammingError("A number must be finite.")
    return f"{number:f}"
