"""Pages for numbers that were picked out: the line below a table, and the fields of the form."""

from __future__ import annotations

import pytest

from tests.portal.portal_site import AGE, HTMX, PEOPLE, Browser, answered

BY_AGE = "SELECT age, COUNT(*) FROM people GROUP BY age WITHIN 20"


def shown(browser: Browser, fields: dict[str, str]) -> str:
    """The page that asking leads to, once the job is done."""
    return browser.text(answered(browser, fields))


def test_a_table_says_what_holds_after_looking(browser: Browser) -> None:
    page = shown(browser, {"text": BY_AGE})
    assert "All 11 at once: ±36" in page
    assert "The largest: −36" in page
    # The same from history alone.
    assert "All 11 at once: ±36" in browser.text(f"{PEOPLE}/answer?text={BY_AGE}")


def test_a_table_that_names_its_choice_says_so(browser: Browser) -> None:
    page = shown(browser, {"text": f"{BY_AGE} AS LARGEST OF 11"})
    assert "each with 95 percent confidence, as the largest of 11" in page
    assert "All 11 at once" not in page


def test_a_question_that_was_picked_out_costs_the_same_and_says_more_carefully(
    browser: Browser,
) -> None:
    plain = shown(browser, AGE)
    spent = browser.spent_nano()
    page = shown(browser, {**AGE, "among": "1,000", "rule": "largest", "first": "5"})
    assert browser.spent_nano() == spent
    assert "all of the 5 largest of 1,000" in page
    assert "allows for your choice of this number" in page
    assert "allows for your choice of this number" not in plain
    # The form keeps what was typed.
    form = browser.text(f"{PEOPLE}?among=1,000&rule=least&first=5&length=40")
    assert 'value="1,000"' in form
    assert '<option value="least" selected>' in form


def test_fresh_noise_is_charged_and_shown_from_its_own_measurement(browser: Browser) -> None:
    answered(browser)
    spent = browser.spent_nano()
    page = shown(browser, {**AGE, "independent": "1"})
    assert browser.spent_nano() == 2 * spent
    assert "<dt>Weights</dt><dd>independent</dd>" in page


@pytest.mark.parametrize(
    ("more", "label"),
    [
        ({"among": "many"}, "How many numbers you looked at"),
        ({"among": "0"}, "How many numbers you looked at"),
        ({"among": "4", "first": "5"}, "How many you report"),
        ({"among": "4", "rule": "top"}, "How you chose this one"),
        ({"among": "4", "independent": "1"}, "measure anew, with fresh noise"),
    ],
)
def test_what_is_wrong_is_told_in_the_forms_words(
    browser: Browser, more: dict[str, str], label: str
) -> None:
    part = browser.post(f"{PEOPLE}/price", {**AGE, **more}, headers=HTMX)
    assert part.status_code == 200
    assert f"“{label}”" in part.text


def test_rule_and_number_without_a_choice_change_nothing(browser: Browser) -> None:
    page = shown(browser, {**AGE, "among": "", "rule": "any", "first": "3"})
    assert "allows for your choice of this number" not in page


def test_rows_that_were_chosen_say_so_and_cost_the_whole_table(browser: Browser) -> None:
    text = BY_AGE.replace("COUNT(*)", "COUNT(*) AS n").replace(
        "WITHIN", "ORDER BY n DESC LIMIT 2 WITHIN"
    )
    price = browser.post(f"{PEOPLE}/price", {"text": text}, headers=HTMX).text
    assert "The price is that of the whole table." in price
    page = shown(browser, {"text": text})
    assert "2 intervals, each with 95 percent confidence, all of the 2 largest of 11" in page
    assert "whole table" not in browser.post(f"{PEOPLE}/price", {"text": BY_AGE}, headers=HTMX).text
    # The same from history alone, and a table that no row is left of.
    assert "all of the 2 largest of 11" in browser.text(f"{PEOPLE}/answer?text={text}")
    none = text.replace("ORDER BY n DESC LIMIT 2", "HAVING n > 1000000")
    assert "0 intervals" in browser.text(f"{PEOPLE}/answer?text={none}")
