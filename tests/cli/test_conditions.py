"""Conditions typed on the command line, against the structured form they stand for."""

from __future__ import annotations

import io
from fractions import Fraction
from pathlib import Path

import pytest

from qserver.cli.conditions import parse_json, question_document, where_document
from qserver.cli.local.demo import adult_domain
from qserver.errors import ConfigError
from qserver.query.asking.structured_question import parse_query
from qserver.query.domain_loading import load_domain
from qserver.query.linear_query import LinearQuery

DOMAIN = load_domain(adult_domain())


def typed(*conditions: str) -> LinearQuery:
    return parse_query({"where": where_document(conditions)}, DOMAIN)


def structured(**where: object) -> LinearQuery:
    return parse_query({"where": {k.replace("_", "-"): v for k, v in where.items()}}, DOMAIN)


@pytest.mark.parametrize(
    ("condition", "meaning"),
    [
        ("sex=Female", {"sex": "Female"}),
        ("age=30", {"age": 30}),
        ("age=30..39", {"age": {"between": [30, 39]}}),
        ("age=30 .. 39", {"age": {"between": [30, 39]}}),
        ("age>=65", {"age": {"at_least": 65}}),
        ("age<20", {"age": {"below": 20}}),
        ("age!=30..39", {"age": {"not": {"between": [30, 39]}}}),
        ("sex!=Female", {"sex": {"not": "Female"}}),
        ("education=Bachelors,Masters", {"education": ["Bachelors", "Masters"]}),
        ("education!=Bachelors, Masters", {"education": {"not": ["Bachelors", "Masters"]}}),
        ("income=>50K", {"income": ">50K"}),
        ("income=<=50K", {"income": "<=50K"}),
        ('sex:=["Female", "unknown"]', {"sex": ["Female", "unknown"]}),
        ('age:={"weights": {"30": 0.5, "31": 1}}', {"age": {"weights": {"30": 0.5, "31": 1}}}),
        ("capital-gain>=5000", {"capital_gain": {"at_least": 5000}}),
    ],
)
def test_each_form_of_condition_means_the_same_query_as_its_structured_form(
    condition: str, meaning: dict[str, object]
) -> None:
    assert typed(condition) == structured(**meaning)


def test_conditions_on_several_attributes_hold_together() -> None:
    both = structured(age={"between": [30, 39]}, sex="Female")
    assert typed("age=30..39", "sex=Female") == both


def test_the_last_periods_are_counted_back() -> None:
    assert where_document(["week=last:4", "sex=last"]) == {"week": {"last": 4}, "sex": "last"}


def test_no_condition_counts_all_records() -> None:
    assert typed() == parse_query({"where": {}}, DOMAIN)


@pytest.mark.parametrize(
    "condition",
    [
        "age",
        "=30",
        "age=",
        "age<=30",
        "age>30",
        "age>==3",
        "age=1..2..3",
        "age=..5",
        "sex=A,,B",
        "",
    ],
)
def test_a_malformed_condition_is_refused_and_shown(condition: str) -> None:
    with pytest.raises(ConfigError, match="--where") as caught:
        where_document([condition])
    assert repr(condition) in str(caught.value)


def test_two_conditions_on_one_attribute_are_refused() -> None:
    with pytest.raises(ConfigError, match="name `age` once"):
        where_document(["age>=20", "age<30"])


def test_the_structured_form_is_read_from_text_file_or_standard_input(tmp_path: Path) -> None:
    text = '{"where": {"sex": "Female"}}'
    path = tmp_path / "question.json"
    path.write_text(text, encoding="utf-8")
    sources = [(text, ""), (str(path), ""), ("-", text)]
    found = [
        question_document(conditions=[], json_query=source, stdin=io.StringIO(stdin))
        for source, stdin in sources
    ]
    assert found == [{"where": {"sex": "Female"}}] * 3


def test_decimals_reach_the_server_with_every_digit() -> None:
    document = parse_json('{"terms": [{"coefficient": 0.1234567891}]}', name="--json-query")
    assert Fraction(document["terms"][0]["coefficient"]) == Fraction(1234567891, 10**10)


@pytest.mark.parametrize(
    ("source", "complaint"),
    [
        ('{"where": ', "line 1, column 11"),
        ('{"where": NaN}', "finite"),
        ("[1]", "object"),
        ("[" * 100_000, "depth"),
        ("[" + "9" * 5_000 + "]", "numbers"),
        ("no such file", "readable file"),
    ],
)
def test_json_that_cannot_be_read_is_refused_with_its_fault(source: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        question_document(conditions=[], json_query=source, stdin=io.StringIO())


def test_the_two_ways_to_ask_exclude_each_other() -> None:
    with pytest.raises(ConfigError, match="be absent where --where is given"):
        question_document(conditions=["age=30"], json_query="{}", stdin=io.StringIO())
