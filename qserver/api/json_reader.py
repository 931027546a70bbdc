"""JSON as this server takes it: exact decimals, no duplicate keys, bounded depth and numbers."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from typing import Any, NoReturn

from flask import Request
from gunicorn.http.errors import ParseException  # type: ignore[import-untyped]
from werkzeug.exceptions import ClientDisconnected, RequestEntityTooLarge

from qserver.api.errors import RequestError

MAX_DEPTH = 64
MAX_DIGITS = 64
# Of a body past the limit, so much is taken off the wire; then the connection is closed.
MAX_DISCARDED = 32 << 20
_PIECE = 1 << 16


class JsonFaultError(ValueError):
    """Text that is not JSON, or JSON past a bound; `line` and `column` where known."""

    def __init__(self, message: str, *, line: int | None = None, column: int | None = None) -> None:
        self.line = line
        self.column = column
        place = "" if line is None else f" (line {line}, column {column})"
        super().__init__(f"{message}{place}")


def parse_json(text: str) -> Any:
    """The value of a JSON text; numbers with a point or an exponent become Decimal.

    Raises:
        JsonFaultError: not JSON (RFC 8259), a key twice in one object, NaN or Infinity, a number
            of more than 64 characters, half a surrogate pair, or nested deeper than 64.
    """
    try:
        value = _DECODER.decode(text)
    except json.JSONDecodeError as exc:
        raise JsonFaultError(exc.msg, line=exc.lineno, column=exc.colno) from exc
    except RecursionError as exc:
        raise JsonFaultError(f"Nested deeper than {MAX_DEPTH}") from exc
    _check_shape(value)
    return value


def read_body(request: Request) -> bytes:
    """The raw body of a request whose content type is JSON.

    Raises:
        RequestError: another content type, charset or content encoding (415).
        RequestEntityTooLarge: more than the server takes (413).
        ClientDisconnected: the body ends early, or its chunks are malformed (400).
    """
    if request.environ.get("CONTENT_TYPE") != "application/json":
        charset = request.mimetype_params.get("charset", "utf-8").lower()
        if request.mimetype != "application/json" or charset != "utf-8":
            raise RequestError(
                "unsupported_media_type", "`Content-Type` must be application/json in UTF-8."
            )
    if request.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise RequestError("unsupported_media_type", "`Content-Encoding` must be left out.")
    length = request.content_length
    if length is None:
        return _read_chunks(request)
    limit = request.max_content_length
    if limit is not None and length > limit:
        _discard(request, min(length, MAX_DISCARDED))
        raise RequestEntityTooLarge
    return request.get_data(cache=False)


def parse_object(body: bytes) -> dict[str, Any]:
    """The JSON object that a body holds.

    Raises:
        RequestError: it is not UTF-8, not JSON, or not an object (400).
    """
    try:
        value = parse_json(body.decode())
    except UnicodeDecodeError as exc:
        detail = f"The body is not UTF-8 at byte {exc.start}."
        raise RequestError("malformed_json", detail) from exc
    except JsonFaultError as exc:
        places = {"line": exc.line, "column": exc.column}
        known = {name: place for name, place in places.items() if place is not None}
        raise RequestError("malformed_json", f"{exc}.", **known) from exc
    if not isinstance(value, dict):
        raise RequestError("malformed_json", "The body must be a JSON object.")
    return value


def _discard(request: Request, n_bytes: int) -> None:
    """Read a refused body and forget it: most clients send all before they listen."""
    stream = request.environ["wsgi.input"]
    while n_bytes > 0:
        n_read = len(stream.read(min(n_bytes, _PIECE)))
        if n_read == 0:
            return
        n_bytes -= n_read


def _read_chunks(request: Request) -> bytes:
    """The chunks of a body; Werkzeug would silently cut it off at the limit."""
    limit = request.max_content_length
    if limit is not None:
        request.max_content_length = limit + 1
    try:
        body = request.get_data(cache=False)
    except ParseException as exc:  # gunicorn's own, which Werkzeug does not know
        raise ClientDisconnected("The body's chunks are malformed.") from exc
    if limit is not None and len(body) > limit:
        raise RequestEntityTooLarge
    return body


def _unique(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        counts = Counter(name for name, _ in pairs)
        repeated = next(name for name, count in counts.items() if count > 1)
        raise JsonFaultError(f"The key {repeated[:80]!r} comes twice in one object")
    return value


def _decimal(text: str) -> Decimal:
    _check_digits(text)
    try:
        return Decimal(text)
    except InvalidOperation as exc:
        raise JsonFaultError("A number's exponent is too large") from exc


def _integer(text: str) -> int:
    _check_digits(text)
    return int(text)


def _check_digits(text: str) -> None:
    if len(text) > MAX_DIGITS:
        raise JsonFaultError(f"A number has more than {MAX_DIGITS} characters")


def _refuse_constant(name: str) -> NoReturn:
    raise JsonFaultError(f"{name} is not a JSON number")


_DECODER = json.JSONDecoder(
    object_pairs_hook=_unique,
    parse_float=_decimal,
    parse_int=_integer,
    parse_constant=_refuse_constant,
)


def _check_shape(document: object) -> None:
    """Check depth, and texts that UTF-8 cannot hold, without recursion."""
    rest = [(document, 0)]
    while rest:
        value, depth = rest.pop()
        if depth > MAX_DEPTH:
            raise JsonFaultError(f"Nested deeper than {MAX_DEPTH}")
        if isinstance(value, str):
            _check_text(value)
        elif isinstance(value, dict):
            rest.extend((key, depth) for key in value)
            rest.extend((item, depth + 1) for item in value.values())
        elif isinstance(value, list):
            rest.extend((item, depth + 1) for item in value)


def _check_text(text: str) -> None:
    if text.isascii():
        return
    try:
        text.encode()
    except UnicodeEncodeError as exc:
        raise JsonFaultError("A text holds half a surrogate pair") from exc
