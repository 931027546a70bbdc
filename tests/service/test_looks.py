"""Statements whose numbers take long to look at: jobs of the process that looks at them."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from werkzeug.datastructures import MultiDict

from qserver.answering.smooth_numbers import known_parts
from qserver.errors import NotFoundError
from qserver.portal.pages import ask
from qserver.portal.question import FormQuestion
from qserver.records.account import Caller
from qserver.records.answer import JobStatus
from qserver.service.cache import smooth_numbers as numbers
from qserver.service.cache.quantiles import OrderView
from qserver.service.cache.smooth_numbers import SmoothNumbers
from qserver.service.service import Service
from qserver.service.statement_answers import StatementAnswer, StatementExplanation
from qserver.service.statements import Statements
from qserver.storage.accounts import AccountBook
from qserver.storage.constants import STORE
from qserver.storage.keys import Keys
from qserver.storage.server.connection import StoreClient
from qserver.storage.store import Store
from tests.deployment import Deployment
from tests.portal.portal_site import HTMX, PEOPLE, Browser
from tests.service.test_statements import answered as by_itself

SMOOTH = "SELECT sex, AVG(age) FROM people GROUP BY sex"
ORDER = "SELECT sex, MEDIAN(age) FROM people GROUP BY sex"
"""Both follow from the table that was measured."""


class Held:
    """Looks that wait until they may go on, and how many were begun."""

    def __init__(self) -> None:
        self.begun, self.may_go_on, self.n_begun = threading.Event(), threading.Event(), 0

    def wait(self, *_: object, **__: object) -> None:
        self.n_begun += 1
        self.begun.set()
        assert self.may_go_on.wait(timeout=30)


@pytest.fixture
def town(tmp_path: Path, store_url: str) -> Deployment:
    """Ages by sex are known."""
    found = Deployment.make(tmp_path, store_url, limit="100")
    by_itself(found, "SELECT age, sex, COUNT(*) FROM people GROUP BY age, sex WITHIN 10")
    return found


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[Held]:
    """Looks that take as long as a test wants."""
    found = Held()
    view, of = SmoothNumbers.view, OrderView.of

    def slow_view(*args: Any) -> Any:
        if args[2]:
            found.wait()
        return view(*args)

    def slow_of(*args: Any, **more: Any) -> Any:
        found.wait()
        return of(*args, **more)

    monkeypatch.setattr(SmoothNumbers, "view", slow_view)
    monkeypatch.setattr(OrderView, "of", slow_of)
    yield found
    found.may_go_on.set()


@pytest.fixture
def service(town: Deployment, held: Held) -> Iterator[Service]:
    """A process whose looks are held; they have ended when the test has."""
    found = town.service(short_s=0.0)
    yield found
    held.may_go_on.set()
    found.looks._lane.shutdown()


def run(service: Service, text: str, *, wait_s: float = 0.0, **more: Any) -> Any:
    return Statements(service).run("people", text, wait_s=wait_s, **more)


def ended(service: Service, held: Held, job: JobStatus) -> JobStatus:
    """The job after its look went on."""
    held.may_go_on.set()
    service.looks._lane.shutdown()
    return service.job(job.id)


def values(found: StatementAnswer) -> list[float | None]:
    numbers = [cell.value for row in found.cells for cell in row]
    return [x for n in numbers for x in (n.estimate, n.interval.low, n.interval.high)]


@pytest.mark.slow
@pytest.mark.parametrize("text", [SMOOTH, ORDER])
def test_a_long_look_is_a_job_and_the_statement_sent_again_is_free_and_the_same(
    town: Deployment, service: Service, held: Held, text: str
) -> None:
    spent = service.dataset("people").spent_nano
    job = run(service, text)
    assert isinstance(job, JobStatus)
    assert service.job(job.id).state == "running"
    # One for all who send the same.
    assert run(service, text).id == job.id
    assert held.begun.wait(timeout=30)
    assert held.n_begun == 1
    assert ended(service, held, job).state == "done"
    found = run(service, text)
    assert isinstance(found, StatementAnswer)
    assert found.charged_nano == 0
    assert town.service().dataset("people").spent_nano == spent
    assert values(found) == values(run(town.service(), text, wait_s=60.0))
    assert None not in values(found)[:6]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "more"),
    [
        (f"{SMOOTH} WITHIN 2", {"explain": True}),
        (f"{ORDER} WITHIN 5", {"spends": False}),
        (f"{SMOOTH} WITHIN 2", {}),
    ],
)
def test_prices_and_whatever_else_looks_wait_no_longer(
    service: Service, held: Held, text: str, more: dict[str, bool]
) -> None:
    job = run(service, text, **more)
    assert isinstance(job, JobStatus)
    ended(service, held, job)
    found = run(service, text, **more)
    assert isinstance(found, StatementExplanation if "explain" in more else StatementAnswer)


def test_it_is_a_job_by_http(town: Deployment, service: Service, held: Held) -> None:
    web, spent = town.web(service), service.dataset("people").spent_nano

    def sent(text: str) -> Any:
        path = "/v1/datasets/people/sql"
        return web.post(path, json={"sql": text}, headers={"Prefer": "wait=0"})

    first = sent(SMOOTH)
    assert first.status_code == 202
    assert first.json["state"] == "running"
    place = first.headers["Location"]
    assert place == f"/v1/jobs/{first.json['id']}"
    ended(service, held, service.job(first.json["id"]))
    shown = town.web().get(place)
    assert shown.status_code == 200
    assert shown.json["state"] == "done"
    assert shown.json["result"]["answers"] == []
    again = sent(SMOOTH)
    assert again.status_code == 200
    assert town.service().dataset("people").spent_nano == spent
    web = town.web()
    assert again.json["table"]["rows"] == sent(SMOOTH).json["table"]["rows"]


def test_whoever_waits_long_enough_is_answered_at_once(service: Service, held: Held) -> None:
    held.may_go_on.set()
    assert isinstance(run(service, SMOOTH, wait_s=60.0), StatementAnswer)


def test_numbers_of_several_kinds_are_drawn_together_and_once(
    town: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Steps and cells have the same draws, in whatever order each meets the numbers."""
    n_drawn = []

    def counted(*args: Any, **more: Any) -> Any:
        n_drawn.append(len(args[1]))
        return known_parts(*args, **more)

    monkeypatch.setattr(numbers, "known_parts", counted)
    text = "SELECT sex, AVG(age), STDDEV(age), AVG(age) AS again FROM people GROUP BY sex"
    assert isinstance(run(town.service(), text), StatementAnswer)
    assert n_drawn == [6]


