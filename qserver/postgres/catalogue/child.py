"""The program of the catalogue's processes: each answers the statements of one connection.

The first process has read what all need, and forks one for each connection that sends it a socket.
It holds public names alone. A statement has a limit on time of the processor and one on its result,
and a process one on memory; beyond time and memory the system ends it.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import socket
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from qserver.postgres.wire.values import Column
    from qserver.query.sql.tables.catalogue_relations import Names, Relation

MOST_SECONDS: Final = 5.0
"""Of the processor, for one statement."""
MOST_BYTES: Final = 16 << 20
"""Of a result, with what it takes to hold its rows."""
ROW_BYTES: Final = 64
_MOST_ADDRESSES: Final = 160 << 20
"""What a process may take beside what it was forked with: DuckDB's 64 MB, and its result."""
_ROWS: Final = 500
_NICENESS: Final = 5
"""They give way to short statements about datasets."""
_PR_SET_PDEATHSIG: Final = 1
_MEMORY: Final[dict[str, str | bool | int | float | list[str]]] = {
    "memory_limit": "64MB",
    "async_threads": 0,
}
COLUMNS: Final = b"C"
ROWS: Final = b"R"
ERROR: Final = b"E"
DONE: Final = b"Z"


def main(channel: socket.socket) -> None:
    """Fork a process for each socket that arrives, until none is left."""
    from qserver.query.sql.engine.child import CONFIG, limit

    limit()
    os.nice(_NICENESS)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    import duckdb

    from qserver.postgres.catalogue.functions import macros
    from qserver.postgres.catalogue.rewriting import parsed

    connection = duckdb.connect(":memory:", config={**CONFIG, **_MEMORY})
    connection.execute(";".join(macros()))
    connection.execute(parsed("SELECT 1").sql("duckdb")).fetchall()
    while fds := socket.recv_fds(channel, 1, 1)[1]:
        if os.fork() == 0:
            # Whatever it does, this process ends with the first one, and so with the port.
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            channel.close()
            answer(socket.socket(fileno=fds[0]), _Engine(connection))
            os._exit(0)
        os.close(fds[0])


def answer(client: socket.socket, engine: _Engine) -> None:
    """Say which process this is, and answer requests until none is left."""
    with open("/proc/self/statm", encoding="ascii") as sizes:
        n_pages = int(sizes.read().split()[0])
    most = n_pages * resource.getpagesize() + _MOST_ADDRESSES
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    with client, client.makefile("rb") as requests:
        client.sendall(os.getpid().to_bytes(4))
        while size := requests.read(4):
            request = json.loads(requests.read(int.from_bytes(size)))
            signal.setitimer(signal.ITIMER_PROF, MOST_SECONDS)
            for kind, body in engine.replies(request):
                client.sendall(kind + len(body).to_bytes(4) + body)
            signal.setitimer(signal.ITIMER_PROF, 0)


