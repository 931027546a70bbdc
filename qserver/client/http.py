"""A small HTTP client of a qserver, used by the command line and the Python clients.

Connections are kept and used again. A server may close an idle connection just as a request is
sent over it. Requests that may be repeated are then sent once more: reads, and questions with an
idempotency key, which are answered and charged once. Redirections are not followed, so that the
token goes only to the address that was given.

*The way to a server* is the proxy that the environment names for it, and the trusted authorities.
The variables are read as most programs read them. `HTTP_PROXY` and `HTTPS_PROXY` apply by the
scheme of the server's URL; `NO_PROXY` names the hosts to reach without a proxy. Names in small
letters win. `HTTP_PROXY` in capitals is ignored if `REQUEST_METHOD` is set: a client of CGI could
have written it. This machine itself is never reached through a proxy of the environment.
"""

from __future__ import annotations

import contextlib
import ipaddress
import json
import os
import re
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, quote, unquote, urlencode, urlsplit

import urllib3
from urllib3.exceptions import HTTPError, NewConnectionError, ProtocolError, ProxyError, SSLError
from urllib3.exceptions import TimeoutError as NoReplyError

from qserver.client.errors import (
    AccessProblemError,
    BudgetProblemError,
    QuestionProblemError,
    ServerProblemError,
    ServerUnreachableError,
)
from qserver.errors import ConfigError

DEFAULT_URL = "http://127.0.0.1:8000"
_PORTS = {"http": 80, "https": 443}


def default_url(environ: Mapping[str, str]) -> str:
    """QSERVER_URL, or the address of a local demo."""
    return environ.get("QSERVER_URL") or DEFAULT_URL


def proxy_for(url: str, environ: Mapping[str, str]) -> str:
    """The proxy's URL for a server at `url`, or '' for none.

    Raises:
        ConfigError: the variable that applies does not hold the URL of a proxy.
    """
    parts = urlsplit(url)
    name = f"{parts.scheme}_proxy"
    proxy = environ.get(name, "")
    if name not in environ and not (name == "http_proxy" and "REQUEST_METHOD" in environ):
        proxy = environ.get(name.upper(), "")
    host = parts.hostname or ""
    no_proxy = environ.get("no_proxy", environ.get("NO_PROXY", ""))
    if not proxy or _is_this_machine(host) or _is_excepted(parts, no_proxy):
        return ""
    return checked_proxy(proxy, name.upper())


def checked_proxy(proxy: str, name: str) -> str:
    """A proxy's URL, with http as its default scheme. It is never shown: it may hold a password.

    Raises:
        ConfigError: it is not the URL of a proxy.
    """
    url = proxy if "://" in proxy else f"http://{proxy}"
    try:
        parts = urlsplit(url)
        well_formed = parts.scheme in _PORTS and parts.hostname and parts.port != 0
    except ValueError:
        well_formed = False
    if not well_formed:
        raise ConfigError(name, "be http://[USER:PASSWORD@]HOST:PORT, or https")
    return url


def tls_context(ca: str | Path | None) -> ssl.SSLContext:
    """A context that checks the server's certificate and name.

    Args:
        ca: file or folder of the authorities to trust, in PEM; None for those of SSL_CERT_FILE and
            SSL_CERT_DIR, or the system's if these are not set.

    Raises:
        ConfigError: there are no certificates at `ca`.
    """
    if ca is None:
        return ssl.create_default_context()  # OpenSSL itself reads the two variables
    path = Path(ca)
    try:
        if path.is_dir():
            return ssl.create_default_context(capath=str(path))
        return ssl.create_default_context(cafile=str(path))
    except OSError as exc:
        raise ConfigError("ca", "be a file or folder of certificates in PEM", str(path)) from exc


