"""Ahead of the app: questions that are answered from kept bytes, and lanes for all others.

A repeated question has its kept answer as long as nothing changed. What takes processor time, and
what may take seconds, keeps no short request waiting.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from io import BytesIO, RawIOBase
from threading import Lock
from typing import TYPE_CHECKING, Literal

from qserver.api.errors import early_response
from qserver.api.headers import REQUEST_ID, ROUTE_KEY, SECURITY_HEADERS, request_id_of
from qserver.api.replies import JSON_TYPE
from qserver.errors import BusyError
from qserver.service.service import Service
from qserver.service.visits import HOLDING, Parked, Visit, is_second_run

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment


@dataclass(frozen=True)
class KeptAnswer:
    """A response body, and the version of its dataset that was read before it was computed."""

    version: Hashable
    payload: bytes


class AnswerCache:
    """Response bodies by dataset and exact request body; the least recently used leaves first.

    It holds answers that cost nothing, and each is of use only while its version is current: the
    caller compares. A body that is written differently is another question here, and goes the
    long way to the same answer.

    Args:
        max_entries: answers kept at most.
        max_body_bytes: longer requests are not kept, which bounds the memory.
    """

    def __init__(self, *, max_entries: int = 4096, max_body_bytes: int = 4096) -> None:
        self._max_entries = max_entries
        self.max_body_bytes = max_body_bytes
        self._kept: OrderedDict[tuple[str, bytes], KeptAnswer] = OrderedDict()
        self._lock = Lock()

    def find(self, dataset: str, body: bytes) -> KeptAnswer | None:
        """What was kept for this dataset and body, or None."""
        key = (dataset, body)
        with self._lock:
            kept = self._kept.get(key)
            if kept is not None:
                self._kept.move_to_end(key)
        return kept

    def keep(self, dataset: str, body: bytes, answer: KeptAnswer) -> None:
        """Keep an answer in place of what was kept for the same dataset and body."""
        if len(body) + len(dataset) > self.max_body_bytes:
            return
        key = (dataset, body)
        with self._lock:
            self._kept[key] = answer
            self._kept.move_to_end(key)
            while len(self._kept) > self._max_entries:
                self._kept.popitem(last=False)


if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

FREE_BEFORE_KEY = "qserver.free_before"
_PREFIX = "/v1/datasets/"
_SUFFIX = "/query"
_ROUTE = "/v1/datasets/<dataset>/query"
_MAX_DIGITS = 12


class RepeatedQuestions:
    """WSGI: answers a repeated question in its plainest form, if its first answer was free.

    Whatever is unusual about a request (parameters, an idempotency key, another spelling of the
    content type, a body without a stated length, an error) goes the long way, through the app,
    which gives the same answer. One round trip asks whether the dataset's version still holds.

    Args:
        app: the whole app.
        service: tells the version of a dataset.
        cache: answers that cost nothing, filled by the app.
    """

    def __init__(self, app: WSGIApplication, service: Service, cache: AnswerCache) -> None:
        self._app = app
        self._service = service
        self._cache = cache

    def __call__(self, environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        """The response, from kept bytes or from the app."""
        dataset = _plain_dataset(environ)
        length = environ.get("CONTENT_LENGTH", "")
        is_short = length.isdecimal() and len(length) < _MAX_DIGITS
        if dataset is None or not is_short or int(length) > self._cache.max_body_bytes:
            return self._app(environ, start)
        body = environ["wsgi.input"].read(int(length))
        # Whoever waited for a job is told what that job cost, whatever was kept meanwhile.
        payload = None if is_second_run() else self._kept(dataset, body)
        if payload is None:
            # What was free once is free again, and quickly found.
            environ[FREE_BEFORE_KEY] = self._cache.find(dataset, body) is not None
            environ["wsgi.input"] = BytesIO(body)
            return self._app(environ, start)
        headers = [
            ("Content-Type", JSON_TYPE),
            ("Content-Length", str(len(payload))),
            *SECURITY_HEADERS,
            (REQUEST_ID, request_id_of(environ)),
        ]
        environ[ROUTE_KEY] = _ROUTE
        start("200 OK", headers)
        return [payload]

    def _kept(self, dataset: str, body: bytes) -> bytes | None:
        kept = self._cache.find(dataset, body)
        if kept is None:
            return None
        try:
            version = self._service.state(dataset)
        except Exception:  # noqa: BLE001 - the app meets it again, and reports it as a problem
            return None
        return kept.payload if kept.version == version else None


def _plain_dataset(environ: WSGIEnvironment) -> str | None:
    """The dataset of a question in its plainest form, else None."""
    path = environ["PATH_INFO"]
    is_plain = (
        environ["REQUEST_METHOD"] == "POST"
        and path.startswith(_PREFIX)
        and path.endswith(_SUFFIX)
        and path.isascii()
        and environ.get("CONTENT_TYPE") == JSON_TYPE
        and not environ.get("QUERY_STRING")
        and "HTTP_IDEMPOTENCY_KEY" not in environ
        and "HTTP_CONTENT_ENCODING" not in environ
        and "HTTP_TRANSFER_ENCODING" not in environ
    )
    name = path[len(_PREFIX) : -len(_SUFFIX)]
    return name if is_plain and "/" not in name else None


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
        """Yes, so that its error is met."""
        return True

    def readinto(self, _buffer: object, /) -> int:
        """Raise as the body did."""
        raise self._error


class Lanes:
    """WSGI: passes a request on in its lane. It changes nothing on a server without visits.

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
        """Read the body here, so that a slow sender holds no place in the lane."""
        length = environ.get("CONTENT_LENGTH") or ""
        if length.isdecimal() and int(length) > self._max_body_bytes:
            return
        # In chunks one byte too many is enough for the app to refuse it.
        n_bytes = int(length) if length.isdecimal() else self._max_body_bytes + 1
        try:
            environ["wsgi.input"] = BytesIO(environ["wsgi.input"].read(n_bytes))
        except Exception as exc:  # noqa: BLE001 - the app meets it again, and reports it
            environ["wsgi.input"] = _Broken(exc)
