"""Exact numbers: what is read, to which fraction, and what is refused."""

from __future__ import annotations

import json
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qserver.errors import DomainError, InputError, QueryError
from qserver.query.exact_numbers import MAX_DENOMINATOR, MAX_MAGNITUDE, exact_number
from tests.sweeps import examples

nine_places = st.integers(-(10**15), 10**15).map(lambda n: Decimal(n).scaleb(-9))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (7, Fraction(7)),
        (-0.1, Fraction(-1, 10)),
        (1e-9, Fraction(1, 10**9)),
        (1e12, Fraction(10**12)),
        (np.float64(0.5), Fraction(1, 2)),
        (Decimal("0.250"), Fraction(1, 4)),
        (Fraction(-2, 3), Fraction(-2, 3)),
        ("1/3", Fraction(1, 3)),
        ("-2/6", Fraction(-1, 3)),
        ("+.5", Fraction(1, 2)),
        ("5.", Fraction(5)),
        ("2.5e3", Fraction(2500)),
        ("25E-1", Fraction(5, 2)),
        ("-0", Fraction(0)),
    ],
)
def test_number_is_read_as_the_decimal_it_shows(value: object, expected: Fraction) -> None:
    assert exact_number(value, "x") == expected


@given(nine_places)
def test_decimals_of_nine_places_are_exact_as_text_decimal_and_ratio(value: Decimal) -> None:
    """The expected fraction is built from the digits, not from the text."""
    expected = Fraction(int(value.scaleb(9)), 10**9)
    assert exact_number(str(value), "x") == expected
    assert exact_number(value, "x") == expected
    assert exact_number(f"{expected.numerator}/{expected.denominator}", "x") == expected


@given(st.integers(-(10**12), 10**12), st.integers(0, 9))
def test_float_is_read_as_its_shortest_decimal(digits: int, places: int) -> None:
    """A float of up to 13 digits means the decimal that was typed, not its binary expansion."""
    assert exact_number(float(f"{digits}e-{places}"), "x") == Fraction(digits, 10**places)


@pytest.mark.parametrize(
    "value",
    [
        True,
        False,
        None,
        float("nan"),
        float("inf"),
        -float("inf"),
        Decimal("NaN"),
        Decimal("sNaN"),
        Decimal("-Infinity"),
        Decimal("1e400"),
        Decimal("1e-400"),
        Decimal("0." + "3" * 200_000),
        "nan",
        "Infinity",
        "1e400",
        "1e999999999",
        "1e99999999999999999999",
        "1/0",
        "0/0",
        "1/-3",
        "1//3",
        "1/2/3",
        "1/2.0",
        "1_000",
        "1_0/3",
        " 1",
        "1\n",
        "",
        ".",
        "e5",
        "+-1",
        "0x10",
        "١٢",
        "½",
        "1" * 65,
        "1" * 10**6,
        [1],
        {"a": 1},
        b"1",
        1j,
        np.array([1]),
    ],
    ids=lambda v: f"{type(v).__name__}-{v!r}"[:40],
)
def test_what_is_no_plain_number_is_refused_by_name(value: object) -> None:
    with pytest.raises(QueryError, match=r"^`x` must be a finite number, got"):
        exact_number(value, "x")


@pytest.mark.parametrize(
    "value",
    [10**12 + 1, -(10**12) - 1, 10**400, 10**5000, 1e13, "1e13", Decimal("1e100")],
    ids=["above", "below", "400", "5000", "float", "text", "decimal"],
)
def test_number_above_the_bound_is_refused(value: object) -> None:
    """10^5000 has more digits than Python prints by default; the message must not need them."""
    with pytest.raises(QueryError, match=r"^`x` must be at most 1,000,000,000,000 in size"):
        exact_number(value, "x")


@pytest.mark.parametrize(
    "value",
    ["1e-10", "1/1000000001", 0.1 + 0.2, Fraction(1, 10**5000 + 1)],
    ids=["decimal", "ratio", "float", "5000"],
)
def test_number_with_a_denominator_above_the_bound_is_refused(value: object) -> None:
    with pytest.raises(QueryError, match=r"^`x` must have at most nine decimals"):
        exact_number(value, "x")


def test_bounds_themselves_are_accepted() -> None:
    assert exact_number(-MAX_MAGNITUDE, "x") == -(10**12)
    assert exact_number(f"1/{MAX_DENOMINATOR}", "x") == Fraction(1, 10**9)


def test_deeply_nested_list_is_refused_like_any_other() -> None:
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(QueryError, match=r"`x` must be a finite number"):
        exact_number(deep, "x")


def test_error_is_of_the_class_that_was_asked_for() -> None:
    with pytest.raises(DomainError, match=r"`edges\[3\]`"):
        exact_number("many", "edges[3]", DomainError)


def number_or_error(value: object) -> Fraction | InputError:
    try:
        return exact_number(value, "field")
    except InputError as exc:
        return exc


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.decimals()
    | st.text(max_size=20)
    | st.from_regex(r"[-+0-9eE./_ ]{0,12}", fullmatch=True),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=6,
)


@settings(max_examples=examples(300))
@given(json_values)
def test_whatever_comes_is_a_bounded_fraction_or_an_input_error(value: object) -> None:
    outcome = number_or_error(value)
    if isinstance(outcome, InputError):
        assert outcome.name == "field"
        assert len(str(outcome)) < 400
        json.dumps(str(outcome)).encode()
    else:
        assert abs(outcome) <= MAX_MAGNITUDE
        assert outcome.denominator <= MAX_DENOMINATOR
