"""A driver for Python's database interface (DB-API 2.0, PEP 249) over the client.

`connection` has what opens one; nothing is spent unless it was opened so. Its cursors ask and
fetch, with values in place of `?`.
"""

from __future__ import annotations

from typing import Final

from qserver.client.dbapi.connection import (
    BINARY,
    DATETIME,
    NUMBER,
    ROWID,
    STRING,
    Binary,
    Connection,
    Cursor,
    Date,
    DateFromTicks,
    Time,
    TimeFromTicks,
    Timestamp,
    TimestampFromTicks,
    connect,
)
from qserver.client.dbapi.errors import (
    DatabaseError,
    DataError,
    Error,
    IntegrityError,
    InterfaceError,
    InternalError,
    NotSupportedError,
    OperationalError,
    PriceError,
    ProgrammingError,
    Warning,  # noqa: A004 - PEP 249 names it so
)

apilevel: Final = "2.0"
threadsafety: Final = 2
paramstyle: Final = "qmark"

__all__ = [
    "BINARY",
    "DATETIME",
    "NUMBER",
    "ROWID",
    "STRING",
    "Binary",
    "Connection",
    "Cursor",
    "DataError",
    "DatabaseError",
    "Date",
    "DateFromTicks",
    "Error",
    "IntegrityError",
    "InterfaceError",
    "InternalError",
    "NotSupportedError",
    "OperationalError",
    "PriceError",
    "ProgrammingError",
    "Time",
    "TimeFromTicks",
    "Timestamp",
    "TimestampFromTicks",
    "Warning",
    "apilevel",
    "connect",
    "paramstyle",
    "threadsafety",
]
