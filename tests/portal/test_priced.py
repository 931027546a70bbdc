"""A price pays for the question that it was shown for, and for no other."""

from __future__ import annotations

import re

import pytest

from tests.portal.portal_site import AGE, HTMX, PEOPLE, Browser


def priced(part: str) -> dict[str, str]:
    """What a price's part adds to its form."""
    return dict(re.findall(r'name="(priced\w*)" value="([^"]*)"', part))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "is_asked"),
    [
        ({}, True),
        ({"to:age": "25"}, False),
        ({"text": "SELECT COUNT(*) FROM people"}, False),
        ({"confidence": "90"}, False),
        ({"within": "40"}, False),
        ({"within": "40", "priced_within": "40"}, True),
    ],
)
def test_a_price_pays_for_no_other_question(
    browser: Browser, change: dict[str, str], is_asked: bool
) -> None:
    """Without scripts a form can be changed beside its price; the slider sets both lengths."""
    with_price = priced(browser.post(f"{PEOPLE}/price", AGE, headers=HTMX).text)
    assert set(with_price) == {"priced", "priced_within"}
    sent = browser.post(f"{PEOPLE}/ask", {**AGE, **with_price, **change})
    assert sent.status_code == (303 if is_asked else 200)
    if is_asked:
        return
    assert "The question was changed after its price was shown." in sent.text
    again = {**AGE, **change, **priced(sent.text)}
    assert browser.post(f"{PEOPLE}/ask", again).status_code == 303


def test_lines_that_a_browser_ends_in_its_own_way_are_the_same_text(browser: Browser) -> None:
    fields = {"text": "SELECT COUNT(*)\nFROM people", "length": "40"}
    with_price = priced(browser.post(f"{PEOPLE}/price", fields, headers=HTMX).text)
    fields["text"] = fields["text"].replace("\n", "\r\n")
    assert browser.post(f"{PEOPLE}/ask", {**fields, **with_price}).status_code == 303
