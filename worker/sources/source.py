"""The face of every source: named columns, and record batches of one consistent read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from qserver.errors import PrivateDataError, QServerError


@dataclass(frozen=True)
class Column:
    """A column of a source.

    Args:
        type: the source's own name of its type; '' where it has none.
        is_date: whether it is of a date or timestamp type, so that days can be asked for.
    """

    name: str
    type: str = ""
    is_date: bool = False


@dataclass(frozen=True)
class Days:
    """The days that are wanted, for a source that can leave others unread.

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
    """In the source's order, with distinct names."""

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


def is_exact(kind: pa.DataType) -> bool:
    """Whether texts of this type are exact numbers of a database, of any length."""
    return isinstance(kind, pa.OpaqueType) and kind.type_name in ("numeric", "decimal")


@contextmanager
def no_values_in_errors(what: str, words: Callable[[Exception], str]) -> Iterator[None]:
    """A section in which whatever an engine raises becomes one line without any value.

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


def distinct(columns: Sequence[Column]) -> tuple[Column, ...]:
    """The columns, if no two have one name.

    Raises:
        PrivateDataError: two have; it could be either.
    """
    seen = set[str]()
    for column in columns:
        if column.name in seen:
            raise PrivateDataError(
                f"The source has more than one column {column.name}. Rename one, or name the "
                "columns that are wanted in --query."
            )
        seen.add(column.name)
    if not columns:
        raise PrivateDataError("The source has no column.")
    return tuple(columns)
