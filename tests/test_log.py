"""Log lines: one JSON object each, with the request's id, in whole seconds."""

from __future__ import annotations

import json
import logging
import sys
from typing import Any

import pytest

from qserver.program.start import formatter_of

pytestmark = [
    pytest.mark.promise(
        "Time",
        "metrics and logs tell no time finer than the slot",
    ),
]


def record(message: str, **extra: Any) -> logging.LogRecord:
    logger = logging.getLogger("qserver.test")
    found = logger.makeRecord("qserver.test", logging.ERROR, "f", 1, message, (), None, extra=extra)
    found.created = 1_700_000_000.987654
    return found


def test_a_json_line_has_the_known_fields_and_no_fraction_of_a_second() -> None:
    line = formatter_of("json").format(record("it failed", request_id="r1", status=503, secret="x"))
    assert json.loads(line) == {
        "time": "2023-11-14T22:13:20Z",
        "level": "error",
        "logger": "qserver.test",
        "message": "it failed",
        "request_id": "r1",
        "status": 503,
    }


def test_a_message_with_line_ends_stays_one_line() -> None:
    line = formatter_of("json").format(record('a\nb\u2028{"level": "info"}'))
    assert line.isascii()
    assert len(line.splitlines()) == 1
    assert json.loads(line)["message"] == 'a\nb\u2028{"level": "info"}'


def test_an_error_comes_with_its_trace() -> None:
    found = record("it failed")
    try:
        raise KeyError("x")
    except KeyError:
        found.exc_info = sys.exc_info()
    document = json.loads(formatter_of("json").format(found))
    assert document["error"] == "KeyError"
    assert "KeyError: 'x'" in document["trace"]


def test_a_text_line_ends_with_the_requests_id() -> None:
    line = formatter_of("text").format(record("it failed", request_id="r1"))
    assert line.endswith("ERROR it failed [r1]")
