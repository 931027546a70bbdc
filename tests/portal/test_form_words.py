"""Every fault that a form can show speaks of the form's own labels, and marks its fields."""

from __future__ import annotations

import html
import json
import re
from urllib.parse import urlencode

import pytest
from werkzeug.test import TestResponse

from qserver.errors import InputError, NetworkError, QueryError, RequirementError
from qserver.portal.faults import (
    RECORD_FIELDS,
    THRESHOLD_FIELDS,
    FormFields,
    learning_fields,
    model_fields,
    question_fields,
)
from qserver.portal.question import FormQuestion
from qserver.query import request_fields as table
from qserver.query.asking.structured_question import parse_query
from qserver.query.domain_file import domain_from_document
from tests.portal.portal_site import HTMX, PEOPLE, Browser

MODELS = f"{PEOPLE}/models"
CONFIDENCE, COUNT, EPSILON = table.CONFIDENCE.label, table.COUNT.label, table.EPSILON.label
TEXT, WITHIN = table.QUERY.label, table.LENGTH.label
STRUCTURE, MARGINALS = "Structure of the network", "Marginals to buy"
# Fields of requests, and places in them, which no form has.
FIELD_NAMES = re.compile(
    r"`(query|sql|count|length|confidence|epsilon|structure|marginals?|network|edges|variables?|given"
    r"|evidence|show|at_least|between|below|where|n|seed|questions|simultaneous|token|priced)\b[^`]*`"
    r'|\{"|query\.|where\.'
)

STATEMENT = "The statement must"
QUESTIONS: list[tuple[dict[str, str], str, tuple[str, ...]]] = [
    ({"within": ""}, WITHIN, ("within",)),
    ({"within": "wide"}, WITHIN, ("within",)),
    ({"within": "0"}, WITHIN, ("within",)),
    ({"within": "-3"}, WITHIN, ("within",)),
    ({"within": "1e300"}, WITHIN, ("within",)),
    ({"within": "0.00000000001"}, WITHIN, ("within",)),
    ({"confidence": ""}, CONFIDENCE, ("confidence",)),
    ({"confidence": "sure"}, CONFIDENCE, ("confidence",)),
    ({"confidence": "100"}, CONFIDENCE, ("confidence",)),
    ({"confidence": "0"}, CONFIDENCE, ("confidence",)),
    ({"confidence": "99.99999999"}, CONFIDENCE, ("confidence",)),
    ({"from:age": "old"}, "age, from", ("from:age",)),
    ({"to:age": "1e15"}, "age, to", ("to:age",)),
    ({"to:age": "1e12"}, "age", ("from:age", "to:age")),
    ({"from:age": "25", "to:age": "22"}, "age", ("from:age", "to:age")),
    ({"is:sex": "Femal"}, "sex", ("is:sex",)),
    ({"is:sex": "Femal", "not:sex": "1"}, "sex", ("is:sex",)),
    ({"text": "SELEC"}, STATEMENT, ("text",)),
    ({"text": "SELECT EXP(age) FROM people"}, STATEMENT, ("text",)),
    ({"text": "SELECT COUNT(*) FROM others"}, STATEMENT, ("text",)),
    ({"text": "SELECT COUNT(*) FROM people WHERE height = 1"}, STATEMENT, ("text",)),
    ({"text": "SELECT COUNT(*) FROM people WITHIN 0"}, STATEMENT, ("text",)),
    ({"text": "SELECT COUNT(*) FROM people WITHIN 1e20"}, "", ("text",)),
    ({"text": "SELECT COUNT(*) FROM people WITHIN 9e11 PERCENT OF 9e11"}, "", ("text",)),
    ({"text": "SELECT COUNT(*) FROM people WITHIN 9 CONFIDENCE 1"}, STATEMENT, ("text",)),
    ({"text": "SELECT COUNT(*) FROM people WITHIN 9 CONFIDENCE 0.9999999999"}, "", ("text",)),
    ({"text": "SELECT MAX(age) * MIN(age) FROM people"}, STATEMENT, ("text",)),
    ({"text": "SELECT COUNT(*) FROM people", "within": "x"}, WITHIN, ("within",)),
    ({"text": "SELECT sex, COUNT(*) FROM people GROUP BY sex", "within": "0"}, WITHIN, ("within",)),
    ({"text": "{"}, TEXT, ("text",)),
]
LEARNING: list[tuple[dict[str, str], str, str]] = [
    ({"structure": ""}, STRUCTURE, "structure"),
    ({"structure": "sex > age > sex"}, STRUCTURE, "structure"),
    ({"structure": "sex > "}, STRUCTURE, "structure"),
    ({"structure": "sex > height"}, STRUCTURE, "structure"),
    ({"structure": "sex > sex"}, STRUCTURE, "structure"),
    ({"structure": "sex > age\nsex > age"}, STRUCTURE, "structure"),
    ({"structure": "sex > age\nage > sex"}, STRUCTURE, "structure"),
    ({"structure": "network x { }"}, STRUCTURE, "structure"),
    ({"structure": "network x {"}, STRUCTURE, "structure"),
    ({"structure": "network x { } variable sex { type discrete [2] {a, b}; }"}, STRUCTURE, ""),
    ({"epsilon": "much"}, EPSILON, "epsilon"),
    ({"epsilon": "-1"}, EPSILON, "epsilon"),
    ({"epsilon": "1e9"}, EPSILON, "epsilon"),
    ({"kind": "marginals", "marginals": "age,,sex"}, MARGINALS, "marginals"),
    ({"kind": "marginals", "marginals": "height"}, MARGINALS, "marginals"),
    ({"kind": "marginals", "marginals": "sex, sex"}, MARGINALS, "marginals"),
]


