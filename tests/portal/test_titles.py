"""Pages say what they are about: the statement as it was written, or its conditions."""

from __future__ import annotations

import html
import re
from urllib.parse import urlencode

import pytest

from tests.portal.portal_site import AGE, HTMX, PEOPLE, Browser, answered, ask

MEN = "SELECT AVG(age) FROM people WHERE sex = 'Male' WITHIN 4 ASSUMING AT LEAST 100"


def title(page: str) -> str:
    found = re.search("<title>(.*?)</title>", page)
    assert found
    return html.unescape(found[1])


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        (AGE, "age 22 to 24"),
        pytest.param({"text": MEN}, MEN, marks=pytest.mark.slow),  # as many steps as draws need
        ({"text": "SELECT COUNT(*)\n FROM people WHERE age < 25"}, None),
        ({"text": '{"where": {"sex": "Male"}}', "length": "40"}, None),
        ({"text": "SELECT COUNT(*) FROM people WHERE sex <> '<b>'"}, None),
    ],
)
def test_a_page_of_an_answer_is_titled_by_what_was_asked(
    browser: Browser, fields: dict[str, str], said: str | None
) -> None:
    """While it waits, once it is answered, and when it is known: by what was typed."""
    said = said or fields["text"]
    refused = browser.post(f"{PEOPLE}/price", fields, headers=HTMX).text
    if "<b>" in said:
        assert "<b>" not in refused
        return
    line = " ".join(said.split())
    job = ask(browser, fields)
    assert title(browser.text(job)) == f"Waiting: {line} · people · qserver"
    browser.town.work_off()
    for place in (job, known(browser, fields)):
        page = browser.text(place)
        assert title(page) == f"{line} · people · qserver"
        heading = re.search('(?s)<h2 class="asked" id="answer-title">(.*?)</h2>', page)
        assert heading
        assert html.unescape(re.sub("</?code[^>]*>", "", heading[1])) == said


def known(browser: Browser, fields: dict[str, str]) -> str:
    """The address of the answer once all steps of a statement are done."""
    for _ in range(20):
        place = browser.post(f"{PEOPLE}/ask", fields).headers["Location"]
        if not title(browser.text(place)).startswith("Waiting"):
            return place
        browser.town.work_off()
    raise AssertionError("A statement has at most 16 steps.")


def test_a_job_without_its_statement_names_the_conditions(browser: Browser) -> None:
    job = answered(browser, {"text": MEN})
    page = browser.text(job.partition("?")[0])
    for text in (title(page), browser.text("/portal/jobs")):
        assert "a workload of 2 questions: " in text.lower()
        assert text.lower().count("sex male") >= 2


def test_an_address_cannot_give_a_job_the_title_of_another_question(browser: Browser) -> None:
    place = answered(browser, {"text": MEN}).partition("?")[0]
    women = urlencode({"text": MEN.replace("Male", "Female")})
    assert "Female" not in title(browser.text(f"{place}?{women}"))
    one = answered(browser).partition("?")[0]
    for text in ("SELECT COUNT(*) FROM people", MEN, "SELECT", '{"where": {}}'):
        page = browser.text(f"{one}?{urlencode({'text': text, 'length': '40'})}")
        assert title(page) == "age 22 to 24 · people · qserver"
