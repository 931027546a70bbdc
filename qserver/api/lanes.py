"""Lanes of requests: those that take processor time, or seconds, delay no short one."""

from __future__ import annotations

from collections.abc import Iterable
from io import BytesIO, RawIOBase
from typing import TYPE_CHECKING, Literal

from qserver.api.errors import early_response
from qserver.api.repeated_questions import FREE_BEFORE_KEY
from qserver.errors import BusyError
from qserver.service.parking import HOLDING, Parked, Visit

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

VISIT_KEY = "qserver.visit"
Lane = Literal["", "questions", "costly", "long"]
LANES: tuple[str, ...] = ("questions", "costly", "long", HOLDING)
_QUESTIONS = ("/query", "/probability")
_LONG = ("/workload", "/sql", "/models")
_COSTLY = ("/explain", "/ledger", "/spending")
_SHORT_PAGES = ("/portal/static/", "/portal/sign-in")


def lane_of(environ: WSGIEnvironment) -> Lane:
    """The lane of a request, by its path."""
    path = environ["PATH_INFO"]
    if environ.get(FREE_BEFORE_KEY):
        return ""
    if path.startswith("/portal/"):
        return "" if path.startswith(_SHORT_PAGES) else "costly"
    if not path.startswith("/v1/datasets/"):
        return ""
    if any(f"{part}/" in f"{path}/" for part in _LONG):
        return "long"
    if any(f"{part}/" in f"{path}/" for part in _COSTLY):
        return "costly"
    return "questions" if path.endswith(_QUESTIONS) else ""


class _Broken(RawIOBase):
    """A body that could not be read."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self._error = error

    def readable(self) -> bool:
        """True, so that the reader meets the error."""
        return True

    def readinto(self, _buffer: object, /) -> int:
        """Raise as the body did."""
        raise self._error


class Lanes:
    """WSGI: passes a request on in its lane; without effect on a server without visits.

    Args:
        app: the app.
        max_body_bytes: a longer body is left to the app, which refuses it unread.
    """

    def __init__(self, app: WSGIApplication, *, max_body_bytes: int) -> None:
        self._app = app
        self._max_body_bytes = max_body_bytes

    def __call__(self, environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        """The app's response, or a problem where too many requests wait."""
        visit, lane = environ.get(VISIT_KEY), lane_of(environ)
        if not isinstance(visit, Visit) or lane == "" or visit.lane in (lane, HOLDING):
            return self._app(environ, start)
        if visit.is_over:
            busy = BusyError("Too many requests wait. Try again.")
            return early_response(busy, environ)(environ, start)
        self._read_body(environ)
        raise Parked(lane=lane)

    def _read_body(self, environ: WSGIEnvironment) -> None:
        """Read the body before the lane, so that a slow sender holds no place in it."""
        length = environ.get("CONTENT_LENGTH") or ""
        if length.isdecimal() and int(length) > self._max_body_bytes:
            return
        # In a chunked body one byte too many suffices for the app to refuse it.
        n_bytes = int(length) if length.isdecimal() else self._max_body_bytes + 1
        try:
            environ["wsgi.input"] = BytesIO(environ["wsgi.input"].read(n_bytes))
        except Exception as exc:  # noqa: BLE001 - the app meets it again, and reports it
            environ["wsgi.input"] = _Broken(exc)
