"""Errors as PostgreSQL's clients expect them: a five-character code, a message, a place."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Final

from qserver.errors import (
    AccessError,
    AllowanceExhaustedError,
    BudgetExhaustedError,
    BusyError,
    CapacityError,
    DisclosureGuardError,
    InputError,
    NotFoundError,
    NoWorkerError,
    QServerError,
    RateLimitedError,
    SqlError,
    StoreError,
    UnauthenticatedError,
)
from qserver.query.sql.tables.unconfirmed import UnconfirmedError
from qserver.text import at_delta

PROTOCOL_VIOLATION: Final = "08P01"
SYNTAX: Final = "42601"
NOT_SUPPORTED: Final = "0A000"
READ_ONLY: Final = "25006"
TRANSACTION_FAILED: Final = "25P02"
NOT_ALLOWED: Final = "42501"
NO_TABLE: Final = "42P01"
NO_PARAMETER: Final = "42P02"
NO_STATEMENT: Final = "26000"
NO_PORTAL: Final = "34000"
WRONG_PASSWORD: Final = "28P01"  # noqa: S105 - a code
WRONG_VALUE: Final = "22023"
UNKNOWN_SETTING: Final = "42704"
TOO_MANY: Final = "53300"
TOO_LARGE: Final = "54000"
TOO_LATE: Final = "57014"
STOPPING: Final = "57P01"
NEEDS_SPEND: Final = "55000"
BUDGET: Final = "53400"
_INTERNAL: Final = "XX000"
_LOG = logging.getLogger(__name__)

_STATES: tuple[tuple[type[QServerError], str], ...] = (
    (UnconfirmedError, NEEDS_SPEND),
    (SqlError, SYNTAX),
    (InputError, WRONG_VALUE),
    (NotFoundError, NO_TABLE),
    (BudgetExhaustedError, BUDGET),
    (AllowanceExhaustedError, BUDGET),
    (DisclosureGuardError, BUDGET),
    (UnauthenticatedError, "28000"),
    (RateLimitedError, "53000"),
    (AccessError, NOT_ALLOWED),
    (CapacityError, TOO_LARGE),
    (BusyError, "53000"),
    (NoWorkerError, "57P03"),
    (StoreError, "58000"),
)
_ALLOW = "Run SET qserver.spend = on to allow it."


class PostgresError(Exception):
    """An error that a client is told.

    Args:
        state: the code of five characters (SQLSTATE).
        position: of the character in the text that was sent, from 1; 0 for none.
        ends: whether the connection ends with it.
    """

    def __init__(
        self,
        state: str,
        message: str,
        *,
        detail: str = "",
        hint: str = "",
        position: int = 0,
        ends: bool = False,
    ) -> None:
        super().__init__(message)
        self.state, self.message, self.detail, self.hint = state, message, detail, hint
        self.position, self.ends = position, ends


def violation(message: str) -> PostgresError:
    """The error of bytes outside the protocol; the connection ends."""
    return PostgresError(PROTOCOL_VIOLATION, message, ends=True)


def fault_of(
    exc: Exception,
    *,
    text: str = "",
    place: Callable[[int], int] = int,
    delta: float | None = None,
) -> PostgresError:
    """The client's error for another one; an unknown error tells nothing of itself.

    Args:
        text: of the statement that was asked.
        place: the place in the text that was sent, of a character of `text`, both from 1; 0 for
            none.
        delta: at which prices are epsilon; None under pure privacy.
    """
    if isinstance(exc, PostgresError):
        return exc
    if not isinstance(exc, QServerError):
        _LOG.error("A statement failed: %s", type(exc).__name__)
        return PostgresError(_INTERNAL, "The server failed. Its log says why.")
    state = next((state for kind, state in _STATES if isinstance(exc, kind)), _INTERNAL)
    message, hint = str(exc), getattr(exc, "hint", "")
    if hint and message.endswith(hint):
        message = message[: -len(hint)].rstrip()
    if isinstance(exc, UnconfirmedError) and not exc.words:
        hint = f"{hint} {_ALLOW}".strip()
    return PostgresError(
        state, message, detail=_price(exc, delta), hint=hint, position=place(_position(exc, text))
    )


def _price(exc: Any, delta: float | None) -> str:
    price, left = getattr(exc, "price_nano", None), getattr(exc, "remaining_nano", None)
    if price is None or left is None:
        return ""
    return f"price {price / 1e9:.9g} epsilon, remaining {left / 1e9:.9g} epsilon{at_delta(delta)}"


def _position(exc: QServerError, text: str) -> int:
    """The place in the text, in characters from 1; 0 without one."""
    if not isinstance(exc, SqlError) or not text:
        return 0
    lines = text.split("\n")
    before = sum(len(line) + 1 for line in lines[: exc.line - 1])
    return min(before + exc.column, len(text) + 1)
