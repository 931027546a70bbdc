"""Connections: which server, as whom, and whether anything may be spent."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

from qserver.client.clients import Client
from qserver.client.dbapi import errors
from qserver.client.dbapi.cursor import Cursor
from qserver.client.dbapi.errors import InterfaceError, translated
from qserver.query.measure import Measure


class Connection:
    """A way to a server. Thread-safe; each thread takes a cursor of its own.

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
        """What holds where a text does not say it: `within`, `confidence` and `measure`."""
        return dict(self._exactness)

    def cursor(self) -> Cursor:
        """A new cursor."""
        self.check_open()
        return Cursor(self)

    def execute(self, operation: str, parameters: Any = None) -> Cursor:
        """A new cursor that has asked a statement, as `Cursor.execute` does."""
        return self.cursor().execute(operation, parameters)

    def commit(self) -> None:
        """Does nothing: what was asked is answered and charged at once."""
        self.check_open()

    def rollback(self) -> None:
        """Does nothing: no answer can be taken back, and no charge."""
        self.check_open()

    def close(self) -> None:
        """End the connection; its cursors cannot ask any more."""
        self._is_closed = True

    def check_open(self) -> None:
        """Return if the connection was not closed; InterfaceError."""
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
