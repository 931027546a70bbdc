"""The pages as one blueprint: access, headers, and errors as pages."""

from __future__ import annotations

import logging
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from flask import Blueprint, Flask, Response, g, make_response, redirect, request
from werkzeug.exceptions import HTTPException, NotFound
from werkzeug.wrappers import Response as BaseResponse

from qserver import __version__
from qserver.api.gate import SIGN_ON_PATHS, TOKEN_COOKIE, caller_of_request
from qserver.api.sign_on import SignOn
from qserver.errors import NotFoundError, QServerError, UnauthenticatedError
from qserver.portal import numbers
from qserver.portal.cookies import (
    FORM_COOKIE,
    PAGE_POLICY,
    check_form,
    form_cookie_of,
    form_token,
    new_form_cookie,
    set_cookie,
)
from qserver.portal.faults import fault_of, fault_of_http
from qserver.portal.pages.ask import AskPages
from qserver.portal.pages.datasets import DatasetPages, HistoryPages
from qserver.portal.pages.jobs import JobPages
from qserver.portal.pages.models import ModelPages
from qserver.portal.pages.owner import OwnerPages, WishPages
from qserver.portal.pages.saved_questions import SavedPages
from qserver.portal.pages.sign_on import SignInPages, SignOnPages
from qserver.portal.render import page, this_page
from qserver.query import request_fields as fields
from qserver.records.account import Caller
from qserver.service.service import Service

HOME = "/portal/"
_STATIC = Path(__file__).parent / "static"
_PUBLIC = frozenset(
    {"portal.static", "portal.show_sign_in", "portal.sign_in"}
    | {"portal.start_sign_on", "portal.end_sign_on"}
)
_log = logging.getLogger("qserver.portal")


class Portal:
    """The pages on one service; `register` puts them on an app.

    Args:
        sign_on: lets people sign in with a provider; None for tokens alone.
    """

    def __init__(self, service: Service, sign_on: SignOn | None = None) -> None:
        self._service = service
        self._sign_on = sign_on

    def register(self, app: Flask) -> None:
        """Add the pages, and send visitors of `/` to them."""
        app.add_url_rule("/", "portal_home", _go_home, methods=["GET"])
        app.add_url_rule("/portal", "portal_bare", _go_home, methods=["GET"])
        app.register_blueprint(self._blueprint())

    def _blueprint(self) -> Blueprint:
        routes = Blueprint(
            "portal",
            __name__,
            url_prefix="/portal",
            template_folder="templates",
            static_folder="static",
        )
        routes.before_request(_admit)
        routes.after_request(_finish)
        routes.context_processor(_context)
        routes.register_error_handler(QServerError, _on_known)
        routes.register_error_handler(HTTPException, _on_http)
        routes.register_error_handler(Exception, _on_unexpected)
        DatasetPages(self._service).add_to(routes)
        HistoryPages(self._service).add_to(routes)
        AskPages(self._service).add_to(routes)
        JobPages(self._service).add_to(routes)
        ModelPages(self._service).add_to(routes)
        SavedPages(self._service).add_to(routes)
        OwnerPages(self._service).add_to(routes)
        WishPages(self._service).add_to(routes)
        SignInPages(SIGN_ON_PATHS[0] if self._sign_on else "").add_to(routes)
        if self._sign_on is not None:
            SignOnPages(self._sign_on).add_to(routes)
        routes.get("/<path:rest>")(_nowhere)
        return routes


def _go_home() -> BaseResponse:
    return redirect(HOME, 303)


def _nowhere(rest: str) -> Response:
    raise NotFoundError("page", rest[:80])


def _admit() -> None:
    """All pages except the sign-in need a caller; each change must come from a form of ours."""
    g.form_cookie = form_cookie_of(request) or new_form_cookie()
    if request.endpoint in _PUBLIC:
        return
    g.caller = caller_of_request()
    if request.method == "POST":
        check_form(request)


def _finish(response: Response) -> Response:
    headers = response.headers
    headers["Content-Security-Policy"] = PAGE_POLICY
    # With `no-referrer` browsers would send forms from an origin `null`.
    headers["Referrer-Policy"] = "same-origin"
    if request.endpoint == "portal.static" and response.status_code == 200:
        headers["Cache-Control"] = "public, max-age=31536000, immutable"
    elif "form_cookie" in g and form_cookie_of(request) != g.form_cookie:
        set_cookie(response, request, FORM_COOKIE, g.form_cookie)
    return response


def _context() -> dict[str, Any]:
    token = request.cookies.get(TOKEN_COOKIE, "")
    caller: Caller | None = g.get("caller")
    return {
        "caller": caller,
        "field": fields,
        "form_token": form_token(g.form_cookie, token),
        "static": _static_address,
        "this_page": this_page,
        "version": __version__,
        "numbers": numbers,
    }


def _static_address(name: str) -> str:
    return f"/portal/static/{name}?v={_static_version()}"


@cache
def _static_version() -> str:
    """A version that changes with any of the files, which browsers keep for ever."""
    digest = sha256()
    for path in sorted(_STATIC.rglob("*")):
        if path.is_file():
            digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def _on_known(exc: QServerError) -> BaseResponse:
    if isinstance(exc, UnauthenticatedError):
        return redirect("/portal/sign-in", 303)
    fault = fault_of(exc)
    if fault.status >= 500:
        _log.error("%s: %s", exc.code, exc, extra={"code": exc.code}, exc_info=fault.is_internal)
    return _fault_page(fault)


def _on_http(exc: HTTPException) -> BaseResponse:
    if isinstance(exc, NotFound):
        return _on_known(NotFoundError("page", request.path[:80]))
    return _fault_page(fault_of_http(exc))


def _on_unexpected(exc: Exception) -> BaseResponse:
    _log.error("a page failed", exc_info=exc)
    return _fault_page(fault_of(exc))


def _fault_page(fault: Any) -> BaseResponse:
    if "form_cookie" not in g:
        g.form_cookie = form_cookie_of(request) or new_form_cookie()
    response = make_response(page("fault.html", fault=fault), fault.status)
    if fault.retry_after_s is not None:
        response.headers["Retry-After"] = str(fault.retry_after_s)
    return response
