"""What a process of the online side opens at its start: the store, accounts, sign-on, its log.

The online side's logs: what fails, under the request's id; a line per request only if asked.

No line holds a question, an answer, a dataset's name or a client's address.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any

from flask import has_request_context

from qserver.api.access import Access, OpenAccess, TokenAccess
from qserver.api.headers import request_id
from qserver.api.sign_on import SignOn
from qserver.errors import StoreUnavailableError
from qserver.program.telemetry import present, trace_id_of

if TYPE_CHECKING:
    from qserver.config import Settings
    from qserver.storage.store import Store

# A process that is started while the store is on its way back shall not end, and the server with
# it: gunicorn gives up when one cannot start.
_STORE_WAIT_S = 10.0
_STORE_POLL_S = 0.05
# A worker takes some seconds to load its data, more on a busy machine. What is asked meanwhile
# waits for it as for an answer.
STARTING_S = 30.0


def sign_on_of(store: Store, settings: Settings) -> SignOn | None:
    """Single sign-on, where the settings name a provider."""
    from qserver.storage.accounts import AccountBook

    return None if settings.open_access else SignOn.of(settings, AccountBook(store.client))


def access_of(store: Store, settings: Settings, sign_on: SignOn | None) -> Access:
    """Who may ask: accounts, or anybody on this machine."""
    from qserver.storage.accounts import AccountBook, RateLimiter

    if settings.open_access:
        return OpenAccess()
    return TokenAccess(
        AccountBook(store.client),
        RateLimiter(store.client),
        token_rate=settings.token_rate,
        address_rate=settings.address_rate,
        sign_on=sign_on,
    )


def open_store(settings: Settings) -> Store:
    """The store, which may still be starting; raises as `Store.open` when late."""
    from qserver.storage.store import Store

    deadline = time.monotonic() + _STORE_WAIT_S
    while True:
        try:
            return Store.open(settings)
        except StoreUnavailableError:
            if time.monotonic() >= deadline:
                raise
        time.sleep(_STORE_POLL_S)


class RequestIdFilter(logging.Filter):
    """Gives each log record the id and the trace of its request."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Always true."""
        if has_request_context() and not hasattr(record, "request_id"):
            record.request_id = request_id()
        if not hasattr(record, "trace_id"):
            record.trace_id = trace_id_of(present())
        return True


def logging_config(log_format: str) -> dict[str, Any]:
    """The configuration of `logging` and of gunicorn's loggers: all to standard error.

    Args:
        log_format: `text` or `json`.
    """
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "filters": {"request_id": {"()": "qserver.api.process.start.RequestIdFilter"}},
        "formatters": {
            "chosen": {"()": "qserver.program.start.formatter_of", "log_format": log_format}
        },
        "handlers": {
            "stderr": {
                "class": "logging.StreamHandler",
                "formatter": "chosen",
                "filters": ["request_id"],
            }
        },
        "root": {"level": "WARNING", "handlers": ["stderr"]},
        "loggers": {
            "qserver": {"level": "INFO"},
            "gunicorn.error": {"level": "INFO", "handlers": ["stderr"], "propagate": False},
            "gunicorn.access": {"level": "ERROR", "handlers": [], "propagate": False},
        },
    }
