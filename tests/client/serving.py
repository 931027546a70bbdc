"""A real server over a deployment, which a test can make lose its replies."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Thread
from typing import TYPE_CHECKING, Any

from werkzeug.serving import WSGIRequestHandler, make_server

from qserver.api.access import Access, OpenAccess, TokenAccess
from qserver.api.app import create_app
from qserver.client import Client
from qserver.storage.accounts import AccountBook, RateLimiter
from qserver.storage.store import Store
from tests.deployment import Deployment

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment


class _Quiet(WSGIRequestHandler):
    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        pass


@dataclass
class Unreliable:
    """WSGI in front of the app: loses as many replies as it is told to, after they were made.

    Args:
        to_lose: replies that the client gets a proxy's page instead of.
        keys: the idempotency keys of all POSTs that reached the app.
    """

    app: WSGIApplication
    to_lose: int = 0
    keys: list[str] = field(default_factory=list)

    def __call__(self, environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        """The app's reply, or a page of a gateway that lost it."""
        if environ["REQUEST_METHOD"] == "POST":
            self.keys.append(environ.get("HTTP_IDEMPOTENCY_KEY", ""))
        if not self.to_lose:
            return self.app(environ, start)
        self.to_lose -= 1
        list(self.app(environ, _ignored))
        start("502 Bad Gateway", [("Content-Type", "text/html")])
        return [b"<h1>Bad gateway</h1>"]


def _ignored(*_: Any) -> Any:
    return None


@dataclass(frozen=True)
class Served:
    """A deployment behind HTTP."""

    town: Deployment
    url: str
    front: Unreliable

    def spent_nano(self) -> int:
        return self.town.service().dataset("people").spent_nano

    def n_charges(self) -> int:
        return self.town.service().ledger.loss("people", where=None, attribute=None).n_charges


def by_token(town: Deployment) -> Access:
    """Access by the tokens of the deployment's accounts."""
    client = Store.open(town.settings).client
    return TokenAccess(AccountBook(client), RateLimiter(client), token_rate=0, address_rate=0)


@contextmanager
def serving(town: Deployment, *, wait_s: float, access: Access | None = None) -> Iterator[Served]:
    """The deployment behind HTTP for as long as the block runs; open without `access`."""
    app = create_app(
        town.service(), access=access or OpenAccess(), wait_s=wait_s, max_body_bytes=1 << 16
    )
    front = Unreliable(app.wsgi_app)
    server = make_server("127.0.0.1", 0, front, threaded=True, request_handler=_Quiet)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield Served(town, f"http://127.0.0.1:{server.server_port}", front)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def client_of(served: Served) -> Client:
    """A client that has the worker work off what it waits for."""

    def work(_seconds: float) -> None:
        served.town.work_off()

    return Client(served.url, sleep=work)
