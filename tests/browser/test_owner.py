"""Signing in, an analyst's job with its progress, an owner's budget page."""

from __future__ import annotations

import io
import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.chromium_page import Visit
from tests.browser.town_server import TownServer
from worker.cli import main as worker


def sign_in(page: Page, url: str, token: str) -> None:
    page.goto(f"{url}/portal/datasets/people")
    page.get_by_label("Token").fill(token)
    page.get_by_role("button", name="Sign in").click()


def test_a_wrong_token_is_told_and_a_right_one_leads_in_and_out(
    visit: Visit, town: TownServer
) -> None:
    page = visit.page
    visit.expected_statuses.add(401)
    sign_in(page, town.url, town.analyst[:-1])
    expect(page.get_by_role("alert")).to_have_text("This token is not valid.")
    visit.picture("refused")
    assert visit.faults() == []
    page.get_by_label("Token").fill(town.analyst)
    page.get_by_label("Token").press("Enter")
    expect(page.get_by_text("ann analyst")).to_be_visible()
    assert all(c["httpOnly"] and c["sameSite"] == "Strict" for c in page.context.cookies())
    assert page.evaluate("document.cookie") == ""
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    page.goto(f"{town.url}/portal/jobs")
    expect(page).to_have_url(f"{town.url}/portal/sign-in")


def test_a_job_shows_its_progress_and_then_its_answer(visit: Visit, town: TownServer) -> None:
    page = visit.page
    sign_in(page, town.url, town.analyst)
    page.goto(f"{town.url}/portal/datasets/people?from:age=22&to:age=24&length=40")
    page.get_by_role("button", name="Ask:").click()
    expect(page.get_by_role("heading", name="Waiting for a worker")).to_be_visible()
    visit.picture("waiting")
    assert visit.faults() == []
    jobs = page.context.new_page()
    jobs.goto(f"{town.url}/portal/jobs")
    expect(jobs.get_by_role("cell", name="queued")).to_be_visible()
    town.town.work_off()
    # Neither page was touched.
    expect(page.locator(".sentence")).to_contain_text("with 95 percent confidence; cost 0.")
    expect(page).to_have_title("age 22 to 24 · people · qserver")
    expect(jobs.get_by_role("cell", name="done")).to_be_visible()
    visit.picture("answered")


def test_an_owner_sees_where_the_budget_went_and_who_spent_it(
    visit: Visit, town: TownServer
) -> None:
    for age, name in ((22, "ann"), (23, "boss"), (24, "ann")):
        town.town.ask({"age": age}, by=name, length=60)
    town.town.ask({"age": {"between": [22, 26]}, "sex": "Male"}, by="ann", length=30)
    page = visit.page
    sign_in(page, town.url, town.owner)
    page.get_by_role("link", name="Budget").first.click()
    expect(page.get_by_role("heading", name="How it went down")).to_be_visible()
    expect(page.locator("[data-chart=burn-down] canvas")).to_be_visible()
    expect(page.get_by_role("img", name=re.compile("^age: at most"))).to_be_visible()
    rows = page.get_by_role("table").get_by_role("row")
    expect(rows).to_have_count(3)
    expect(rows.nth(1)).to_contain_text("ann")
    visit.picture("budget")
    assert visit.faults() == []
    page.get_by_role("button", name="Sign out").click()
    sign_in(page, town.url, town.analyst)
    page.goto(f"{town.url}/portal/datasets/people/budget")
    expect(page.get_by_role("heading", name="How it went down")).to_be_visible()
    expect(page.get_by_role("heading", name="Who spent what")).to_have_count(0)


def test_an_owner_goes_from_the_page_to_the_log_and_an_analyst_does_not(
    visit: Visit, town: TownServer
) -> None:
    town.town.ask({"age": 22}, by="ann", length=60)
    page = visit.page
    sign_in(page, town.url, town.owner)
    page.get_by_role("link", name="Owner").click()
    expect(page.get_by_role("heading", name="Population town")).to_be_visible()
    page.get_by_role("link", name="Charges of town", exact=True).click()
    expect(page.get_by_role("cell", name="age 22")).to_be_visible()
    page.get_by_role("main").get_by_role("link", name="Owner").click()
    page.get_by_role("link", name="3 changes").click()
    expect(page.get_by_role("row")).to_have_count(4)
    page.get_by_role("button", name="Sign out").click()
    visit.expected_statuses.add(403)
    sign_in(page, town.url, town.analyst)
    expect(page.get_by_text("ann analyst")).to_be_visible()
    expect(page.get_by_role("link", name="Owner")).to_have_count(0)
    page.goto(f"{town.url}/portal/owner")
    expect(page.get_by_role("alert")).to_contain_text("Only an owner may read this page.")


def test_an_owner_asks_by_a_form_and_confirms_where_the_worker_is(
    visit: Visit, town: TownServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    page, settings = visit.page, town.town.settings
    sign_in(page, town.url, town.owner)
    page.goto(f"{town.url}/portal/owner")
    page.get_by_role("link", name="Forms").click()
    form = page.get_by_role("region", name="Raise a limit")
    form.get_by_label("Population").fill("town")
    form.get_by_label("New limit, in epsilon").fill("4")
    form.get_by_role("button").click()
    expect(page.get_by_text("Raise the limit of population town to 4 epsilon")).to_be_visible()
    visit.picture("asked")
    assert visit.faults() == []
    shown = page.get_by_text(re.compile("qserver-worker confirm [0-9a-f]{20}")).inner_text()
    monkeypatch.setattr("sys.stdin", io.StringIO("yes\n"))
    place = ["--state", str(settings.state_dir), "--redis-url", settings.redis_url]
    assert worker([*shown.split()[1:3], *place]) == 0
    page.goto(f"{town.url}/portal/owner")
    expect(page.get_by_text("4 ε", exact=True).first).to_be_visible()
