"""SQLite files, through Python's own library, in one read transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa

from qserver.errors import PrivateDataError
from worker.constants import WORKER
from worker.sources.address import Address
from worker.sources.source import (
    BY_QUERY,
    Column,
    Days,
    named,
    no_values_in_errors,
    one_statement,
    quoted,
    relation,
    select,
)

_NAME = "The SQLite file"
_ABOUT_SQL = ("no such table", "no such column", "near ", "incomplete input", "no such function")


class SqliteTable:
    """A table or query of an open file."""

    def __init__(self, connection: sqlite3.Connection, address: Address) -> None:
        self.file: Path | None = None
        self.advice = BY_QUERY
        self._connection, self._address = connection, address
        self._relation = relation(address)
        asked = f"SELECT * FROM {self._relation}"  # noqa: S608
        if address.query:
            asked = one_statement(address.query)
        with no_values_in_errors(_NAME, _words), closing(connection.cursor()) as cursor:
            cursor.execute(asked)
            names = [str(column[0]) for column in cursor.description or ()]
        self.columns = named([Column(name) for name in names])

    def n_rows(self) -> int | None:
        """The count of a table; None for a query, which would have to run."""
        if self._address.query:
            return None
        with no_values_in_errors(_NAME, _words):
            sql = select(["count(*)"], self._relation)
            return int(self._connection.execute(sql).fetchone()[0])

    def batches(self, names: Sequence[str], days: Days | None) -> Iterator[pa.RecordBatch]:
        """All rows. SQLite has no type of dates, so none are left unread."""
        del days
        cursor = self._connection.cursor()
        with closing(cursor):
            with no_values_in_errors(_NAME, _words):
                cursor.execute(select([quoted(name) for name in names], self._relation))
            while True:
                with no_values_in_errors(_NAME, _words):
                    rows = cursor.fetchmany(WORKER.batch_rows_of_python)
                    if not rows:
                        return
                    columns = [_array(column) for column in zip(*rows, strict=True)]
                yield pa.RecordBatch.from_arrays(columns, names=list(names))


@contextmanager
def open_sqlite(address: Address) -> Iterator[SqliteTable]:
    """A file opened for reading.

    Raises:
        PrivateDataError: it is not there, is no SQLite file, or has no such table.
    """
    path = address.path
    if not path.is_file():
        raise PrivateDataError(f"{path} is not a file.")
    with no_values_in_errors(_NAME, _words):
        name = f"file:{quote(str(path.resolve()))}?mode=ro"
        connection = sqlite3.connect(name, uri=True, isolation_level=None)
    with closing(connection):
        with no_values_in_errors(_NAME, _words):
            # One transaction: others' writes are not seen meanwhile.
            connection.execute("BEGIN")
        yield SqliteTable(connection, address)


def _array(values: Sequence[Any]) -> pa.Array:
    """Values of any types, as SQLite has them; texts where there are several types."""
    kinds = {type(value) for value in values} - {type(None)}
    if kinds <= {str}:
        return pa.array(values, pa.string())
    if kinds <= {int}:
        return pa.array(values, pa.int64())
    if kinds <= {float}:
        return pa.array(values, pa.float64())
    return pa.array([None if v is None else _text(v) for v in values], pa.string())


def _text(value: object) -> str:
    """A value of any type; a whole number has one text, whatever stands beside it."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return value.decode("utf-8") if isinstance(value, bytes) else str(value)


def _words(error: Exception) -> str:
    text = str(error)
    if isinstance(error, UnicodeDecodeError) or text.startswith("Could not decode"):
        return "holds bytes that are no UTF-8."
    if isinstance(error, sqlite3.Error) and text.startswith(_ABOUT_SQL):
        return f"does not take the table or query: {text}."
    if isinstance(error, sqlite3.Error):
        code = getattr(error, "sqlite_errorname", "")
        return f"cannot be read to its end ({code or type(error).__name__})."
    return f"cannot be read ({type(error).__name__})."
