"""The pictures of docs/gallery.md, taken as a visitor would see the pages.

They are kept with the other pictures of a run, or in the folder that QSERVER_PICTURES names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Page, expect

from qserver.client import Client
from tests.browser.chromium_page import Visit, Visitor
from tests.cli.local.running_program import running

ROOT = Path(__file__).parents[2]
GALLERY = (ROOT / "docs" / "gallery.md").read_text(encoding="utf-8")
MOST_BYTES = 60_000
BY_EDUCATION = "SELECT education, COUNT(*) AS n FROM adult GROUP BY education WITHIN 200"
BY_SEX = "SELECT sex, income, COUNT(*) AS n FROM adult GROUP BY sex, income WITHIN 150"
BY_WEEK = "SELECT week, COUNT(*) AS n FROM flights WHERE delay BETWEEN 60 AND 1439 GROUP BY week"
WOMEN = {"from:age": "30", "to:age": "39", "is:sex": "Female", "length": "100"}


@pytest.fixture
def take(visitor: Visitor, pictures: Path) -> Iterator[Pictures]:
    """Takes pictures; each is named by the page."""
    found = Pictures(visitor, pictures)
    yield found
    for name in found.names:
        assert f"](pictures/{name}.jpg)" in GALLERY
        assert 0 < (pictures / f"{name}.jpg").stat().st_size <= MOST_BYTES


class Pictures:
    """Pictures of pages, as small as they can be read."""

    def __init__(self, visitor: Visitor, folder: Path) -> None:
        self._visitor = visitor
        self._folder = folder
        self.names: list[str] = []

    def open(self, address: str, **kwargs: str) -> Visit:
        """A new visitor at an address."""
        visit = self._visitor.open(**kwargs)  # type: ignore[arg-type]
        if "size" not in kwargs:
            visit.page.set_viewport_size({"width": 1000, "height": 640})
        visit.page.goto(address)
        return visit

    def keep(self, page: Page, name: str) -> None:
        """The part of the page that is in view."""
        page.screenshot(path=self._folder / f"{name}.jpg", type="jpeg", quality=55)
        self.names.append(name)


def test_the_pages_of_an_analyst(take: Pictures, fresh_url: str) -> None:
    adult = f"{fresh_url}/portal/datasets/adult"
    client = Client(fresh_url)
    page = take.open(f"{fresh_url}/portal/").page
    expect(page.get_by_role("link", name="Ask adult")).to_be_visible()
    take.keep(page, "datasets")
    page = take.open(f"{adult}?{urlencode(WOMEN)}").page
    expect(page.locator("#price .headline")).to_contain_text("0.05991 ε")
    take.keep(page, "form")
    page.get_by_role("slider").scroll_into_view_if_needed()
    take.keep(page, "price")
    page.get_by_role("button", name="Ask: 0.05991 ε").click()
    expect(page.locator(".sentence")).to_contain_text("95 percent confidence")
    take.keep(page, "answer")
    phone = take.open(page.url, size="phone", scheme="dark")
    expect(phone.page.locator(".sentence")).to_contain_text("95 percent confidence")
    take.keep(phone.page, "phone")
    for text in (BY_EDUCATION, BY_SEX):
        client.sql(text)
        page = take.open(f"{adult}/answer?{urlencode({'text': text})}").page
        expect(page.get_by_role("table").first).to_be_visible()
        if text == BY_EDUCATION:
            take.keep(page, "table")
    page.get_by_text("Save to the dashboard").click()
    page.get_by_label("Name it, if you like").fill("Income by sex")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("heading", name="Income by sex")).to_be_visible()
    take.keep(page, "saved")


def test_where_the_budget_went_and_what_was_released(take: Pictures, fresh_url: str) -> None:
    adult = f"{fresh_url}/portal/datasets/adult"
    Client(fresh_url).sql(BY_SEX)
    for place, name in (("budget", "budget"), ("history", "history")):
        page = take.open(f"{adult}/{place}").page
        expect(page.get_by_role("heading").first).to_be_visible()
        take.keep(page, name)
    visit = take.open(f"{adult}?{urlencode({'text': 'SELECT AVG(agee) FROM adult WITHIN 1'})}")
    expect(visit.page.locator("#price .notice")).to_contain_text("Did you mean")
    take.keep(visit.page, "mistake")


def test_weeks_that_arrive(take: Pictures, tmp_path: Path) -> None:
    state = tmp_path / "state"
    asked = ("demo", "--weekly", "--port", "0", "--state", str(state))
    with running(state, *asked) as program:
        Client(program.url).sql(f"{BY_WEEK} WITHIN 25")
        query = urlencode({"text": f"{BY_WEEK} WITHIN 25"})
        page = take.open(f"{program.url}/portal/datasets/flights/answer?{query}").page
        expect(page.get_by_text(re.compile("up to 2013-W09", re.IGNORECASE)).first).to_be_visible()
        take.keep(page, "weeks")
        program.process.terminate()
        program.process.wait(timeout=60)
