"""Statements of SQL on the pages: their price, their table, and the same as files."""

from __future__ import annotations

import csv
import html
import io
import json
import re
import threading
from pathlib import Path
from urllib.parse import urlencode

import pytest

from qserver.api.bodies.workloads_and_sql import SqlTableBody
from qserver.api.errors import KINDS
from qserver.portal import numbers
from qserver.portal.drawing import WIDTH, Scale, whiskers
from qserver.portal.pages import ask
from qserver.service.statement_answers import StatementAnswer, StatementExplanation
from qserver.service.statements import Statements
from tests.deployment import Deployment
from tests.portal.portal_site import BUDGET_WARNS, HTMX, PEOPLE, Browser, browser_on

BY_SEX = "SELECT sex, COUNT(*) AS n, COUNT_IF(age < 25) AS young FROM people GROUP BY sex"
FORM = {"text": BY_SEX, "within": "40", "confidence": "90"}
EXACT = " WITHIN 40 CONFIDENCE 0.9"


def asked(browser: Browser, fields: dict[str, str] = FORM) -> str:
    """The address of the job that asking leads to, worked off."""
    response = browser.post(f"{PEOPLE}/ask", fields)
    assert response.status_code == 303, response.text
    browser.town.work_off()
    return response.headers["Location"]


def asked_in_steps(browser: Browser, fields: dict[str, str]) -> str:
    """The address of the job of the last step of a statement."""
    last = asked(browser, fields)
    while "/jobs/" in (place := browser.post(f"{PEOPLE}/ask", fields).headers["Location"]):
        browser.town.work_off()
        last = place
    return last


def statement(browser: Browser, text: str) -> StatementAnswer:
    found = Statements(browser.town.service()).run("people", text, wait_s=0)
    assert isinstance(found, StatementAnswer)
    return found


def rows_of(page: str) -> list[list[str]]:
    """The texts of a page's rows of numbers."""
    found = re.findall(r'(?s)<tr>(<th scope="row">.*?)</tr>', page)
    parts = [re.findall(r"(?s)<t[hd][^>]*>(.*?)</t[hd]>", row) for row in found]
    return [[re.sub("<[^>]*>", "", cell).strip() for cell in cells] for cells in parts]


@pytest.mark.slow
def test_the_price_of_a_table_is_the_one_that_explain_gives(browser: Browser) -> None:
    part = browser.post(f"{PEOPLE}/price", FORM, headers=HTMX).text
    found = Statements(browser.town.service()).run("people", f"EXPLAIN {BY_SEX} {EXACT}", wait_s=0)
    assert isinstance(found, StatementExplanation)
    assert f"<span data-price>{numbers.price(found.price_nano)}</span>" in part
    assert "6 numbers, each ± 40 with 90 percent confidence" in part
    assert f">{html.escape(BY_SEX)}</code>" in part
    assert browser.spent_nano() == 0


@pytest.mark.slow
def test_a_text_with_its_own_length_gets_no_slider_and_explain_is_left_aside(
    browser: Browser,
) -> None:
    own = {**FORM, "text": f"EXPLAIN {BY_SEX} WITHIN 70", "length": "80"}
    part = browser.post(f"{PEOPLE}/price", own, headers=HTMX).text
    assert "each ± 70 with 90 percent confidence" in part
    assert "data-slider" not in part
    one = {**FORM, "text": "SELECT COUNT(*) FROM people WITHIN 20 CONFIDENCE 0.8"}
    part = browser.post(f"{PEOPLE}/price", one, headers=HTMX).text
    assert "data-slider" not in part
    page = browser.text(asked(browser, one))
    assert "with 80 percent confidence" in page


def test_a_table_is_asked_once_and_its_page_shows_every_number(browser: Browser) -> None:
    page = browser.text(asked(browser))
    spent = browser.spent_nano()
    assert spent > 0
    assert f"cost {numbers.epsilon(spent)}; remaining" in page
    assert "6 intervals, each with 90 percent confidence" in page
    found = statement(browser, BY_SEX + EXACT)
    assert found.charged_nano == 0
    expected = []
    for k in range(2):
        for row, cells in zip(found.asked.statement.rows, found.cells, strict=True):
            value = cells[k].value
            low, high = value.interval.low, value.interval.high
            assert low is not None
            assert high is not None
            assert value.estimate is not None
            d = numbers.decimals_for(high - low)
            ends = f"{numbers.low_end(low, d)} to {numbers.high_end(high, d)}"
            expected.append([row.group[0] or "NULL", numbers.number(value.estimate, d), ends])
    assert [row[:3] for row in rows_of(page)] == expected
    assert page.count("<svg viewBox") == 6


