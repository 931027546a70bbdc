"""The online side's logs: what fails, under the request's id; a line per request only if asked.

No line holds a question, an answer, a dataset's name or a client's address.
"""

from __future__ import annotations

import logging
from typing import Any

from flask import has_request_context

from qserver.api.headers import request_id


class RequestIdFilter(logging.Filter):
    """Gives each record of a request its id."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Always true."""
        if has_request_context() and not hasattr(record, "request_id"):
            record.request_id = request_id()
        return True


def logging_config(log_format: str) -> dict[str, Any]:
    """The configuration of `logging` and of gunicorn's own loggers: all to standard error.

    Args:
        log_format: `text` or `json`.
    """
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "filters": {"request_id": {"()": "qserver.api.process.logs.RequestIdFilter"}},
        "formatters": {"chosen": {"()": "qserver.log.formatter_of", "log_format": log_format}},
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
