"""The dashboard of saved questions: saved from an answer, out of date with a new week, renewed."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import urlencode

from playwright.sync_api import expect

from qserver.service.statements import Statements
from qserver.storage.server.embedded_store import EmbeddedServer
from tests.browser.chromium_page import Visitor
from tests.browser.town_server import serving
from tests.growing import Growing

TEXT = "SELECT week, COUNT(*) AS n FROM people GROUP BY week WITHIN 40"


def test_a_saved_question_is_renewed_by_its_button_alone(visitor: Visitor, tmp_path: Path) -> None:
    with EmbeddedServer.start(tmp_path / "store") as store:
        town = Growing.begin(tmp_path, store.url)
        with serving(town) as server:
            Statements(town.service()).run("people", TEXT, wait_s=0)
            town.work_off()
            people = f"{server.url}/portal/datasets/people"
            visit = visitor.open(size="phone")
            page = visit.page
            page.goto(f"{server.url}/portal/sign-in")
            page.get_by_label("Token").fill(server.analyst)
            page.get_by_role("button", name="Sign in").click()
            page.goto(f"{people}/answer?{urlencode({'text': TEXT})}")
            page.get_by_text("Save to the dashboard").click()
            page.get_by_label("Name it, if you like").fill("Visits by week")
            assert visit.faults() == []
            page.get_by_role("button", name="Save").click()
            expect(page.get_by_role("heading", name="Visits by week")).to_be_visible()
            expect(page.get_by_text("Up to 2024-W03.")).to_be_visible()
            town.append(3)
            spent = town.service().dataset("people").spent_nano
            page.reload()
            expect(page.get_by_text("This answer counts up to 2024-W03")).to_be_visible()
            button = page.get_by_role("button", name=re.compile("Ask anew"))
            expect(button).to_be_enabled()
            visit.picture("out-of-date")
            assert visit.faults() == []
            assert visit.overflow() == 0
            assert town.service().dataset("people").spent_nano == spent
            button.click()
            expect(page.get_by_text("Waiting for a worker")).to_be_visible()
            town.work_off()
            expect(page.get_by_text("4 intervals")).to_be_visible()
            page.get_by_role("link", name="Saved").click()
            expect(page.get_by_text("Up to 2024-W04.")).to_be_visible()
            expect(button).to_have_count(0)
            page.get_by_role("button", name="Remove").click()
            expect(page.get_by_text("No saved question yet.")).to_be_visible()