@pytest.mark.slow
def test_the_same_table_again_is_free_and_its_address_spends_nothing(browser: Browser) -> None:
    asked(browser)
    spent = browser.spent_nano()
    part = browser.post(f"{PEOPLE}/price", FORM, headers=HTMX).text
    assert ">Free<" in part
    assert "Show the table" in part
    again = browser.post(f"{PEOPLE}/ask", FORM).headers["Location"]
    assert again == f"{PEOPLE}/answer?{urlencode(FORM, safe=':')}"
    page = browser.text(again)
    assert "cost nothing" in page
    assert len(rows_of(page)) == 6
    shorter = {**FORM, "within": "5"}
    assert len(rows_of(browser.text(f"{PEOPLE}/answer?{urlencode(shorter)}"))) == 6
    assert browser.spent_nano() == spent


def test_an_unknown_table_says_so_and_spends_nothing(browser: Browser) -> None:
    page = browser.text(f"{PEOPLE}/answer?{urlencode(FORM)}")
    assert "6 numbers are not known yet." in page
    assert rows_of(page)[0][:3] == ["Female", "–", "nothing known yet"]
    assert browser.spent_nano() == 0


NARROW = (
    "SELECT sex, COUNT_IF(age < 21) AS youngest, COUNT(*) AS n, COUNT_IF(age < 21) / COUNT(*) "
    "WITHIN 40 FROM people GROUP BY sex ASSUMING AT LEAST 1 CONSISTENT"
)


@pytest.mark.slow
@pytest.mark.parametrize("of", ["job", "history"])
def test_a_statement_that_says_so_shows_consistent_values(browser: Browser, of: str) -> None:
    """Those that the same statement has over HTTP, on both pages and in the file."""
    form = {**FORM, "text": NARROW}
    job = asked_in_steps(browser, form)
    place = job if of == "job" else f"{PEOPLE}/answer?{urlencode(form)}"
    page = browser.text(place)
    found = statement(browser, NARROW + EXACT)
    values = [[cell.consistent for cell in row] for row in found.cells]
    assert page.count(">Consistent</th>") == 3
    shown = [row[3] for row in rows_of(page)]
    flat = [row[k] for k in range(3) for row in values]
    assert len(shown) == len(flat) == 9
    for text, value in zip(shown, flat, strict=True):
        # As many decimals as suit the interval.
        step = 10.0 ** -len(text.partition(".")[2])
        if value is None:
            assert text == "–"
        else:
            assert float(text.replace(",", "")) == pytest.approx(value, abs=0.51 * step)
    address, _, query = place.partition("?")
    file = f"{address}/answer.csv?{query}" if of == "job" else f"{address}.csv?{query}"
    lines = list(csv.DictReader(io.StringIO(browser.text(file))))
    for line, row in zip(lines, values, strict=True):
        for name, value in zip(("youngest", "n"), row, strict=False):
            assert float(line[f"{name}_consistent"]) == pytest.approx(value)
            assert float(line[f"{name}_consistent"]) >= 0.0


def test_one_consistent_number_is_a_table_and_without_the_word_there_is_none(
    browser: Browser,
) -> None:
    form = {**FORM, "text": "SELECT COUNT_IF(age < 21) FROM people CONSISTENT"}
    page = browser.text(asked(browser, form))
    cell = statement(browser, form["text"] + EXACT).cells[0][0]
    assert cell.value.estimate is not None
    # The rounding of a table with one number in it.
    assert cell.consistent == pytest.approx(max(cell.value.estimate, 0.0), rel=1e-12)
    (consistent,) = re.findall(r'<td class="right consistent">(.*?)</td>', page)
    assert float(consistent) == pytest.approx(cell.consistent, abs=0.51)
    assert "Consistent" not in browser.text(asked(browser))


def test_consistent_values_wait_until_every_number_is_known(browser: Browser) -> None:
    asked(browser, {**FORM, "text": "SELECT sex, COUNT(*) FROM people GROUP BY sex"})
    page = browser.text(f"{PEOPLE}/answer?{urlencode({**FORM, 'text': NARROW})}")
    assert "They are here once every number is known." in page
    assert {row[3] for row in rows_of(page)} == {"–"}