class _Engine:
    """A database with the relations that statements have named."""

    def __init__(self, connection: Any) -> None:
        self._db = connection
        self._names: Names | None = None
        self._made = set[str]()

    def replies(self, request: dict[str, Any]) -> Iterator[tuple[bytes, bytes]]:
        """The columns of a statement, its rows unless it is only described, and its end."""
        import duckdb
        from sqlglot import ParseError, TokenError, UnsupportedError

        from qserver.errors import CapacityError, QServerError
        from qserver.postgres.catalogue.functions import NOTHING
        from qserver.postgres.wire.faults import NO_TABLE, NOT_SUPPORTED, TOO_LARGE, PostgresError

        try:
            yield from self._answer(request)
        except PostgresError as exc:
            yield _error(exc.state, exc.message, exc.hint)
        except (MemoryError, duckdb.OutOfMemoryException, CapacityError, RecursionError):
            yield _error(TOO_LARGE, "The query of the catalogue takes too much memory.")
        except (duckdb.FatalException, duckdb.InternalException):
            raise  # this database is of no further use
        except (duckdb.Error, QServerError, ParseError, TokenError, UnsupportedError) as exc:
            first = str(exc).split("\n", 1)[0][:160]
            said, _, of = first.partition(NOTHING)
            if said and of:
                yield _error(NO_TABLE, NOTHING + of)
            else:
                yield _error(NOT_SUPPORTED, f"The query is not supported here ({first}).")
        yield DONE, b""

    def _answer(self, request: dict[str, Any]) -> Iterator[tuple[bytes, bytes]]:
        from qserver.postgres.catalogue.functions import variables
        from qserver.postgres.catalogue.rewriting import Rewriting
        from qserver.postgres.wire.values import encoder, formats_of
        from qserver.query.sql.tables.catalogue_relations import Names

        if request["names"] is not None:
            self._forget()
            self._names = Names.from_json(request["names"])
            self._db.execute(";".join(variables(self._names)))
        assert self._names is not None  # noqa: S101 - they come with the first request
        rewriting = Rewriting(self._names)
        sql = rewriting.sql(request["text"])
        for place, relation in rewriting.relations.items():
            self._make(place, relation)
        if request["describes"]:
            told = self._db.execute(f"DESCRIBE {sql}").fetchall()
            yield COLUMNS, _written(_columns([row[:2] for row in told]))
            return
        result = self._db.execute(sql)
        columns = _columns([column[:2] for column in result.description])
        yield COLUMNS, _written(columns)
        encode = encoder(columns, formats_of(request["formats"], len(columns)))
        n_bytes = 0
        while rows := result.fetchmany(_ROWS):
            encoded = [encode([_plain(value) for value in row]) for row in rows]
            n_bytes += sum(map(len, encoded)) + ROW_BYTES * len(encoded)
            if n_bytes > MOST_BYTES:
                raise MemoryError
            yield ROWS, b"".join(len(one).to_bytes(4) + one for one in encoded)

    def _make(self, place: str, relation: Relation) -> None:
        """Make a relation with its rows."""
        from qserver.query.sql.tables.catalogue_relations import DUCKDB, rows_of

        assert self._names is not None  # noqa: S101 - as above
        if place in self._made:
            return
        rows = [relation.values(r) for r in rows_of(relation.schema, relation.name, self._names)]
        values = [list(column) for column in zip(*rows, strict=True)] or [[]] * len(
            relation.columns
        )
        columns = ", ".join(
            f'unnest(?::{DUCKDB[kind]}[]) AS "{name}"' for name, kind in relation.columns.items()
        )
        self._db.execute(f'CREATE TEMP TABLE "{place}" AS SELECT {columns}', values)
        self._made.add(place)

    def _forget(self) -> None:
        for place in self._made:
            self._db.execute(f'DROP TABLE "{place}"')
        self._made.clear()


_TYPES: Final = {
    "BOOLEAN": "bool",
    "TINYINT": "int2",
    "SMALLINT": "int2",
    "INTEGER": "int4",
    "BIGINT": "int8",
    "HUGEINT": "int8",
    "UINTEGER": "oid",
    "FLOAT": "float4",
    "DOUBLE": "float8",
    "DECIMAL": "float8",
    "VARCHAR": "text",
    "JSON": "text",
    '"NULL"': "text",
    "DATE": "date",
    "TIMESTAMP": "timestamp",
    "TIMESTAMP WITH TIME ZONE": "timestamptz",
}


def _columns(told: list[tuple[str, Any]]) -> list[Column]:
    """Columns by what DuckDB says of their names and types; PostgresError."""
    from qserver.postgres.wire.faults import NOT_SUPPORTED, PostgresError
    from qserver.postgres.wire.values import ARRAY_OF, BY_NAME, Column

    found = list[Column]()
    for name, said in told:
        plain, bracket, _ = str(said).partition("[")
        kind = _TYPES.get(plain.partition("(")[0])
        if kind is None:
            raise PostgresError(NOT_SUPPORTED, f"Values of type {said} are not supported here.")
        found.append(Column(name, ARRAY_OF[BY_NAME[kind]] if bracket else BY_NAME[kind]))
    return found


def _plain(value: Any) -> Any:
    return float(value) if type(value).__name__ == "Decimal" else value


def _written(columns: list[Column]) -> bytes:
    return json.dumps([[column.name, column.type.oid] for column in columns]).encode()


def _error(state: str, message: str, hint: str = "") -> tuple[bytes, bytes]:
    return ERROR, json.dumps([state, message, hint]).encode()


if __name__ == "__main__":
    sys.path.extend(sys.argv[2:])
    main(socket.socket(fileno=int(sys.argv[1])))
