"""Numbers as people read them. Intervals are rounded outward, never inward."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Decimal

from qserver.query.asking.after_looking import chosen_text
from qserver.query.asking.method_and_prior import reading_text
from qserver.records.answer import Answer, DatasetStatus
from qserver.records.statement import Statement
from qserver.text import (
    ADDS_NOTHING,
    LookedNumber,
    aligned,
    at_delta,
    cost_text,
    decimals_of,
    epsilon_text,
    law_text,
    laws_text,
    left_text,
    looking_text,
    part_text,
)

NANO = 10**9
_MOST_DECIMALS = 9


def decimals_for(length: float) -> int:
    """The decimals to which both ends of an interval of this length may be rounded outward.

    As `decimals_of` says: two significant digits of half the length, three where these begin with
    1. Negative for tens and more.
    """
    if not (math.isfinite(length) and length > 0):
        return _MOST_DECIMALS
    return min(_MOST_DECIMALS, decimals_of(length))


def low_end(value: float, decimals: int) -> str:
    """The lower end of an interval, rounded down: `12,290`."""
    return _rounded(value, decimals, ROUND_FLOOR)


def high_end(value: float, decimals: int) -> str:
    """The upper end of an interval, rounded up."""
    return _rounded(value, decimals, ROUND_CEILING)


def number(value: float, decimals: int = 0) -> str:
    """A number with thousands set apart: `12,340`; negative decimals round to tens and more."""
    return _rounded(value, decimals, ROUND_HALF_EVEN)


def in_line(texts: Sequence[str]) -> list[str]:
    """Texts of a right-aligned column whose decimal points stand in one line.

    A figure space is as wide as a digit, a punctuation space as a point. Of intervals the upper
    ends count.
    """
    ends = [text.rpartition(" ") for text in texts]
    last = aligned([end for _, _, end in ends], point="\u2008", digit="\u2007")
    return [before + blank + end for (before, blank, _), end in zip(ends, last, strict=True)]


def plain(value: float) -> str:
    """A number in few digits, as a form takes it back: `100`, `0.25`."""
    return f"{value:.12g}"


def epsilon(nano: float) -> str:
    """Epsilon in four significant digits at most: `0.05991`, `0`."""
    return cost_text(nano / NANO)


def exactly(nano: float) -> str:
    """Epsilon to the last digit of the ledger: `0.059914647`."""
    return epsilon_text(nano / NANO)


def price(nano: float, *, is_free: bool = False) -> str:
    """A price: `0.05991 ε`, `free`, or that the largest loss stays as it is."""
    if is_free:
        return "free"
    return f"{epsilon(nano)} ε" if nano else ADDS_NOTHING


def cost(nano: int, *, is_free: bool) -> str:
    """The charge: `cost 0.05991`, `cost nothing`, or that the largest loss stayed as it was.

    Args:
        is_free: whether nobody was charged.
    """
    if is_free:
        return "cost nothing"
    return f"cost {epsilon(nano)}" if nano else "added nothing to the largest loss"


def epsilon_left(nano: float) -> str:
    """The budget left, rounded down, so that the page promises no more."""
    return left_text(nano / NANO)


def delta_of(dataset: DatasetStatus) -> str:
    """The delta behind the first `ε` of a dataset's page; '' under pure privacy."""
    return at_delta(dataset.delta)


def percent(part: float) -> str:
    """A probability as a percentage, rounded down, never up to certainty: `95`, `99.99`."""
    decimals = 4 if part < 0.999 else 9
    exact = Decimal(repr(part)) * 100
    text = f"{exact.quantize(Decimal(1).scaleb(-decimals), rounding=ROUND_FLOOR):f}"
    return text.rstrip("0").rstrip(".")


def probability(value: float) -> str:
    """A probability in three digits; 0 or 1 only where exact: `0.873`, `< 0.001`."""
    if 0 < value < 0.001:
        return "less than 0.001"
    if 0.999 < value < 1:
        return "more than 0.999"
    return f"{value:.3f}"


def moment(at: int | None) -> str:
    """A Unix time in whole seconds, in UTC: `2026-01-31 12:00:05`."""
    return "never" if at is None else datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S")


def days(value: float) -> str:
    """A number of days, in the unit that fits."""
    if value < 2:
        return f"{value * 24:.0f} hours"
    return f"{value:.0f} days" if value < 730 else f"{value / 365.25:.0f} years"


def interval_words(low: float, high: float, confidence: float) -> str:
    """`between 12,290 and 12,390 with 95 percent confidence`."""
    decimals = decimals_for(high - low)
    ends = f"between {low_end(low, decimals)} and {high_end(high, decimals)}"
    return f"{ends} with {percent(confidence)} percent confidence"


def looking(numbers: Sequence[LookedNumber], *, n: int) -> str:
    """What holds for each of n numbers, for all at once and for the largest; '' if unknown."""
    return looking_text(numbers, n=n).replace("+-", "±").replace("-", "−")


def answer_words(answer: Answer, *, charged_nano: int) -> str:
    """An answer in a sentence: the interval, what it cost, what remains."""
    if answer.source == "exact":
        return f"Exactly {number(answer.estimate)}: no record can change it, so it costs nothing."
    said = cost(charged_nano, is_free=not charged_nano and answer.source == "history")
    interval = interval_words(answer.low, answer.high, answer.confidence)
    left = epsilon_left(answer.remaining_nano)
    chosen = chosen_text(answer.selected_from)
    return f"{interval[0].upper()}{interval[1:]}{chosen}; {said}; remaining {left}."


def _rounded(value: float, decimals: int, rounding: str) -> str:
    if not math.isfinite(value):
        return "unbounded"
    places = Decimal(1).scaleb(-decimals)
    return f"{Decimal(value).quantize(places, rounding=rounding) + 0:,f}"


def statement(found: Statement) -> str:
    """The law behind an interval: `the posterior given 2 disagreements, within 0.0004`."""
    read = reading_text(found.method, step=found.step, draws=found.draws, prior=found.prior)
    if not read:
        return _law(found)
    frequency = "; a Bayesian statement, and no frequency" if found.prior else ""
    return f"{_law(found)}; {read}, each probability within {part_text(found.error)}{frequency}"


def _law(found: Statement) -> str:
    if found.law == "exact":
        return "exact"
    said = law_text(found.law, error=found.error, disagreements=found.disagreements)
    return said or "the posterior; nothing that was released disagrees"


def laws(found: Sequence[Statement]) -> str:
    """The laws behind a table's intervals, in one line; '' if as usual."""
    return laws_text(
        [one.law for one in found],
        error=max((one.error for one in found), default=0.0),
        disagreements=max((one.disagreements for one in found), default=0),
    )
