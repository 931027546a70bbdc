"""Signing in with an API token, and out."""

from __future__ import annotations

from flask import Blueprint, g, make_response, redirect, request
from werkzeug.wrappers import Response as BaseResponse

from qserver.api.gate import TOKEN_COOKIE, caller_of_token
from qserver.errors import AccessError, RateLimitedError
from qserver.portal.guard import (
    FORM_COOKIE,
    JOBS_COOKIE,
    PAID_COOKIE,
    STEPS_COOKIE,
    check_origin,
    new_form_cookie,
    set_cookie,
)
from qserver.portal.render import page

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
        """Keep the token in the browser, if it is in force."""
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
    """Another form cookie, and no jobs of whoever was here before."""
    g.form_cookie = new_form_cookie()
    set_cookie(response, request, FORM_COOKIE, g.form_cookie)
    set_cookie(response, request, JOBS_COOKIE, "")
    set_cookie(response, request, PAID_COOKIE, "")
    set_cookie(response, request, STEPS_COOKIE, "")
