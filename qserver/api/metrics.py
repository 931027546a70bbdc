"""Count the requests for the operator, and log them if settings say so.

Nothing finer than the publication slot: times are rounded up to whole slots before they are
counted, and no line has a time of its own beyond the second.

One span for each request: its method, route and status, and nothing that a client wrote.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from prometheus_client import Counter, Histogram, disable_created_metrics

from qserver.api.headers import ROUTE_KEY, request_id_of
from qserver.program import telemetry

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

_BEGUN_KEY = "qserver.begun"
_LEAST_SLOT_S = 0.005
_N_BUCKETS = 14
_log = logging.getLogger("qserver.requests")

# A time of day for each first use of a label would be finer than the slot.
disable_created_metrics()  # type: ignore[no-untyped-call]
REQUESTS = Counter(
    "qserver_http_requests", "Requests that were answered.", ["method", "route", "status"]
)
SECONDS = (
    "qserver_http_request_seconds",
    "Times of requests, rounded up to whole publication slots.",
)
PROBLEMS = Counter("qserver_http_problems", "Problems that were sent, by code.", ["code"])


class Observed:
    """WSGI: counts requests by route, method and status, and times them in whole slots.

    Args:
        app: the whole app.
        slot_ms: the publication slot, in milliseconds.
        log_requests: write a line for each request as well.
        clock: seconds, monotonic.
    """

    def __init__(
        self,
        app: WSGIApplication,
        *,
        slot_ms: int,
        log_requests: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._app = app
        self._slot_s = max(_LEAST_SLOT_S, slot_ms / 1000)
        self._log_requests = log_requests
        self._clock = clock
        self._seconds = _histogram(self._slot_s)

    def __call__(self, environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        """The app's response, counted when its status is known."""
        # A request that was put aside runs again; its time starts at the first arrival.
        begun = environ.setdefault(_BEGUN_KEY, self._clock())

        def observed_start(status: str, headers: Any, *rest: Any) -> Any:
            self._observe(environ, status[:3], self._clock() - begun)
            return start(status, headers, *rest)

        return self._app(environ, observed_start)

    def _observe(self, environ: WSGIEnvironment, status: str, elapsed_s: float) -> None:
        # Only known routes and methods: invented ones must not fill the memory.
        route = environ.get(ROUTE_KEY, "other")
        method = environ["REQUEST_METHOD"] if route != "other" else "other"
        REQUESTS.labels(method, route, status).inc()
        n_slots = max(1, math.ceil(elapsed_s / self._slot_s))
        self._seconds.labels(route).observe(n_slots * self._slot_s)
        if self._log_requests:
            facts = {"route": route, "method": method, "status": int(status)}
            facts["request_id"] = request_id_of(environ)
            _log.info("request", extra=facts)


_histograms: dict[float, Histogram] = {}


def _histogram(slot_s: float) -> Histogram:
    """The histogram of times; its buckets are 1, 2, 4, ... slots."""
    if slot_s not in _histograms:
        if _histograms:
            raise ValueError("one process has one slot")
        buckets = [slot_s * 2.0**i for i in range(_N_BUCKETS)]
        _histograms[slot_s] = Histogram(*SECONDS, ["route"], buckets=buckets)
    return _histograms[slot_s]


_SPAN = "qserver.span"


class Traced:
    """WSGI: a span from a request's first arrival until its status is known.

    A client's `traceparent` is its parent where it is one of W3C; nothing else of it is kept.

    Args:
        app: the whole app.
        slot_ms: the publication slot, in milliseconds.
    """

    def __init__(self, app: WSGIApplication, *, slot_ms: int) -> None:
        self._app = app
        self._slot_ms = slot_ms

    def __call__(self, environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        """The app's response."""
        # A request that was put aside runs again, in the same span.
        span = environ.get(_SPAN) or self._begun(environ)
        if span is None:
            return self._app(environ, start)
        environ[_SPAN] = span

        def traced_start(status: str, headers: Any, *rest: Any) -> Any:
            _end(span, environ, int(status[:3]))
            return start(status, headers, *rest)

        with telemetry.under(span.traceparent):
            return self._app(environ, traced_start)

    def _begun(self, environ: WSGIEnvironment) -> telemetry.Span | None:
        parent = telemetry.traceparent_of(environ.get("HTTP_TRACEPARENT", ""))
        return telemetry.begin("HTTP", parent=parent, kind="SERVER", slot_ms=self._slot_ms)


def _end(span: telemetry.Span, environ: WSGIEnvironment, status: int) -> None:
    # Our own methods and routes alone, as in the metrics.
    route = str(environ.get(ROUTE_KEY, "other"))
    method = str(environ["REQUEST_METHOD"]) if route != "other" else "other"
    facts: dict[str, str | int] = {
        "http.request.method": method,
        "http.route": route,
        "http.response.status_code": status,
    }
    span.end(facts, name=f"{method} {route}")
