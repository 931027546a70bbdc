"""The JSON reader: exact, bounded, and strict where JSON is loose."""

from __future__ import annotations

import json
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qserver.api.json_reader import MAX_DEPTH, MAX_DIGITS, JsonFaultError, parse_json
from tests.api.calls import ASK, Caller, assert_problem

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**60), 10**60) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(JSON)
def test_what_json_writes_is_read_back_equal(value: object) -> None:
    assert parse_json(json.dumps(value)) == value


@given(st.decimals(allow_nan=False, allow_infinity=False, places=9, min_value=-999, max_value=999))
def test_a_decimal_keeps_every_digit(value: Decimal) -> None:
    assert parse_json(f"[{value:f}]") == [value]


@given(st.text(alphabet='{}[]",:.-+eE0123456789 \\untrflasNI', max_size=40))
def test_any_text_is_read_as_json_reads_it_or_refused(text: str) -> None:
    try:
        value = parse_json(text)
    except JsonFaultError:
        return
    assert value == json.loads(text, parse_float=Decimal)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"Expecting value \(line 1, column 1\)"),
        ('{"a": 1,\n "b" 2}', r"line 2, column 6"),
        ("{} {}", "Extra data"),
        ("NaN", "NaN is not a JSON number"),
        ("[Infinity]", "Infinity is not"),
        ("[-Infinity]", "-Infinity is not"),
        ('{"a": 1, "b": 2, "a": 3}', "'a' comes twice"),
        ('[{"x": {"k": 1, "k": 1}}]', "'k' comes twice"),
        ('["\\ud800"]', "surrogate"),
        ('{"\\udc00": 1}', "surrogate"),
        ("1" * (MAX_DIGITS + 1), "characters"),
        ("0." + "1" * MAX_DIGITS, "characters"),
        ("1e99999999999999999999", "exponent"),
        ("\ufeff{}", "Expecting value"),
        ('"a\nb"', "control character"),
    ],
)
def test_text_past_the_rules_is_refused_with_the_reason(text: str, message: str) -> None:
    with pytest.raises(JsonFaultError, match=message):
        parse_json(text)


def test_a_whole_surrogate_pair_is_one_character() -> None:
    assert parse_json('"\\ud83d\\ude00"') == "\U0001f600"


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")])
def test_nesting_is_bounded_at_one_depth_for_lists_and_objects(opening: str, closing: str) -> None:
    parse_json(opening * MAX_DEPTH + "1" + closing * MAX_DEPTH)
    for depth in (MAX_DEPTH + 1, 900, 100_000):
        with pytest.raises(JsonFaultError, match="deeper"):
            parse_json(opening * depth + "1" + closing * depth)


def test_a_malformed_body_tells_line_and_column(caller: Caller) -> None:
    problem = assert_problem(caller.send(ASK, b'{"query":\n nope}'), 400, "malformed_json")
    assert (problem["line"], problem["column"]) == (2, 2)


@pytest.mark.parametrize("body", [b"[]", b"1", b"null", b'"text"', b"true"])
def test_a_body_that_is_no_object_is_refused(caller: Caller, body: bytes) -> None:
    problem = assert_problem(caller.send(ASK, body), 400, "malformed_json")
    assert "object" in problem["detail"]


@pytest.mark.parametrize("body", [b"\xff", b"{\xc3}", "{}".encode("utf-16"), b""])
def test_a_body_that_is_not_utf_8_json_is_refused(caller: Caller, body: bytes) -> None:
    assert_problem(caller.send(ASK, body), 400, "malformed_json")
