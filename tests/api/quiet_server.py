"""How the HTTP server of these tests is set up."""

from __future__ import annotations

from werkzeug.serving import WSGIRequestHandler

MAX_BODY_BYTES = 4096
WAIT_S = 10.0


class QuietHandler(WSGIRequestHandler):
    """HTTP/1.1, and nothing on standard error."""

    protocol_version = "HTTP/1.1"

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        pass
