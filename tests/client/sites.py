"""Servers for tests of the HTTP client: one that counts its connections, and a proxy."""

from __future__ import annotations

import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

TLS = Path(__file__).parents[1] / "data" / "tls"


@dataclass(frozen=True)
class Seen:
    """One request: over which connection, and what it said; names of headers in small letters."""

    connection: int
    line: str
    headers: dict[str, str]
    body: bytes


Behaviour = Callable[["Handler"], None]


@dataclass
class Site:
    """A server that lives for a test; does what `behave` has, in order, and then answers.

    Args:
        n_connections: how often a client connected.
    """

    url: str = ""
    n_connections: int = 0
    seen: list[Seen] = field(default_factory=list)
    behave: list[Behaviour] = field(default_factory=list)

    @property
    def port(self) -> int:
        return int(self.url.rsplit(":", 1)[1])


class Handler(BaseHTTPRequestHandler):
    """HTTP/1.1 with connections that are kept."""

    protocol_version = "HTTP/1.1"
    site: Site
    body = b""

    def setup(self) -> None:
        super().setup()
        self.site.n_connections += 1
        self.number = self.site.n_connections

    def do_GET(self) -> None:
        self.body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        line = f"{self.command} {self.path}"
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.site.seen.append(Seen(self.number, line, headers, self.body))
        behaviour = self.site.behave.pop(0) if self.site.behave else answer
        behaviour(self)

    def do_POST(self) -> None:
        self.do_GET()

    def do_CONNECT(self) -> None:
        """A tunnel to the port of this machine, whatever the host is called."""
        self.do_GET()

    def log_message(self, *_: object) -> None:
        pass


def answer(handler: Handler, document: Any = None, *, status: int = 200, **headers: str) -> None:
    """A JSON object; by default how many requests there were."""
    document = {"n": len(handler.site.seen)} if document is None else document
    content = json.dumps(document).encode()
    handler.send_response(status)
    for name, value in headers.items():
        handler.send_header(name, value)
    handler.send_header("Content-Length", str(len(content)))
    handler.end_headers()
    handler.wfile.write(content)


def hang_up(handler: Handler) -> None:
    """Close the connection without a word."""
    handler.close_connection = True


def answer_and_hang_up(handler: Handler) -> None:
    """Close the connection after the reply, which did not say so."""
    answer(handler)
    handler.close_connection = True


def answer_half(handler: Handler) -> None:
    """Close the connection in the middle of the reply."""
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.wfile.write(b'{"n": ')
    handler.close_connection = True


def tunnel(handler: Handler) -> None:
    """Join the client and the port that it asked for, until either goes."""
    port = int(handler.path.rsplit(":", 1)[1])
    with socket.create_connection(("127.0.0.1", port)) as target:
        handler.send_response(200)
        handler.end_headers()
        back = threading.Thread(target=_pump, args=(target, handler.connection))
        back.start()
        _pump(handler.connection, target)
        back.join()
    handler.close_connection = True


def _pump(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(1 << 16):
            target.sendall(data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False


@contextmanager
def running_site(*, tls: bool = False) -> Iterator[Site]:
    """A site on a free port of this machine, behind TLS if asked."""
    site = Site()
    server = _Server(("127.0.0.1", 0), type("OfThisSite", (Handler,), {"site": site}))
    if tls:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(TLS / "server.pem")
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    site.url = f"{'https' if tls else 'http'}://127.0.0.1:{server.server_address[1]}"
    try:
        yield site
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
