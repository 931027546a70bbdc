"""Pages whose numbers take long to look at: they say so, and show the price when it is known."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Page, expect

from qserver.service.statements import Statements
from qserver.storage.server.embedded_store import EmbeddedServer
from tests.browser.chromium_page import Visitor
from tests.browser.town_server import TownServer, serving
from tests.deployment import Deployment

ASKED = {"text": "SELECT sex, AVG(age) AS mean FROM people GROUP BY sex WITHIN 2", "length": "30"}
WORKING = "Looking for an answer in history"


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Looks wait for it."""
    may_go_on, look = threading.Event(), Statements._look

    def slow(*args: Any) -> None:
        assert may_go_on.wait(timeout=60)
        look(*args)

    monkeypatch.setattr(Statements, "_look", slow)
    yield may_go_on
    may_go_on.set()


@pytest.fixture
def server(tmp_path: Path, held: threading.Event) -> Iterator[TownServer]:
    with EmbeddedServer.start(tmp_path / "store") as store:
        town = Deployment.make(tmp_path, store.url, limit="100")
        Statements(town.service()).run(
            "people", "SELECT age, sex, COUNT(*) FROM people GROUP BY age, sex WITHIN 10", wait_s=0
        )
        town.work_off()
        with serving(town, short_s=0.0) as found:
            yield found
            held.set()


def sign_in(page: Page, server: TownServer) -> str:
    """The address of the dataset's page."""
    page.goto(f"{server.url}/portal/sign-in")
    page.get_by_label("Token").fill(server.analyst)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url("**/portal/")
    return f"{server.url}/portal/datasets/people"


def test_the_price_comes_by_itself(
    visitor: Visitor, server: TownServer, held: threading.Event
) -> None:
    visit = visitor.open(size="phone")
    people = sign_in(visit.page, server)
    visit.page.goto(f"{people}?{urlencode(ASKED)}")
    expect(visit.page.get_by_text(WORKING)).to_be_visible()
    assert visit.faults() == []
    visit.picture("working")
    held.set()
    expect(visit.page.get_by_role("button", name="Show the table")).to_be_visible()
    assert visit.page.get_by_text(WORKING).count() == 0
    visit.page.get_by_role("button", name="Show the table").click()
    expect(visit.page.get_by_text("3 intervals")).to_be_visible()


def test_without_scripts_the_job_leads_to_the_price(
    visitor: Visitor, server: TownServer, held: threading.Event
) -> None:
    visit = visitor.open(scripts=False)
    people = sign_in(visit.page, server)
    visit.page.goto(f"{people}?{urlencode(ASKED)}")
    visit.page.get_by_role("button", name="Show the price").click()
    expect(visit.page.get_by_role("heading", name="At work")).to_be_visible()
    held.set()
    expect(visit.page.get_by_role("button", name="Show the table")).to_be_visible()


def test_saved_questions_come_by_themselves(
    visitor: Visitor, server: TownServer, held: threading.Event
) -> None:
    visit = visitor.open()
    people = sign_in(visit.page, server)
    held.set()
    visit.page.goto(f"{people}/answer?{urlencode(ASKED)}")
    visit.page.get_by_text("Save to the dashboard").click()
    visit.page.get_by_role("button", name="Save").click()
    expect(visit.page.get_by_text("Open")).to_be_visible()
    held.clear()
    # Something was bought meanwhile.
    Statements(server.town.service()).run(
        "people", "SELECT COUNT(*) FROM people WITHIN 3", wait_s=0
    )
    server.town.work_off()
    visit.page.goto(f"{people}/saved")
    expect(visit.page.get_by_text(WORKING)).to_be_visible()
    assert visit.faults() == []
    held.set()
    expect(visit.page.get_by_role("columnheader", name="Best estimate")).to_be_visible()
