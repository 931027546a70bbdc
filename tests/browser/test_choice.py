"""The switch beside the price: this question alone, or also tables that later ones use."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from qserver.portal import numbers
from qserver.query import request_fields as fields
from qserver.storage.histories import Cursor
from qserver.storage.server.embedded_store import EmbeddedServer
from qserver.storage.store import Store
from tests.browser.chromium_page import Visitor
from tests.browser.town_server import TownServer, town_server
from tests.until_tables import LENGTH, Where, explained, next_that_buys


@pytest.fixture
def busy(tmp_path: Path) -> Iterator[tuple[TownServer, Where]]:
    """A server whose planner would buy tables for the next question, and that question."""
    with (
        EmbeddedServer.start(tmp_path / "store") as store,
        town_server(tmp_path, store.url, limit="1000", phi=0.4) as town,
    ):
        yield town, next_that_buys(town.town)


def fill(page: Page, where: Where) -> None:
    low, high = where["age"]["between"]
    page.locator("summary", has_text="age").click()
    page.get_by_label("from", exact=True).locator("visible=true").fill(str(low))
    page.get_by_label("to", exact=True).locator("visible=true").fill(str(high))
    page.get_by_role("textbox", name=fields.LENGTH.label).fill(f"{LENGTH / 2:g}")


def test_the_price_follows_the_switch_and_the_worker_measures_what_was_chosen(
    visitor: Visitor, busy: tuple[TownServer, Where]
) -> None:
    town, where = busy
    both = explained(town.town, where).measure
    visit = visitor.open()
    page = visit.page
    page.goto(f"{town.url}/portal/")
    page.get_by_label("Token").fill(town.analyst)
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("link", name="Ask people").click()
    fill(page, where)
    headline = page.locator("#price .headline")
    expect(headline).to_contain_text(numbers.price(both.auto_nano))
    expect(page.locator("[data-choices]")).to_contain_text(both.buys)
    visit.picture("both-prices")
    page.get_by_role("radio", name="only this question").check()
    expect(headline).to_contain_text(numbers.price(both.only_this_nano))
    assert visit.faults() == []
    page.get_by_role("button", name=f"Ask: {numbers.price(both.only_this_nano)}").click()
    expect(page).to_have_url(re.compile("/jobs/"))
    before = town.town.service().dataset("people").spent_nano
    town.town.work_off()
    assert town.town.service().dataset("people").spent_nano - before == both.only_this_nano
    changes = Store.open(town.town.settings).changes(town.town.meta, Cursor(), shown_only=False)
    assert changes.paid[-1].measure == "only_this"
    # The page asks for its job until the answer is there.
    expect(page.locator(".sentence")).to_be_visible()
