"""The price follows what is typed, its button pays for nothing else, and Ctrl+Enter asks."""

from __future__ import annotations

import re
import threading
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Page, Request, Route, expect

from qserver.query import request_fields as fields
from tests.browser.chromium_page import Visit, Visitor

WOMEN = "SELECT COUNT(*) FROM adult WHERE sex = 'Female'"
OLD_MEN = (
    "SELECT AVG(age) FROM adult WHERE sex = 'Male' AND age >= 60 WITHIN 5 ASSUMING AT LEAST 500"
)


def open_box(page: Page, fresh_url: str) -> None:
    """The page of SQL, without a statement."""
    page.goto(f"{fresh_url}/portal/datasets/adult/sql?within=200")
    expect(page.locator("#price")).to_have_text("Write a statement. Its price appears here.")


def test_the_price_follows_the_keys_without_leaving_the_box(visit: Visit, fresh_url: str) -> None:
    page = visit.page
    open_box(page, fresh_url)
    text = page.get_by_label(fields.QUERY.label)
    text.press_sequentially(WOMEN)
    expect(page.locator("#price .asked")).to_have_text("sex Female")
    expect(text).to_be_focused()
    expect(page.locator("[data-ask]")).to_be_enabled()
    text.press_sequentially(" OR")
    expect(page.locator("#price .notice")).to_contain_text("The statement must be SQL")
    visit.picture("refused-while-typing")
    assert visit.faults() == []


def test_one_price_is_asked_for_when_the_keys_rest(visit: Visit, fresh_url: str) -> None:
    page = visit.page
    open_box(page, fresh_url)
    asked: list[Request] = []
    page.on("request", lambda r: asked.append(r) if r.url.endswith("/price") else None)
    page.get_by_label(fields.QUERY.label).press_sequentially(WOMEN, delay=5)
    expect(page.locator("#price .asked")).to_have_text("sex Female")
    assert [r.post_data_json["text"] for r in asked][-1] == WOMEN
    assert len(asked) < len(WOMEN) / 2


@pytest.mark.parametrize("change", ["text", "ends", "label", "length"])
def test_the_button_is_dead_from_the_first_key_until_the_price_is_this_texts(
    visit: Visit, fresh_url: str, change: str
) -> None:
    page = visit.page
    text = urlencode({"text": "SELECT COUNT(*) FROM adult"})
    place = f"/sql?{text}" if change == "text" else "?within=200"
    page.goto(f"{fresh_url}/portal/datasets/adult{place}")
    button = page.locator("#price button.button")
    expect(button).to_be_enabled()
    held = threading.Event()
    page.route("**/price", lambda route: held.set())
    if change == "text":
        page.get_by_label(fields.QUERY.label).press("x")
    elif change == "length":
        page.get_by_role("textbox", name=fields.LENGTH.label).press("9")
    elif change == "ends":
        page.locator("summary", has_text=re.compile(r"^age")).click()
        page.get_by_label("from", exact=True).locator("visible=true").press("3")
    else:
        page.locator("summary", has_text=re.compile(r"^sex")).click()
        page.get_by_role("checkbox", name="Male", exact=True).check()
    assert button.is_disabled()
    expect(page.locator("#price")).to_have_attribute("aria-busy", "true")


def test_what_is_free_is_as_dead_when_the_text_is_another(visit: Visit, fresh_url: str) -> None:
    page = visit.page
    page.goto(f"{fresh_url}/portal/datasets/adult?is:sex=Female&length=900")
    page.locator("#price button.button").click()
    expect(page.locator(".sentence")).to_be_visible()
    page.goto(f"{fresh_url}/portal/datasets/adult?is:sex=Female&length=900")
    show = page.get_by_role("button", name="Show the answer")
    expect(show).to_be_enabled()
    page.route("**/price", lambda route: None)
    page.get_by_role("textbox", name=fields.LENGTH.label).fill("2")
    assert show.is_disabled()


def test_the_slider_of_a_free_answer_brings_the_price_of_a_shorter_one(
    visit: Visit, fresh_url: str
) -> None:
    """Its button said that it shows an answer; at another length it would have paid for one."""
    page = visit.page
    page.goto(f"{fresh_url}/portal/datasets/adult?is:sex=Female&length=900")
    page.locator("#price button.button").click()
    expect(page.locator(".sentence")).to_be_visible()
    page.goto(f"{fresh_url}/portal/datasets/adult?is:sex=Female&length=900")
    expect(page.get_by_role("button", name="Show the answer")).to_be_enabled()
    page.get_by_role("slider").press("Home")
    expect(page.get_by_role("button", name="Show the answer")).to_have_count(0)
    expect(page.get_by_role("button", name="Ask: 0.")).to_be_visible()


def test_a_late_price_of_an_earlier_text_is_dropped(visit: Visit, fresh_url: str) -> None:
    """The first reply is kept back until the second was shown; it must change nothing."""
    page = visit.page
    open_box(page, fresh_url)
    kept: list[Route] = []

    def hold_the_first(route: Route) -> None:
        if kept:
            route.continue_()
        else:
            kept.append(route)

    page.route("**/price", hold_the_first)
    text = page.get_by_label(fields.QUERY.label)
    text.fill("SELECT COUNT(*) FROM adult WHERE sex = 'Male'")
    page.wait_for_function("() => document.querySelector('form.ask.htmx-request')")
    text.fill(WOMEN)
    expect(page.locator("#price .asked")).to_have_text("sex Female")
    kept[0].continue_()
    expect(page.locator("[data-ask]")).to_be_enabled()
    expect(page.locator("#price .asked")).to_have_text("sex Female")


