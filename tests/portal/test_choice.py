"""The pages' switch: what is chosen is priced and asked; the owner's choice stands ticked."""

from __future__ import annotations

import pytest

from qserver.query.requirement import Measure
from qserver.storage.histories import Cursor
from qserver.storage.store import Store
from tests.portal.portal_site import AGE, HTMX, PEOPLE, Browser, answered
from worker.owner.changes import set_measure


def ticked(page: str) -> str:
    """The value of the radio button that is checked."""
    (found,) = [
        line for line in page.splitlines() if 'name="measure"' in line and " checked" in line
    ]
    return found.split('value="')[1].split('"')[0]


def paid(browser: Browser) -> list[str]:
    town = browser.town
    changes = Store.open(town.settings).changes(town.meta, Cursor(), shown_only=False)
    return [one.measure for one in changes.paid]


@pytest.mark.parametrize("measure", ["auto", "only_this"])
def test_what_is_chosen_is_measured_and_stays_chosen(browser: Browser, measure: str) -> None:
    answered(browser, {**AGE, "measure": measure})
    assert paid(browser) == [measure]
    assert ticked(browser.text(f"{PEOPLE}?measure={measure}&length=40")) == measure


@pytest.mark.parametrize("measure", ["auto", "only_this"])
def test_the_owners_choice_is_ticked_first(browser: Browser, measure: Measure) -> None:
    town = browser.town
    set_measure("people", measure, settings=town.settings, registry=town.registry)
    assert ticked(browser.text(PEOPLE)) == measure
    answered(browser)
    assert paid(browser) == [measure]


def test_a_text_that_says_only_this_goes_before_the_switch(browser: Browser) -> None:
    text = "SELECT COUNT(*) FROM people WHERE age < 25 WITHIN 20 ONLY THIS"
    answered(browser, {"text": text, "measure": "auto"})
    table = "SELECT sex, COUNT(*) FROM people GROUP BY sex WITHIN 20"
    answered(browser, {"text": table, "measure": "only_this"})
    assert set(paid(browser)) == {"only_this"}


def test_an_unknown_choice_is_told_in_the_forms_words(browser: Browser) -> None:
    part = browser.post(f"{PEOPLE}/price", {**AGE, "measure": "all"}, headers=HTMX)
    assert part.status_code == 200
    assert "What may be measured" in part.text
    assert "auto" in part.text


def test_a_price_pays_for_no_other_choice(browser: Browser) -> None:
    priced = browser.post(f"{PEOPLE}/price", {**AGE, "measure": "auto"}, headers=HTMX).text
    mark = priced.split('name="priced" value="')[1].split('"')[0]
    sent = {**AGE, "priced": mark, "priced_within": AGE["within"], "measure": "only_this"}
    response = browser.post(f"{PEOPLE}/ask", sent)
    assert response.status_code == 200
    assert "The question was changed after its price was shown." in response.text
