"""A small HTTP client of a qserver, on the standard library; the command line talks through it."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from qserver.client_errors import (
    AccessProblemError,
    BudgetProblemError,
    QuestionProblemError,
    ServerProblemError,
    ServerUnreachableError,
)
from qserver.errors import ConfigError

MAX_REPLY_BYTES = 64 << 20
_CHUNK = 1 << 16
_FIRST_ERROR_STATUS = 400
_SECONDS = re.compile(r"[0-9]{1,6}")
_KINDS: Mapping[str, type[ServerProblemError]] = dict.fromkeys(
    ("budget_exhausted", "allowance_exhausted", "pace_exceeded", "disclosure_guard"),
    BudgetProblemError,
)
_STATUS_KINDS: Mapping[int, type[ServerProblemError]] = {
    401: AccessProblemError,
    403: AccessProblemError,
    422: QuestionProblemError,
}
_PROBLEM_MEMBERS = ("type", "title", "status", "detail", "code", "instance")


@dataclass(frozen=True)
class Reply:
    """A successful answer: its JSON text as sent, and the same parsed to an object."""

    text: str
    document: Mapping[str, Any] = field(repr=False)
    status: int = 200


@dataclass(frozen=True)
class _Response:
    status: int
    content: bytes
    retry_after: str


@dataclass(frozen=True)
class HttpClient:
    """Calls of one server; every call opens a connection of its own.

    Args:
        url: `http://host[:port][/prefix]`, or https. No user, query or fragment.
        timeout_s: limit for connecting and for each wait on the server, in seconds.
        token: of an account, or '' for none.

    Raises:
        ConfigError: the URL, the time or the token is malformed.
    """

    url: str
    timeout_s: float = 30.0
    token: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        try:
            well_formed = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
        except ValueError:
            well_formed = False
        if not well_formed or "@" in parts.netloc or parts.query or parts.fragment:
            raise ConfigError("url", "be http://HOST:PORT or https://HOST:PORT")
        if not 0 < self.timeout_s <= 86_400:
            raise ConfigError("timeout", "be > 0 and <= 86,400 seconds", self.timeout_s)
        if not (self.token.isascii() and self.token.isprintable()) or " " in self.token:
            raise ConfigError("token", "be a token as `qserver account create` printed it")

    def get(self, *segments: str, query: Mapping[str, str] | None = None) -> Reply:
        """The answer to GET on the path made of `segments`.

        Raises:
            ServerProblemError: the server refused.
            ServerUnreachableError: nobody answered.
        """
        suffix = "?" + urlencode(query) if query else ""
        return self._call("GET", _path(segments) + suffix, body=None)

    def get_text(self, *segments: str, query: Mapping[str, str] | None = None) -> str:
        """The answer to GET where it is text and no JSON. Raises as `get` does."""
        suffix = "?" + urlencode(query) if query else ""
        found = self._exchange("GET", _path(segments) + suffix, body=None)
        if found.status >= _FIRST_ERROR_STATUS or len(found.content) > MAX_REPLY_BYTES:
            return _read_reply(found.status, found.content, retry_after=found.retry_after).text
        return found.content.decode()

    def chunks(self, *segments: str, query: Mapping[str, str]) -> Iterator[bytes]:
        """The answer to GET in pieces, of any length in all. Raises as `get` does.

        Where the answer's length is not stated it may end early unseen.
        """
        path = _path(segments) + "?" + urlencode(query)
        with self._sent("GET", path, body=None, more={}) as response:
            if response.status >= _FIRST_ERROR_STATUS:
                content = response.read(MAX_REPLY_BYTES + 1)
                wait = response.headers.get("Retry-After", "")
                _read_reply(response.status, content, retry_after=wait)
            while chunk := response.read(_CHUNK):
                yield chunk

    def post(
        self,
        *segments: str,
        document: Mapping[str, Any],
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        """The answer to POST of `document`. Raises as `get` does."""
        body = json.dumps(document, allow_nan=False).encode()
        return self._call("POST", _path(segments), body=body, more=headers or {})

    def _call(
        self, method: str, path: str, *, body: bytes | None, more: Mapping[str, str] | None = None
    ) -> Reply:
        found = self._exchange(method, path, body=body, more=more)
        return _read_reply(found.status, found.content, retry_after=found.retry_after)

    def _exchange(
        self, method: str, path: str, *, body: bytes | None, more: Mapping[str, str] | None = None
    ) -> _Response:
        with self._sent(method, path, body=body, more=more or {}) as response:
            content = response.read(MAX_REPLY_BYTES + 1)
            return _Response(response.status, content, response.headers.get("Retry-After", ""))

    @contextmanager
    def _sent(
        self, method: str, path: str, *, body: bytes | None, more: Mapping[str, str]
    ) -> Iterator[http.client.HTTPResponse]:
        """The response to a request, to be read within the block."""
        connection = self._connection()
        headers = {"Accept": "application/json, application/problem+json", **more}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        if body is not None:
            headers["Content-Type"] = "application/json"
        try:
            connection.request(method, self._prefix + path, body=body, headers=headers)
            yield connection.getresponse()
        except TimeoutError as exc:
            raise ServerUnreachableError(
                f"{self.url} did not answer within {self.timeout_s:g} s."
            ) from exc
        except (OSError, http.client.HTTPException) as exc:
            reason = getattr(exc, "strerror", None) or type(exc).__name__
            raise ServerUnreachableError(
                f"No qserver answers at {self.url} ({reason}). Start one with `qserver demo`, "
                "or give its address with --url."
            ) from exc
        finally:
            connection.close()

    @property
    def _prefix(self) -> str:
        return urlsplit(self.url).path.rstrip("/")

    def _connection(self) -> http.client.HTTPConnection:
        parts = urlsplit(self.url)
        kind = (
            http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        )
        return kind(parts.hostname or "", parts.port, timeout=self.timeout_s)


def _path(segments: tuple[str, ...]) -> str:
    return "".join("/" + quote(segment, safe="") for segment in segments)


def _read_reply(status: int, content: bytes, *, retry_after: str) -> Reply:
    document = None
    with contextlib.suppress(ValueError, RecursionError):
        text = content.decode()
        document = json.loads(text)
    if not isinstance(document, dict) or len(content) > MAX_REPLY_BYTES:
        raise ServerProblemError(
            code="bad_reply",
            detail=f"The reply (status {status}) is not qserver's. Check --url.",
            status=status,
        )
    if status >= _FIRST_ERROR_STATUS:
        wait_s = int(retry_after) if _SECONDS.fullmatch(retry_after) else None
        raise problem_of(document, status=status, retry_after_s=wait_s)
    return Reply(text=text, document=document, status=status)


def problem_of(
    document: Mapping[str, Any], *, status: int | None = None, retry_after_s: int | None = None
) -> ServerProblemError:
    """The error that a problem document (of a response, or of a failed job) tells of."""
    told = status or document.get("status")
    status = told if isinstance(told, int) else None
    fallback = f"The server refused{f' (status {status})' if status else ''}."
    detail = document.get("detail") or document.get("message") or document.get("title") or fallback
    facts = {k: v for k, v in document.items() if k not in (*_PROBLEM_MEMBERS, "message")}
    code = str(document.get("code", "bad_reply"))
    return _KINDS.get(code, _STATUS_KINDS.get(status or 0, ServerProblemError))(
        code=code, detail=str(detail), facts=facts, status=status, retry_after_s=retry_after_s
    )
