"""PostgreSQL, through its ADBC driver: one repeatable read, which sees one moment."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa

from worker.sources.adbc import batches_of, connected, driver_module, words
from worker.sources.address import Address, resolved
from worker.sources.source import (
    BY_QUERY,
    Column,
    Days,
    is_exact,
    named,
    no_values_in_errors,
    quoted,
    relation,
    select,
    type_name,
)

_NAME = "The database"
_SETTINGS = (
    # Others' writes are not seen meanwhile, and the owner's query cannot write.
    "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY",
    "SET LOCAL DateStyle = 'ISO'",
    "SET LOCAL TimeZone = 'UTC'",
)


class PostgresTable:
    """A table or query of an open transaction."""

    def __init__(self, connection: Any, address: Address) -> None:
        self.file: Path | None = None
        self.advice = BY_QUERY
        self._connection, self._relation = connection, relation(address)
        with no_values_in_errors(_NAME, words), connection.cursor() as cursor:
            for setting in _SETTINGS:
                cursor.execute(setting)
            cursor.execute(select(["*"], self._relation) + " LIMIT 0")
            fields = list(cursor.fetch_record_batch().schema)
        self._types = {field.name: field.type for field in fields}
        self.columns = named([_column(field) for field in fields])

    def n_rows(self) -> int | None:
        """The estimate of PostgreSQL's planner."""
        with no_values_in_errors(_NAME, words), self._connection.cursor() as cursor:
            # COPY takes no EXPLAIN, and the driver uses it for everything else.
            cursor.adbc_statement.set_options(**{"adbc.postgresql.use_copy": "false"})
            cursor.execute("EXPLAIN " + select(["1"], self._relation))
            first = str(cursor.fetchone()[0])
        return int(first.partition("rows=")[2].split()[0])

    def batches(self, names: Sequence[str], days: Days | None) -> Iterator[pa.RecordBatch]:
        """All rows of the wanted days."""
        condition = ""
        if days is not None:
            column = quoted(days.column)
            condition = f"{column} >= DATE '{days.first}' AND {column} < DATE '{days.stop}'"
        columns = [self._as_read(name) for name in names]
        with no_values_in_errors(_NAME, words), self._connection.cursor() as cursor:
            cursor.execute(select(columns, self._relation, condition))
            reader = cursor.fetch_record_batch()
            yield from batches_of(reader, names)

    def _as_read(self, name: str) -> str:
        """Simple types as they are, and others as text: Arrow has no infinite dates, for one."""
        if _is_simple(self._types[name]):
            return quoted(name)
        return f"CAST({quoted(name)} AS text) AS {quoted(name)}"


@contextmanager
def open_postgres(address: Address) -> Iterator[PostgresTable]:
    """An open transaction.

    Raises:
        ConfigError: the driver is not installed, or a secret is missing.
        PrivateDataError: the server cannot be reached, or has no such table.
    """
    module = driver_module("adbc_driver_postgresql", extra="postgresql")
    uri = resolved(address.text, quoted=True)
    if "connect_timeout" not in uri:
        uri += ("&" if urlsplit(uri).query else "?") + "connect_timeout=10"
    with connected(module._driver_path(), {"uri": uri}) as connection:
        yield PostgresTable(connection, address)


def _is_simple(kind: pa.DataType) -> bool:
    """Whether Arrow has the type; for exact numbers the driver gives texts, and says so."""
    types = pa.types
    checks = (types.is_boolean, types.is_integer, types.is_floating, types.is_string)
    return types.is_binary(kind) or is_exact(kind) or any(check(kind) for check in checks)


def _column(field: pa.Field) -> Column:
    is_date = pa.types.is_date(field.type) or pa.types.is_timestamp(field.type)
    return Column(field.name, type_name(field.type), is_date)
