"""One span for each request: its method, route and status, and nothing that a client wrote."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from qserver import telemetry
from qserver.api.headers import ROUTE_KEY

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

_SPAN = "qserver.span"


class Traced:
    """WSGI: a span from when a request first came until its status is known.

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
    # As for the metrics: methods and routes that are ours alone.
    route = str(environ.get(ROUTE_KEY, "other"))
    method = str(environ["REQUEST_METHOD"]) if route != "other" else "other"
    facts: dict[str, str | int] = {
        "http.request.method": method,
        "http.route": route,
        "http.response.status_code": status,
    }
    span.end(facts, name=f"{method} {route}")
