"""Signing in with a provider of another site, whose answers bring no strict cookies along."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import expect

from qserver.storage.server.embedded_store import EmbeddedServer
from tests.browser.chromium_page import Visit
from tests.portal.office import providing, serving


def test_a_person_signs_in_with_the_organisation_and_out(visit: Visit, tmp_path: Path) -> None:
    page = visit.page
    with (
        EmbeddedServer.start(tmp_path / "store") as store,
        providing() as provider,
        serving(tmp_path, store.url, provider) as office,
    ):
        page.context.add_cookies([{"name": "as", "value": "ann", "url": provider.url}])
        page.goto(f"{office.url}/portal/")
        page.get_by_role("link", name="Sign in with your organisation").click()
        expect(page.get_by_text("analysts/ann analyst")).to_be_visible()
        expect(page).to_have_url(f"{office.url}/portal/")
        ours = [c for c in page.context.cookies() if c["name"].startswith("qserver_")]
        assert all(c["httpOnly"] and c["sameSite"] == "Strict" for c in ours)
        assert visit.faults() == []
        page.get_by_role("button", name="Sign out").click()
        expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
