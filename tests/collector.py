"""A collector of OpenTelemetry, as small as can be: OTLP over HTTP, kept as it came."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Collector:
    """What came, as bytes and as spans by service."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.heads: list[str] = []
        self._came = threading.Condition()
        self.url = ""

    def take(self, head: str, body: bytes) -> None:
        with self._came:
            self.heads.append(head)
            self.bodies.append(body)
            self._came.notify_all()

    def spans(self) -> list[tuple[str, Any]]:
        """The name of the service and the span, for each."""
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
            ExportTraceServiceRequest,
        )

        found = []
        for body in list(self.bodies):
            for of_one in ExportTraceServiceRequest.FromString(body).resource_spans:
                named = {a.key: a.value.string_value for a in of_one.resource.attributes}
                for scope in of_one.scope_spans:
                    found += [(named["service.name"], span) for span in scope.spans]
        return found

    def wait_for(self, service: str, n: int) -> list[Any]:
        """The spans of a service once there are so many."""

        def those() -> list[Any]:
            return [span for name, span in self.spans() if name == service]

        with self._came:
            assert self._came.wait_for(lambda: len(those()) >= n, timeout=120), self.spans()
        return those()


@contextmanager
def collecting() -> Iterator[Collector]:
    """A collector that listens at its `url`."""
    found = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            found.take(f"{self.path}\n{self.headers}", body)
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield found
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
