"""The face of every source: named columns, and record batches of one consistent read.

Also what all databases share: the SELECT that is read, and its names.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Final, Protocol

import pyarrow as pa

from qserver.errors import ConfigError, PrivateDataError, QServerError
from worker.sources.address import Address

_SHOWN = 20  # names of columns in a message
BY_QUERY: Final = "Give the wanted columns their names in --query, such as SELECT x AS age."
"""The advice of databases."""


@dataclass(frozen=True)
class Column:
    """A column of a source.

    Args:
        type: the source's own name of its type; '' where it has none.
        is_date: whether it is of a date or timestamp type, so that days can be asked for.
        is_twice: whether another column has its name, so that it cannot be asked for.
    """

    name: str
    type: str = ""
    is_date: bool = False
    is_twice: bool = False


@dataclass(frozen=True)
class Days:
    """The wanted days, for a source that can leave others unread.

    A source may return more: the codes decide. It never returns less, whatever the zone of a
    timestamp is.

    Args:
        column: of a date or timestamp type.
        first: the first day.
        stop: the day after the last.
    """

    column: str
    first: date
    stop: date


class Source(Protocol):
    """An open source; every kind implements this."""

    columns: tuple[Column, ...]
    """In the source's order, with distinct names; those without a name are left out."""

    @property
    def advice(self) -> str:
        """Where the column names stand, and how to change them there, in a sentence."""
        ...

    file: Path | None
    """The one file that holds the records, if it is one."""

    def n_rows(self) -> int | None:
        """About how many rows there are, for the progress; None if that takes a read."""
        ...

    def batches(self, names: Sequence[str], days: Days | None) -> Iterator[pa.RecordBatch]:
        """The columns of these names, in this order; all rows in one consistent read.

        Raises:
            PrivateDataError: the read fails, at whatever row. No value is in the message.
        """
        ...


def type_name(kind: pa.DataType) -> str:
    """The name of an Arrow type; the database's name if Arrow has none."""
    if isinstance(kind, pa.OpaqueType):
        return str(kind.type_name)
    if isinstance(kind, pa.BaseExtensionType):
        return str(kind.extension_name).removeprefix("arrow.")
    return str(kind)


def is_exact(kind: pa.DataType) -> bool:
    """Whether texts of this type are a database's exact numbers, of any length."""
    return isinstance(kind, pa.OpaqueType) and kind.type_name in ("numeric", "decimal")


@contextmanager
def no_values_in_errors(what: str, words: Callable[[Exception], str]) -> Iterator[None]:
    """A section that turns any error of an engine into one line without a value.

    Engines quote the values that they stumble on. Neither their message nor the error itself goes
    on from here.

    Args:
        what: what fails, as the beginning of a sentence.
        words: how it fails, from the error, without its message.

    Raises:
        PrivateDataError: in place of every other error than the product's own.
    """
    try:
        yield
    except QServerError:
        raise
    except Exception as exc:  # noqa: BLE001 - what a driver raises is not documented
        raise PrivateDataError(f"{what} {words(exc)}") from None


def named(columns: Sequence[Column]) -> tuple[Column, ...]:
    """The columns that have a name, each name once; PrivateDataError if there is none."""
    n_named = Counter(column.name for column in columns)
    found = {c.name: replace(c, is_twice=n_named[c.name] > 1) for c in reversed(columns) if c.name}
    if not found:
        raise PrivateDataError("The source has no column with a name.")
    return tuple(reversed(found.values()))


def check_columns(source: Source, wanted: Sequence[str]) -> None:
    """Return if a source has each of these columns once.

    Raises:
        PrivateDataError: it has not. The message tells the columns that it has.
    """
    found = {column.name: column for column in source.columns}
    lacking = [name for name in wanted if name not in found]
    if lacking:
        raise PrivateDataError(
            "The file must have a column for every attribute and for the person; it lacks "
            f"{listed(lacking)}. It has {listed(list(found))}. {source.advice}"
        )
    for name in wanted:
        if found[name].is_twice:
            raise PrivateDataError(
                f"The source has more than one column {listed([name])}. {source.advice}"
            )


def listed(names: Sequence[str]) -> str:
    """Names of columns for a message: on one line, and a few of them."""
    plain = ["".join(c if c.isprintable() else "?" for c in name[:80]) for name in names[:_SHOWN]]
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(plain) + more


_TOKEN = re.compile(
    r"""\b[eE]'(?:[^'\\]|\\.|'')*'|'(?:[^']|'')*'|"(?:[^"]|"")*"|--[^\n]*|/\*.*?\*/"""
    r"""|\$(\w*)\$.*?\$\1\$|\s+|.""",
    re.DOTALL,
)
_PART = re.compile(r'"((?:[^"]|"")+)"|([^".]+)')


def quoted(name: str) -> str:
    """A name as SQL has it in every database that is read here."""
    return '"' + name.replace('"', '""') + '"'


def one_statement(query: str) -> str:
    """The SELECT that an owner typed, without its end.

    Raises:
        ConfigError: there are two statements, or none.
    """
    tokens = list(_TOKEN.finditer(query))
    said = [t for t in tokens if not t[0].isspace() and not t[0].startswith(("--", "/*"))]
    end = next((i for i, token in enumerate(said) if token[0] == ";"), len(said))
    if not end or any(token[0] != ";" for token in said[end:]):
        raise ConfigError("query", "be one SELECT", hint="It may join tables and use WITH.")
    return query[: said[end].start()].strip() if end < len(said) else query.strip()


def relation(address: Address) -> str:
    """SQL for the source: the table, or the owner's query without its last semicolon.

    Raises:
        ConfigError: the table is no name such as `visits`, `public.visits` or `"odd.name"`.
    """
    if address.query:
        # On a line of its own, as the query may end in a comment.
        return f"(\n{one_statement(address.query)}\n)"
    parts, at = [], 0
    while at <= len(address.table):
        found = _PART.match(address.table, at)
        if found is None or address.table[found.end() : found.end() + 1] not in ("", "."):
            raise ConfigError("table", 'be a name such as visits, public.visits or "odd.name"')
        parts.append(quoted((found[1] or "").replace('""', '"') or found[2]))
        at = found.end() + 1
    return ".".join(parts)


def select(columns: Sequence[str], relation_sql: str, condition: str = "") -> str:
    """A SELECT of expressions from a relation."""
    where = f" WHERE {condition}" if condition else ""
    return f"SELECT {', '.join(columns)} FROM {relation_sql} AS source{where}"  # noqa: S608