def assert_in_words(response: TestResponse, label: str, inputs: tuple[str, ...]) -> None:
    """A fault of these inputs is told under this label, and of no document."""
    text = html.unescape(response.text)
    found = re.search(r'(?s)<div id="fault" data-fields=\'([^\']*)\'.*?</h3>.*?<p>(.*?)</p>', text)
    assert found, text
    assert json.loads(found[1]) == list(inputs)
    said = found[2].replace("`parent > child`", "")
    assert not FIELD_NAMES.search(said), said
    assert said.startswith(f"“{label}” must") if label in (WITHIN, CONFIDENCE) else label in said


@pytest.mark.parametrize(("fields", "label", "inputs"), QUESTIONS)
def test_a_faulty_question_is_told_by_the_labels_of_its_form(
    browser: Browser, fields: dict[str, str], label: str, inputs: tuple[str, ...]
) -> None:
    part = browser.post(f"{PEOPLE}/price", fields, headers=HTMX)
    assert_in_words(part, label, inputs)
    for place, status in (("price", 200), ("ask", 422)):
        whole = browser.post(f"{PEOPLE}/{place}", fields)
        assert whole.status_code == status
        assert_in_words(whole, label, inputs)
        marked = re.findall(r'<(?:input|textarea)[^>]*name="([^"]*)"[^>]*aria-invalid', whole.text)
        assert set(marked) == set(inputs)
        assert whole.text.count('aria-describedby="fault') == len(marked)
    assert browser.spent_nano() == 0


@pytest.mark.parametrize(("change", "label", "name"), LEARNING)
def test_a_faulty_model_is_told_by_the_labels_of_its_form(
    browser: Browser, change: dict[str, str], label: str, name: str
) -> None:
    fields = {"kind": "network", "structure": "sex > age", "epsilon": "0.2", **change}
    inputs = (name or "structure",)
    assert_in_words(browser.post(f"{MODELS}/price", fields, headers=HTMX), label, inputs)
    refused = browser.post(f"{MODELS}/learn", fields)
    assert refused.status_code == 422
    assert_in_words(refused, label, inputs)
    marked = re.findall(r'<(?:input|textarea)[^>]*name="([^"]*)"[^>]*aria-invalid', refused.text)
    assert tuple(marked) == inputs


def learnt(browser: Browser, kind: str) -> str:
    """The address of a model."""
    fields = {"kind": kind, "structure": "sex > age", "marginals": "age, sex", "epsilon": "0.1"}
    job = browser.post(f"{MODELS}/learn", fields).headers["Location"]
    browser.town.work_off()
    return f"{MODELS}/{job.rpartition('/')[2]}"


@pytest.mark.parametrize("kind", ["network", "marginals"])
def test_what_a_model_cannot_tell_is_told_by_the_labels_of_its_forms(
    browser: Browser, kind: str
) -> None:
    place = learnt(browser, kind)
    given = ("given:age", "given:sex")
    one = given[1:] if kind == "network" else given
    faults: list[tuple[dict[str, str], str, tuple[str, ...]]] = [
        ({"show": "age", "given:sex": "nobody"}, "iven” must", one),
        ({"show": "sex", "given:sex": "Male"}, "” must", ("show",) if kind == "network" else given),
        ({"count": "SELECT EXP(age) FROM people"}, STATEMENT, ("count",)),
        ({"count": "SELECT sex, COUNT(*) FROM people GROUP BY sex"}, COUNT, ("count",)),
    ]
    for fields, label, inputs in faults:
        page = browser.get(f"{place}?{urlencode(fields)}")
        assert_in_words(page, label, inputs)
        marked = set(re.findall(r'name="([^"]*)" aria-invalid="true"', page.text))
        assert marked | set(re.findall('name="(count)"[^>]*aria-invalid', page.text)) == set(inputs)
    for fields, label, inputs in (
        ({"n": "0"}, "Records", ("n",)),
        ({"n": "many"}, "Records", ("n",)),
        ({"seed": "-1"}, "Seed", ("seed",)),
    ):
        page = browser.get(f"{place}/records.csv?{urlencode(fields)}")
        assert page.status_code == 422
        assert_in_words(page, label, inputs)