def _is_this_machine(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    address = _address(host)
    return address is not None and (address.is_loopback or address.is_unspecified)


def _is_excepted(parts: SplitResult, no_proxy: str) -> bool:
    """Whether NO_PROXY excludes the host from proxies.

    An entry is `*`, a name (which includes its subdomains), an address, or a network such as
    10.0.0.0/8. A name or an address may have a port; then only that port is meant.
    """
    host, port = parts.hostname or "", parts.port or _PORTS[parts.scheme]
    entries = (text.strip().lower() for text in no_proxy.split(","))
    return any(_names(entry, host, port) for entry in entries if entry)


def _names(entry: str, host: str, port: int) -> bool:
    if entry == "*":
        return True
    address = _address(host)
    if address is not None:
        return _holds(entry, address, port)
    name, _, wanted = entry.partition(":")
    name = name.lstrip("*").strip(".")
    is_same = bool(name) and (host == name or host.endswith(f".{name}"))
    return is_same and wanted in ("", str(port))


def _holds(entry: str, address: ipaddress.IPv4Address | ipaddress.IPv6Address, port: int) -> bool:
    """Whether the entry is this address, with or without a port, or a network that contains it."""
    try:
        return address in ipaddress.ip_network(entry.strip("[]"), strict=False)
    except ValueError:
        parts = urlsplit(f"//{entry}")
    try:
        return _address(parts.hostname or "") == address and parts.port == port
    except ValueError:
        return False


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


MAX_REPLY_BYTES = 64 << 20
_CHUNK = 1 << 16
_FIRST_ERROR_STATUS = 400
_REDIRECTIONS = range(300, 400)
# Connections kept open for concurrent threads. Further ones are closed after their reply.
_KEPT_CONNECTIONS = 32
_SECONDS = re.compile(r"[0-9]{1,6}")
_KINDS: Mapping[str, type[ServerProblemError]] = dict.fromkeys(
    (
        "budget_exhausted",
        "over_at_most",
        "allowance_exhausted",
        "pace_exceeded",
        "disclosure_guard",
        "claim_guard",
        "period_retired",
        "unconfirmed",
    ),
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
    """A successful reply: its text as sent, and the object parsed from it."""

    text: str
    document: Mapping[str, Any] = field(repr=False)
    status: int = 200


@dataclass(frozen=True)
class _Response:
    status: int
    content: bytes
    retry_after: str

    @classmethod
    def of(cls, response: urllib3.BaseHTTPResponse) -> _Response:
        """The response with its body, or the beginning of one that is too long.

        Raises if the body breaks off.
        """
        content = response.read(MAX_REPLY_BYTES + 1)
        if len(content) <= MAX_REPLY_BYTES:
            response.read(1)  # makes urllib3 compare the stated length with the real one
        return cls(response.status, content, response.headers.get("Retry-After", ""))


@dataclass(frozen=True)
class HttpClient:
    """Calls of one server, over connections that are kept. Thread-safe.

    Args:
        url: `http://host[:port][/prefix]`, or https. No user, query or fragment.
        timeout_s: longest time to connect, and for each wait on the server, in seconds.
        token: of an account, or '' for none.
        ca: file or folder of the authorities to trust, in PEM; None for SSL_CERT_FILE and
            SSL_CERT_DIR, or the system's.
        proxy: URL of a proxy, '' for none; None for that of HTTP_PROXY, HTTPS_PROXY and NO_PROXY.

    Raises:
        ConfigError: the URL, the time, the token, the authorities or the proxy is malformed.
    """

    url: str
    timeout_s: float = 30.0
    token: str = field(default="", repr=False)
    ca: str | Path | None = None
    proxy: str | None = field(default=None, repr=False)
    _pool: urllib3.PoolManager = field(init=False, repr=False, compare=False)

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
        object.__setattr__(self, "_pool", self._make_pool())

    def _make_pool(self) -> urllib3.PoolManager:
        proxy = self.proxy
        if proxy is None:
            proxy = proxy_for(self.url, os.environ)
        elif proxy:
            proxy = checked_proxy(proxy, "proxy")
        secure = any(urlsplit(url).scheme == "https" for url in (self.url, proxy))
        tls = tls_context(self.ca) if secure else None
        if not proxy:
            return urllib3.PoolManager(maxsize=_KEPT_CONNECTIONS, ssl_context=tls)
        return urllib3.ProxyManager(
            proxy,
            maxsize=_KEPT_CONNECTIONS,
            proxy_headers=_credentials(proxy),
            proxy_ssl_context=tls,
            ssl_context=tls,
        )

    def get(
        self,
        *segments: str,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        """The reply to GET on the path made of `segments`.

        Raises:
            ServerProblemError: the server refused.
            ServerUnreachableError: no server answered.
        """
        suffix = "?" + urlencode(query) if query else ""
        return _read_reply(self._exchange("GET", _path(segments) + suffix, body=None, more=headers))

    def get_text(self, *segments: str, query: Mapping[str, str] | None = None) -> str:
        """The reply to GET of plain text. Raises as `get` does."""
        suffix = "?" + urlencode(query) if query else ""
        found = self._exchange("GET", _path(segments) + suffix, body=None)
        if found.status >= _REDIRECTIONS.start or len(found.content) > MAX_REPLY_BYTES:
            return _read_reply(found).text
        return found.content.decode()

    def chunks(self, *segments: str, query: Mapping[str, str]) -> Iterator[bytes]:
        """The reply to GET in pieces; it may be of any length. Raises as `get` does.

        If the reply does not state its length, an early end goes unnoticed.
        """
        path = _path(segments) + "?" + urlencode(query)
        with self._sent("GET", path, body=None, more={}) as response:
            if response.status >= _REDIRECTIONS.start:
                _read_reply(_Response.of(response))
            while chunk := response.read(_CHUNK):
                yield chunk

    def post(
        self,
        *segments: str,
        document: Mapping[str, Any],
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        """The reply to POST of `document`. Raises as `get` does."""
        body = json.dumps(document, allow_nan=False).encode()
        return _read_reply(self._exchange("POST", _path(segments), body=body, more=headers))

    def _exchange(
        self, method: str, path: str, *, body: bytes | None, more: Mapping[str, str] | None = None
    ) -> _Response:
        with self._sent(method, path, body=body, more=more or {}) as response:
            return _Response.of(response)

    @contextmanager
    def _sent(
        self, method: str, path: str, *, body: bytes | None, more: Mapping[str, str]
    ) -> Iterator[urllib3.BaseHTTPResponse]:
        """The response to a request; it must be read within the block."""
        headers = {
            "Accept": "application/json, application/problem+json",
            "User-Agent": "qserver",
            **more,
        }
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        if body is not None:
            headers["Content-Type"] = "application/json"
        try:
            response = self._begun(method, path, body=body, headers=headers)
            try:
                yield response
            finally:
                # A response read to its end is back in the pool by now. This closes all others.
                response.close()
        except (HTTPError, OSError) as exc:
            # The text has the reason; the errors below it would fill a screen.
            raise ServerUnreachableError(_unreachable_text(exc, self)) from None

    def _begun(
        self, method: str, path: str, *, body: bytes | None, headers: Mapping[str, str]
    ) -> urllib3.BaseHTTPResponse:
        """The response up to its headers; a request that may be repeated is sent again once."""
        may_repeat = method == "GET" or "Idempotency-Key" in headers
        try:
            return self._request(method, path, body=body, headers=headers)
        except ProtocolError:
            if not may_repeat:
                raise
        return self._request(method, path, body=body, headers=headers)

    def _request(
        self, method: str, path: str, *, body: bytes | None, headers: Mapping[str, str]
    ) -> urllib3.BaseHTTPResponse:
        parts = urlsplit(self.url)
        return self._pool.urlopen(
            method,
            f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}{path}",
            body=body,
            headers=headers,
            timeout=urllib3.Timeout(connect=self.timeout_s, read=self.timeout_s),
            retries=False,
            redirect=False,
            preload_content=False,
            decode_content=False,
        )


def _credentials(proxy: str) -> dict[str, str]:
    """The header with a proxy's user and password."""
    parts = urlsplit(proxy)
    if parts.username is None:
        return {}
    pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return dict(urllib3.make_headers(proxy_basic_auth=pair))


def _unreachable_text(error: Exception, client: HttpClient) -> str:
    if isinstance(error, NoReplyError) and not isinstance(error, NewConnectionError):
        return f"{client.url} did not answer within {client.timeout_s:g} s."
    if isinstance(error, ProxyError):
        return (
            f"The proxy on the way to {client.url} refuses the connection "
            f"({_reason(error.original_error)}). Mend HTTP_PROXY or HTTPS_PROXY, or name the host "
            "in NO_PROXY."
        )
    if isinstance(error, SSLError):
        return (
            f"{client.url} cannot be trusted ({_reason(error)}). If its certificate is of an "
            "authority of your own, name that in SSL_CERT_FILE."
        )
    return (
        f"No qserver answers at {client.url} ({_reason(error)}). Start one with `qserver demo`, or "
        "name its address: in QSERVER_URL, with --url, or as `url`."
    )


def _reason(error: BaseException) -> str:
    """The text of the innermost error that has one for people, or the name of its class."""
    found: BaseException | None = error
    last = type(error).__name__
    while found is not None:
        said = getattr(found, "verify_message", None) or getattr(found, "strerror", None)
        if said:
            return str(said)
        last = type(found).__name__
        if isinstance(found, OSError) and found.args:
            last = str(found)  # such as a proxy's refusal, which has no number
        inner = [a for a in found.args if isinstance(a, BaseException)]
        found = found.__cause__ or found.__context__ or (inner[-1] if inner else None)
    return last


def _path(segments: tuple[str, ...]) -> str:
    return "".join("/" + quote(segment, safe="") for segment in segments)


def _read_reply(response: _Response) -> Reply:
    status, content, document = response.status, response.content, None
    if status in _REDIRECTIONS:
        raise ServerProblemError(
            code="bad_reply",
            detail=f"The server sends us to another address (status {status}), where a token must "
            "not go unasked. Check --url.",
            status=status,
        )
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
        wait_s = int(response.retry_after) if _SECONDS.fullmatch(response.retry_after) else None
        raise problem_of(document, status=status, retry_after_s=wait_s)
    return Reply(text=text, document=document, status=status)


def problem_of(
    document: Mapping[str, Any], *, status: int | None = None, retry_after_s: int | None = None
) -> ServerProblemError:
    """The error for the problem document of a response or of a failed job."""
    told = status or document.get("status")
    status = told if isinstance(told, int) else None
    fallback = f"The server refused{f' (status {status})' if status else ''}."
    detail = document.get("detail") or document.get("message") or document.get("title") or fallback
    facts = {k: v for k, v in document.items() if k not in (*_PROBLEM_MEMBERS, "message")}
    code = str(document.get("code", "bad_reply"))
    return _KINDS.get(code, _STATUS_KINDS.get(status or 0, ServerProblemError))(
        code=code, detail=str(detail), facts=facts, status=status, retry_after_s=retry_after_s
    )
