"""Headers that every response carries, and the request headers that mean something here."""

from __future__ import annotations

import re
from dataclasses import dataclass
from hashlib import sha256
from typing import Any
from uuid import uuid4

from flask import Request, Response, request
from werkzeug.http import parse_dict_header

from qserver.errors import InputError
from qserver.service.service import Idempotency

REQUEST_ID = "X-Request-Id"
CONTENT_POLICY = "default-src 'none'; frame-ancestors 'none'"

SECURITY_HEADERS = (
    ("Cache-Control", "no-store"),
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "no-referrer"),
    ("X-Frame-Options", "DENY"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Content-Security-Policy", CONTENT_POLICY),
)
ROUTE_KEY = "qserver.route"
_ENVIRON_KEY = "qserver.request_id"
_SANE_ID = re.compile(r"[A-Za-z0-9._-]{1,64}\Z")
_IDEMPOTENCY_KEY = re.compile(r"[ -~]{1,255}\Z")
_SECONDS = re.compile(r"[0-9]{1,6}\Z")


def request_id() -> str:
    """The id of the present request."""
    return request_id_of(request.environ)


def request_id_of(environ: dict[str, Any]) -> str:
    """A request's id: the client's X-Request-Id where it is sane, else a new random one."""
    known = environ.get(_ENVIRON_KEY)
    if known is None:
        given = environ.get("HTTP_X_REQUEST_ID", "")
        known = environ[_ENVIRON_KEY] = given if _SANE_ID.match(given) else uuid4().hex
    return str(known)


def finish_response(response: Response) -> Response:
    """The response with the security headers that its view did not set, and the request id."""
    headers = response.headers
    for name, value in SECURITY_HEADERS:
        headers.setdefault(name, value)
    headers[REQUEST_ID] = request_id()
    rule = request.url_rule
    if rule is not None:
        request.environ[ROUTE_KEY] = rule.rule
    return response


@dataclass(frozen=True)
class Preference:
    """The content of the Prefer header (RFC 7240).

    Args:
        is_async: `respond-async`: a job rather than a wait.
        wait_s: how long the client would wait, in seconds, where it says so.
    """

    is_async: bool = False
    wait_s: float | None = None

    def wait_at_most(self, limit_s: float) -> float:
        """Seconds to wait for an answer: the client's wish within the server's limit."""
        wish = self.wait_s if self.wait_s is not None else 0.0 if self.is_async else limit_s
        return min(wish, limit_s)


def preference_of(asked: Request) -> Preference:
    """The request's preference; unknown ones are ignored, as the RFC asks."""
    text = asked.headers.get("Prefer")
    if text is None:
        return Preference()
    wishes = {name.lower(): value for name, value in parse_dict_header(text).items()}
    wait = wishes.get("wait")
    seconds = float(wait) if isinstance(wait, str) and _SECONDS.match(wait) else None
    return Preference(is_async="respond-async" in wishes, wait_s=seconds)


def idempotency_of(
    asked: Request, *, dataset: str, body: bytes, token_id: str
) -> Idempotency | None:
    """The request's idempotency key, bound to its token, its dataset and the exact body.

    Raises:
        InputError: the key is not 1 to 255 printable ASCII characters.
    """
    key = asked.headers.get("Idempotency-Key")
    if key is None:
        return None
    if not _IDEMPOTENCY_KEY.match(key):
        raise InputError("Idempotency-Key", "be 1 to 255 printable ASCII characters")
    # Two tokens may use one key: each has its own. No key holds a line end.
    whole = f"{token_id}\n{key}" if token_id else key
    return Idempotency(whole, sha256(dataset.encode() + b"\n" + body).hexdigest())
