"""A region and two days chosen on the form, on a desk and a phone."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import expect

from qserver.storage.server.embedded_store import EmbeddedServer
from tests.browser.chromium_page import Size, Visitor
from tests.browser.town_server import serving
from tests.districts import districts


@pytest.mark.parametrize("size", ["desktop", "phone"])
def test_a_region_and_two_days_are_chosen_with_the_price_beside(
    visitor: Visitor, tmp_path: Path, size: Size
) -> None:
    with EmbeddedServer.start(tmp_path / "store") as store:
        town = districts(tmp_path, store.url)
        with serving(town) as server:
            visit = visitor.open(size=size)
            page = visit.page
            page.goto(f"{server.url}/portal/sign-in")
            page.get_by_label("Token").fill(server.analyst)
            page.get_by_role("button", name="Sign in").click()
            expect(page.get_by_text("ann analyst")).to_be_visible()
            page.goto(f"{server.url}/portal/datasets/people")
            page.locator("summary", has_text="joins district").click()
            page.get_by_label("North").check()
            page.locator("summary", has_text="day").click()
            page.get_by_label("from").first.fill("2024-03-02")
            page.get_by_label("to", exact=True).first.fill("2024-03-04")
            expect(page.locator("summary", has_text="joins district")).to_contain_text("North")
            expect(page.get_by_text("2024-03-02 to 2024-03-04")).to_be_visible()
            page.get_by_label("Break down by").select_option("region")
            expect(page.locator("#price")).to_contain_text(
                "WHERE day BETWEEN '2024-03-02' AND '2024-03-04' AND region IN ('North')"
            )
            for said in page.locator("[data-said]").all():
                inside, around = said.bounding_box(), page.locator(".conditions").bounding_box()
                assert inside
                assert around
                assert inside["x"] + inside["width"] <= around["x"] + around["width"]
            visit.picture("chosen")
            assert visit.faults() == []
            assert visit.overflow() == 0
