"""The pages over a real store and a worker that works when a test says so; accounts, and open."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from qserver.api.access import Access, OpenAccess, TokenAccess
from qserver.api.app import create_app
from qserver.portal.blueprint import Portal
from qserver.service.service import Service
from qserver.storage.accounts import AccountBook, RateLimiter
from qserver.storage.store import Store
from tests.deployment import Deployment

PEOPLE = "/portal/datasets/people"
AGE = {"from:age": "22", "to:age": "24", "within": "20", "confidence": "95"}
SAME_ORIGIN = {"Sec-Fetch-Site": "same-origin"}
HTMX = {**SAME_ORIGIN, "HX-Request": "true"}
BUDGET_WARNS = "The budget cannot pay for this"
"""On a page that shows a price; it stands in the templates."""
_FORM_TOKEN = re.compile(r'name="form_token" value="([0-9a-f]{64})"')


@dataclass(frozen=True)
class Browser:
    """One browser on the pages: keeps cookies, sends forms with the token of a page before."""

    town: Deployment
    book: AccountBook
    client: FlaskClient

    def get(self, path: str, **headers: str) -> TestResponse:
        # Buffered, so that no file stays open.
        return self.client.get(path, headers=headers, buffered=True)

    def text(self, path: str) -> str:
        response = self.get(path)
        assert response.status_code == 200, response.text
        return response.text

    def form_token(self, path: str = PEOPLE) -> str:
        found = _FORM_TOKEN.search(self.text(path))
        assert found
        return found[1]

    def post(
        self, path: str, fields: dict[str, str], *, headers: dict[str, str] | None = None
    ) -> TestResponse:
        """Send a form of ours."""
        whole = {"form_token": self.form_token(), **fields}
        return self.client.post(path, data=whole, headers=headers or SAME_ORIGIN)

    def sign_in(self, token: str) -> TestResponse:
        fields = {"token": token}
        return self.client.post("/portal/sign-in", data=fields, headers=SAME_ORIGIN)

    def spent_nano(self) -> int:
        return self.town.service().dataset("people").spent_nano


def open_browser(folder: Path, store_url: str, *, is_open: bool) -> Browser:
    """A browser that never was here, and a server with or without accounts."""
    return browser_on(Deployment.make(folder, store_url, limit="0.5"), is_open=is_open)


def browser_on(town: Deployment, *, is_open: bool) -> Browser:
    """The same on a deployment of one's own."""
    store = Store.open(town.settings)
    book = AccountBook(store.client)
    access: Access = OpenAccess()
    if not is_open:
        access = TokenAccess(book, RateLimiter(store.client), token_rate=0, address_rate=0)
    service = Service(store, town.settings, short_s=60.0)
    app = create_app(
        service, access=access, wait_s=1, max_body_bytes=1 << 16, pages=Portal(service)
    )
    return Browser(town, book, app.test_client())


def ask(browser: Browser, fields: dict[str, str] = AGE) -> str:
    """The address of the job that asking leads to."""
    response = browser.post(f"{PEOPLE}/ask", fields)
    assert response.status_code == 303, response.text
    return response.headers["Location"]


def answered(browser: Browser, fields: dict[str, str] = AGE) -> str:
    job = ask(browser, fields)
    browser.town.work_off()
    return job
