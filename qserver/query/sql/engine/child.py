"""The program of the engine's process: it reads statements, and writes their results.

A request is a line of JSON with the statement and the number of tables, then a line per table; the
reply is one line. The process ends with its input. Requests have a limit of CPU time, and the
process one of memory; the system ends it beyond these. It imports nothing of qserver, so it starts
quickly.
"""

from __future__ import annotations

import json
import resource
import signal
import sys
from typing import Any, BinaryIO

MOST_SECONDS = 2.0
"""Of the processor, for one request."""
MOST_WAITED = 60.0
"""Seconds by the clock, in which a process that waits for nothing is through."""
MOST_ADDRESSES = 1536 << 20
"""Bytes; an idle DuckDB takes about 750 MB of addresses, of which 50 MB of memory."""
MOST_ROWS = 1 << 22
MOST_CHARACTERS = 1 << 27
CONFIG: dict[str, str | bool | int | float | list[str]] = {
    "threads": 1,
    "memory_limit": "256MB",
    "max_temp_directory_size": "0B",
    "enable_external_access": False,
    "autoload_known_extensions": False,
    "autoinstall_known_extensions": False,
    "allow_community_extensions": False,
    "python_enable_replacements": False,
    "lock_configuration": True,
}
_PLAIN = ("BOOLEAN", "VARCHAR", "ENUM", "DATE", "TIMESTAMP", "FLOAT", "DOUBLE", "DECIMAL")
_WHOLE = tuple(sign + size for sign in ("", "U") for size in ("TINYINT", "SMALLINT", "INTEGER"))
KINDS = frozenset((*_PLAIN, *_WHOLE, "BIGINT", "UBIGINT", "HUGEINT", "UHUGEINT", '"NULL"'))
"""The types that a column of a result may have."""


def main(replies: BinaryIO, requests: BinaryIO) -> None:
    """Answer requests until there are no more."""
    limit()
    import duckdb

    engine = _Engine(duckdb, duckdb.connect(":memory:", config=CONFIG))
    while header := requests.readline():
        request = json.loads(header)
        tables = [requests.readline() for _ in range(request["n_tables"])]
        signal.setitimer(signal.ITIMER_PROF, MOST_SECONDS)
        signal.setitimer(signal.ITIMER_REAL, MOST_WAITED)
        reply = engine.reply(request["sql"], tables)
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        replies.write(reply.encode() + b"\n")
        replies.flush()


def limit() -> None:
    """Limit this process; it cannot write files."""
    for kind, most in (
        (resource.RLIMIT_AS, MOST_ADDRESSES),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(kind, (most, most))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal: the parent decides
    for ended_by in (signal.SIGPROF, signal.SIGALRM):
        signal.signal(ended_by, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGPROF, signal.SIGALRM))


class _Engine:
    """A connection, with the tables of the last request, which the next one may reuse."""

    def __init__(self, duckdb: Any, connection: Any) -> None:
        self._duckdb, self._connection = duckdb, connection
        self._loaded: dict[str, bytes] = {}

    def reply(self, sql: str, tables: list[bytes]) -> str:
        """The result of a statement, or its error, as a line of JSON."""
        try:
            self._load(tables)
            kinds, rows = self._rows(sql)
            text = json.dumps({"kinds": kinds, "rows": rows}, default=str)
        except (MemoryError, self._duckdb.OutOfMemoryException):
            return json.dumps({"too_much": True})
        except (self._duckdb.FatalException, self._duckdb.InternalException):
            raise  # this database is of no more use
        except self._duckdb.Error as exc:
            return json.dumps({"refused": str(exc)[:4096]})
        return text if len(text) <= MOST_CHARACTERS else json.dumps({"too_much": True})

    def _load(self, tables: list[bytes]) -> None:
        """Load exactly these tables."""
        wanted = {line: json.loads(line) for line in tables}
        for name, line in list(self._loaded.items()):
            if line not in wanted:
                del self._loaded[name]
                self._connection.execute(f"DROP TABLE {_quoted(name)}")
        for line, table in wanted.items():
            if table["name"] in self._loaded:
                continue
            columns = ", ".join(
                f"unnest(?::{kind}[]) AS {_quoted(column)}"
                for column, kind in zip(table["columns"], table["types"], strict=True)
            )
            self._connection.execute(
                f"CREATE TEMP TABLE {_quoted(table['name'])} AS SELECT {columns}", table["values"]
            )
            self._loaded[table["name"]] = line

    def _rows(self, sql: str) -> tuple[list[str], list[tuple[object, ...]]]:
        """Types and rows of a statement's result."""
        statements = self._connection.extract_statements(sql)
        if [one.type for one in statements] != [self._duckdb.StatementType.SELECT]:
            raise self._duckdb.InvalidInputException("it is not one SELECT")
        result = self._connection.execute(statements[0])
        kinds = [str(column[1]).partition("(")[0] for column in result.description]
        if unknown := [kind for kind in kinds if kind not in KINDS]:
            raise self._duckdb.InvalidInputException(f"it gives values of type {unknown[0]}")
        rows = result.fetchmany(MOST_ROWS + 1)
        if len(rows) > MOST_ROWS:
            raise MemoryError
        return kinds, rows


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


if __name__ == "__main__":
    sys.path.extend(sys.argv[1:])
    main(sys.stdout.buffer, sys.stdin.buffer)
