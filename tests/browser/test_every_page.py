"""Every page in light and dark, on a desk and a phone: axe finds no fault, nothing overflows."""

from __future__ import annotations

from urllib.parse import urlencode

import pytest
from playwright.sync_api import expect

from qserver.records.answer import JobStatus
from qserver.service.statements import Statements
from tests.browser.chromium_page import Scheme, Size, Visitor
from tests.browser.town_server import TownServer

EDGE = {"network": {"edges": [["sex", "age"]]}}
BY_SEX = "SELECT sex, COUNT(*) AS n FROM people GROUP BY sex WITHIN 60"
BY_AGE = "SELECT sex, age, COUNT(*) AS n FROM people WHERE age < 25 GROUP BY sex, age WITHIN 60"
QUESTION = "is:sex=Female&length=40&confidence=95"
PLACES = {
    "datasets": "/portal/",
    "ask": f"/portal/datasets/people?{QUESTION}",
    "answer": f"/portal/datasets/people/answer?{QUESTION}&at_least=330",
    "sql": f"/portal/datasets/people/sql?{urlencode({'text': BY_SEX})}",
    "mistake": "/portal/datasets/people/sql?text=SELECT+COUNT(*)+FROM+people+WHERE+agee>3",
    "table": f"/portal/datasets/people/answer?{urlencode({'text': BY_SEX})}",
    "lines": f"/portal/datasets/people/answer?{urlencode({'text': BY_AGE})}&chart=lines-1",
    "saved": "/portal/datasets/people/saved",
    "budget": "/portal/datasets/people/budget",
    "history": "/portal/datasets/people/history",
    "models": "/portal/datasets/people/models?structure=sex+%3E+age",
    "model": "/portal/datasets/people/models/MODEL?show=sex&show=age",
    "jobs": "/portal/jobs",
    "owner": "/portal/owner",
    "requests": "/portal/owner/requests",
    "changes": "/portal/owner/changes",
    "charges": "/portal/datasets/people/charges",
    "nothing": "/portal/datasets/nowhere",
}


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", ["desktop", "phone"])
def test_a_page_is_sound(visitor: Visitor, town: TownServer, size: Size, scheme: Scheme) -> None:
    town.town.ask({"sex": "Female"}, by="ann")
    town.town.ask({"age": {"between": [22, 26]}}, by="boss", length=90)
    for text in (BY_SEX, BY_AGE):
        Statements(town.town.service()).run("people", text, wait_s=0)
    learning = town.town.service().models.learn("people", "network", EDGE, 10**8, wait_s=0)
    assert isinstance(learning, JobStatus)
    town.town.work_off()
    for fields in (QUESTION, "is:sex=Male&length=20"):
        town.town.service().saved.keep("people", "boss", fields=fields, title="", as_of="")
    visit = visitor.open(size=size, scheme=scheme)
    visit.expected_statuses.add(404)
    page = visit.page
    page.goto(f"{town.url}/portal/sign-in")
    assert visit.faults() == []
    visit.picture("sign-in")
    page.get_by_label("Token").fill(town.owner)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_text("boss owner")).to_be_visible()
    for name, place in PLACES.items():
        page.goto(f"{town.url}{place.replace('MODEL', learning.id)}")
        if name in ("ask", "sql"):
            expect(page.locator("#price .headline")).to_be_visible()
        if name == "mistake":
            expect(page.locator(".excerpt")).to_be_in_viewport(ratio=1)
        visit.picture(name)
        assert visit.faults() == [], name
        assert visit.overflow() == 0, name
