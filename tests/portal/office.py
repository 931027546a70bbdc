"""A server with accounts over HTTP, and a provider in a process of its own."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Thread

import requests
from werkzeug.serving import make_server

from qserver.api.access import Access
from qserver.api.app import create_app
from qserver.api.process.start import access_of, sign_on_of
from qserver.api.sign_on import Provider as KnownProvider
from qserver.api.sign_on import fetch_json
from qserver.portal.blueprint import Portal
from qserver.service.service import Service
from qserver.storage.accounts import AccountBook
from qserver.storage.store import Store
from tests.deployment import Deployment
from tests.portal.provider import CLIENT, SECRET


@dataclass
class Provider:
    """The provider, as its operator has it in hand."""

    url: str
    process: subprocess.Popen[str]

    def faults(self, **faults: object) -> None:
        """What is wrong with the tokens from now on."""
        requests.put(f"{self.url}/faults", json=faults, timeout=30).raise_for_status()

    def rotate(self) -> None:
        requests.post(f"{self.url}/rotate", timeout=30).raise_for_status()

    def groups(self, sub: str, *groups: str) -> None:
        requests.put(f"{self.url}/groups/{sub}", json=groups, timeout=30).raise_for_status()

    def token(self, sub: str) -> str:
        """A token of a program that asks for somebody."""
        return str(requests.post(f"{self.url}/token-for/{sub}", timeout=30).json())

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(timeout=30)


@dataclass
class Office:
    """A server where the group `analysts` was let in, and Ann is in it."""

    url: str
    town: Deployment
    book: AccountBook
    provider: Provider
    access: Access
    uptime: list[float]
    """The clock by which keys are read anew, at most every ten seconds."""

    def get(self, path: str, token: str) -> requests.Response:
        headers = {"Authorization": f"Bearer {token}"}
        return requests.get(f"{self.url}{path}", headers=headers, timeout=60)


@contextlib.contextmanager
def providing() -> Iterator[Provider]:
    command = [sys.executable, "-m", "tests.portal.provider"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        found = Provider(process.stdout.readline().strip(), process)
        assert found.url
        try:
            yield found
        finally:
            found.stop()


@contextlib.contextmanager
def serving(folder: Path, store_url: str, provider: Provider) -> Iterator[Office]:
    town = Deployment.make(folder, store_url, limit="1")
    settings = replace(
        town.settings,
        open_access=False,
        oidc_issuer=provider.url,
        oidc_client_id=CLIENT,
        oidc_client_secret=SECRET,
        oidc_audience="qserver",
        token_rate=0,
        address_rate=0,
    )
    store = Store.open(settings)
    service, sign_on = Service(store, settings, starting_s=60), sign_on_of(store, settings)
    assert sign_on is not None
    uptime = [0.0]
    sign_on.provider = KnownProvider(provider.url, fetch=fetch_json, clock=lambda: uptime[0])
    access = access_of(store, settings, sign_on)
    app = create_app(
        service,
        access=access,
        wait_s=0,
        max_body_bytes=1 << 16,
        pages=Portal(service, sign_on),
    )
    server = make_server("127.0.0.1", 0, app, threaded=True)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    book = AccountBook(store.client)
    book.let_in("analysts/", "analyst")
    provider.groups("ann", "choir", "analysts")
    provider.groups("ben", "analysts")
    try:
        yield Office(f"http://127.0.0.1:{server.server_port}", town, book, provider, access, uptime)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
