"""The builder's tables in the browser: chosen by keyboard, in panels, sorted by a press."""

from __future__ import annotations

from urllib.parse import urlencode

from playwright.sync_api import Page, expect

from qserver.service.statements import Statements
from tests.browser.chromium_page import Visit, Visitor
from tests.browser.town_server import TownServer

TEXT = "SELECT sex, age, COUNT(*) AS n FROM people GROUP BY sex, age WITHIN 40"
MOST_TABS = 12
FOCUSED = "document.activeElement.closest('a, button')?.textContent ?? ''"


def sign_in(visit: Visit, town: TownServer) -> Page:
    page = visit.page
    page.goto(f"{town.url}/portal/sign-in")
    page.get_by_label("Token").fill(town.analyst)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_text("ann analyst")).to_be_visible()
    return page


def test_fewer_than_12_tabs_lead_to_the_button_that_asks(visit: Visit, town: TownServer) -> None:
    page = sign_in(visit, town)
    page.goto(f"{town.url}/portal/datasets/people?by=sex&length=80")
    expect(page.locator("[data-ask]")).to_be_enabled()
    n_tabs = 0
    for wanted in ("To the price", "Ask:"):
        while wanted not in page.evaluate(FOCUSED):
            page.keyboard.press("Tab")
            n_tabs += 1
            assert n_tabs < MOST_TABS
        page.keyboard.press("Enter")
    expect(page.get_by_text("Waiting for a worker")).to_be_visible()
    town.town.work_off()
    expect(page.get_by_text("3 intervals")).to_be_visible()


def test_a_table_in_panels_sorts_by_a_press_on_a_desk_and_a_phone(
    visitor: Visitor, town: TownServer
) -> None:
    Statements(town.town.service()).run("people", TEXT, wait_s=0)
    town.town.work_off()
    for size in ("desktop", "phone"):
        visit = visitor.open(size=size)
        page = sign_in(visit, town)
        page.goto(f"{town.url}/portal/datasets/people/answer?{urlencode({'text': TEXT})}")
        panel = page.get_by_role("table", name="Male", exact=True)
        expect(panel).to_be_visible()
        ages = panel.locator("tbody th")
        expect(ages.first).to_have_text("20")
        panel.get_by_role("button", name="Best estimate").click()
        values = [
            float(cell.get_attribute("data-value") or "nan")
            for cell in panel.locator("td.estimate").all()
        ]
        assert values == sorted(values, reverse=True)
        expect(panel.locator("[aria-sort=descending]")).to_have_text("Best estimate")
        panel.get_by_role("button", name="age").click()
        expect(ages.first).to_have_text("20")
        panel.get_by_role("button", name="age").press("Enter")
        expect(ages.first).to_have_text("NULL")
        visit.picture("panels")
        assert visit.faults() == []
        assert visit.overflow() == 0
