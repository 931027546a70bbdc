"""The form in which tables and results pass between the two processes: lines of JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from fractions import Fraction
from typing import Any

from qserver.query.domain import decimal_text


@dataclass(frozen=True)
class Table:
    """A public table.

    Args:
        types: of the columns, as DuckDB calls them.
        rows: texts, whole numbers, booleans, None, Fractions with an end as decimals for DECIMAL,
            floats for DOUBLE, and dates.
    """

    name: str
    columns: tuple[str, ...]
    types: tuple[str, ...]
    rows: tuple[tuple[object, ...], ...]


# Per type how a value of JSON is read; others are as JSON has them.
_READ: dict[str, Callable[[Any], object]] = {
    "DECIMAL": Fraction,
    "DATE": date.fromisoformat,
    "TIMESTAMP": datetime.fromisoformat,
    "HUGEINT": int,
}


def request(sql: str, tables: Sequence[Table]) -> bytes:
    """The lines that ask for a statement's result."""
    lines = [json.dumps({"sql": sql, "n_tables": len(tables)}), *map(_line, tables)]
    return "".join(line + "\n" for line in lines).encode()


def _line(table: Table) -> str:
    """A table by its columns."""
    values = [list(column) for column in zip(*table.rows, strict=True)]
    values = values or [[] for _ in table.columns]
    parts = {
        "name": table.name,
        "columns": table.columns,
        "types": table.types,
        "values": values,
    }
    return json.dumps(parts, default=_written)


def _written(value: object) -> str:
    if isinstance(value, Fraction):
        return decimal_text(value)
    if isinstance(value, date):
        return value.isoformat()
    raise TypeError(f"no value of a table: {type(value).__name__}")


def rows_of(kinds: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[tuple[object, ...]]:
    """The rows of a reply, decimals as Fractions and days as dates."""
    read = [_READ.get(kind) for kind in kinds]
    if not any(read):
        return [tuple(row) for row in rows]
    return [
        tuple(
            value if of is None or value is None else of(value)
            for of, value in zip(read, row, strict=True)
        )
        for row in rows
    ]
