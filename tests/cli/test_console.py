"""Numbers and progress as people see them."""

from __future__ import annotations

import io
import threading
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qserver.cli.console import Console, epsilon_text, interval_text, percent_text
from qserver.program.start import telling_if_long
from qserver.text import (
    ADDS_NOTHING,
    LookedNumber,
    aligned,
    cost_text,
    decimals_of,
    left_text,
    looking_text,
    price_text,
)


class Terminal(io.StringIO):
    """A text stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def plain(text: str) -> Decimal:
    return Decimal(text.replace(",", ""))


@given(
    low=st.floats(-1e12, 1e12),
    length=st.floats(1e-6, 1e9),
)
def test_a_shown_interval_contains_the_interval_and_is_hardly_longer(
    low: float, length: float
) -> None:
    high = low + length
    if not low < high:
        return
    text = interval_text(estimate=low, low=low, high=high)
    assert plain(text.low) <= Decimal(low)
    assert plain(text.high) >= Decimal(high)
    true_length = Decimal(high) - Decimal(low)
    assert plain(text.high) - plain(text.low) <= true_length * Decimal("1.0501")


@pytest.mark.parametrize(
    ("half", "shown"),
    [
        (50.0, ("2,720", "2,670", "2,771")),
        (19.0, ("2,720.1", "2,701.1", "2,739.2")),
        (280.0, ("2,720", "2,440", "3,010")),
        (1_234.0, ("2,720", "1,480", "3,960")),
        (4_321.0, ("2,700", "-1,700", "7,100")),
        (0.25, ("2,720.12", "2,719.87", "2,720.38")),
    ],
)
def test_numbers_have_two_digits_of_half_the_length_and_three_where_these_begin_with_1(
    half: float, shown: tuple[str, str, str]
) -> None:
    value = 2720.123456
    text = interval_text(estimate=value, low=value - half, high=value + half)
    assert (text.estimate, text.low, text.high) == shown


def test_the_shortest_length_has_decimals_as_well() -> None:
    assert decimals_of(5e-324) == decimals_of(1e-300)


@given(st.floats(1e-6, 1e9))
def test_half_the_length_has_from_20_to_200_units(half: float) -> None:
    units = Decimal(half).scaleb(decimals_of(2 * half))
    assert Decimal("19.99") <= units <= Decimal("200.01")


@pytest.mark.parametrize(
    ("amount", "text"),
    [(0, "0"), (0.059914645, "0.05991"), (1e-9, "0.000000001"), (2500.04, "2500"), (2.0, "2")],
)
def test_costs_have_four_significant_digits(amount: float, text: str) -> None:
    assert cost_text(amount) == text


@given(st.integers(0, 10**13))
def test_what_is_left_is_never_more_than_there_is(nano: int) -> None:
    exact = Decimal(nano).scaleb(-9)
    shown = Decimal(left_text(nano / 10**9))
    assert shown <= exact
    assert exact - shown <= exact / 1000


@pytest.mark.parametrize(
    ("price", "kind", "text"),
    [
        (0.059914645, "fresh", "0.05991 epsilon"),
        (0.0, "free", "free"),
        (0.0, "exact", "free"),
        (0.0, "refined", f"0 epsilon: {ADDS_NOTHING}"),
    ],
)
def test_a_price_of_nothing_says_whether_anybody_is_charged(
    price: float, kind: str, text: str
) -> None:
    assert price_text(price, kind) == text


def test_numbers_of_a_column_stand_at_their_decimal_points() -> None:
    assert aligned(["1", "-0.25", "12,340.5", "nothing"]) == [
        "1   ",
        "-0.25",
        "12,340.5 ",
        "nothing",
    ]


def test_lengths_that_rounding_leaves_are_told() -> None:
    """Those of an average that is known by its group: one end may be the estimate itself."""
    numbers = [LookedNumber(8e-15, 8e-15, (0.0, 4e-15)), LookedNumber(8e-15, 8e-15, (-1e-15, 0.0))]
    assert looking_text(numbers, n=2).endswith("The largest: -0 +0.000000000000004.")


def test_an_open_interval_and_an_exact_answer_can_be_shown() -> None:
    half_line = interval_text(estimate=None, low=float("-inf"), high=3.0)
    assert (half_line.low, half_line.high) == ("-infinity", "3")
    exact = interval_text(estimate=5.0, low=5.0, high=5.0)
    assert (exact.estimate, exact.low, exact.high) == ("5", "5", "5")


@pytest.mark.parametrize(
    ("amount", "text"),
    [(0.0, "0"), (1, "1"), (0.059914645, "0.059914645"), (1e-9, "0.000000001"), (100.0, "100")],
)
def test_epsilon_is_shown_to_the_last_digit_of_the_ledger(amount: float, text: str) -> None:
    assert epsilon_text(amount) == text


@pytest.mark.parametrize(
    ("confidence", "text"), [(0.95, "95"), (0.999, "99.9"), (0.5, "50"), (0.1, "10")]
)
def test_confidence_is_shown_in_percent(confidence: float, text: str) -> None:
    assert percent_text(confidence) == text


def test_progress_is_shown_on_a_terminal_and_wiped_afterwards() -> None:
    console = Console(out=io.StringIO(), err=Terminal())
    with console.progress("Attaching"):
        assert "Attaching" in console.err.getvalue()  # type: ignore[attr-defined]
    assert console.err.getvalue().endswith("\r\x1b[K")  # type: ignore[attr-defined]
    assert console.out.getvalue() == ""  # type: ignore[attr-defined]


def test_progress_is_silent_where_there_is_no_terminal() -> None:
    console = Console(out=io.StringIO(), err=io.StringIO())
    with console.progress("Attaching"):
        pass
    assert console.err.getvalue() == ""  # type: ignore[attr-defined]


def test_a_table_aligns_names_left_and_numbers_right() -> None:
    console = Console(out=io.StringIO(), err=io.StringIO())
    console.table(("name", "spent"), [("a", "1"), ("longer", "0.25")])
    assert console.out.getvalue().splitlines() == [  # type: ignore[attr-defined]
        "name    spent",
        "a        1",
        "longer   0.25",
    ]


class Told(Terminal):
    """A terminal that lets others wait until something is written."""

    def __init__(self) -> None:
        super().__init__()
        self.written = threading.Event()

    def write(self, text: str) -> int:
        n = super().write(text)
        self.written.set()
        return n


def test_what_takes_long_is_told_once_and_on_terminals_alone() -> None:
    to = Told()
    with telling_if_long("checking", to, after_s=0.0):
        assert to.written.wait(60)
    assert to.getvalue() == "checking\n"
    for quick, after_s in ((Told(), 10_000.0), (io.StringIO(), 0.0)):
        before = threading.active_count()
        with telling_if_long("checking", quick, after_s=after_s):
            is_waiting = threading.active_count() > before
        assert is_waiting == quick.isatty()
        assert quick.getvalue() == ""
