"""SQL on a page of its own: editor, columns with their descriptions, saved statements, charts."""

from __future__ import annotations

import html
import re
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlencode

import pytest

from qserver.inference.posterior.curve import DensityPoint
from qserver.portal.pages.answers import median_of
from qserver.portal.pages.sql import charts_of
from qserver.query.sql.parser import parse_statement
from tests.deployment import PEOPLE as PEOPLE_DOMAIN
from tests.deployment import Deployment
from tests.portal.portal_site import HTMX, PEOPLE, Browser, answered, browser_on
from tests.portal.test_broken_down import DOMAIN

SQL = f"{PEOPLE}/sql"
BY_SEX = {"text": "SELECT sex, COUNT(*) FROM people GROUP BY sex", "within": "40"}


def charts(text: str) -> list[str]:
    return [chart.label for chart in charts_of(parse_statement(text, DOMAIN, dataset="people"))]


def shown_as(page: str) -> list[str]:
    """The charts that a page offers, the one that is drawn with a star."""
    found = re.findall(r'<a href="[^"]*chart=[^"]*"( aria-current="true")?>([^<]*)</a>', page)
    return [label + "*" * bool(current) for current, label in found]


def test_the_builder_has_no_box_for_sql_and_offers_its_question_as_a_statement(
    browser: Browser,
) -> None:
    assert "<textarea" not in browser.text(PEOPLE)
    fields = {"is:sex": "Male", "from:age": "22", "within": "7", "independent": "1"}
    part = html.unescape(browser.post(f"{PEOPLE}/price", fields, headers=HTMX).text)
    (address,) = re.findall(r'href="([^"]*)">Write it as SQL', part)
    page = html.unescape(browser.text(address))
    text = "SELECT COUNT(*) AS n FROM people WHERE age >= 22 AND sex IN ('Male')"
    assert f"{text}</textarea>" in page
    assert re.search(r'name="within"[^>]* value="7"', page)
    assert re.search(r'name="independent"[^>]* checked', page)
    # Both cost the same, and the statement offers no other.
    again = html.unescape(
        browser.post(f"{PEOPLE}/price", fields | {"text": text}, headers=HTMX).text
    )
    price = re.compile(r"<span data-price[^>]*>([^<]*)<")
    assert price.findall(again) == price.findall(part)
    assert "Write it as SQL" not in again


@pytest.mark.parametrize("place", ["price", "ask"])
def test_an_empty_editor_counts_nothing(browser: Browser, place: str) -> None:
    """Without a text the fields would say: all records."""
    sent = browser.post(f"{PEOPLE}/{place}", {"editor": "1", "text": " \n"})
    assert sent.status_code == 200
    assert "Write a statement. Its price appears here." in sent.text
    assert "<textarea" in sent.text
    assert browser.town.work_off() == 0


def test_without_scripts_the_price_comes_with_the_whole_page(browser: Browser) -> None:
    sent = browser.post(f"{PEOPLE}/price", {**BY_SEX, "editor": "1"})
    assert sent.status_code == 200
    assert "GROUP BY sex</textarea>" in sent.text
    assert "3 numbers, each ± 40 with 95 percent confidence" in sent.text
    wrong = browser.post(f"{PEOPLE}/price", {"text": "SELECT agee FROM people", "editor": "1"})
    assert wrong.text.index('class="excerpt"') < wrong.text.index("must name attributes")
    assert re.search(r'<textarea id="text"[^>]* aria-invalid="true"', wrong.text)


def test_the_answer_stands_below_its_editor(browser: Browser) -> None:
    job = answered(browser, BY_SEX)
    pages = [browser.text(job), browser.text(f"{PEOPLE}/answer?{urlencode(BY_SEX)}")]
    for page in pages:
        assert page.index("GROUP BY sex</textarea>") < page.index('class="drawn')
        assert 'aria-current="page">SQL<' in page
        # The price of a known answer is asked for when the text changes, and not before.
        assert 'hx-trigger="price"' in page
    other = answered(browser, {"by": "sex", "from:age": "23", "within": "40"})
    assert "<textarea" not in browser.text(other)


