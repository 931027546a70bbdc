"""Signing in with an API token, or at a provider of OpenID Connect by the code flow with PKCE.

The browser keeps what this sign-in may end with: a state, a nonce and the code's verifier, in a
cookie that scripts cannot read. So the server keeps nothing, and an answer of the provider counts
once, in the browser that asked for it.
"""

from __future__ import annotations

import hmac
import logging
import secrets
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from flask import Blueprint, g, make_response, redirect, request
from werkzeug.wrappers import Response as BaseResponse

from qserver.api.gate import SIGN_ON_PATHS, TOKEN_COOKIE, caller_of_token
from qserver.api.sign_on import SignOn
from qserver.errors import AccessError, RateLimitedError, UnauthenticatedError
from qserver.portal.cookies import (
    FORM_COOKIE,
    JOBS_COOKIE,
    PAID_COOKIE,
    STEPS_COOKIE,
    check_origin,
    is_https,
    new_form_cookie,
    set_cookie,
)
from qserver.portal.render import page

_COOKIE = "qserver_sign_on"
_START, _BACK = SIGN_ON_PATHS
_MINUTES = 10
_MAX_COOKIE = 3800
_EXCHANGE_S = 5.0
_log = logging.getLogger("qserver.portal")


@dataclass(frozen=True)
class _Begun:
    """The secrets of a sign-in that began; each is random."""

    state: str
    nonce: str
    verifier: str

    @classmethod
    def new(cls) -> _Begun:
        return cls(*(secrets.token_urlsafe(32) for _ in range(3)))

    @classmethod
    def of_request(cls) -> _Begun | None:
        parts = request.cookies.get(_COOKIE, "").split(".")
        return cls(*parts) if len(parts) == 3 and all(parts) else None


class SignOnPages:
    """The way to the provider and back; `sign_on` checks the tokens."""

    def __init__(self, sign_on: SignOn) -> None:
        self._sign_on = sign_on

    def add_to(self, routes: Blueprint) -> None:
        """Add the routes."""
        routes.get(_START.removeprefix("/portal"))(self.start_sign_on)
        routes.get(_BACK.removeprefix("/portal"))(self.end_sign_on)

    def start_sign_on(self) -> BaseResponse:
        """Send the browser to the provider."""
        begun = _Begun.new()
        try:
            endpoint = self._sign_on.provider.endpoint("authorization_endpoint")
        except AccessError as exc:
            return _refused(str(exc))
        url, _ = self._session().create_authorization_url(
            endpoint, state=begun.state, nonce=begun.nonce, code_verifier=begun.verifier
        )
        response = redirect(url, 303)
        _keep(response, f"{begun.state}.{begun.nonce}.{begun.verifier}")
        return response

    def end_sign_on(self) -> BaseResponse:
        """Keep the provider's token in the browser, if it answers this browser's sign-in."""
        begun, state = _Begun.of_request(), request.args.get("state", "")
        if begun is None or not hmac.compare_digest(begun.state.encode(), state.encode()):
            return _refused("This sign-in did not begin here, or has expired. Begin again.")
        try:
            token = self._token(request.args.get("code", ""), begun)
            self._sign_on.signed_in(token, nonce=begun.nonce)
            caller_of_token(token)
        except UnauthenticatedError:
            return _refused("The provider's answer is not valid here. Begin again.")
        except AccessError as exc:
            return _refused(str(exc))
        # A page of ours that continues by itself: from another site no strict cookie would come.
        response = make_response(page("signed_on.html"))
        set_cookie(response, request, TOKEN_COOKIE, token)
        forget_browser(response)
        _keep(response, "")
        return response

    def _token(self, code: str, begun: _Begun) -> str:
        """The provider's ID token for a code; AccessError."""
        from authlib.common.errors import AuthlibBaseError
        from requests import RequestException

        endpoint = self._sign_on.provider.endpoint("token_endpoint")
        try:
            found = self._session().fetch_token(
                endpoint, code=code, code_verifier=begun.verifier, timeout=_EXCHANGE_S
            )
        except (AuthlibBaseError, RequestException, ValueError) as exc:
            _log.warning("the provider gave no token: %s", type(exc).__name__)
            raise AccessError("The provider did not sign you in. Begin again.") from exc
        token = found.get("id_token")
        if not isinstance(token, str) or len(token) > _MAX_COOKIE:
            raise AccessError("The provider's ID token is missing, or too long for a browser.")
        return token

    def _session(self) -> Any:
        from authlib.integrations.requests_client import OAuth2Session

        settings, parts = self._sign_on.settings, urlsplit(request.host_url)
        scheme = "https" if is_https(request) else "http"
        return OAuth2Session(
            settings.oidc_client_id,
            settings.oidc_client_secret or None,
            token_endpoint_auth_method="client_secret_basic"
            if settings.oidc_client_secret
            else "none",
            redirect_uri=f"{scheme}://{parts.netloc}{_BACK}",
            scope="openid profile email",
            code_challenge_method="S256",
        )


def _keep(response: BaseResponse, value: str) -> None:
    """Keep a sign-in's secrets for the way back from another site; '' forgets them."""
    response.set_cookie(
        _COOKIE,
        value,
        max_age=60 * _MINUTES if value else 0,
        path=_START.rpartition("/")[0],
        secure=is_https(request),
        httponly=True,
        samesite="Lax",
    )


def _refused(said: str) -> BaseResponse:
    response = make_response(
        page("sign_in.html", refused=said, is_wrong=False, sign_on=_START), 401
    )
    _keep(response, "")
    return response


_MAX_TOKEN = 200


class SignInPages:
    """The pages of signing in and out.

    Args:
        sign_on: the address at which a sign-in with a provider begins, or ''.
    """

    def __init__(self, sign_on: str) -> None:
        self._sign_on = sign_on

    def add_to(self, routes: Blueprint) -> None:
        """Add the routes."""
        routes.get("/sign-in")(self.show_sign_in)
        routes.post("/sign-in")(self.sign_in)
        routes.post("/sign-out")(self.sign_out)

    def show_sign_in(self) -> str:
        """The form that asks for a token."""
        return self._form("", is_wrong=False)

    def sign_in(self) -> BaseResponse:
        """Keep the token in the browser, if valid."""
        token = request.form.get("token", "").strip()[:_MAX_TOKEN]
        try:
            check_origin(request)
            caller_of_token(token)
        except AccessError as exc:
            is_wrong = not isinstance(exc, RateLimitedError)
            said = "This token is not valid." if is_wrong else str(exc)
            return make_response(self._form(said, is_wrong=is_wrong), 401)
        response = redirect("/portal/", 303)
        set_cookie(response, request, TOKEN_COOKIE, token)
        forget_browser(response)
        return response

    def _form(self, refused: str, *, is_wrong: bool) -> str:
        return page("sign_in.html", refused=refused, is_wrong=is_wrong, sign_on=self._sign_on)

    def sign_out(self) -> BaseResponse:
        """Forget the token."""
        response = redirect("/portal/sign-in", 303)
        set_cookie(response, request, TOKEN_COOKIE, "")
        forget_browser(response)
        return response


def forget_browser(response: BaseResponse) -> None:
    """A new form cookie, and no jobs of the earlier visitor."""
    g.form_cookie = new_form_cookie()
    set_cookie(response, request, FORM_COOKIE, g.form_cookie)
    set_cookie(response, request, JOBS_COOKIE, "")
    set_cookie(response, request, PAID_COOKIE, "")
    set_cookie(response, request, STEPS_COOKIE, "")
