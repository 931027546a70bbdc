"""Numbers in words: rounded outward, never to certainty, never to more than there is."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qserver.portal import numbers
from qserver.records.answer import Answer
from qserver.text import ADDS_NOTHING

ANSWER = Answer(
    estimate=12_340.2,
    low=12_290.4,
    high=12_389.9,
    confidence=0.95,
    confidence_attained=0.951,
    source="measured",
    charged_nano=6_000_000,
    remaining_nano=930_000_000,
    evidence=(1,),
    weights="direct",
    version=3,
)


def test_an_answer_reads_as_a_sentence() -> None:
    said = numbers.answer_words(ANSWER, charged_nano=ANSWER.charged_nano)
    assert said == (
        "Between 12,290 and 12,390 with 95 percent confidence; cost 0.006; remaining 0.93."
    )


def test_what_charges_some_people_alone_is_not_called_free() -> None:
    said = numbers.answer_words(ANSWER, charged_nano=0)
    assert ADDS_NOTHING.removeprefix("adds ") in said
    assert numbers.price(0) == ADDS_NOTHING
    assert numbers.price(0, is_free=True) == "free"
    assert numbers.price(59_914_647) == "0.05991 ε"


def test_a_free_answer_and_an_exact_one_say_so() -> None:
    free = replace(ANSWER, source="history")
    assert "; cost nothing; " in numbers.answer_words(free, charged_nano=0)
    exact = replace(ANSWER, source="exact", estimate=0.0)
    assert numbers.answer_words(exact, charged_nano=0).startswith("Exactly 0:")


@given(st.floats(-1e9, 1e9), st.floats(1e-6, 1e7))
def test_the_interval_in_words_holds_the_interval(low: float, length: float) -> None:
    high = low + length
    text = numbers.interval_words(low, high, 0.95).removesuffix(" with 95 percent confidence")
    ends = text.removeprefix("between ").replace(",", "").split(" and ")
    assert Decimal(ends[0]) <= Decimal(low)
    assert Decimal(ends[1]) >= Decimal(high)
    # Lengthened by some 5 percent at most, and by the last of nine decimals.
    most = (Decimal(high) - Decimal(low)) * Decimal("1.0501") + Decimal("2.1e-9")
    assert Decimal(ends[1]) - Decimal(ends[0]) <= most


@pytest.mark.parametrize(
    ("nano", "text"),
    [(0, "0"), (59_914_647, "0.05991"), (1_000_000_000, "1"), (1, "0.000000001"), (2.5e12, "2500")],
)
def test_epsilon_has_four_digits(nano: float, text: str) -> None:
    assert numbers.epsilon(nano) == text


def test_what_remains_is_rounded_down() -> None:
    assert numbers.epsilon_left(939_999_999) == "0.9399"
    assert numbers.epsilon_left(2_000_000_000) == "2"
    assert numbers.epsilon_left(1) == "0.000000001"
    assert numbers.epsilon_left(0) == "0"
    assert numbers.exactly(59_914_647) == "0.059914647"


@pytest.mark.parametrize(
    ("part", "text"),
    [
        (0.95, "95"),
        (0.9999, "99.99"),
        (0.29, "29"),
        (1.0, "100"),
        (0.95123456, "95.1234"),
        (0.999999999999, "99.999999999"),
    ],
)
def test_a_percentage_is_never_rounded_up_to_certainty(part: float, text: str) -> None:
    assert numbers.percent(part) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.000"),
        (0.0004, "less than 0.001"),
        (0.8731, "0.873"),
        (0.9999, "more than 0.999"),
        (1.0, "1.000"),
    ],
)
def test_a_probability_is_0_or_1_only_where_it_is(value: float, text: str) -> None:
    assert numbers.probability(value) == text


def test_times_and_days_read_as_such() -> None:
    assert numbers.moment(1_800_000_000) == "2027-01-15 08:00:00"
    assert numbers.moment(None) == "never"
    assert [numbers.days(d) for d in (0.5, 1, 12.4, 1000)] == [
        "12 hours",
        "24 hours",
        "12 days",
        "3 years",
    ]
    assert numbers.high_end(float("inf"), 0) == "unbounded"
