"""The pages of budget and history, by role."""

from __future__ import annotations

import csv
import html
import io
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
        "ann": guarded.book.create("ann", "analyst").text,
        "boss": guarded.book.create("boss", "owner").text,
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
    assert "No answer has been released yet." in browser.text(f"{PEOPLE}/history")
    for age in (22, 23, 24):
        browser.town.ask({"age": age}, length=200)
    page = browser.text(f"{PEOPLE}/history")
    assert all(f"age {age}</a></td>" in page for age in (22, 23, 24))
    monkeypatch.setattr("qserver.portal.pages.datasets._PAGE_SIZE", 2)
    # Also where what is read at once is less than a page.
    monkeypatch.setattr("qserver.portal.pages.datasets._READ_AT_ONCE", 1)
    first = browser.text(f"{PEOPLE}/history")
    assert "age 24</a>" not in first
    assert 'href="?find=&amp;after=1"' in first
    rest = browser.text(f"{PEOPLE}/history?after=1")
    assert "age 24</a>" in rest
    assert "age 23</a>" not in rest
    assert browser.get(f"{PEOPLE}/history?after=x").status_code == 200


def test_the_history_is_searched_by_words_and_had_as_a_file(browser: Browser) -> None:
    browser.town.ask({"age": 22, "sex": "Female"}, length=200)
    browser.town.ask({"age": 23}, length=200)
    found = browser.text(f"{PEOPLE}/history?find=FEMALE+22")
    assert "age 22, sex Female</a>" in found
    assert "age 23</a>" not in found
    assert "has these words" in browser.text(f"{PEOPLE}/history?find=nothing")
    whole = list(csv.DictReader(io.StringIO(browser.text(f"{PEOPLE}/history.csv"))))
    assert [row["what"] for row in whole] == ["age 22, sex Female", "age 23"]
    assert float(whole[0]["half_width_95"]) == pytest.approx(100)
    part = list(csv.DictReader(io.StringIO(browser.text(f"{PEOPLE}/history.csv?find=23"))))
    assert [row["id"] for row in part] == ["1"]


def test_a_row_of_the_history_leads_to_its_answer(browser: Browser) -> None:
    browser.town.ask({"age": {"between": [22, 24]}, "sex": {"not": "Male"}}, length=200)
    spent = browser.spent_nano()
    (address,) = re.findall(
        r'<td class="what"><a href="([^"]*)">', browser.text(f"{PEOPLE}/history")
    )
    page = browser.text(html.unescape(address))
    assert "cost nothing" in page
    assert "is longer than" not in page
    assert "age 22 to 24, sex" in page
    assert browser.spent_nano() == spent


@pytest.mark.parametrize(
    "path",
    ["nowhere", "datasets/nowhere", "datasets/nowhere/budget", "jobs/town~no", "jobs/no", "x/y/z"],
)
def test_what_is_not_there_is_a_page_that_says_so(browser: Browser, path: str) -> None:
    response = browser.get(f"/portal/{path}")
    assert response.status_code == 404
    assert "Nothing has this name" in response.text