@pytest.mark.parametrize("of", ["job", "history"])
def test_a_table_comes_as_csv_and_as_json(browser: Browser, of: str) -> None:
    job = asked(browser)
    query = job.partition("?")[2]
    place = job.partition("?")[0] + "/answer" if of == "job" else f"{PEOPLE}/answer"
    found = statement(browser, BY_SEX + EXACT)
    document = json.loads(browser.text(f"{place}.json?{query}"))
    plain = json.loads(SqlTableBody.of_answer(found).model_dump_json())
    assert set(document) == set(plain)
    assert (document["groups"], document["columns"]) == (["sex"], ["n", "young"])
    for row, other in zip(document["rows"], plain["rows"], strict=True):
        assert row["group"] == other["group"]
        for cell, same in zip(row["cells"], other["cells"], strict=True):
            assert cell["estimate"] == pytest.approx(same["estimate"])
            assert cell["interval"] == pytest.approx(same["interval"])
    lines = list(csv.DictReader(io.StringIO(browser.text(f"{place}.csv?{query}"))))
    assert list(lines[0]) == ["sex", "n", "n_low", "n_high", "young", "young_low", "young_high"]
    for line, row in zip(lines, document["rows"], strict=True):
        assert line["sex"] == (row["group"][0] or "")
        assert float(line["young_high"]) == row["cells"][1]["interval"][1]
    assert browser.get(f"{place}.xml?{query}").status_code == 404


@pytest.mark.slow
def test_an_average_has_its_interval_and_may_know_of_how_many_records(browser: Browser) -> None:
    text = {"text": "SELECT AVG(age) FROM people", "length": "4", "confidence": "90"}
    part = browser.post(f"{PEOPLE}/price", text, headers=HTMX)
    assert part.status_code == 200
    assert "1 number, ± 2 with 90 percent confidence" in part.text
    text["text"] += " ASSUMING AT LEAST 300"
    page = browser.text(asked_in_steps(browser, text))
    assert "The interval holds with 90 percent confidence; cost 0." in page
    found = statement(browser, text["text"] + " WITHIN 2 CONFIDENCE 0.9").cells[0][0].value
    shown = re.findall(r"<b>([\d.]+)</b></td>", page)
    assert [float(s) for s in shown] == [pytest.approx(found.estimate, abs=0.05)]


@pytest.mark.slow
def test_an_average_that_was_there_at_once_says_what_it_cost_to_whom_paid_alone(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ask, "STEPS_WAIT_S", 600.0)
    text = "SELECT AVG(age) FROM people ASSUMING AT LEAST 300"
    fields = {"text": text, "length": "4", "confidence": "90"}
    done = threading.Event()

    def work() -> None:
        while not done.is_set():
            browser.town.work_off()

    worker = threading.Thread(target=work)
    worker.start()
    try:
        response = browser.post(f"{PEOPLE}/ask", fields)
    finally:
        done.set()
        worker.join()
    address = response.headers["Location"]
    assert "/answer?" in address
    cost = numbers.cost(browser.spent_nano(), is_free=False)
    assert f"confidence; {cost}; remaining" in browser.text(address)
    # Asked again, of another length, and from another browser it is free.
    assert "cost nothing" in browser.text(address.replace("within=2&", "within=3&"))
    other = browser.client.application.test_client()
    assert "cost nothing" in other.get(address, buffered=True).text
    browser.post(f"{PEOPLE}/ask", fields)
    assert "cost nothing" in browser.text(address)


@pytest.mark.slow
def test_a_page_of_a_step_says_what_all_steps_so_far_cost(tmp_path: Path, store_url: str) -> None:
    browser = browser_on(Deployment.make(tmp_path, store_url, limit="1000"), is_open=True)
    fields = {
        "text": "SELECT AVG(age) FROM people ASSUMING AT LEAST 100",
        "length": ".2",
        "confidence": "95",
    }
    costs = list[int]()
    for _ in range(20):
        response = browser.post(f"{PEOPLE}/ask", fields)
        if "/jobs/" not in response.headers["Location"]:
            break
        browser.town.work_off()
        page = browser.text(response.headers["Location"])
        costs.append(browser.spent_nano())
        assert numbers.cost(costs[-1], is_free=False) in page
    assert len(costs) > 1
    assert sorted(set(costs)) == costs
    # Known by now: what it says is of this request, not of those before.
    assert "cost nothing" in browser.text(response.headers["Location"])


