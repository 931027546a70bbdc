"""The pages of budget and history, by role."""

from __future__ import annotations

import html
import json
import re

import pytest

from tests.portal.portal_site import PEOPLE, Browser


def test_the_budget_page_shows_what_was_spent_where_and_how_fast(browser: Browser) -> None:
    paid = browser.town.ask({"age": 22}).charged_nano
    page = browser.text(f"{PEOPLE}/budget")
    chart = json.loads(html.unescape(re.findall(r"data-burn-down='([^']*)'", page)[0]))
    assert chart["limit"] == 0.5
    assert chart["left"][0] == 0.5
    assert chart["left"][-1] == pytest.approx(0.5 - paid / 1e9)
    assert chart["ends"] > chart["at"][-1]
    # Of eleven ages one is loaded, of three sexes each.
    rows = re.findall(r'role="img" aria-label="(age|sex): [^"]*">(.*?)</div>', page)
    shades = {name: re.findall(r"shade-(\d)", cells) for name, cells in rows}
    assert shades == {"age": [*"00900000000"], "sex": ["9", "9", "9"]}
    assert "without an account" in page


def test_a_budget_that_nobody_touched_says_so(browser: Browser) -> None:
    page = browser.text(f"{PEOPLE}/budget")
    assert "Nothing has been spent yet." in page
    assert "as long as nothing is asked" in page


def test_only_an_owner_sees_who_spent_what(guarded: Browser) -> None:
    tokens = {
        name: guarded.book.create(name, role).text
        for name, role in (("ann", "analyst"), ("boss", "owner"))
    }
    guarded.town.ask({"age": 22}, by="ann")
    for name, sees in (("ann", False), ("boss", True)):
        guarded.sign_in(tokens[name])
        page = guarded.text(f"{PEOPLE}/budget")
        assert ("Who spent what" in page) == sees
        assert "How it went down" in page
        assert f"<b>{name}</b>" in page


def test_the_history_lists_what_was_released_page_by_page(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "Nothing yet." in browser.text(f"{PEOPLE}/history")
    for age in (22, 23, 24):
        browser.town.ask({"age": age}, length=200)
    page = browser.text(f"{PEOPLE}/history")
    assert all(f"age {age}</td>" in page for age in (22, 23, 24))
    monkeypatch.setattr("qserver.portal.pages.datasets._PAGE_SIZE", 2)
    first = browser.text(f"{PEOPLE}/history")
    assert "age 24</td>" not in first
    assert 'href="?after=1"' in first
    rest = browser.text(f"{PEOPLE}/history?after=1")
    assert "age 24</td>" in rest
    assert "age 23</td>" not in rest
    assert browser.get(f"{PEOPLE}/history?after=x").status_code == 200


@pytest.mark.parametrize(
    "path",
    ["nowhere", "datasets/nowhere", "datasets/nowhere/budget", "jobs/town~no", "jobs/no", "x/y/z"],
)
def test_what_is_not_there_is_a_page_that_says_so(browser: Browser, path: str) -> None:
    response = browser.get(f"/portal/{path}")
    assert response.status_code == 404
    assert "There is nothing of this name" in response.text
