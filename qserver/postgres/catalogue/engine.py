"""Runs queries of the catalogue on tables in memory, which hold public names alone."""

from __future__ import annotations

import re
import sqlite3
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlglot import ParseError, TokenError, UnsupportedError, exp

from qserver.postgres.catalogue.contents import (
    CATALOGUE,
    COLUMN_TYPES,
    EMPTY,
    INFORMATION,
    TEXTS,
    Columns,
    Names,
    Row,
    affinity,
    catalogue_rows,
    information_rows,
)
from qserver.postgres.catalogue.functions import FUNCTION_TYPES, register
from qserver.postgres.catalogue.rewriting import cast_name, output_names, parsed, rewritten
from qserver.postgres.results import Result
from qserver.postgres.session import Session
from qserver.postgres.wire.faults import (
    NO_TABLE,
    NOT_SUPPORTED,
    SYNTAX,
    TOO_LARGE,
    TOO_LATE,
    PostgresError,
)
from qserver.postgres.wire.values import (
    BOOL,
    CHAR,
    FLOAT4,
    FLOAT8,
    INT2,
    INT4,
    INT8,
    NAME,
    OID,
    TEXT,
    VARCHAR,
    Column,
    Type,
)
from qserver.text import meant

_CASTS: Final[Mapping[str, Type]] = {
    "BOOLEAN": BOOL,
    "CHAR": CHAR,
    "DOUBLE PRECISION": FLOAT8,
    "REAL": FLOAT8,
    "INT": INT4,
    "INTEGER": INT4,
    "BIGINT": INT8,
    "SMALLINT": INT2,
    "NAME": NAME,
    "NUMERIC": FLOAT8,
    "DECIMAL": FLOAT8,
    "OID": OID,
    "VARCHAR": VARCHAR,
    "TEXT[]": TEXTS,
}
_TRUTHS: Final = (
    exp.Predicate,
    exp.Connector,
    exp.Not,
    exp.Exists,
    exp.Boolean,
    exp.Operator,
    exp.RegexpLike,
    exp.RegexpILike,
)
_WHOLE: Final = (INT2, INT4, INT8, OID)


def types_of(query: exp.Expr) -> dict[str, Type]:
    """The types of names that a query itself gives: its aliases, from within outward."""
    found = dict(COLUMN_TYPES)
    for select in reversed(list(query.find_all(exp.Select))):
        for item in select.expressions:
            if isinstance(item, exp.Alias):
                found[item.alias] = type_of(item.this, found)
    return found


def type_of(node: exp.Expr, names: Mapping[str, Type]) -> Type:
    """The type of an expression; TEXT where nothing tells."""
    if isinstance(node, exp.Alias | exp.Paren | exp.Collate | exp.Max | exp.Min):
        return type_of(node.this, names)
    if isinstance(node, exp.Column):
        return names.get(node.name) or names.get(node.name.lower()) or TEXT
    if isinstance(node, exp.Cast):
        kind = cast_name(node)
        return TEXT if kind.startswith("REG") else _CASTS.get(kind.partition("(")[0], TEXT)
    if isinstance(node, _TRUTHS):
        return BOOL
    if isinstance(node, exp.Literal):
        return TEXT if node.is_string else _number(node.name)
    return _of_parts(node, names)


def _number(text: str) -> Type:
    if not text.isdecimal():
        return FLOAT8
    return INT4 if int(text) < 1 << 31 else INT8


def _of_parts(node: exp.Expr, names: Mapping[str, Type]) -> Type:
    if isinstance(node, exp.Dot):
        return type_of(node.expression, names)
    if isinstance(node, exp.Case):
        values = [branch.args["true"] for branch in node.args["ifs"]]
        return _of_first([*values, node.args.get("default")], names)
    if isinstance(node, exp.Coalesce):
        return _of_first([node.this, *node.expressions], names)
    if isinstance(node, exp.Count | exp.RowNumber):
        return INT8
    if isinstance(node, exp.Window | exp.Neg | exp.Nullif):
        return type_of(node.this, names)
    if isinstance(node, exp.Subquery):
        return _of_first([s.expressions[0] for s in [node.this] if s.expressions], names)
    if isinstance(node, exp.Array):
        return TEXTS
    if isinstance(node, exp.Add | exp.Sub | exp.Mul | exp.Mod):
        sides = [type_of(side, names) for side in (node.this, node.expression)]
        return INT8 if INT8 in sides else (INT4 if all(s in _WHOLE for s in sides) else FLOAT8)
    name = node.this if isinstance(node, exp.Anonymous) else getattr(node, "sql_name", str)()
    return FUNCTION_TYPES.get(str(name).lower(), TEXT)