def test_what_is_not_known_is_looked_at_by_a_job_and_then_measured(
    service: Service, held: Held
) -> None:
    text = "SELECT AVG(age) FROM people WHERE age > 24 WITHIN 0.5"
    spent = service.dataset("people").spent_nano
    job = run(service, text)
    assert ended(service, held, job).state == "done"
    assert service.dataset("people").spent_nano == spent
    measuring = run(service, text)
    assert isinstance(measuring, JobStatus | StatementAnswer)
    assert measuring != job


def test_a_look_that_fails_keeps_nobody_from_the_answer(
    town: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Statements, "_look", lambda *_: pytest.fail("of a test"))
    assert isinstance(run(town.service(), SMOOTH, wait_s=60.0), StatementAnswer)


def test_the_job_of_a_process_that_ended_is_forgotten(
    service: Service, redis_client: StoreClient
) -> None:
    """Nobody else goes on with it; the statement sent again is looked at anew."""
    job = run(service, SMOOTH)
    assert 0 < redis_client.ttl(Keys("town").job(job.id)) <= STORE.look_s


def test_accounts_have_jobs_of_their_own(service: Service) -> None:
    ids = [run(service, SMOOTH, by=by).id for by in ("ann", "bob", "ann")]
    assert ids[0] == ids[2] != ids[1]
    with pytest.raises(NotFoundError):
        service.job(ids[0], reader=Caller("bob", "analyst", ""))


ASKED = {"text": f"{SMOOTH} WITHIN 2", "length": "30", "confidence": "95"}
ANSWER = f"{PEOPLE}/answer"


@pytest.fixture
def browser(town: Deployment, service: Service, monkeypatch: pytest.MonkeyPatch) -> Browser:
    """One that waits for no look."""
    monkeypatch.setattr(ask, "STEPS_WAIT_S", 0.0)
    return Browser(town, AccountBook(Store.open(town.settings).client), town.web(service))