def test_control_and_enter_ask_for_what_is_priced(visit: Visit, fresh_url: str) -> None:
    page = visit.page
    open_box(page, fresh_url)
    text = page.get_by_label(fields.QUERY.label)
    text.fill("SELECT COUNT(*) FROM adult WHERE race = 'Black' WITHIN 300")
    expect(page.locator("#price .asked")).to_have_text("race Black")
    text.press("Control+Enter")
    expect(page.locator(".sentence")).to_contain_text("with 95 percent confidence")


def test_control_and_enter_before_the_price_show_it_at_once_and_spend_nothing(
    visit: Visit, fresh_url: str
) -> None:
    page = visit.page
    open_box(page, fresh_url)
    text = page.get_by_label(fields.QUERY.label)
    text.fill("SELECT COUNT(*) FROM adult WHERE occupation = 'Armed-Forces' WITHIN 400")
    text.press("Control+Enter")
    expect(
        page.get_by_text("This is the price of what you typed. Ctrl+Enter asks.")
    ).to_be_visible()
    expect(page.locator("[data-ask]")).to_be_enabled()
    visit.picture("price-first")
    assert visit.faults() == []
    text.press("Control+Enter")
    expect(page.locator(".sentence")).to_contain_text("with 95 percent confidence")
    assert "/portal/jobs/" in page.url
    # Known by now: what costs nothing is asked at once.
    open_box(page, fresh_url)
    text.fill("SELECT COUNT(*) FROM adult WHERE occupation = 'Armed-Forces' WITHIN 500")
    text.press("Control+Enter")
    expect(page.locator(".sentence")).to_contain_text("cost nothing")


@pytest.mark.parametrize("keys", ["Control+Enter", "Meta+Enter"])
def test_the_keys_ask_from_the_builder_too(visit: Visit, fresh_url: str, keys: str) -> None:
    page = visit.page
    page.goto(f"{fresh_url}/portal/datasets/adult?is:race=Amer-Indian-Eskimo&length=900")
    expect(page.locator("#price button.button")).to_be_enabled()
    page.get_by_role("textbox", name="Confidence").press(keys)
    expect(page.locator(".sentence")).to_contain_text("with 95 percent confidence")


def test_an_answer_is_titled_by_its_statement_and_its_job_found_by_the_conditions(
    visitor: Visitor, fresh_url: str
) -> None:
    visit = visitor.open()
    page = visit.page
    open_box(page, fresh_url)
    text = page.get_by_label(fields.QUERY.label)
    text.fill(OLD_MEN)
    expect(page.locator("#price .statement")).to_have_text(OLD_MEN)
    expect(page.locator("#price button.button")).to_be_enabled()
    text.press("Control+Enter")
    expect(page.get_by_role("heading", name=OLD_MEN)).to_be_visible()
    expect(page).to_have_title(f"{OLD_MEN} · adult · qserver")
    visit.picture("table")
    assert visit.faults() == []
    phone = visitor.open(size="phone", scheme="dark")
    phone.page.goto(page.url)
    expect(phone.page.get_by_role("heading", name=OLD_MEN)).to_be_visible()
    assert phone.overflow() == 0
    phone.picture("table")
    page.goto(f"{fresh_url}/portal/datasets/adult?is:sex=Male&length=700")
    page.locator("#price button.button").click()
    expect(page.locator(".sentence")).to_be_visible()
    page.get_by_role("link", name="Jobs").click()
    job = page.get_by_role("link", name=re.compile("sex Male"))
    expect(job.first).to_be_visible()
    visit.picture("jobs")


def test_a_wrong_field_is_named_by_its_label_marked_and_described(
    visit: Visit, fresh_url: str
) -> None:
    page = visit.page
    page.goto(f"{fresh_url}/portal/datasets/adult")
    length = page.get_by_role("textbox", name=fields.LENGTH.label)
    length.fill("wide")
    notice = page.locator("#price #fault")
    expect(notice).to_contain_text(f"“{fields.LENGTH.label}” must be a finite number, got 'wide'.")
    expect(length).to_have_attribute("aria-invalid", "true")
    expect(length).to_have_accessible_description(re.compile(f"“{fields.LENGTH.label}” must be"))
    visit.picture("length")
    assert visit.faults() == []
    length.fill("400")
    expect(page.locator("#price .headline")).to_be_visible()
    expect(length).not_to_have_attribute("aria-invalid", "true")
    page.get_by_role("link", name="Write it as SQL").click()
    text = page.get_by_label(fields.QUERY.label)
    text.fill("\n  SELECT EXP(age) FROM adult")
    expect(text).to_have_attribute("aria-describedby", "fault text-hint")
    expect(notice).to_contain_text("(line 2, column 14)")


def test_where_no_server_answers_the_page_says_so_and_can_try_again(
    visitor: Visitor, fresh_url: str
) -> None:
    visit = visitor.open()
    page = visit.page
    open_box(page, fresh_url)
    page.route("**/price", lambda route: route.abort())
    page.get_by_label(fields.QUERY.label).fill(WOMEN)
    expect(page.get_by_text("The server did not answer")).to_be_visible()
    expect(page.locator("#price button.button")).to_have_count(0)
    page.unroute("**/price")
    page.get_by_role("button", name="Try again").click()
    expect(page.locator("#price .asked")).to_have_text("sex Female")
    # That much was asked for.
    visitor.errors.clear()
