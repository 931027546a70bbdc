"""The gate in front of the app: every request but those to public pages needs a caller."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from flask import Flask, request
from werkzeug.http import parse_list_header

from qserver.accounts import Caller
from qserver.api.access import Access, Credentials
from qserver.api.errors import early_response
from qserver.api.operation import operation_of
from qserver.errors import AccessError

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

PUBLIC_PATHS = frozenset({"/healthz", "/readyz", "/openapi.json", "/docs"})
_CALLER = "qserver.caller"


class Gate:
    """WSGI: lets a request through once it is known whose it is.

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
        """The app's response, or a problem."""
        if environ["PATH_INFO"] in PUBLIC_PATHS:
            return self._app(environ, start)
        try:
            environ[_CALLER] = self._access.admit(self._credentials(environ))
        except Exception as exc:  # noqa: BLE001 - whatever it is, nobody gets in
            return early_response(exc, environ)(environ, start)
        return self._app(environ, start)

    def _credentials(self, environ: WSGIEnvironment) -> Credentials:
        """Sender of a request; of a forwarded one the address that the outermost proxy saw."""
        address = environ.get("REMOTE_ADDR") or ""
        forwarded = environ.get("HTTP_X_FORWARDED_FOR", "")
        chain = parse_list_header(forwarded)
        if 0 < self._n_proxies <= len(chain):
            address = chain[-self._n_proxies][:64]
        return Credentials(environ.get("HTTP_AUTHORIZATION", ""), address, bool(forwarded))


def caller_of_request() -> Caller:
    """Who sends the request under way; AccessError where the gate saw nobody."""
    caller = request.environ.get(_CALLER)
    if not isinstance(caller, Caller):
        raise AccessError("This page is for accounts only.")
    return caller


def register_roles(app: Flask) -> None:
    """Let routes that are the owner's own answer nobody else."""

    @app.before_request
    def check_role() -> None:
        view = app.view_functions.get(request.endpoint or "")
        described = operation_of(view) if view else None
        if described is None or described.is_public:
            return
        if described.is_owners and caller_of_request().role != "owner":
            raise AccessError("Only an owner may read this.")
