"""From the builder to an answer: what a price costs, what an answer shows, what is refused."""

from __future__ import annotations

import csv
import html
import io
import json
import re
from dataclasses import replace
from typing import Any

import pytest

from qserver.api.errors import KINDS
from qserver.portal import numbers
from qserver.portal.descriptions import Heading
from qserver.portal.pages.answers import Quote, Stop, worthwhile
from qserver.query import request_fields as fields
from qserver.query.question import ModelAsked, Question, Workload
from qserver.query.requirement import Requirement
from qserver.records.answer import Answer, CurvePoint, JobStatus, ModelAnswer
from qserver.service.free_answers import AskedJob
from qserver.storage.store import Store
from tests.portal.portal_site import AGE, BUDGET_WARNS, HTMX, PEOPLE, Browser, answered, ask

QUERY = "from:age=22&to:age=24&within=20&confidence=95"


def attribute(page: str, name: str) -> Any:
    found = re.search(rf"{name}='([^']*)'", page)
    assert found, page
    return json.loads(html.unescape(found[1]))


def test_the_datasets_are_listed_with_what_remains(browser: Browser) -> None:
    page = browser.text("/portal/")
    assert "2 attributes" in page
    assert "age, sex" in page
    assert "0.5</b>" in page
    assert f'href="{PEOPLE}"' in page
    home = browser.get("/")
    assert (home.status_code, home.headers["Location"]) == (303, "/portal/")


def test_the_builder_offers_every_value_and_is_filled_from_its_address(browser: Browser) -> None:
    page = browser.text(f"{PEOPLE}?from:age=22&is:sex=Male&not:sex=1&within=7")
    for label in ("Female", "Male", "other"):
        assert f'name="is:sex" value="{label}"' in page
    assert 'value="Male" checked' in page
    assert 'name="not:sex" value="1" checked' in page
    assert re.search(r'name="from:age"[^>]* value="22"', page)
    assert re.search(r'name="within"[^>]* value="7"', page)
    moved = browser.get(f"{PEOPLE}?text=x%22y&within=7")
    assert (moved.status_code, moved.location) == (303, f"{PEOPLE}/sql?text=x%22y&within=7")
    page = browser.text(moved.location)
    assert "x&#34;y</textarea>" in page
    assert re.search(r'name="within"[^>]* value="7"', page)


def test_a_price_is_the_one_that_explain_gives_and_nothing_is_spent(browser: Browser) -> None:
    part = browser.post(f"{PEOPLE}/price", AGE, headers=HTMX)
    service = browser.town.service()
    query = service.parse("people", {"where": {"age": {"between": [22, 24]}}})
    found = service.explain("people", Question(query, Requirement(40, 0.95)))
    assert part.status_code == 200
    assert numbers.price(found.price_nano) in part.text
    assert "<html" not in part.text
    stops = attribute(part.text, "data-slider")
    assert [(2 * s["within"], s["price"]) for s in stops] == [
        (p.length, p.price_nano / 1e9) for p in found.curve if p.price_nano is not None
    ]
    assert browser.spent_nano() == 0


def test_without_scripts_the_price_comes_with_the_whole_page(browser: Browser) -> None:
    page = browser.post(f"{PEOPLE}/price", AGE)
    assert "<html" in page.text
    assert re.search(r'name="from:age"[^>]* value="22"', page.text)
    assert "One new measurement." in page.text


def test_a_question_becomes_a_job_and_its_page_the_answer(browser: Browser) -> None:
    job = ask(browser)
    waiting = browser.text(job)
    assert "Waiting for a worker" in waiting
    assert "hx-get" in waiting
    browser.town.work_off()
    assert browser.get(job, **HTMX).headers["HX-Refresh"] == "true"
    page = browser.text(job)
    result = browser.town.service().job(job.split("/")[-1].split("?")[0]).result
    assert isinstance(result, Answer)
    assert numbers.answer_words(result, charged_nano=result.charged_nano) in page
    assert "cost 0." in page
    drawn = attribute(page, "data-posterior")
    assert drawn["low"] == pytest.approx(result.low)
    assert browser.spent_nano() == result.charged_nano > 0
    assert f'href="{PEOPLE}?{QUERY.replace("&", "&amp;")}"' in page


