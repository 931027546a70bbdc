"""Any database with an ADBC driver that the owner installs, such as Snowflake or Flight SQL."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from qserver.errors import ConfigError
from worker.sources.address import Address, resolved
from worker.sources.source import BY_QUERY, Column, Days, named, no_values_in_errors, type_name

_NAME = "The database"
_EXTRA = "Install it: pip install 'qserver[{extra}]'"


class AdbcQuery:
    """A table or query of an open connection, read in the driver's types.

    SQL differs between databases, so the owner's query is sent as it is written, and `table` as
    part of `SELECT * FROM table`.
    """

    def __init__(self, connection: Any, address: Address) -> None:
        self.file: Path | None = None
        self.advice = BY_QUERY
        asked = address.query.strip().rstrip(";") or f"SELECT * FROM {address.table}"  # noqa: S608
        self._cursor = connection.cursor()
        with no_values_in_errors(_NAME, words):
            self._cursor.execute(asked)
            self._reader = self._cursor.fetch_record_batch()
        self.columns = named([Column(f.name, type_name(f.type)) for f in self._reader.schema])

    def n_rows(self) -> int | None:
        """The driver's number of rows, if it states one."""
        found = int(self._cursor.rowcount)
        return found if found >= 0 else None

    def batches(self, names: Sequence[str], days: Days | None) -> Iterator[pa.RecordBatch]:
        """All rows of the one query; once."""
        del days
        yield from batches_of(self._reader, names)


def batches_of(reader: pa.RecordBatchReader, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The batches of a reader, of these columns alone; PrivateDataError if it breaks off."""
    while True:
        with no_values_in_errors(_NAME, words):
            batch = next(reader, None)
            if batch is None:
                return
            chosen = batch.select(list(names))
        yield chosen


@contextmanager
def open_adbc(address: Address) -> Iterator[AdbcQuery]:
    """An open connection of `adbc:DRIVER`, with the owner's options.

    Raises:
        ConfigError: the driver is not installed.
        PrivateDataError: the database cannot be reached, or does not take the query.
    """
    name = address.text.partition(":")[2].strip("/")
    options = dict(option.split("=", 1) for option in address.options)
    secret = {key: resolved(value, quoted=False) for key, value in options.items()}
    with connected(_driver(name), secret) as connection:
        yield AdbcQuery(connection, address)


@contextmanager
def connected(driver: str, options: Mapping[str, str]) -> Iterator[Any]:
    """A connection in a transaction of its own.

    Args:
        driver: the path of a driver's library, or a name that the driver manager knows.

    Raises:
        ConfigError: no ADBC is installed.
        PrivateDataError: the database cannot be reached.
    """
    dbapi = driver_module("adbc_driver_manager.dbapi", extra="adbc")
    with no_values_in_errors(_NAME, words):
        connection = dbapi.connect(driver=driver, db_kwargs=dict(options))
    try:
        yield connection
    finally:
        with no_values_in_errors(_NAME, words):
            connection.close()


def driver_module(name: str, *, extra: str) -> Any:
    """An installed module; ConfigError with how to install it."""
    try:
        return importlib.import_module(name)
    except ImportError:
        hint = _EXTRA.format(extra=extra)
        raise ConfigError("source", f"have {name} installed", hint=hint) from None


def _driver(name: str) -> str:
    """The library of a driver package, or the name itself for the manager's look-up."""
    module = f"adbc_driver_{name}"
    if not name.isidentifier():
        raise ConfigError("source", "be adbc:DRIVER, such as adbc:snowflake", name)
    if importlib.util.find_spec(module) is None:
        return name
    return str(importlib.import_module(module)._driver_path())


def words(error: Exception) -> str:
    """The database's code of a fault, without its message."""
    state = str(getattr(error, "sqlstate", None) or "")
    for start, text in _STATES.items():
        if state.startswith(start):
            return f"{text} (SQLSTATE {state})."
    if state:
        return f"broke the read off (SQLSTATE {state})."
    text = str(error)
    for part, told in _TEXTS.items():
        if part in text:
            return f"{told}."
    status = str(getattr(getattr(error, "status_code", None), "name", ""))
    if status in ("IO", "TIMEOUT"):
        return "cannot be reached."
    if isinstance(error, UnicodeDecodeError):
        return "holds bytes that are no UTF-8."
    return f"cannot be read to its end ({status or type(error).__name__})."


# Without a code: before the connection stands, and in the middle of a read.
_TEXTS = {
    "authentication failed": "refuses the user or the password",
    "no password": "refuses the user or the password",
    "out of range": "broke the read off: a number is too large for its type",
    "terminating connection": "ended the connection in the middle of the read",
    "closed the connection": "ended the connection in the middle of the read",
    "read-only transaction": "lets nothing be written: the query may only read",
    "[PGRES_FATAL_ERROR]": "broke the read off: the query cannot be computed for some row",
}
_STATES = {
    "08": "cannot be reached",
    "22003": "broke the read off: a number is too large for its type",
    "22021": "holds bytes that are no UTF-8",
    "22": "broke the read off: the query cannot be computed for some row",
    "28": "refuses the user or the password",
    "3D": "does not have this database",
    "42501": "lets this user not read the table or query",
    "42P01": "has no such table",
    "42703": "has no such column",
    "42": "does not take the query",
    "57": "ended the connection in the middle of the read",
}