def test_a_wrong_threshold_is_told_beside_it(browser: Browser) -> None:
    fields = {"from:age": "22", "length": "40"}
    job = browser.post(f"{PEOPLE}/ask", fields).headers["Location"]
    browser.town.work_off()
    for place in (f"{job}&", f"{PEOPLE}/answer?{urlencode(fields)}&"):
        page = browser.get(f"{place}at_least=lots")
        assert page.status_code == 200
        assert_in_words(page, "How likely is a count of at least", ("at_least",))
        assert re.search('value="lots"[^>]*aria-invalid="true"', page.text)


def test_a_token_that_is_none_is_told_by_its_label(guarded: Browser) -> None:
    page = guarded.sign_in("nonsense").text
    assert "This token is not valid." in page
    assert re.search('name="token"[^>]*aria-invalid="true" aria-describedby="fault"', page)
    assert "aria-invalid" not in guarded.text("/portal/sign-in")


def test_places_in_json_that_was_typed_are_those_of_the_text(browser: Browser) -> None:
    text = '{"any": [{"sex": "Male"}, {"age": "old"}]}'
    part = browser.post(f"{PEOPLE}/price", {"text": text}, headers=HTMX).text
    assert f"“{TEXT}”, at `any[1].age`, must be a finite number" in part
    page = browser.get(f"{learnt(browser, 'network')}?{urlencode({'count': text})}").text
    assert f"“{COUNT}”, at `any[1].age`, must be a finite number" in page


def test_a_model_that_fails_is_told_by_the_labels_of_its_form(browser: Browser) -> None:
    fields = {"kind": "marginals", "marginals": "", "epsilon": "0.1"}
    assert_in_words(
        browser.post(f"{MODELS}/price", fields, headers=HTMX), MARGINALS, ("marginals",)
    )
    job = browser.post(f"{MODELS}/learn", fields).headers["Location"]
    browser.town.work_off()
    assert f"“{MARGINALS}” must name what to buy where “{EPSILON}” is above 0." in browser.text(job)


def test_places_in_a_text_count_the_blanks_before_it(browser: Browser) -> None:
    """Browsers send lines that end in CR LF, and a page gives back all that was typed."""
    fields = {"text": "\r\n  SELECT COUNT(*)\r\n  FROM people WHERE sex = 'male'"}
    part = browser.post(f"{PEOPLE}/price", fields, headers=HTMX).text
    assert "(line 3, column 27)" in part
    whole = browser.post(f"{PEOPLE}/price", fields).text
    # The newline behind the tag is none of the text.
    assert re.search(r"<textarea[^>]*>\n\n  SELECT COUNT", whole)


DOMAIN = domain_from_document(
    {
        "attributes": [
            {"name": "age", "kind": "integer", "range": [0, 99], "width": 10, "outside": "clamp"},
            {"name": "pay", "kind": "real", "edges": [0, "0.5", 10], "outside": "clamp"},
            {"name": "length", "labels": ["short", "long"]},
        ]
    }
)


def builder() -> FormFields:
    return question_fields(FormQuestion({}, {}, "", "100", "95"), DOMAIN)


@pytest.mark.parametrize(
    ("where", "said"),
    [
        (
            {"age": {"between": [5, 25]}},
            "`age` is stored in steps of 10; use a multiple of 10. "
            "The nearest that fit: 0 to 29 and 10 to 19.",
        ),
        (
            {"pay": {"below": "1"}},
            "`pay` is stored in bins of several widths; use their edges. "
            "The nearest that fit: 0 to 10 and 0 to 0.5.",
        ),
        (
            {"length": ["tall"]},
            "“length” must be a label of `length`, got 'tall'. Labels: short, long.",
        ),
    ],
)
def test_what_would_fit_is_told_as_people_write_it(where: dict[str, object], said: str) -> None:
    with pytest.raises(QueryError) as wrong:
        parse_query({"where": where}, DOMAIN)
    assert builder().told(wrong.value) == said


@pytest.mark.parametrize(
    ("fields", "error", "said"),
    [
        (builder(), RequirementError("length", "be short", 3), f"“{WITHIN}” must be short, got 3."),
        (builder(), InputError("questions", "be"), f"“{TEXT}” must be."),
        (learning_fields("network"), NetworkError("network, line 3", "end"), ", at `line 3`, must"),
        (learning_fields("network"), NetworkError("network.edges", "end"), ": its edges must end."),
        (learning_fields("network"), NetworkError("sex", "end"), ", at `sex`, must end."),
        (
            learning_fields("marginals"),
            InputError("marginals", "be none where `epsilon` is 0"),
            f"“{MARGINALS}” must be none where “{EPSILON}” is 0.",
        ),
        (model_fields(("sex",)), InputError("given", "differ from `marginal`"), "from “Show”."),
        (model_fields(("sex",)), NetworkError("variables", "be"), "“Show” must be."),
        (RECORD_FIELDS, InputError("seed", "be"), "“Seed” must be."),
        (THRESHOLD_FIELDS, InputError("at_least", "be"), "“How likely is a count of at least”"),
    ],
)
def test_names_that_errors_have_are_put_in_words(
    fields: FormFields, error: InputError, said: str
) -> None:
    assert said in fields.told(error)
