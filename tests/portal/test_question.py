"""A form's fields as a question: what is asked, and that nothing is lost on the way back."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any
from urllib.parse import parse_qsl

import pytest
from hypothesis import given
from hypothesis import strategies as st
from werkzeug.datastructures import MultiDict

from qserver.errors import QueryError, RequirementError
from qserver.portal.question import FormQuestion, bin_hint
from qserver.query.asking.structured_question import parse_query
from qserver.query.domain_file import domain_from_document

DOMAIN = domain_from_document(
    {
        "attributes": [
            {"name": "age", "kind": "integer", "range": [0, 9], "outside": "clamp"},
            {"name": "sex", "labels": ["Female", "Male", "a&b=c"], "outside": "other"},
            {"name": "income", "kind": "real", "edges": [0, "0.5", 10], "outside": "clamp"},
            {"name": "decade", "kind": "integer", "range": [0, 99], "width": 10},
            {"name": "week", "kind": "period", "every": "week", "first": "2024-W10", "count": 9},
        ]
    }
)


def question(*pairs: tuple[str, str]) -> FormQuestion:
    return FormQuestion.of(MultiDict(pairs), DOMAIN)


@pytest.mark.parametrize(
    ("pairs", "where"),
    [
        ([], {}),
        ([("from:age", " 3 "), ("to:age", "5")], {"age": {"between": [3, 5]}}),
        ([("from:age", "3")], {"age": {"at_least": 3}}),
        ([("to:age", "5")], {"age": {"below": 6}}),
        ([("to:income", "0.5")], {"income": {"below": "0.5"}}),
        ([("from:income", "0"), ("to:income", "0.5")], {"income": {"between": [0, "0.5"]}}),
        ([("is:sex", "Female")], {"sex": ["Female"]}),
        ([("is:sex", "Female"), ("is:sex", "Male")], {"sex": ["Female", "Male"]}),
        ([("is:sex", "Male"), ("not:sex", "1")], {"sex": {"not": ["Male"]}}),
        ([("from:week", "2024-W11")], {"week": {"at_least": "2024-W11"}}),
        ([("to:week", "2024-W11")], {"week": ["2024-W10", "2024-W11"]}),
        ([("from:week", "2024-W12"), ("to:week", "2024-W12")], {"week": "2024-W12"}),
        ([("not:sex", "1"), ("is:nothing", "x"), ("from:sex", "1")], {}),
    ],
)
def test_fields_mean_these_conditions(pairs: list[tuple[str, str]], where: dict[str, Any]) -> None:
    asked = parse_query({"where": question(*pairs).where(DOMAIN)}, DOMAIN)
    assert asked == parse_query({"where": where}, DOMAIN)


def test_length_and_confidence_are_read_as_people_write_them() -> None:
    found = question(("within", "1,000"), ("confidence", "99.5")).requirement()
    assert (found.length, found.confidence) == (2000, 0.995)
    default = question().requirement()
    assert (default.length, default.confidence) == (100, 0.95)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("within", "wide"),
        ("within", "0"),
        ("confidence", "100"),
        ("confidence", "0"),
        ("within", ""),
    ],
)
def test_a_wrong_length_or_confidence_is_named(name: str, text: str) -> None:
    with pytest.raises(RequirementError, match=name.replace("within", "length")):
        question((name, text)).requirement()


def test_an_end_that_is_no_number_is_named() -> None:
    with pytest.raises(QueryError, match=r"query\.where\.age\.from"):
        question(("from:age", "old")).where(DOMAIN)


TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), max_size=8)


@given(
    st.lists(st.sampled_from(["Female", "Male", "a&b=c"]), unique=True),
    st.booleans(),
    TEXTS,
    TEXTS,
    TEXTS,
)
def test_the_address_of_a_question_gives_the_question_back(
    labels: list[str], is_not: bool, low: str, high: str, text: str
) -> None:
    pairs = [("is:sex", label) for label in labels]
    pairs += [("not:sex", "1")] if is_not else []
    pairs += [("from:age", low), ("to:age", high), ("text", text), ("within", "7")]
    asked = question(*pairs)
    again = FormQuestion.of(MultiDict(parse_qsl(asked.encoded(), keep_blank_values=True)), DOMAIN)
    assert again == asked


def test_hints_tell_the_range_and_the_steps() -> None:
    hints = {a.name: bin_hint(a) for a in DOMAIN.attributes if a.kind != "labels"}
    assert hints == {
        "age": "0 to 9",
        "income": "0 to 10; cuts at 0, 0.5, 10",
        "decade": "0 to 99 in steps of 10",
        "week": "2024-W10 to 2024-W18",
    }
    assert isinstance(DOMAIN.attributes[0].edges[0], Fraction)


def test_a_form_begins_with_the_length_of_the_owner() -> None:
    said = replace(DOMAIN, within=Fraction("12.25"))
    assert FormQuestion.of(MultiDict(), DOMAIN).within == "50"
    assert FormQuestion.of(MultiDict(), said).within == "12.25"
    assert FormQuestion.of(MultiDict([("within", "7")]), said).within == "7"


def test_a_length_of_an_earlier_address_is_twice_what_the_form_shows() -> None:
    earlier = question(("length", "24.5"))
    assert (earlier.within, earlier.requirement().length) == ("12.25", 24.5)
    assert question(("length", "1,001")).within == "500.5"
    assert question(("length", "wide")).within == "wide"
    assert question(("length", "7"), ("within", "7")).requirement().length == 14
