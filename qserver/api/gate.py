"""The gate in front of the app: every request, except to public pages, needs a caller.

Programs send a token in `Authorization`. A browser keeps it in a cookie that goes to the web pages
alone, so that no page of another origin can use it on the JSON interface.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from flask import Flask, request
from werkzeug.http import parse_cookie, parse_list_header

from qserver.api.access import Access, Credentials
from qserver.api.errors import early_response
from qserver.api.operation import operation_of
from qserver.errors import AccessError, QServerError, UnauthenticatedError
from qserver.records.account import Caller

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

PAGES = "/portal/"
SIGN_ON_PATHS = (f"{PAGES}sign-in/start", f"{PAGES}sign-in/back")
"""Where a sign-in with a provider begins, and where the provider sends the browser back."""
PUBLIC_PATHS = frozenset(
    {"/", "/portal", f"{PAGES}sign-in", "/healthz", "/readyz", "/openapi.json", "/docs"}
).union(SIGN_ON_PATHS)
TOKEN_COOKIE = "qserver_token"  # noqa: S105 - the name of a cookie
_STATIC = f"{PAGES}static/"
_SANE_HOST = re.compile(r"[A-Za-z0-9.:_\[\]-]{1,255}\Z")
_CALLER = "qserver.caller"
_REFUSAL = "qserver.refusal"
_GATE = "qserver.gate"


class AccessGate:
    """WSGI: lets a request through once its caller is known.

    Args:
        app: the whole app, kept answers included.
        access: decides.
        n_proxies: proxies in front of us, of which each adds an address to X-Forwarded-For.
    """

    def __init__(self, app: WSGIApplication, access: Access, *, n_proxies: int = 0) -> None:
        self._app = app
        self._access = access
        self._n_proxies = n_proxies

    def __call__(self, environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        """The app's response, or a problem; of a web page the app's own page about it."""
        path = environ["PATH_INFO"]
        environ[_GATE] = self
        if path in PUBLIC_PATHS or path.startswith(_STATIC):
            return self._app(environ, start)
        is_page = path.startswith(PAGES)
        if _CALLER in environ or _REFUSAL in environ:
            return self._app(environ, start)  # a repeated run of an admitted request
        try:
            environ[_CALLER] = self._access.admit(self._credentials(environ, is_page=is_page))
        except Exception as exc:  # noqa: BLE001 - whatever it is, nobody gets in
            if not (is_page and isinstance(exc, QServerError)):
                return early_response(exc, environ)(environ, start)
            # `caller_of_request` raises it again, in every page.
            environ[_REFUSAL] = exc
        return self._app(environ, start)

    def admit(self, token: str, environ: WSGIEnvironment) -> Caller:
        """The bearer of a token that a page was given; AccessError, StoreError."""
        return self._access.admit(self._sender(f"Bearer {token}", environ))

    def _credentials(self, environ: WSGIEnvironment, *, is_page: bool) -> Credentials:
        authorization = environ.get("HTTP_AUTHORIZATION", "")
        if is_page:
            token = parse_cookie(environ).get(TOKEN_COOKIE, "")
            authorization = f"Bearer {token}" if token else ""
        return self._sender(authorization, environ)

    def _sender(self, authorization: str, environ: WSGIEnvironment) -> Credentials:
        """The sender of a request; of a forwarded one the address that the outermost proxy saw."""
        address = environ.get("REMOTE_ADDR") or ""
        forwarded = environ.get("HTTP_X_FORWARDED_FOR", "")
        chain = parse_list_header(forwarded)
        if 0 < self._n_proxies <= len(chain):
            address = chain[-self._n_proxies][:64]
        host = _host_name(environ.get("HTTP_HOST", ""))
        return Credentials(authorization, address, bool(forwarded), host)


def _host_name(host: str) -> str:
    """The name in a Host header, without port and brackets; for an old request without one, ''."""
    if not host:
        return "localhost"
    return urlsplit(f"//{host}").hostname or "" if _SANE_HOST.match(host) else ""


def caller_of_request() -> Caller:
    """The sender of the present request; AccessError if the gate saw nobody."""
    refusal = request.environ.get(_REFUSAL)
    if isinstance(refusal, QServerError):
        raise refusal
    caller = request.environ.get(_CALLER)
    if not isinstance(caller, Caller):
        raise AccessError("This page is for accounts only.")
    return caller


def caller_of_token(token: str) -> Caller:
    """The bearer of the token in the present request; AccessError, StoreError."""
    gate = request.environ.get(_GATE)
    if not isinstance(gate, AccessGate):
        raise UnauthenticatedError
    return gate.admit(token, request.environ)


def register_roles(app: Flask) -> None:
    """Keep the owner's routes for owners."""

    @app.before_request
    def check_role() -> None:
        view = app.view_functions.get(request.endpoint or "")
        described = operation_of(view) if view else None
        if described is None or described.is_public:
            return
        if described.is_owners and caller_of_request().role != "owner":
            raise AccessError("Only an owner may read this.")
