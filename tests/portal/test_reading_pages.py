"""Pages for other readings of a posterior: the fields of the form, and probabilities of ranges."""

from __future__ import annotations

import re

import pytest

from tests.portal.portal_site import AGE, PEOPLE, Browser, answered

FEW = "SELECT COUNT(*) FROM people WHERE sex = 'Female' AND age = 22 WITHIN 200"


def shown(browser: Browser, fields: dict[str, str]) -> str:
    """The page that asking leads to, once the job is done."""
    return browser.text(answered(browser, fields))


def test_an_answer_says_by_which_method_it_was_read(browser: Browser) -> None:
    page = shown(browser, {**AGE, "method": "monte-carlo"})
    assert re.search(r"the posterior, each .*; by Monte Carlo with [\d,]+ draws, each prob", page)
    spent = browser.spent_nano()
    page = shown(browser, {**AGE, "method": "convolution"})
    assert browser.spent_nano() == spent
    assert "by convolution with a step of" in page
    assert "by convolution" not in shown(browser, {**AGE, "method": "auto"})


def test_an_answer_under_a_prior_is_told_to_be_bayesian(browser: Browser) -> None:
    page = shown(browser, {"text": FEW, "prior": "non-negative"})
    assert "held to be at least 0" in page
    assert "a Bayesian statement, not a frequency." in page
    # What the text says goes before the form.
    page = shown(browser, {"text": f"{FEW} GIVEN BETWEEN 0 AND 9", "prior": "non-negative"})
    assert "held to lie from 0 to 9" in page
    fields = "prior=between&prior_low=-1&prior_high=1,000&length=40&method=convolution"
    form = browser.text(f"{PEOPLE}?{fields}")
    assert 'value="1,000"' in form
    assert '<option value="between" selected>' in form
    assert '<option value="convolution" selected>' in form


@pytest.mark.parametrize(
    "more",
    [
        {"prior": "known-total"},
        {"prior": "positive"},
        {"prior": "between", "prior_low": "5", "prior_high": "4"},
        {"prior": "between", "prior_low": "five", "prior_high": "6"},
        {"prior": "between"},
        {"prior": "non-negative", "among": "4"},
    ],
)
def test_a_prior_that_means_nothing_is_explained_at_its_field(
    browser: Browser, more: dict[str, str]
) -> None:
    page = browser.post(f"{PEOPLE}/ask", {**AGE, **more}).text
    assert "“What you know beforehand” must" in page


def test_a_probability_of_a_range_is_worked_out(browser: Browser) -> None:
    answered(browser)
    place = f"{PEOPLE}/answer?" + "&".join(f"{k}={v}" for k, v in AGE.items())

    def verdict(more: str) -> str:
        found = re.search(r"data-probability[^>]*>([^<]*)</output>", browser.text(place + more))
        assert found is not None
        return found[1]

    assert verdict("") == ""
    assert verdict("&at_least=-100000&at_most=100000") == "1.000"
    # At the estimate, wherever the noise put it, neither side is said in words.
    middle = re.search(r'name="at_least"[^>]* value="([^"]*)"', browser.text(place))
    assert middle
    low, high = float(verdict(f"&at_least={middle[1]}")), float(verdict(f"&at_most={middle[1]}"))
    assert low + high == pytest.approx(1.0, abs=0.002)
    page = browser.text(f"{place}&at_least=5&at_most=4")
    assert "“and at most” must be no less than the other end" in page
