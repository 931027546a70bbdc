"""Saved questions: kept by account, answered from history alone, renewed only by a button."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import urlencode

import pytest

from qserver.storage.constants import STORE
from tests.growing import Growing, week
from tests.portal.portal_site import AGE, HTMX, PEOPLE, Browser, answered, browser_on, open_browser

SAVED = f"{PEOPLE}/saved"
BY_WEEK = {"text": "SELECT week, COUNT(*) AS n FROM people GROUP BY week", "length": "80"}
ALL = {"length": "80", "confidence": "95"}
TO_COME = {"text": "SELECT COUNT(*) FROM people WHERE week = '2024-W01' WITHIN 40"}


def save(browser: Browser, fields: dict[str, str], title: str = "") -> None:
    response = browser.post(SAVED, {"question": urlencode(fields), "title": title})
    assert response.status_code == 303, response.text


def cards(browser: Browser) -> list[str]:
    return re.findall(r'(?s)<article class="card saved".*?</article>', browser.text(SAVED))


def number_of(card: str) -> str:
    found = re.search(r'id="saved-([0-9a-f]+)"', card)
    assert found
    return found[1]


def remove(browser: Browser, number: str) -> int:
    return browser.post(f"{SAVED}/{number}/remove", {}).status_code


@pytest.fixture
def weekly(tmp_path: Path, store_url: str) -> Browser:
    """A browser on a server whose data arrive by weeks."""
    return browser_on(Growing.begin(tmp_path, store_url), is_open=True)


def grow(browser: Browser, i: int) -> None:
    town = browser.town
    assert isinstance(town, Growing)
    town.append(i)


def ask(browser: Browser, fields: dict[str, str]) -> None:
    assert browser.post(f"{PEOPLE}/ask", fields).status_code == 303
    browser.town.work_off()


def test_an_answer_offers_to_be_saved_and_the_page_shows_it_again(browser: Browser) -> None:
    page = browser.text(answered(browser) + "?" + urlencode(AGE))
    assert f'action="{SAVED}"' in page
    assert "Save to the dashboard" in page
    save(browser, AGE, "The  young ")
    (card,) = cards(browser)
    assert "The young</h3>" in card
    assert "age 22 to 24" in card
    assert '<p class="headline">' in card
    assert "hx-get" not in card
    assert f"{PEOPLE}/answer?{urlencode(AGE).replace('%3A', ':').replace('&', '&amp;')}" in card


def test_saving_and_looking_spend_nothing_and_make_no_job(browser: Browser) -> None:
    save(browser, AGE)
    (card,) = cards(browser)
    assert "No answer to it is known now." in card
    price = browser.get(f"{SAVED}/{number_of(card)}/price", **HTMX).text
    assert re.search(r"Ask anew: 0\.\d+ ε", price)
    assert browser.spent_nano() == 0
    assert browser.town.work_off() == 0


def test_the_button_asks_what_was_saved(browser: Browser) -> None:
    save(browser, AGE)
    price = browser.get(f"{SAVED}/{number_of(cards(browser)[0])}/price", **HTMX).text
    fields = dict(re.findall(r'<input type="hidden" name="([^"]*)" value="([^"]*)">', price))
    response = browser.client.post(
        f"{PEOPLE}/ask", data=fields, headers={"Sec-Fetch-Site": "same-origin"}
    )
    assert response.status_code == 303
    assert browser.town.work_off() == 1
    assert "No answer to it is known" not in cards(browser)[0]


@pytest.mark.slow
def test_a_new_week_leaves_the_old_answer_with_its_time_and_a_price(weekly: Browser) -> None:
    for fields in (BY_WEEK, ALL, TO_COME):
        ask(weekly, fields)
        save(weekly, fields)
    before = cards(weekly)
    assert [f"Up to {week(2)}." in card for card in before] == [True] * 3
    numbers = [re.findall(r"<b>[^<]*</b>", card) for card in before]
    grow(weekly, 3)
    spent = weekly.spent_nano()
    after = cards(weekly)
    assert [f"This answer counts up to {week(2)}" in card for card in after] == [True, True, False]
    assert ["hx-get" in card for card in after] == [True, True, False]
    assert [re.findall(r"<b>[^<]*</b>", card) for card in after] == numbers
    assert weekly.spent_nano() == spent
    # The new total was measured as the row of the new week, so the table knows it, too.
    ask(weekly, ALL)
    assert [f"Up to {week(3)}." in card for card in cards(weekly)] == [True] * 3
    grow(weekly, 4)
    assert [f"This answer counts up to {week(3)}" in card for card in cards(weekly)] == [
        True,
        True,
        False,
    ]
    ask(weekly, ALL)
    assert f"Up to {week(4)}." in cards(weekly)[1]


@pytest.mark.slow
def test_the_last_answer_stays_however_many_weeks_come(weekly: Browser) -> None:
    ask(weekly, BY_WEEK)
    save(weekly, BY_WEEK)
    for i in range(3, 10):
        grow(weekly, i)
    assert f"This answer counts up to {week(2)}" in cards(weekly)[0]


def test_known_less_exactly_than_asked_says_so(browser: Browser) -> None:
    answered(browser)
    save(browser, {**AGE, "within": "5"})
    (card,) = cards(browser)
    assert "Known only less exactly than asked" in card
    assert "hx-get" in card


def test_removing_forgets_one_and_an_unknown_one_is_not_found(browser: Browser) -> None:
    save(browser, AGE)
    save(browser, ALL)
    first = number_of(cards(browser)[0])
    assert remove(browser, first) == 303
    assert [number_of(card) for card in cards(browser)] != [first]
    assert len(cards(browser)) == 1
    assert remove(browser, first) == 404
    assert browser.get(f"{SAVED}/{first}/price", **HTMX).status_code == 404


def test_the_same_question_is_kept_once_with_its_new_title(browser: Browser) -> None:
    save(browser, AGE, "One")
    save(browser, AGE, "Two")
    (card,) = cards(browser)
    assert "Two</h3>" in card


@pytest.mark.slow
def test_only_so_many_are_kept_and_none_that_is_too_long(browser: Browser) -> None:
    saved, meta = browser.town.service().saved, "people"
    for i in range(STORE.saved_questions):
        saved.keep(meta, "", fields=f"length={i + 1}", title="", as_of="")
    response = browser.post(SAVED, {"question": urlencode(AGE)})
    assert "Remove one first" in response.text
    assert len(cards(browser)) == STORE.saved_questions
    assert remove(browser, number_of(cards(browser)[0])) == 303
    save(browser, AGE)
    long = {**AGE, "text": "SELECT COUNT(*) FROM people" + " " * STORE.saved_length + "WITHIN 9"}
    assert browser.post(SAVED, {"question": urlencode(long)}).status_code == 422
    assert browser.post(SAVED, {"question": urlencode(AGE), "title": "x" * 81}).status_code == 422


def test_what_cannot_be_asked_is_not_saved(browser: Browser) -> None:
    wrong = {"text": "SELECT EXP(age) FROM people"}
    assert browser.post(SAVED, {"question": urlencode(wrong)}).status_code == 422
    assert cards(browser) == []


def test_what_cannot_be_asked_any_more_can_still_be_removed(browser: Browser) -> None:
    service = browser.town.service()
    service.saved.keep("people", "", fields="text=SELECT+EXP(age)+FROM+people", title="", as_of="")
    (card,) = cards(browser)
    assert "This question can no longer be asked" in card
    assert remove(browser, number_of(card)) == 303


def test_each_account_has_its_own(tmp_path: Path, store_url: str) -> None:
    guarded = open_browser(tmp_path, store_url, is_open=False)
    tokens = [guarded.book.create(name, "analyst").text for name in ("ann", "bob")]
    guarded.sign_in(tokens[0])
    save(guarded, AGE, "mine")
    assert len(cards(guarded)) == 1
    number = number_of(cards(guarded)[0])
    guarded.sign_in(tokens[1])
    assert cards(guarded) == []
    assert remove(guarded, number) == 404
    guarded.sign_in(tokens[0])
    assert len(cards(guarded)) == 1


def test_a_form_without_our_token_saves_nothing(browser: Browser) -> None:
    response = browser.client.post(SAVED, data={"question": urlencode(AGE)})
    assert response.status_code == 403
    assert cards(browser) == []
