"""The types of columns and the constructors that PEP 249 asks for."""

from __future__ import annotations

from datetime import date, datetime, time
from typing import Final

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