def test_the_same_question_again_costs_nothing_and_needs_no_job(browser: Browser) -> None:
    answered(browser)
    spent = browser.spent_nano()
    assert ">Free<" in browser.post(f"{PEOPLE}/price", AGE, headers=HTMX).text
    again = browser.post(f"{PEOPLE}/ask", AGE)
    assert again.headers["Location"] == f"{PEOPLE}/answer?{QUERY}"
    assert "cost nothing" in browser.text(again.headers["Location"])
    assert browser.spent_nano() == spent


def test_an_answer_is_told_in_a_table_too(browser: Browser) -> None:
    page = browser.text(answered(browser))
    rows = re.findall(r"<tr><td>([\d,.]+)</td><td>([^<]+)</td></tr>", page)
    assert len(rows) == 8
    service = browser.town.service()
    query = service.parse("people", {"where": {"age": {"between": [22, 24]}}})
    for count, said in rows:
        low = float(count.replace(",", ""))
        near = [
            service.insight.probability("people", query, low=low + d, high=float("inf")).probability
            for d in (-0.1, 0.1)
        ]
        if not said.startswith(("less", "more")):
            # The count is shown to one decimal.
            assert near[1] - 0.001 <= float(said) <= near[0] + 0.001


def test_looking_at_an_answer_never_asks(browser: Browser) -> None:
    unknown = browser.get(f"{PEOPLE}/answer?{QUERY}")
    assert unknown.status_code == 409
    answered(browser)
    spent = browser.spent_nano()
    tighter = browser.text(f"{PEOPLE}/answer?from:age=22&to:age=24&length=1&confidence=95")
    assert "The interval is longer than asked by what is known at no cost: " in tighter
    assert browser.spent_nano() == spent


def test_the_probability_of_a_threshold_is_the_services(browser: Browser) -> None:
    job = answered(browser)
    service = browser.town.service()
    query = service.parse("people", {"where": {"age": {"between": [22, 24]}}})
    page = browser.text(f"{job}&at_least=155")
    expected = service.insight.probability("people", query, low=155, high=float("inf")).probability
    said = re.search(r"<output for=\"drag\"[^>]*>([^<]*)</output>", page)
    assert said
    assert said[1] == numbers.probability(expected)


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"from:age": "old"}, "“age, from” must be a finite number"),
        ({"from:age": "25", "to:age": "22"}, "must have low &lt;= high"),
        ({"is:sex": "Femal"}, "must be a label of `sex`"),
        ({"within": "0"}, f"“{fields.LENGTH.label}” must be from 5e-10 to 5e+14"),
        ({"text": "SELEC"}, "must be one SELECT"),
        ({"text": "SELECT EXP(age) FROM people"}, "count or sum `age`"),
        ({"text": "{"}, "be a JSON object as for HTTP"),
        ({"text": '{"where": {"height": 3}}'}, "name an attribute of the dataset"),
    ],
)
def test_a_bad_question_is_told_in_the_form_and_refused_when_sent(
    browser: Browser, fields: dict[str, str], told: str
) -> None:
    part = browser.post(f"{PEOPLE}/price", fields, headers=HTMX)
    assert (part.status_code, told in html.unescape(part.text) or told in part.text) == (200, True)
    whole = browser.post(f"{PEOPLE}/price", fields)
    assert told in whole.text or told in html.unescape(whole.text)
    sent = browser.post(f"{PEOPLE}/ask", fields)
    assert sent.status_code == 422
    assert browser.spent_nano() == 0


def test_a_query_may_be_written_as_sql(browser: Browser) -> None:
    text = "SELECT COUNT(*) FROM people WHERE age >= 28 AND sex = 'Female'"
    job = answered(browser, {"text": text, "length": "40"})
    assert "age 28 to 29, sex Female" in browser.text(job)


