"""Connections, which know the server and whether they may spend, and their cursors.

Values of PEP 249: types of columns, constructors, and what is put in place of a `?`.

A `?` in a quoted text, a quoted name or a comment stays as it is. A text is put in single quotes,
each quote in it doubled; the server knows no other escape. So a value is always one literal.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from numbers import Integral, Real
from pathlib import Path
from typing import Any, Final, Self

from qserver.client.clients import Client
from qserver.client.dbapi import errors
from qserver.client.dbapi.errors import (
    InterfaceError,
    NotSupportedError,
    ProgrammingError,
    translated,
)
from qserver.client.frames import Column, Framed, Kind
from qserver.client.results import Price
from qserver.client.tables import Table
from qserver.errors import SqlError
from qserver.query.requirement import Measure
from qserver.query.sql.text import SqlText, dataset_of, explains, pieces

STRING: Final = "string"
NUMBER: Final = "number"
# No column has one of these.
BINARY: Final = "binary"
DATETIME: Final = "datetime"
ROWID: Final = "rowid"

Date = date
Time = time
Timestamp = datetime
Binary = bytes


def DateFromTicks(ticks: float) -> date:  # noqa: N802 - PEP 249 names it so
    """The day of a Unix time, by the clock of this machine."""
    return date.fromtimestamp(ticks)


def TimeFromTicks(ticks: float) -> time:  # noqa: N802
    """The time of day of a Unix time, by the clock of this machine."""
    return datetime.fromtimestamp(ticks).time()


def TimestampFromTicks(ticks: float) -> datetime:  # noqa: N802
    """The day and time of a Unix time, by the clock of this machine."""
    return datetime.fromtimestamp(ticks)


def bound(text: str, values: Sequence[Any] | None) -> str:
    """The statement with a literal in place of each `?`; unchanged if `values` is None.

    Raises:
        ProgrammingError: there are more values than places, or fewer.
        NotSupportedError: there is no literal of a value's type.
        SqlError: a quoted text or a comment does not end.
    """
    if values is None:
        return text
    if isinstance(values, str | bytes) or not isinstance(values, Sequence):
        raise ProgrammingError("`parameters` must be a sequence, with a value for each `?`.")
    places = [piece.start for piece in pieces(SqlText(text)) if piece.text == "?"]
    if len(places) != len(values):
        raise ProgrammingError(
            f"The statement has {len(places)} `?`, but there are {len(values)} values."
        )
    found, last = "", 0
    for place, value in zip(places, values, strict=True):
        # Blanks around it, so that it joins no word and no sign: `x -?` with -1 is no comment.
        found += f"{text[last:place]} {literal(value)} "
        last = place + 1
    return found + text[last:]


def literal(value: Any) -> str:
    """A value as SQL has it; raises NotSupportedError, or ProgrammingError for NaN."""
    if value is None:
        return "NULL"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, bool) or type(value).__name__ in ("bool", "bool_"):  # numpy's, too
        return "TRUE" if value else "FALSE"
    if isinstance(value, Integral):
        return str(int(value))
    if isinstance(value, Decimal | Real):
        return _number(value)
    if isinstance(value, datetime) and value == datetime.combine(value, time.min):
        value = value.date()
    if isinstance(value, date) and not isinstance(value, datetime):
        return f"'{value.isoformat()}'"
    raise NotSupportedError(
        f"A value must be a text, a number, a boolean, a day or None, not {type(value).__name__}."
    )


def _number(value: Decimal | Real) -> str:
    number = value if isinstance(value, Decimal) else Decimal(repr(float(value)))
    if not number.is_finite():
        raise ProgrammingError("A number must be finite.")
    return f"{number:f}"


Row = tuple[Any, ...]
_CODES: Mapping[Kind, str] = {"text": STRING, "number": NUMBER}
_SHOW_TABLES = re.compile(r"\s*SHOW\s+(?:FULL\s+)?TABLES\s*;?\s*", re.IGNORECASE)


@dataclass(frozen=True)
class _Result(Framed):
    """The columns of a result, as rows."""

    columns: Sequence[Column]

    def rows(self) -> list[Row]:
        return list(zip(*(column.values for column in self.columns), strict=True))

    def records(self) -> list[dict[str, Any]]:
        names = [column.name for column in self.columns]
        return [dict(zip(names, row, strict=True)) for row in self.rows()]

    def frame(self) -> list[Column]:
        return list(self.columns)


class Cursor:
    """Asks statements on a connection, one after another.

    Attributes:
        connection: the one that it asks on.
        description: per column its name and type, and five times None; None before a result.
        rowcount: rows of the result; -1 before one.
        arraysize: rows that `fetchmany` fetches by default.
        table: the last answer as the client has it, with its cost; None for a price or a list.
    """

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.arraysize = 1
        self.table: Table | None = None
        self._result: _Result | None = None
        self._rows: list[Row] = []
        self._next = 0
        self._is_closed = False

    @property
    def description(self) -> list[tuple[str, str, None, None, None, None, None]] | None:
        """Per column its name and type, and five times None; None before a result."""
        if self._result is None:
            return None
        return [
            (column.name, _CODES[column.kind], None, None, None, None, None)
            for column in self._result.columns
        ]

    @property
    def rowcount(self) -> int:
        """Rows of the result; -1 before one."""
        return -1 if self._result is None else len(self._rows)

    @property
    def rownumber(self) -> int | None:
        """Place of the next row, from 0; None before a result."""
        return None if self._result is None else self._next

    def execute(self, operation: str, parameters: Sequence[Any] | None = None) -> Self:
        """Ask a statement, with a value for each `?`; after EXPLAIN, its price.

        Beside each column n come n_low and n_high, the ends of its intervals.

        Raises:
            PriceError: it costs something, and the connection does not spend; or more than is left.
            ProgrammingError: the statement is wrong; the message points at the place.
            OperationalError: no server answers, or the token may not do this.
            InterfaceError: the cursor or the connection is closed.
        """
        self._check_open()
        self._result, self._rows, self._next, self.table = None, [], 0, None
        with translated():
            text = bound(operation, parameters)
            result = _Result(self._columns(text))
        self._result, self._rows = result, result.rows()
        return self

    def executemany(self, operation: str, parameters: Sequence[Any]) -> None:  # noqa: ARG002
        """NotSupportedError: every statement gives rows."""
        raise NotSupportedError("Ask each statement by `execute`: every one of them gives rows.")

    def price(self, operation: str, parameters: Sequence[Any] | None = None) -> Price:
        """The price of a statement; spends nothing. Raises as `execute`."""
        self._check_open()
        with translated():
            return self._price(bound(operation, parameters))

    def fetchone(self) -> Row | None:
        """The next row, or None after the last."""
        found = self._fetched(1)
        return found[0] if found else None

    def fetchmany(self, size: int | None = None) -> list[Row]:
        """The next `size` rows, by default `arraysize`; fewer at the end."""
        return self._fetched(self.arraysize if size is None else size)

    def fetchall(self) -> list[Row]:
        """The rest of the rows."""
        return self._fetched(len(self._rows))

    def to_pandas(self) -> Any:
        """The whole result as a pandas.DataFrame."""
        return self._whole().to_pandas()

    def to_polars(self) -> Any:
        """The whole result as a polars.DataFrame."""
        return self._whole().to_polars()

    def to_arrow(self) -> Any:
        """The whole result as a pyarrow.Table."""
        return self._whole().to_arrow()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The whole result as a stream of Arrow's C interface."""
        return self._whole().__arrow_c_stream__(requested_schema)

    def setinputsizes(self, sizes: Sequence[Any]) -> None:
        """Does nothing, as PEP 249 allows."""

    def setoutputsize(self, size: int, column: int | None = None) -> None:
        """Does nothing, as PEP 249 allows."""

    def close(self) -> None:
        """End the cursor; later calls raise InterfaceError."""
        self._is_closed = True
        self._result, self._rows = None, []

    def __iter__(self) -> Iterator[Row]:
        while (row := self.fetchone()) is not None:
            yield row

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check_open(self) -> None:
        if self._is_closed:
            raise InterfaceError("The cursor is closed.")
        self.connection.check_open()

    def _whole(self) -> _Result:
        self._check_open()
        if self._result is None:
            raise InterfaceError("There is no result: `execute` a statement first.")
        return self._result

    def _fetched(self, n: int) -> list[Row]:
        self._whole()
        found = self._rows[self._next : self._next + n]
        self._next += len(found)
        return found

    def _columns(self, text: str) -> list[Column]:
        connection = self.connection
        if _SHOW_TABLES.fullmatch(text):
            names = [found.name for found in connection.client.datasets()]
            return [Column("table_name", "text", names)]
        if explains(text):
            return _price_columns(self._price(text))
        self.table = connection.client.sql(
            text, dataset=self._dataset(text), spend=connection.spend, **connection.exactness
        )
        return self.table.frame()

    def _price(self, text: str) -> Price:
        connection = self.connection
        said = connection.exactness
        return connection.client.price(text, dataset=self._dataset(text), **said)

    def _dataset(self, text: str) -> str | None:
        """The connection's dataset for a text without one; else None."""
        own = self.connection.dataset
        if own is None:
            return None
        try:
            return own if dataset_of(text).lower().startswith("information_schema") else None
        except SqlError:
            return own