def test_saved_statements_are_found_by_their_names(browser: Browser) -> None:
    saved = f"{PEOPLE}/saved"
    browser.post(saved, {"question": urlencode(BY_SEX), "title": "By sex"})
    unnamed = {"text": "SELECT COUNT(*)\nFROM people", "within": "9"}
    browser.post(saved, {"question": urlencode(unnamed)})
    browser.post(saved, {"question": "is:sex=Male&within=9", "title": "Of the builder"})
    page = html.unescape(browser.text(SQL))
    listed = page[page.index("Saved statements") : page.index("What a statement can say")]
    found = re.findall(r'href="([^"]*)">([^<]*)<', listed)
    assert [name for _, name in found] == ["By sex", "SELECT COUNT(*) FROM people"]
    assert "GROUP BY sex</textarea>" in browser.text(found[0][0])


def test_attributes_carry_the_descriptions_of_the_domain(tmp_path: Path, store_url: str) -> None:
    first, *others = PEOPLE_DOMAIN.attributes
    about = replace(PEOPLE_DOMAIN, attributes=(replace(first, description="<b>Years."), *others))
    browser = browser_on(Deployment.make(tmp_path, store_url, domain=about), is_open=True)
    for place in (PEOPLE, SQL):
        page = browser.text(place)
        assert "&lt;b&gt;Years." in page
        assert "<b>Years." not in page


def test_a_table_can_be_drawn_in_each_way_that_suits_its_groups() -> None:
    count = "COUNT(*) FROM people GROUP BY"
    assert charts(f"SELECT sex, {count} sex") == ["bars"]
    assert charts(f"SELECT week, {count} week") == ["lines along week", "bars"]
    assert charts(f"SELECT age, {count} age") == ["bars", "lines along age"]
    assert charts(f"SELECT sex, age, {count} sex, age") == [
        *("bars by sex", "bars by age", "bars", "lines along age"),
    ]
    assert charts(f"SELECT sex, town, age, {count} sex, town, age")[:2] == ["bars", "bars by sex"]
    assert charts("SELECT COUNT(*), COUNT(*) FROM people WHERE age = 21") == ["bars"]


def test_lines_along_numbers_go_in_the_order_of_numbers() -> None:
    text = 'SELECT "net-pay", COUNT(*) AS n FROM people GROUP BY "net-pay" ORDER BY "net-pay" DESC'
    (_, lines) = charts_of(parse_statement(text, DOMAIN, dataset="people"))
    assert lines.course is not None
    assert [float(name.split()[0].strip("[,")) for name in lines.course.names] == [0, 10, 20]


def test_the_chart_is_chosen_in_the_address_and_costs_nothing(browser: Browser) -> None:
    text = "SELECT sex, age, COUNT(*) AS n FROM people WHERE age < 24 GROUP BY sex, age"
    job = answered(browser, {"text": text, "within": "40"})
    spent = browser.spent_nano()
    page = browser.text(job)
    assert shown_as(page) == ["bars by sex*", "bars by age", "bars", "lines along age"]
    assert page.count("<caption>") == 3
    address = html.unescape(re.findall(r'href="([^"]*chart=lines-1)#charts"', page)[0])
    lines = browser.text(address)
    assert shown_as(lines) == ["bars by sex", "bars by age", "bars", "lines along age*"]
    assert lines.count('<polyline class="line"') == 3
    assert browser.text(f"{job}&chart=none").count("<caption>") == 3
    assert browser.spent_nano() == spent


def test_three_attributes_break_a_number_down(browser: Browser) -> None:
    assert browser.text(PEOPLE).count('<select name="by">') == 3
    fields = {"by": ["sex", "age"], "within": "60"}
    part = browser.post(f"{PEOPLE}/price", fields, headers=HTMX).text  # type: ignore[arg-type]
    assert "GROUP BY sex, age" in part


def test_the_middle_of_a_curve_halves_its_probability() -> None:
    curve = [DensityPoint(x, 0.0, p) for x, p in ((0, 1.0), (10, 0.75), (20, 0.25), (30, 0.0))]
    assert median_of(curve) == 15
