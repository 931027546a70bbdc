"""Protection from other origins: cookies, form tokens, the origin of a request.

The API token lives in a cookie that scripts cannot read and that leaves with requests of this
origin alone. Whatever changes something must come from our own pages: the browser says so
(Sec-Fetch-Site, or Origin), and the form holds a token that only they could know. It is derived
from a random cookie and the API token, so the server keeps nothing.
"""

from __future__ import annotations

import hmac
import re
import secrets
from urllib.parse import urlsplit

from flask import Request
from werkzeug.wrappers import Response

from qserver.api.gate import TOKEN_COOKIE
from qserver.api.headers import CONTENT_POLICY
from qserver.errors import AccessError
from qserver.service.ask import Idempotency

FORM_COOKIE = "qserver_form"
JOBS_COOKIE = "qserver_jobs"
PAID_COOKIE = "qserver_paid"
STEPS_COOKIE = "qserver_steps"
FORM_FIELD = "form_token"
COOKIE_PATH = "/portal/"
MAX_JOBS = 12
_MAX_NANO_DIGITS = 18

# Pages load everything from this server; no script or style is inline.
PAGE_POLICY = (
    f"{CONTENT_POLICY}; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'"
)
_FORM_COOKIE = re.compile(r"[A-Za-z0-9_-]{22}\Z")
_STEPS_TOKEN = re.compile(r"[A-Za-z0-9_-]{22}\Z")
_JOB_ID = re.compile(r"[A-Za-z0-9_.~-]{1,120}\Z")


def new_form_cookie() -> str:
    """A random value for the form cookie."""
    return secrets.token_urlsafe(16)


def form_cookie_of(request: Request) -> str:
    """The request's form cookie, or '' if none is ours."""
    found = request.cookies.get(FORM_COOKIE, "")
    return found if _FORM_COOKIE.match(found) else ""


def form_token(form_cookie: str, api_token: str) -> str:
    """The token of a form that is sent with these two cookies."""
    return hmac.digest(form_cookie.encode(), api_token.encode(), "sha256").hex()


def check_origin(request: Request) -> None:
    """Return if a changing request comes from our own pages; AccessError."""
    site = request.headers.get("Sec-Fetch-Site")
    origin = request.headers.get("Origin")
    if site is not None:
        is_ours = site == "same-origin"
    else:
        is_ours = origin is None or urlsplit(origin).netloc == request.host
    if not is_ours:
        raise AccessError("Another site sent this form.")


def check_form(request: Request) -> None:
    """Return if we gave this form to this browser; AccessError."""
    check_origin(request)
    cookie = form_cookie_of(request)
    expected = form_token(cookie, request.cookies.get(TOKEN_COOKIE, ""))
    given = request.form.get(FORM_FIELD, "")
    if not cookie or not hmac.compare_digest(expected.encode(), given.encode()):
        raise AccessError("The form is out of date. Load its page again, and send it once more.")


def is_https(request: Request) -> bool:
    """Whether the browser sees https."""
    return request.is_secure or request.headers.get("X-Forwarded-Proto", "") == "https"


def set_cookie(response: Response, request: Request, name: str, value: str) -> None:
    """Set a cookie of the pages that lasts as long as the browser runs; '' removes it."""
    response.set_cookie(
        name,
        value,
        max_age=None if value else 0,
        path=COOKIE_PATH,
        secure=is_https(request),
        httponly=True,
        samesite="Strict",
    )


def jobs_of(request: Request) -> list[str]:
    """Ids of the jobs that this browser asked for, latest first."""
    found = request.cookies.get(JOBS_COOKIE, "").split("/")
    return [job for job in found if _JOB_ID.match(job)][:MAX_JOBS]


def with_job(jobs: list[str], job: str) -> str:
    """The jobs cookie with one more job."""
    return "/".join([job, *(j for j in jobs if j != job)][:MAX_JOBS])


def with_payment(mark: str, charged_nano: int) -> str:
    """The cookie of this browser's last payment, for the page that follows."""
    return f"{mark}.{charged_nano}"


def paid_for(request: Request, mark: str) -> int:
    """Nano-epsilon that this browser paid for a question, if that was its last payment; else 0."""
    last, _, nano = request.cookies.get(PAID_COOKIE, "").partition(".")
    is_number = nano.isascii() and nano.isdigit() and len(nano) <= _MAX_NANO_DIGITS
    return int(nano) if last == mark and is_number else 0


def new_steps_token() -> str:
    """A new random token of a question that may be asked in steps."""
    return secrets.token_urlsafe(16)


def with_steps(mark: str, token: str) -> str:
    """The cookie of a question that this browser left at a step, with its key."""
    return f"{mark}.{token}"


def steps_of(request: Request, mark: str) -> str:
    """The token of the question that this browser last left at a step; else ''."""
    last, _, token = request.cookies.get(STEPS_COOKIE, "").partition(".")
    return token if last == mark and _STEPS_TOKEN.match(token) else ""


def key_of_steps(token: str, account: str) -> Idempotency:
    """The idempotency key of a question asked in steps. No client can send one."""
    return Idempotency(f"\nportal\n{token}", account)
