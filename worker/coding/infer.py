"""A domain from the private data themselves. This reveals data; see `attach --help`."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa

from qserver.errors import PrivateDataError
from qserver.query.domain import MAX_VALUES
from worker.coding.names import as_read, kind_read, name_sql
from worker.sources.address import Address
from worker.sources.opening import open_source
from worker.sources.source import check_columns, no_values_in_errors


def infer_domain_document(
    data: Path | Address, *, folder: Path, without: str = ""
) -> dict[str, object]:
    """A domain document from a source: every distinct value of every column becomes a label.

    Rare values become public with it.

    Args:
        folder: for copies of what lies elsewhere.
        without: a column to leave out, such as that of the person.

    Raises:
        PrivateDataError: it cannot be read, or a column has too many values for any attribute.
    """
    with open_source(Address.of(data), folder=folder) as source:
        names = [column.name for column in source.columns if column.name != without]
        check_columns(source, names)
        found: dict[str, set[str]] = {name: set() for name in names}
        with duckdb.connect(":memory:", config={"threads": 2}) as connection:
            for batch in source.batches(names, None):
                for name, column in zip(names, batch.columns, strict=True):
                    found[name].update(_values(connection, column))
                    if len(found[name]) > MAX_VALUES:
                        raise PrivateDataError(f"Column {name} has more than {MAX_VALUES:,} values")
    return {
        "attributes": [
            {"name": name, "kind": "labels", "labels": sorted(values) or ["none"]}
            for name, values in found.items()
        ]
    }


def _values(connection: duckdb.DuckDBPyConnection, column: pa.Array) -> list[str]:
    """The distinct texts of a column, as they are coded; empty ones are no label."""
    with no_values_in_errors("The source", lambda _: "holds bytes that are no UTF-8."):
        column.validate(full=True)
        connection.register("batch", pa.table([as_read(column)], names=["s"]))
        text = name_sql("s", kind_read(column.type))
        rows = connection.sql(f"SELECT DISTINCT {text} FROM batch WHERE {text} <> ''").fetchall()  # noqa: S608
    return [str(row[0]) for row in rows]