def _price_columns(price: Price) -> list[Column]:
    affordable = "yes" if price.affordable else "no"
    return [
        Column("price", "number", [price.price]),
        Column("remaining", "number", [price.remaining]),
        Column("affordable", "text", [affordable]),
        Column("at_most", "text", ["yes" if price.at_most else "no"]),
        Column("kind", "text", [price.kind]),
        Column("most", "number", [price.price if price.most is None else price.most]),
    ]


class Connection:
    """A way to a server. Thread-safe; each thread takes its own cursor.

    Attributes:
        client: the client that asks, for what SQL cannot say.
        dataset: the one that a statement is about that names none, such as DESCRIBE; or None.
        spend: whether what history does not answer is measured and charged.
    """

    # PEP 249 lets a program catch the errors without the module.
    Warning = errors.Warning
    Error = errors.Error
    InterfaceError = errors.InterfaceError
    DatabaseError = errors.DatabaseError
    DataError = errors.DataError
    OperationalError = errors.OperationalError
    IntegrityError = errors.IntegrityError
    InternalError = errors.InternalError
    ProgrammingError = errors.ProgrammingError
    NotSupportedError = errors.NotSupportedError
    PriceError = errors.PriceError

    def __init__(
        self,
        client: Client,
        *,
        dataset: str | None,
        spend: bool,
        exactness: dict[str, Any],
    ) -> None:
        self.client = client
        self.dataset = dataset
        self.spend = spend
        self._exactness = exactness
        self._is_closed = False

    @property
    def exactness(self) -> dict[str, Any]:
        """The exactness where a text states none: `within`, `confidence` and `measure`."""
        return dict(self._exactness)

    def cursor(self) -> Cursor:
        """A new cursor."""
        self.check_open()
        return Cursor(self)

    def execute(self, operation: str, parameters: Any = None) -> Cursor:
        """A new cursor that has asked a statement, as `Cursor.execute` does."""
        return self.cursor().execute(operation, parameters)

    def commit(self) -> None:
        """Does nothing: each statement is answered and charged at once."""
        self.check_open()

    def rollback(self) -> None:
        """Does nothing: no answer can be taken back, and no charge."""
        self.check_open()

    def close(self) -> None:
        """End the connection; its cursors cannot ask any longer."""
        self._is_closed = True

    def check_open(self) -> None:
        """Return if the connection is open; InterfaceError."""
        if self._is_closed:
            raise InterfaceError("The connection is closed.")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def connect(
    url: str | None = None,
    *,
    token: str = "",
    dataset: str | None = None,
    spend: bool = False,
    within: float | None = None,
    confidence: float | None = None,
    measure: Measure | None = None,
    timeout_s: float = 30.0,
    wait_s: float = 300.0,
    retries: int = 4,
    ca: str | Path | None = None,
    proxy: str | None = None,
) -> Connection:
    """A connection to a server; the first statement sends the first request.

    Args:
        url: of the server; by default QSERVER_URL, or the address of a local demo.
        token: of an account; an open server takes none.
        dataset: the one that a statement is about that names none, such as information_schema.
        spend: whether what history does not answer is measured and charged. If not, it is a
            PriceError with the price.
        within: half the length of intervals where a text has no WITHIN.
        confidence: their confidence where it has no CONFIDENCE; None for 0.95.
        measure: as for `Client.sql`; the other arguments are those of `Client`.

    Raises:
        ProgrammingError: an argument is malformed.
    """
    with translated():
        client = Client(
            url,
            token=token,
            timeout_s=timeout_s,
            wait_s=wait_s,
            retries=retries,
            ca=ca,
            proxy=proxy,
        )
    exactness = {"within": within, "confidence": confidence, "measure": measure}
    return Connection(client, dataset=dataset, spend=spend, exactness=exactness)
