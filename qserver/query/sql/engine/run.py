"""Run a statement over public tables in the engine's process: lines of JSON pass between them."""

from __future__ import annotations

import atexit
import json
import os
import queue
import subprocess
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from fractions import Fraction
from importlib.util import find_spec
from typing import IO, Any

from sqlglot import ErrorLevel, UnsupportedError, exp

from qserver.errors import CapacityError, EngineError
from qserver.query.domain import decimal_text
from qserver.query.sql.engine.allow_list import check
from qserver.text import printable


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
    parts = {"name": table.name, "columns": table.columns, "types": table.types, "values": values}
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


# Replies that are kept, and the longest request with its reply that is: 16 MB at most.
_MOST_KEPT = 1024
_LONGEST_KEPT = 1 << 14
_LONGEST = 1 << 26
_PROCESSES = 2
_TOO_MUCH = "It takes too much time or memory to calculate. Ask its parts."


@dataclass(frozen=True)
class Rows:
    """The rows of a SELECT: decimals are Fractions, and days are dates.

    Args:
        kinds: of the columns, as DuckDB calls them.
    """

    kinds: tuple[str, ...]
    rows: list[tuple[object, ...]]


def run(query: exp.Expr, tables: Sequence[Table]) -> list[tuple[object, ...]]:
    """The rows of `run_typed`, without types."""
    return run_typed(query, tables).rows


def run_typed(query: exp.Expr, tables: Sequence[Table]) -> Rows:
    """The rows of a SELECT over some tables, a function of these alone.

    Raises:
        EngineError: it has something that is not listed, or DuckDB cannot evaluate it.
        CapacityError: it is nested too deep, or takes too much time or memory.
    """
    check(query, [table.name for table in tables])
    try:
        sql = query.sql("duckdb", identify=True, comments=False, unsupported_level=ErrorLevel.RAISE)
    except UnsupportedError as exc:
        raise _refused(str(exc)) from exc
    except RecursionError as exc:
        raise CapacityError("The text of SQL is nested too deep. Ask its parts.") from exc
    asked = request(sql, tables)
    if len(asked) > _LONGEST:
        raise CapacityError(_TOO_MUCH)
    reply = json.loads(_engine.reply(asked))
    if "refused" in reply:
        raise _refused(reply["refused"])
    if "too_much" in reply:
        raise CapacityError(_TOO_MUCH)
    try:
        rows = rows_of(reply["kinds"], reply["rows"])
    except ValueError as exc:  # DuckDB has more years than others have
        raise _refused("a day is before the year 1 or after 9999") from exc
    return Rows(tuple(reply["kinds"]), rows)


def _refused(why: str) -> EngineError:
    lines = why.split("\n")
    return EngineError("sql", "be SQL that can be calculated: " + printable(lines[0]))


class _Engine:
    """Two processes, so that short statements do not wait for long ones, and cached replies."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[bytes, bytes] = OrderedDict()
        self._processes = tuple(_Process() for _ in range(_PROCESSES))
        self._idle = queue.LifoQueue[_Process]()
        for one in reversed(self._processes):
            self._idle.put(one)

    def forget(self) -> None:
        """Forget the processes: a fork must not share its parent's."""
        for one in self._processes:
            one.forget()
        _Engine.__init__(self)

    def reply(self, asked: bytes) -> bytes:
        """The reply to a request, cached.

        Raises:
            CapacityError: the process was ended by the limits on its time and memory.
        """
        with self._lock:
            if (kept := self._kept.get(asked)) is not None:
                self._kept.move_to_end(asked)
                return kept
        process = self._idle.get()
        try:
            found = process.exchange(asked)
        finally:
            self._idle.put(process)
        if len(asked) + len(found) <= _LONGEST_KEPT:
            with self._lock:
                self._kept[asked] = found
                if len(self._kept) > _MOST_KEPT:
                    self._kept.popitem(last=False)
        return found

    def end(self) -> None:
        """End all processes."""
        for one in self._processes:
            one.end()


class _Process:
    """A process, started at its first use; one request at a time."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._streams: tuple[IO[bytes], ...] = ()

    def forget(self) -> None:
        """Forget the process, which belongs to the parent."""
        for stream in self._streams:
            os.close(stream.fileno())  # whatever is still to be written is the parent's
        if self._process is not None:
            self._process.returncode = 0  # no child of this process: nothing to wait for

    def exchange(self, asked: bytes) -> bytes:
        """The line that answers a request; CapacityError, EngineError."""
        if self._process is None or self._process.poll() is not None:
            self._start()
        requests, replies = self._streams
        try:
            requests.write(asked)
            requests.flush()
            found = replies.readline()
        except BrokenPipeError:
            found = b""
        except BaseException:
            self.end()  # its reply must not be taken for the next one's
            raise
        if not found.endswith(b"\n"):
            raise self._ended()
        return found

    def _ended(self) -> CapacityError | EngineError:
        """The error of an ended process: a limit (a signal), or its own error."""
        assert self._process is not None  # noqa: S101 - it has just been asked
        by_signal = self._process.wait() < 0
        self.end()
        return CapacityError(_TOO_MUCH) if by_signal else _refused("the engine failed")

    def _start(self) -> None:
        self.end()
        places = [_place(name) for name in (f"{__package__}.child", "duckdb")]
        self._process = subprocess.Popen(  # noqa: S603 - our own program, no shell
            [sys.executable, "-I", "-S", places[0], os.path.dirname(os.path.dirname(places[1]))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env={},
        )
        assert self._process.stdin is not None  # noqa: S101 - both are pipes
        assert self._process.stdout is not None  # noqa: S101
        self._streams = (self._process.stdin, self._process.stdout)

    def end(self) -> None:
        """End the process, if there is one."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            for stream in self._streams:
                stream.close()
        self._process, self._streams = None, ()


def _place(module: str) -> Any:
    """The file of a module, without importing it."""
    spec = find_spec(module)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(module, name=module)
    return spec.origin


_engine = _Engine()
os.register_at_fork(after_in_child=_engine.forget)
atexit.register(_engine.end)
