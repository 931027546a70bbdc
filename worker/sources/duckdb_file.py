"""DuckDB files, in one read transaction: simple types as they are, and all others as text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import duckdb
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

_NAME = "The DuckDB file"
_DATES = ("DATE", "TIMESTAMP")
_SIMPLE = re.compile(r"U?(TINY|SMALL|BIG)?INT(EGER)?|FLOAT|DOUBLE|DECIMAL\(.*\)|BOOLEAN|BLOB")


class DuckdbTable:
    """A table or query of an open file."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, address: Address) -> None:
        self.file: Path | None = None
        self.advice = BY_QUERY
        self._connection, self._address = connection, address
        self._relation = relation(address)
        asked = one_statement(address.query) if address.query else f"FROM {self._relation}"
        with no_values_in_errors(_NAME, _words_of_sql):
            found = connection.execute(f"DESCRIBE {asked}").fetchall()
        self.columns = named(
            [Column(str(r[0]), str(r[1]), str(r[1]).startswith(_DATES)) for r in found]
        )
        self._is_simple = {c.name: bool(_SIMPLE.fullmatch(c.type)) for c in self.columns}

    def n_rows(self) -> int | None:
        """The count of a table; None for a query, which would have to run."""
        if self._address.query:
            return None
        with no_values_in_errors(_NAME, _words):
            found = self._connection.sql(select(["count(*)"], self._relation)).fetchall()
        return int(found[0][0])

    def batches(self, names: Sequence[str], days: Days | None) -> Iterator[pa.RecordBatch]:
        """All rows of the wanted days."""
        columns = [self._as_read(name) for name in names]
        condition = ""
        if days is not None:
            column = quoted(days.column)
            condition = f"{column} >= DATE '{days.first}' AND {column} < DATE '{days.stop}'"
        with no_values_in_errors(_NAME, _words):
            sql = select(columns, self._relation, condition)
            reader = self._connection.sql(sql).to_arrow_reader(WORKER.batch_records)
        while True:
            with no_values_in_errors(_NAME, _words):
                batch = next(reader, None)
            if batch is None:
                return
            yield batch

    def _as_read(self, name: str) -> str:
        if self._is_simple[name]:
            return quoted(name)
        return f"CAST({quoted(name)} AS VARCHAR) AS {quoted(name)}"


@contextmanager
def open_duckdb(address: Address) -> Iterator[DuckdbTable]:
    """A file opened for reading; nothing is loaded or fetched for it.

    Raises:
        PrivateDataError: it is not there, another program writes to it, or has no such table.
    """
    path = address.path
    if not path.is_file():
        raise PrivateDataError(f"{path} is not a file.")
    with no_values_in_errors(_NAME, _words):
        connection = duckdb.connect(
            # A whole path: of a relative one DuckDB takes a beginning such as `md:` for its own.
            str(path.absolute()),
            read_only=True,
            config={"threads": 2, "autoinstall_known_extensions": "false", "TimeZone": "UTC"},
        )
    with connection:
        connection.execute(f"SET memory_limit = '{WORKER.duckdb_megabytes}MB'")
        connection.execute("BEGIN")
        yield DuckdbTable(connection, address)


def _words_of_sql(error: Exception) -> str:
    """DuckDB's first line, which before any row is about the SQL alone."""
    if isinstance(error, duckdb.ParserException | duckdb.BinderException | duckdb.CatalogException):
        return f"does not take the table or query: {str(error).splitlines()[0]}"
    return _words(error)


def _words(error: Exception) -> str:
    if isinstance(error, duckdb.IOException):
        return "cannot be opened or read: another program writes to it, or it is no DuckDB file."
    return f"cannot be read to its end ({type(error).__name__})."
