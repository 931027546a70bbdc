"""The pages with accounts, in this process; questions wait until the test works them off."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from threading import Thread

from werkzeug.serving import WSGIRequestHandler, make_server

from qserver.api.access import TokenAccess
from qserver.api.app import create_app
from qserver.portal.blueprint import Portal
from qserver.service.service import Service
from qserver.storage.accounts import AccountBook, RateLimiter
from qserver.storage.store import Store
from tests.deployment import Deployment
from worker.owner.attach import MAX_PHI


class _QuietHandler(WSGIRequestHandler):
    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        pass


@dataclass(frozen=True)
class TownServer:
    """Where it answers, and the tokens of an analyst and an owner."""

    url: str
    town: Deployment
    analyst: str
    owner: str


@contextlib.contextmanager
def town_server(
    folder: Path, store_url: str, *, limit: str = "1", phi: float = MAX_PHI
) -> Iterator[TownServer]:
    """Serve until the block ends."""
    with serving(Deployment.make(folder, store_url, limit=limit, phi=phi)) as town:
        yield town


@contextlib.contextmanager
def serving(town: Deployment, *, short_s: float = 60.0) -> Iterator[TownServer]:
    """The same of a deployment of one's own; a look that takes longer than `short_s` is a job."""
    store = Store.open(town.settings)
    book = AccountBook(store.client)
    access = TokenAccess(book, RateLimiter(store.client), token_rate=0, address_rate=0)
    service = Service(store, town.settings, short_s=short_s)
    app = create_app(
        service, access=access, wait_s=1, max_body_bytes=1 << 16, pages=Portal(service)
    )
    server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=_QuietHandler)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield TownServer(
            url=f"http://127.0.0.1:{server.server_port}",
            town=town,
            analyst=book.create("ann", "analyst").text,
            owner=book.create("boss", "owner").text,
        )
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