@pytest.mark.slow
def test_a_refused_statement_shows_the_place(browser: Browser) -> None:
    fields = {"text": "SELECT EXP(age) FROM people"}
    part = browser.post(f"{PEOPLE}/price", fields, headers=HTMX).text
    assert "SELECT EXP(age) FROM people\n           ^^^" in part


def test_the_job_of_a_workload_shows_each_answer(browser: Browser) -> None:
    service = browser.town.service()
    questions = [
        Question(service.parse("people", {"where": {"age": age}}), Requirement(60, 0.9))
        for age in (22, 23)
    ]
    job = service.ask_workload("people", Workload(tuple(questions)), wait_s=0)
    assert isinstance(job, JobStatus)
    browser.town.work_off()
    page = browser.text(f"/portal/jobs/{job.id}")
    assert "A workload of 2 questions: age 22; age 23" in page
    assert "All 2 at once: ±" in page
    for age in (22, 23):
        assert f">age {age}</td>" in page
    assert page.count("with 90 percent confidence") == 2


def test_the_job_of_a_model_says_that_it_is_learnt(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    learnt = JobStatus("j", "done", "people", ModelAnswer("j", "network", 5, 7, (0,), 1))
    found = AskedJob(learnt, browser.town.meta.snapshot, ModelAsked("marginals", (11, 3), "{}", 5))
    monkeypatch.setattr(
        "qserver.service.free_answers.Insight.asked", lambda _self, _job, _who: found
    )
    page = browser.text("/portal/jobs/town~j")
    assert "A model (marginals): all of history" in page
    assert "It is learnt" in page
    assert f'href="{PEOPLE}/models/j"' in page


def test_a_query_may_be_written_as_json(browser: Browser) -> None:
    text = '{"any": [{"age": {"at_least": 29}}, {"sex": "Female"}]}'
    job = answered(browser, {"text": text, "length": "40"})
    assert "sex Female" in browser.text(job)


def test_what_the_budget_cannot_pay_is_refused_with_price_and_rest(browser: Browser) -> None:
    fields = {**AGE, "within": "0.5"}
    part = browser.post(f"{PEOPLE}/price", fields, headers=HTMX).text
    assert BUDGET_WARNS in part
    assert re.search(r"data-ask disabled", part)
    refused = browser.text(answered(browser, fields))
    assert KINDS["budget_exhausted"].title in refused
    assert "Nothing was spent" in refused
    place = f"{PEOPLE}?from:age=22&amp;to:age=24&amp;within=0.5&amp;confidence=95"
    assert f'href="{place}"' in refused
    assert browser.spent_nano() == 0


def test_without_a_worker_nothing_is_queued_and_history_still_answers(browser: Browser) -> None:
    answered(browser)
    store = Store.open(browser.town.settings)
    store.client.delete("qs:{town}:alive")
    other = {**AGE, "to:age": "25"}
    assert "No worker is alive" in browser.post(f"{PEOPLE}/price", other, headers=HTMX).text
    assert browser.post(f"{PEOPLE}/ask", other).status_code == 503
    assert browser.post(f"{PEOPLE}/ask", AGE).status_code == 303


def test_an_answer_can_be_kept_as_csv_and_json(browser: Browser) -> None:
    job = answered(browser)
    place, _, fields = job.partition("?")
    result = browser.town.service().job(place.split("/")[-1]).result
    assert result is not None
    reply = browser.get(f"{place}/answer.json")
    assert reply.headers["Content-Disposition"].startswith('attachment; filename="')
    document = json.loads(reply.text)
    assert (document["estimate"], document["interval"]) == (
        result.estimate,
        [result.low, result.high],
    )
    assert document["epsilon_charged"] == result.charged_nano / 1e9
    rows = list(csv.DictReader(io.StringIO(browser.get(f"{place}/answer.csv").text)))
    assert len(rows) == 1
    assert float(rows[0]["low"]) == result.low
    assert (rows[0]["dataset"], rows[0]["question"]) == ("people", "age 22 to 24")
    known = json.loads(browser.get(f"{PEOPLE}/answer.json?{fields}").text)
    assert (known["estimate"], known["epsilon_charged"]) == (result.estimate, 0)
    assert browser.get(f"{place}/answer.xml").status_code == 404


def test_the_jobs_of_this_browser_are_listed_the_last_first(browser: Browser) -> None:
    assert "None yet." in browser.text("/portal/jobs")
    answered(browser)
    ask(browser, {**AGE, "to:age": "25"})
    page = browser.text("/portal/jobs")
    assert page.index("age 22 to 25") < page.index("age 22 to 24")
    assert "queued" in page
    assert "between" in page
    assert 'hx-trigger="load delay' in page
    browser.town.work_off()
    assert 'hx-trigger="load delay' not in browser.text("/portal/jobs")


def test_a_failed_job_tells_why(browser: Browser) -> None:
    """Two questions that the budget can pay alone, but not both."""
    first = ask(browser, {"from:age": "22", "to:age": "24", "length": "15"})
    second = ask(browser, {"from:age": "23", "to:age": "25", "length": "15"})
    browser.town.work_off()
    pages = [browser.text(job) for job in (first, second)]
    assert "best estimate" in pages[0]
    assert KINDS["budget_exhausted"].title in pages[1]


def test_an_address_too_long_for_a_request_line_is_not_made(browser: Browser) -> None:
    values = ", ".join(f'{{"age": {{"between": [22, {22 + i % 3}]}}}}' for i in range(300))
    fields = {"text": f'{{"any": [{values}]}}', "length": "40"}
    job = ask(browser, fields)
    assert "?" not in job
    browser.town.work_off()
    shown = browser.post(f"{PEOPLE}/ask", fields)
    assert (shown.status_code, "best estimate" in shown.text) == (200, True)


def test_a_job_of_data_that_were_replaced_keeps_its_answer_and_is_not_drawn(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = answered(browser)
    insight = type(browser.town.service().insight)
    asked = insight.asked
    monkeypatch.setattr(
        insight, "asked", lambda self, *of: replace(asked(self, *of), snapshot="other")
    )
    page = browser.text(job)
    assert "The data have been replaced" in page
    assert "percent confidence" in page
    assert "data-posterior" not in page


def test_a_page_without_an_answer_leads_to_asking_it(browser: Browser) -> None:
    page = browser.get(f"{PEOPLE}/answer?{QUERY}")
    assert page.status_code == 409
    assert f'href="{PEOPLE}?{QUERY.replace("&", "&amp;")}">Ask it</a>' in page.text


def points(*pairs: tuple[float, int | None]) -> list[CurvePoint]:
    return [CurvePoint(length, price) for length, price in pairs]


def test_lengths_that_a_shorter_one_beats_are_left_out_but_for_the_asked_one() -> None:
    curve = points((25, None), (50, 9), (75, 9), (150, 8), (200, 0), (400, 0))
    asked = CurvePoint(100.0, 12)
    kept = points((50, 9), (100, 12), (150, 8), (200, 0), (400, 0))
    assert worthwhile(curve, asked) == [curve[0], *kept]
    falling = points((1, 4), (2, 3), (4, 0))
    assert worthwhile(falling, falling[1]) == falling


def test_a_shorter_interval_that_costs_less_is_pointed_out(browser: Browser) -> None:
    service = browser.town.service()
    query = service.parse("people", {"where": {}})
    found = service.explain("people", Question(query, Requirement(100, 0.95)))
    stops = tuple(
        Stop(length, str(length), price, f"{price} ε", affordable=True)
        for length, price in ((25.0, 0.4), (50.0, 0.2), (100.0, 0.3))
    )
    quote = Quote(stops, 2, "", Heading("", "all"), Requirement(100, 0.95), found)
    assert quote.better == stops[1]
    assert replace(quote, chosen=1).better is None
