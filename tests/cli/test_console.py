"""Numbers and progress as people see them."""

from __future__ import annotations

import io
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qserver.cli.console import Console, epsilon_text, interval_text, percent_text


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
    assert plain(text.high) - plain(text.low) <= true_length * Decimal("1.01")


def test_an_interval_of_length_100_is_shown_to_hundredths_at_most() -> None:
    text = interval_text(estimate=2720.123456, low=2670.1299, high=2770.1201)
    assert (text.estimate, text.low, text.high) == ("2,720.12", "2,670.12", "2,770.13")


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
        "a           1",
        "longer   0.25",
    ]
