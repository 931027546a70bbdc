"""A server that says what each test of the command line has it say."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Request:
    """What the server was asked."""

    line: str
    document: Any


@dataclass
class FakeServer:
    """Answers from a list, in order, and keeps what it was asked and under which keys."""

    replies: list[tuple[int, Any]] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)
    url: str = ""

    def reply(self, document: Any, *, status: int = 200) -> None:
        self.replies.append((status, document))

    def refuse(self, status: int, code: str, detail: str, **facts: Any) -> None:
        members = {"type": f"/docs#{code}", "title": code, "status": status}
        self.reply({**members, "detail": detail, "code": code, **facts}, status=status)


@contextmanager
def running_server() -> Iterator[FakeServer]:
    """A fake server on a free port of this machine."""
    fake = FakeServer()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.answer()

        def do_POST(self) -> None:
            self.answer()

        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            document = json.loads(body) if body else None
            fake.requests.append(Request(f"{self.command} {self.path}", document))
            fake.keys.append(self.headers.get("Idempotency-Key"))
            status, reply = fake.replies.pop(0)
            content = reply if isinstance(reply, bytes) else json.dumps(reply).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    http_server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=http_server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    fake.url = f"http://127.0.0.1:{http_server.server_address[1]}"
    try:
        yield fake
    finally:
        http_server.shutdown()
        thread.join()
        http_server.server_close()