def _of_first(nodes: list[Any], names: Mapping[str, Type]) -> Type:
    known = [n for n in nodes if n is not None and not isinstance(n, exp.Null)]
    return type_of(known[0], names) if known else TEXT


def as_type(value: Any, kind: Type) -> Any:
    """A value of SQLite as one of this type."""
    if value is None:
        return None
    try:
        if kind is BOOL:
            return bool(int(value)) if str(value) not in ("t", "f") else value == "t"
        if kind in _WHOLE:
            return int(value)
        return float(value) if kind in (FLOAT4, FLOAT8) else str(value)
    except ValueError:
        return None


_MOST_S: Final = 5.0
_MOST_ROWS: Final = 20_000
_MOST_BYTES: Final = 1_000_000
_STEPS: Final = 10_000
_MOST_TRIES: Final = 40
_ALLOWED: Final = (
    sqlite3.SQLITE_SELECT,
    sqlite3.SQLITE_READ,
    sqlite3.SQLITE_FUNCTION,
)
_FORBIDDEN: Final = frozenset(["load_extension", "randomblob", "zeroblob", "fts3_tokenizer"])
_NO_COLUMN: Final = re.compile(r"no such column: (?:(?:\w+\.)?(\w+)\.)?(\w+)\Z")


@dataclass(frozen=True)
class _Read:
    """A query that was read: its names and types, and its text for SQLite."""

    query: exp.Expr
    names: list[str]
    sql: str


class Catalogue:
    """The catalogue of one connection."""

    def __init__(self, names: Names, session: Session) -> None:
        self._db = sqlite3.connect(":memory:", check_same_thread=False)
        self._tables = tuple(table.name for table in names.tables)
        self._until = 0.0
        for schema, tables in (("pg_catalog", CATALOGUE), ("information_schema", INFORMATION)):
            self._db.execute(f"ATTACH ':memory:' AS {schema}")
            for name, columns in tables.items():
                self._db.execute(f"CREATE TABLE {schema}.{name} ({_definitions(columns)})")
        self._fill("pg_catalog", catalogue_rows(names))
        self._fill("information_schema", information_rows(names))
        self._db.commit()
        register(self._db, names, session)
        # SQLite makes this table when it is first read, which it may not do later.
        self._db.execute("SELECT value FROM json_each('[]')")
        self._db.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MOST_BYTES)
        self._db.set_progress_handler(self._is_late, _STEPS)
        self._db.set_authorizer(_authorize)

    def close(self) -> None:
        """Forget it."""
        self._db.close()

    def run(self, text: str) -> Result:
        """The rows of one SELECT; PostgresError."""
        read = self._read(text)
        self._until = time.monotonic() + _MOST_S
        for _ in range(_MOST_TRIES):
            try:
                cursor = self._db.execute(read.sql)
                rows = cursor.fetchmany(_MOST_ROWS + 1)
            except sqlite3.Error as exc:
                self._mend(read.query, exc)
                continue
            return _result(read, [d[0] for d in cursor.description], rows)
        raise PostgresError(NOT_SUPPORTED, "The query names too many columns that are not here.")

    def _read(self, text: str) -> _Read:
        query = parsed(text)
        if not output_names(query):
            raise PostgresError(SYNTAX, "A SELECT must select something.")
        try:
            made = rewritten(query.copy())
            return _Read(query, output_names(query), made.sql("sqlite"))
        except (ParseError, TokenError, UnsupportedError, RecursionError, ValueError) as exc:
            raise PostgresError(NOT_SUPPORTED, "The query is not supported here.") from exc

    def _mend(self, query: exp.Expr, exc: sqlite3.Error) -> None:
        """Add the column of a table without rows that a query names; PostgresError otherwise."""
        words = str(exc)
        missing = _NO_COLUMN.search(words)
        table = None if missing is None else _empty_table(query, missing[1])
        if missing is not None and table is not None and self._add(table, missing[2]):
            return
        if time.monotonic() > self._until:
            raise PostgresError(TOO_LATE, "The query of the catalogue took too long.") from exc
        if words.startswith("no such table"):
            name = words.rpartition(": ")[2]
            raise PostgresError(
                NO_TABLE,
                f"There is no dataset called `{name[:60]}`.",
                hint=f"{meant(name, self._tables)} SHOW TABLES lists the datasets.".strip(),
            ) from exc
        if words.startswith("user-defined function raised exception"):
            raise PostgresError(NO_TABLE, "A name or pattern is not known here.") from exc
        raise PostgresError(
            NOT_SUPPORTED, f"The query is not supported here ({words[:120]})."
        ) from exc

    def _add(self, table: str, column: str) -> bool:
        """Give a table a column; False where it has it already."""
        self._db.set_authorizer(None)
        try:
            self._db.execute(f'ALTER TABLE {table} ADD COLUMN "{column}"')
        except sqlite3.Error:
            return False
        finally:
            self._db.set_authorizer(_authorize)
        return True

    def _is_late(self) -> int:
        return int(time.monotonic() > self._until)

    def _fill(self, schema: str, tables: Iterable[tuple[str, Sequence[Row]]]) -> None:
        for table, rows in tables:
            for row in rows:
                names = ", ".join(row)
                marks = ", ".join("?" * len(row))
                text = f"INSERT INTO {schema}.{table} ({names}) VALUES ({marks})"  # noqa: S608
                self._db.execute(text, tuple(row.values()))


