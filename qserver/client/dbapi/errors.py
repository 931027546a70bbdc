"""The errors of PEP 249, made from those of the client.

Exception
├── Warning
└── Error
    ├── InterfaceError              the driver was used wrongly
    └── DatabaseError               the server refused
        ├── DataError               never raised
        ├── OperationalError        no server, no access, no time, or the budget
        │   └── PriceError          it costs something, or too much; has the price
        ├── IntegrityError          never raised
        ├── InternalError           never raised
        ├── ProgrammingError        the statement is wrong
        └── NotSupportedError       there is nothing like it here
"""

from __future__ import annotations

import builtins
from collections.abc import Iterator
from contextlib import contextmanager

from qserver.client.errors import (
    AccessProblemError,
    BudgetProblemError,
    NotDoneError,
    QuestionProblemError,
    ServerProblemError,
    ServerUnreachableError,
)
from qserver.errors import InputError, QServerError, SqlError

_ALLOW = "`connect(..., spend=True)` or `connection.spend = True` allows it."


class Warning(builtins.Warning):  # noqa: A001 - PEP 249 names it so
    """An important remark that is no error; never raised."""


class Error(Exception):
    """Base of all errors of the driver; `__cause__` is the client's error."""


class InterfaceError(Error):
    """The driver was used wrongly, as after `close`."""


class DatabaseError(Error):
    """The server refused."""


class DataError(DatabaseError):
    """Never raised; PEP 249 asks for it."""


class OperationalError(DatabaseError):
    """No server answers, the token may not do this, or the time is over."""


class IntegrityError(DatabaseError):
    """Never raised; PEP 249 asks for it."""


class InternalError(DatabaseError):
    """Never raised; PEP 249 asks for it."""


class ProgrammingError(DatabaseError):
    """The statement is wrong, or its dataset is missing."""


class NotSupportedError(DatabaseError):
    """The driver offers nothing like it."""


class PriceError(OperationalError):
    """The statement would cost more than the connection may spend; nothing was spent.

    Args:
        price, remaining: in epsilon; None where the server does not tell.
        add: what to add to a statement without WITHIN to pay that; '' for nothing.
    """

    def __init__(
        self, message: str, *, price: float | None, remaining: float | None, add: str
    ) -> None:
        self.price, self.remaining, self.add = price, remaining, add
        super().__init__(message)


_KINDS: tuple[tuple[type[QServerError], type[Error]], ...] = (
    (QuestionProblemError, ProgrammingError),
    (AccessProblemError, OperationalError),
    (ServerUnreachableError, OperationalError),
    (NotDoneError, OperationalError),
    (InputError, ProgrammingError),
    (QServerError, DatabaseError),
)


@contextmanager
def translated() -> Iterator[None]:
    """Turn errors of the client into those of PEP 249."""
    try:
        yield
    except BudgetProblemError as exc:
        raise _priced(exc) from exc
    except QServerError as exc:
        is_missing = isinstance(exc, ServerProblemError) and exc.code == "not_found"
        kind = next(kind for of, kind in _KINDS if isinstance(exc, of))
        raise (ProgrammingError if is_missing else kind)(_shown(exc)) from exc


def _shown(exc: QServerError) -> str:
    """The message, and below it the place in the statement."""
    excerpt = exc.excerpt if isinstance(exc, SqlError) else None
    if isinstance(exc, ServerProblemError):
        excerpt = exc.facts.get("excerpt")
    return f"{exc}\n{excerpt}" if excerpt else str(exc)


def _priced(exc: BudgetProblemError) -> PriceError:
    facts, add = exc.facts, str(exc.facts.get("add", ""))
    is_asked = exc.code == "unconfirmed" and not add
    message = f"{exc} {_ALLOW}" if is_asked else str(exc)
    price, left = facts.get("price"), facts.get("remaining")
    return PriceError(message, price=price, remaining=left, add=add)
