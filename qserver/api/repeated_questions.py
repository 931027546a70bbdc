"""Repeated questions: kept bytes answer them ahead of the app while nothing changes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from io import BytesIO
from threading import Lock
from typing import TYPE_CHECKING

from qserver.api.headers import REQUEST_ID, ROUTE_KEY, SECURITY_HEADERS, request_id_of
from qserver.api.replies import JSON_TYPE
from qserver.service.parking import is_second_run
from qserver.service.service import Service

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment


@dataclass(frozen=True)
class KeptAnswer:
    """A response body, and the version of its dataset read before it was computed."""

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
        """The answer kept for this dataset and body; or None."""
        key = (dataset, body)
        with self._lock:
            kept = self._kept.get(key)
            if kept is not None:
                self._kept.move_to_end(key)
        return kept

    def keep(self, dataset: str, body: bytes, answer: KeptAnswer) -> None:
        """Keep an answer, instead of an earlier one for the same dataset and body."""
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
    """WSGI: answers a repeated question in plainest form, if its first answer was free.

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
        """The response, from kept bytes or the app."""
        dataset = _plain_dataset(environ)
        length = environ.get("CONTENT_LENGTH", "")
        is_short = length.isdecimal() and len(length) < _MAX_DIGITS
        if dataset is None or not is_short or int(length) > self._cache.max_body_bytes:
            return self._app(environ, start)
        body = environ["wsgi.input"].read(int(length))
        # A caller that waited for a job is told what that job cost, whatever was kept meanwhile.
        payload = None if is_second_run() else self._kept(dataset, body)
        if payload is None:
            # A free answer is free again, and quickly found.
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
    """The dataset of a question in plainest form, else None."""
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