def _result(read: _Read, shown: Sequence[str], rows: Sequence[Sequence[Any]]) -> Result:
    if len(rows) > _MOST_ROWS:
        raise PostgresError(TOO_LARGE, f"A query of the catalogue has at most {_MOST_ROWS:,} rows.")
    types = types_of(read.query)
    if "*" in read.names:
        names = _spread(read.names, shown)
        columns = [Column(name, types.get(name, TEXT)) for name in names]
    else:
        first = read.query
        while not isinstance(first, exp.Select):
            first = first.this
        kinds = [type_of(item, types) for item in first.expressions]
        columns = [Column(n, kind) for n, kind in zip(read.names, kinds, strict=True)]
    if len(columns) != len(shown):
        raise PostgresError(NOT_SUPPORTED, "The columns of the query cannot be told.")
    made = [tuple(as_type(v, c.type) for v, c in zip(row, columns, strict=True)) for row in rows]
    return Result("SELECT", tuple(columns), made)


def _spread(names: Sequence[str], shown: Sequence[str]) -> Sequence[str]:
    """The names of all columns, where one `*` among them stands for several."""
    if names.count("*") > 1:
        return shown
    i = names.index("*")
    after = len(names) - i - 1
    return [*names[:i], *shown[i : len(shown) - after], *names[len(names) - after :]]


def _definitions(columns: Columns) -> str:
    return ", ".join(f'"{name}" {affinity(kind)}' for name, kind in columns.items())


def _authorize(action: int, first: str | None, second: str | None, *_: str | None) -> int:
    if action == sqlite3.SQLITE_FUNCTION and second in _FORBIDDEN:
        return sqlite3.SQLITE_DENY
    del first
    return sqlite3.SQLITE_OK if action in _ALLOWED else sqlite3.SQLITE_DENY


def _empty_table(query: exp.Expr, alias: str | None) -> str | None:
    """The table without rows that an alias means, or the first one where there is no alias."""
    for table in query.find_all(exp.Table):
        name = table.name.lower()
        if name in EMPTY and (alias is None or alias.lower() in (table.alias.lower(), name)):
            schema = "information_schema" if name in INFORMATION else "pg_catalog"
            return f"{schema}.{name}"
    return None
