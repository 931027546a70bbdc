"""The builder's tables: broken down by attributes, and averages, without SQL."""

from __future__ import annotations

import html
import re
from fractions import Fraction
from typing import Literal, get_args, get_type_hints
from urllib.parse import urlencode

import pytest
from werkzeug.datastructures import MultiDict

from qserver.portal.descriptions import question_of_row
from qserver.portal.pages.sql import _note
from qserver.portal.question import FormQuestion, examples, statement_of
from qserver.query.asking.structured_question import parse_query
from qserver.query.calendar import Periods
from qserver.query.domain import Attribute, Domain
from qserver.query.labels import Level
from qserver.query.linear_query import query_from_document
from qserver.query.sealed_periods import sealed_domain
from qserver.query.sql.functions.function_of_sums import Binning
from qserver.query.sql.parser import parse_statement
from qserver.query.sql.statement import Ratio
from qserver.records.history import HistoryRow
from tests import deployment
from tests.portal.portal_site import HTMX, PEOPLE, Browser

DOMAIN = Domain(
    (
        Attribute("age", "integer", edges=tuple(map(Fraction, range(20, 30)))),
        Attribute("net-pay", "real", edges=tuple(map(Fraction, (0, 10, 20, 30)))),
        Attribute("sex", "labels", ("Female", "it's")),
        Attribute("town", "labels", ("a", "b", "c")),
        Attribute("week", "period", periods=Periods("week", "2024-W01", 9)),
    )
)


def text_of(*pairs: tuple[str, str]) -> str:
    return statement_of(FormQuestion.of(MultiDict(pairs), DOMAIN), DOMAIN, "people")


@pytest.mark.parametrize(
    ("pairs", "text"),
    [
        ([("by", "sex")], "SELECT sex, COUNT(*) AS n FROM people GROUP BY sex"),
        (
            [("by", "sex"), ("by", "net-pay"), ("from:age", "22"), ("to:age", "24")],
            'SELECT sex, "net-pay", COUNT(*) AS n FROM people WHERE age BETWEEN 22 AND 24 '
            'GROUP BY sex, "net-pay"',
        ),
        (
            [("average", "age"), ("assuming", "1,000"), ("is:sex", "it's")],
            "SELECT AVG(age) AS average FROM people WHERE sex IN ('it''s') ASSUMING AT LEAST 1000",
        ),
        (
            [("by", "week"), ("is:town", "a"), ("not:town", "1"), ("from:net-pay", "10")],
            'SELECT week, COUNT(*) AS n FROM people WHERE "net-pay" >= 10 AND '
            "town NOT IN ('a') GROUP BY week",
        ),
        (
            [("by", "sex"), ("to:age", "24"), ("from:week", "2024-W02"), ("to:week", "2024-W03")],
            "SELECT sex, COUNT(*) AS n FROM people WHERE age < 25 AND "
            "week BETWEEN '2024-W02' AND '2024-W03' GROUP BY sex",
        ),
    ],
)
def test_a_form_becomes_a_statement_that_counts_what_the_form_says(
    pairs: list[tuple[str, str]], text: str
) -> None:
    assert text_of(*pairs) == text
    found = parse_statement(text_of(*pairs), DOMAIN, dataset="people")
    assert found.groups == FormQuestion.of(MultiDict(pairs), DOMAIN).by


def test_a_statement_without_groups_counts_the_records_of_the_conditions() -> None:
    """Those that a count without an average counts: the denominator of the average."""
    pairs = [
        ("average", "age"),
        ("assuming", "9"),
        ("from:age", "22"),
        ("to:net-pay", "20"),
        ("is:town", "a"),
        ("not:town", "1"),
        ("from:week", "2024-W03"),
    ]
    (row,) = parse_statement(text_of(*pairs), DOMAIN, dataset="people").rows
    (cell,) = row.cells
    assert isinstance(cell, Ratio)
    where = FormQuestion.of(MultiDict(pairs), DOMAIN).where(DOMAIN)
    assert cell.denominator == parse_query({"where": where}, DOMAIN)