def led_to(sent: Any, service: Service) -> JobStatus:
    """The job that a page leads to."""
    assert sent.status_code == 303
    assert sent.location.startswith("/portal/jobs/")
    return service.job(sent.location.split("?")[0].rsplit("/", 1)[-1])


@pytest.mark.slow
@pytest.mark.parametrize("page", [ANSWER, f"{ANSWER}.csv", f"{ANSWER}.json"])
def test_a_page_that_takes_long_leads_to_its_job_and_that_to_the_page(
    browser: Browser, service: Service, held: Held, page: str
) -> None:
    sent = browser.get(f"{page}?{urlencode(ASKED)}")
    assert browser.get(sent.location).status_code == 200
    ended(service, held, led_to(sent, service))
    back = browser.get(sent.location)
    assert back.status_code == 303
    assert back.location.startswith(f"{ANSWER}?")
    assert browser.get(back.location).status_code == 200
    assert browser.get(f"{page}?{urlencode(ASKED)}").status_code == 200


@pytest.mark.slow
@pytest.mark.parametrize("path", ["price", "ask"])
def test_a_form_that_takes_long_leads_to_its_job_and_that_to_the_price(
    browser: Browser, service: Service, held: Held, path: str
) -> None:
    """Nothing is asked before its asker has seen the price of now."""
    spent, mark = browser.spent_nano(), FormQuestion.of(MultiDict(ASKED), service.domain("people"))
    priced = {"priced": mark.mark, "priced_within": mark.within}
    sent = browser.post(f"{PEOPLE}/{path}", ASKED | priced)
    ended(service, held, led_to(sent, service))
    back = browser.get(sent.location)
    assert back.status_code == 303
    assert "Free" in browser.text(back.location)
    assert browser.spent_nano() == spent
    again = browser.post(f"{PEOPLE}/ask", ASKED | priced)
    assert again.location.startswith(f"{ANSWER}?")


@pytest.mark.slow
def test_a_price_that_takes_long_is_asked_for_again_by_its_part_of_the_page(
    browser: Browser, service: Service, held: Held
) -> None:
    sent = browser.post(f"{PEOPLE}/price", ASKED, headers=HTMX)
    assert sent.status_code == 200
    assert f'hx-post="{PEOPLE}/price"' in sent.text
    held.may_go_on.set()
    service.looks._lane.shutdown()
    assert "Free" in browser.post(f"{PEOPLE}/price", ASKED, headers=HTMX).text


@pytest.mark.slow
def test_saved_questions_that_take_long_are_shown_when_they_are_looked_at(
    browser: Browser, service: Service, held: Held
) -> None:
    saved = f"{PEOPLE}/saved"
    assert browser.post(saved, {"question": urlencode(ASKED), "title": ""}).status_code == 303
    page = browser.text(saved)
    assert "Looking for an answer in history" in page
    assert f'hx-get="{saved}"' in page
    [number] = re.findall(r'id="saved-([0-9a-f]+)"', page)
    price = f"{saved}/{number}/price"
    assert f'hx-get="{price}"' in browser.text(price)
    held.may_go_on.set()
    service.looks._lane.shutdown()
    page = browser.text(saved)
    assert "Looking for an answer" not in page
    assert "Known only less exactly" not in page
    assert "Show it" in browser.text(price)


@pytest.mark.slow
def test_the_page_of_a_step_that_takes_long_waits_for_what_it_shows(
    town: Deployment, browser: Browser, service: Service, held: Held
) -> None:
    text = "SELECT AVG(age) FROM people WITHIN 0.2 ASSUMING AT LEAST 100"
    fields = {"text": text, "length": "30"}
    mark = FormQuestion.of(MultiDict(fields), service.domain("people"))
    priced = {"priced": mark.mark, "priced_within": mark.within}
    held.may_go_on.set()
    sent = replace(browser, client=town.web()).post(f"{PEOPLE}/ask", fields | priced)
    step = led_to(sent, service)
    town.work_off()
    held.may_go_on.clear()
    looks = browser.get(sent.location)
    job = led_to(looks, service)
    assert job.id != step.id
    ended(service, held, job)
    back = browser.get(looks.location)
    assert led_to(back, service).id == step.id
    shown = browser.get(back.location)
    assert shown.status_code == 200
    assert "AVG" in shown.text