def test_a_question_whose_step_failed_is_asked_anew(tmp_path: Path, store_url: str) -> None:
    """Its first step could be paid when it was asked, and not once another question was."""
    browser = browser_on(Deployment.make(tmp_path, store_url, limit="1"), is_open=True)
    browser.town.submit({"sex": "Female"}, length=5.994)
    fields = {"text": "SELECT AVG(age) FROM people ASSUMING AT LEAST 400", "length": "1"}
    fields["confidence"] = "95"
    job = browser.post(f"{PEOPLE}/ask", fields).headers["Location"]
    browser.town.work_off()
    cookies = browser.get(job).headers.getlist("Set-Cookie")
    assert any(cookie.startswith("qserver_steps=;") for cookie in cookies)
    again = browser.post(f"{PEOPLE}/ask", fields)
    assert again.headers.get("Location") != job


@pytest.mark.slow
def test_a_table_that_the_budget_cannot_pay_for_is_refused(browser: Browser) -> None:
    asked(browser)
    spent = browser.spent_nano()
    dear = {**FORM, "within": "1"}
    part = browser.post(f"{PEOPLE}/price", dear, headers=HTMX).text
    assert BUDGET_WARNS in part
    found = browser.post(f"{PEOPLE}/ask", dear)
    browser.town.work_off()
    if found.status_code == 303:
        found = browser.get(found.headers["Location"])
    assert KINDS["budget_exhausted"].title in found.text
    assert browser.spent_nano() == spent


def test_a_job_of_another_question_is_not_shown_as_this_table(browser: Browser) -> None:
    job = asked(browser).partition("?")[0]
    other = urlencode({**FORM, "text": "SELECT age, COUNT(*) FROM people GROUP BY age"})
    page = browser.text(f"{job}?{other}")
    assert "COUNT(*) by age" not in page
    assert "A workload of 6 questions" in page


def test_a_scale_holds_all_values_and_zero_where_bars_start_there() -> None:
    scale, drawn = whiskers([(50.0, 0.0, 100.0), (-6.0, -57.0, 44.0)], with_zero=True)
    assert scale.low < -57
    assert scale.high > 100
    assert scale.zero == pytest.approx(WIDTH * -scale.low / (scale.high - scale.low), abs=0.01)
    first, second = drawn
    assert first.bar == (scale.zero, pytest.approx((first.at or 0) - (scale.zero or 0)))
    assert second.bar == (second.at, pytest.approx((scale.zero or 0) - (second.at or 0)))
    assert first.low < (first.at or 0) < first.high


def test_an_open_end_goes_to_the_edge_and_no_value_draws_nothing() -> None:
    scale, drawn = whiskers([(3.0, 2.0, None), (None, None, None)], with_zero=False)
    assert scale.zero is None
    assert drawn[0].high == WIDTH
    assert drawn[0].bar is None
    assert drawn[1].at is None
    assert Scale.of([None], with_zero=False).high > 0


def test_a_total_has_a_name_on_the_page_and_none_in_the_file(browser: Browser) -> None:
    text = "SELECT sex, COUNT(*) AS n FROM people GROUP BY ROLLUP (sex)" + EXACT
    page = browser.get(asked(browser, {**FORM, "text": text})).text
    assert [row[0] for row in rows_of(page)][-1] == "(all)"
    file = re.search(r'href="([^"]*answer\.csv[^"]*)"', page)
    assert file is not None
    lines = list(csv.reader(io.StringIO(browser.get(html.unescape(file[1])).text)))
    assert lines[-1][0] == ""


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        "SELECT MEDIAN(age) FROM people WITHIN 4 ASSUMING AT LEAST 400",
        "SELECT sex, MAX(age), COUNT(*) AS n FROM people GROUP BY sex WITHIN 90",
        "SELECT COUNT(*) FROM (SELECT sex FROM people GROUP BY sex HAVING COUNT(*) >= 100) AS g "
        "WITHIN 1",
        "SELECT COUNT(DISTINCT age) FROM people WITHIN 90",
    ],
)
def test_the_page_of_a_job_shows_what_follows_from_several_sums(
    browser: Browser, text: str
) -> None:
    page = browser.text(asked(browser, {"text": text}))
    assert html.escape(text) in page
    assert "95 percent confidence" in page
    price = browser.post(f"{PEOPLE}/price", {"text": text}, headers=HTMX)
    assert price.status_code == 200
