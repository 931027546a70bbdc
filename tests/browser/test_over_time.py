"""Tables over periods as lines, on a desk and a phone, in light and dark."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlencode

from playwright.sync_api import expect

from qserver.service.statements import Statements
from qserver.storage.server.embedded_store import EmbeddedServer
from tests.browser.chromium_page import Scheme, Size, Visitor
from tests.browser.town_server import serving
from tests.growing import Growing

TEXT = "SELECT week, sex, COUNT(*) AS n FROM people GROUP BY week, sex WITHIN 40"


def test_a_line_for_each_group_with_its_band(visitor: Visitor, tmp_path: Path) -> None:
    with EmbeddedServer.start(tmp_path / "store") as store:
        town = Growing.begin(tmp_path, store.url)
        with serving(town) as server:
            Statements(town.service()).run("people", TEXT, wait_s=0)
            town.work_off()
            address = f"{server.url}/portal/datasets/people/answer?{urlencode({'text': TEXT})}"
            sizes: dict[Size, int] = {"desktop": 250, "phone": 150}
            schemes: tuple[Scheme, ...] = ("light", "dark")
            for size, least in sizes.items():
                for scheme in schemes:
                    visit = visitor.open(size=size, scheme=scheme)
                    page = visit.page
                    page.goto(f"{server.url}/portal/sign-in")
                    page.get_by_label("Token").fill(server.analyst)
                    page.get_by_role("button", name="Sign in").click()
                    expect(page.get_by_text("ann analyst")).to_be_visible()
                    page.goto(address)
                    lines = page.locator(".over-time .line")
                    expect(lines).to_have_count(3)
                    box = lines.first.bounding_box()
                    assert box
                    assert box["width"] > least
                    expect(page.get_by_role("img", name="n of Female over time")).to_be_visible()
                    expect(page.locator(".over-time .minor:visible")).to_have_count(0)
                    expect(page.get_by_role("rowheader", name="2024-W01").first).to_be_visible()
                    visit.picture("lines")
                    assert visit.faults() == []
                    assert visit.overflow() == 0