@pytest.mark.parametrize("missing", ["drop", "other"])
@pytest.mark.parametrize("named", [["a"], ["a", "other"], ["other"], ["North"]])
def test_a_form_keeps_what_is_missing_unless_it_says_so(
    named: list[str], missing: Literal["drop", "other"]
) -> None:
    """As a count of its conditions does."""
    level = Level("region", ("North", "South"), (0, 0, 1))
    labels = Attribute(
        "town", "labels", ("a", "b", "c"), outside="other", missing=missing, levels=(level,)
    )
    domain = Domain((labels, DOMAIN.attributes[0]))
    field = "region" if named == ["North"] else "town"
    pairs = [("average", "age"), *((f"is:{field}", one) for one in named), (f"not:{field}", "1")]
    question = FormQuestion.of(MultiDict(pairs), domain)
    text = statement_of(question, domain, "people")
    [[cell]] = [row.cells for row in parse_statement(text, domain, dataset="people").rows]
    assert isinstance(cell, Ratio)
    assert cell.denominator == parse_query({"where": question.where(domain)}, domain)


@pytest.mark.parametrize("name", ["order", "within", "last", "date", "count", "Left", "of", "a.b"])
def test_any_name_of_an_attribute_can_stand_in_the_statement(name: str) -> None:
    domain = Domain((Attribute(name, "labels", ("x", "y")), DOMAIN.attributes[0]))
    pairs = [("by", name), (f"is:{name}", "x"), ("by", "age")]
    text = statement_of(FormQuestion.of(MultiDict(pairs), domain), domain, "people")
    assert parse_statement(text, domain, dataset="people").groups == (name, "age")


def test_dates_are_named_in_quotes_and_their_rows_lead_to_their_questions() -> None:
    dates = Attribute("born", "date", periods=Periods("month", "2024-01", 6), outside="clamp")
    domain = Domain((dates, DOMAIN.attributes[0]))
    pairs = [("by", "born"), ("from:born", "2024-02"), ("to:born", "2024-04")]
    text = statement_of(FormQuestion.of(MultiDict(pairs), domain), domain, "people")
    assert "WHERE born BETWEEN '2024-02' AND '2024-04'" in text
    found = parse_statement(text, domain, dataset="people")
    assert found.course is not None
    assert [row.group for row in found.rows] == [("2024-02",), ("2024-03",), ("2024-04",)]
    row = HistoryRow(
        id=0,
        terms=[["1", [[0, [1, 4, 6], [0, 1, 0]]]]],
        key="k",
        value=1.0,
        scale=1.0,
        alpha_nano=1,
        step="1",
    )
    document = question_of_row(row, domain)
    assert document == {"where": {"born": {"between": ["2024-02", "2024-04"]}}}
    assert parse_query(document, domain).to_document() == row.terms


@pytest.mark.parametrize("are_sets", [True, False])
def test_a_row_of_any_values_and_weights_leads_to_its_question(are_sets: bool) -> None:
    for axis, attribute in enumerate(DOMAIN.attributes):
        weights = [3, 0, *range(5, 3 + attribute.size)]
        weights = [w % 2 for w in weights] if are_sets else weights
        stops = list(range(1, attribute.size + 1))
        terms: list[list[object]]
        terms = [["-2/73", [[axis, stops, weights]]], ["1", []]]
        row = HistoryRow(id=0, terms=terms, key="k", value=1.0, scale=1.0, alpha_nano=1, step="1")
        wanted = query_from_document(DOMAIN.sizes, terms)
        assert parse_query(question_of_row(row, DOMAIN), DOMAIN) == wanted


def test_fields_come_back_from_their_address_and_a_text_goes_before_them() -> None:
    pairs = [("by", "sex"), ("average", "age"), ("assuming", "9")]
    question = FormQuestion.of(MultiDict(pairs), DOMAIN)
    assert [pair for pair in question.pairs() if pair in pairs] == pairs
    written = FormQuestion.of(MultiDict([*pairs, ("text", "SELECT")]), DOMAIN)
    assert not written.is_table
    assert not set(pairs) & set(written.pairs())


def test_no_more_than_three_attributes_and_none_twice() -> None:
    names = ["sex", "sex", "", "age", "town", "week"]
    pairs = [("by", name) for name in names]
    assert FormQuestion.of(MultiDict(pairs), DOMAIN).by == ("sex", "age", "town")


def test_the_builder_asks_for_a_table_and_shows_it(browser: Browser) -> None:
    form = {"by": "sex", "from:age": "21", "to:age": "25", "length": "80", "confidence": "90"}
    part = html.unescape(browser.post(f"{PEOPLE}/price", form, headers=HTMX).text)
    assert "SELECT sex, COUNT(*) AS n FROM people WHERE age BETWEEN 21 AND 25 GROUP BY sex" in part
    assert "3 numbers, each ± 40 with 90 percent confidence" in part
    sent = browser.post(f"{PEOPLE}/ask", form)
    assert sent.status_code == 303
    browser.town.work_off()
    assert "3 intervals, each" in browser.text(sent.headers["Location"])
    page = browser.text(f"{PEOPLE}/answer?{urlencode(form)}")
    assert "cost nothing" in page
    assert re.findall(r'<th scope="row">([^<]*)</th>', page) == ["Female", "Male", "NULL"]
    asked = browser.text(f"{PEOPLE}?{urlencode(form)}")
    assert "<option selected>sex</option>" in asked


def test_an_average_may_know_of_how_many_records(browser: Browser) -> None:
    form = {"average": "age", "length": "2", "confidence": "90"}
    part = browser.post(f"{PEOPLE}/price", form, headers=HTMX).text
    assert "1 number, ± 1 with 90 percent confidence" in part
    part = browser.post(f"{PEOPLE}/price", {**form, "assuming": "150"}, headers=HTMX).text
    assert "1 number, ± 1 with 90 percent confidence" in part
    part = browser.post(f"{PEOPLE}/price", {**form, "assuming": "many"}, headers=HTMX).text
    assert "“of at least this many records” must be a whole number" in html.unescape(part)


def test_two_groups_are_shown_in_a_table_for_each_value_of_the_first(browser: Browser) -> None:
    form = [("by", "sex"), ("by", "age"), ("length", "80")]
    page = browser.text(f"{PEOPLE}/answer?{urlencode(form)}")
    assert re.findall(r"<caption>([^<]*)</caption>", page) == ["Female", "Male", "NULL"]
    assert page.count("<tbody>") == 3


def test_examples_are_questions_of_the_domain_with_few_answers() -> None:
    found = examples(sealed_domain(DOMAIN, "week", 3))
    assert found == [
        ("How many records are there?", ""),
        ("How many by week?", "by=week"),
        ("How many by sex?", "by=sex"),
        ("By week and sex?", "by=week&by=sex"),
    ]
    assert examples(Domain((DOMAIN.attributes[0],))) == [("How many records are there?", "")]


def test_the_landing_page_has_examples_that_lead_to_a_price(browser: Browser) -> None:
    page = browser.text("/portal/")
    assert f'<a href="{PEOPLE}?by=sex">How many by sex?</a>' in page
    assert browser.get(f"{PEOPLE}?by=sex").status_code == 200
    assert browser.spent_nano() == 0


def test_panels_are_by_the_group_of_fewer_values_where_the_first_has_many(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("qserver.portal.pages.sql.MOST_PANELS", 5)
    form = [("by", "age"), ("by", "sex"), ("length", "80")]
    page = browser.text(f"{PEOPLE}/answer?{urlencode(form)}")
    assert re.findall(r"<caption>([^<]*)</caption>", page) == ["Female", "Male", "NULL"]
    heads = re.findall(r'<th scope="col" data-sort="text">([^<]*)</th>', page)
    assert heads == ["age"] * 3
    first = page.split("<caption>Female</caption>")[1].split("<caption>")[0]
    names = re.findall(r'<th scope="row">([^<]*)</th>', first)
    assert names == [*deployment.PEOPLE.attributes[0].value_names[:-1], "NULL"]


def test_what_bins_hide_is_told_of_every_kind_of_number() -> None:
    kinds = get_args(get_type_hints(Binning)["of"])
    told = [_note([Binning(Fraction(5, 2), of)]) for of in kinds]
    assert len(set(told)) == len(kinds) == 4
    assert all("may be off by up to 2.5" in one for one in told)
