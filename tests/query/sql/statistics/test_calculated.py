"""Numbers calculated from medians, extremes and deviations: exact without noise, and they hold."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qserver.errors import SqlError
from qserver.query.sql.functions.arithmetic import Moved, Total, widths_at_once
from qserver.query.sql.functions.function_of_sums import (
    Combination,
    Combined,
    FunctionOfSums,
    KnownPart,
)
from qserver.query.sql.functions.quantile import ByThresholds
from qserver.query.sql.parser import parse_statement
from qserver.query.sql.statistics.smooth_functions import combined_cells, order_asked
from tests.query.sql.people import DOMAIN, People

N, N_RUNS, CONFIDENCE = 30, 2000, 0.9
UNKNOWN = KnownPart(0.0, -math.inf, math.inf)
floats = st.floats(-1e6, 1e6)
factors = st.fractions(-1000, 1000, max_denominator=1000).filter(bool)


def cell_of(item: str, kept: str = "FROM people") -> Combined:
    """The cell of an item, told by all its sums at once."""
    text = f"SELECT {item} {kept} WITHIN 1 SIMULTANEOUS"
    [(_, _, cell)] = combined_cells(parse_statement(text, DOMAIN, dataset="people"))
    return cell


@pytest.mark.parametrize(
    ("item", "duck"),
    [
        ("MAX(age) - MIN(age)", "MAX(age) - MIN(age)"),
        ("2 * (MAX(age) - MIN(age)) + 1", "2 * (MAX(age) - MIN(age)) + 1"),
        ("-STDDEV(age) / 4 - 3", "-STDDEV(age) / 4 - 3"),
        ("10 - VAR_POP(age)", "10 - VAR_POP(age)"),
        ("STDDEV(age) + STDDEV_POP(age)", "STDDEV(age) + STDDEV_POP(age)"),
        ("ROUND(MAX(age) / 2, 1)", "MAX(age) / 2"),
        (
            "MAX(age) FILTER (WHERE income >= 10) - MIN(age)",
            "MAX(age) FILTER (WHERE income >= 10) - MIN(age)",
        ),
    ],
)
def test_without_noise_it_is_what_a_database_says(item: str, duck: str, people: People) -> None:
    kept = "FROM people WHERE region <> 'North'"
    cell = cell_of(item, kept)
    exact = [float(people.value(query)) for query in cell.queries]
    found = cell.function.value([KnownPart(e, e, e) for e in exact])
    [(truth,)] = people.duck(f"SELECT {duck} {kept}")
    assert found.estimate == pytest.approx(float(str(truth)), rel=1e-12)
    assert (found.low, found.high) == pytest.approx((found.estimate, found.estimate), rel=1e-9)


class Single(FunctionOfSums):
    """The sum itself."""

    stated_half_width = Fraction(1)

    def value(self, parts: Sequence[KnownPart]) -> Combination:
        return Combination(parts[0].estimate, parts[0].low, parts[0].high)


@given(floats, floats, factors, factors, st.floats(0, 1))
def test_an_interval_keeps_all_that_it_had(
    one: float, other: float, factor: Fraction, by: Fraction, at: float
) -> None:
    """By exact arithmetic on a value inside; ends are at most a float away."""
    low, high = sorted((one, other))
    inside = min(max(low + at * (high - low), low), high)
    found = Moved(Single(), factor, by).value([KnownPart(inside, low, high)])
    assert found.low <= Fraction(inside) * factor + by <= found.high
    ends = sorted((Fraction(low) * factor + by, Fraction(high) * factor + by))
    assert math.nextafter(found.low, math.inf) >= ends[0] >= found.low
    assert math.nextafter(found.high, -math.inf) <= ends[1] <= found.high
    both = Total(Single(), Single(), 1, 1).value([KnownPart(low, low, low), found_part(found)])
    assert both.low <= Fraction(low) + Fraction(found.low)
    assert both.high >= Fraction(low) + Fraction(found.high)


def found_part(found: Combination) -> KnownPart:
    assert found.estimate is not None
    return KnownPart(found.estimate, found.low, found.high)


def test_draws_are_calculated_with_as_the_number_is() -> None:
    """-2 times a deviation plus 1, and the sum of two deviations of other numbers."""
    cell = cell_of("1 - 2 * STDDEV_POP(age)")
    smooth = cell.function.smooth
    assert smooth is not None
    values = np.arange(20.0, 28.0)
    y = values - 23.5
    sums = np.array([[8.0], [y.sum()], [(y**2 - 3.5**2 / 2).sum()]])
    assert smooth.values(sums) == pytest.approx([1.0 - 2.0 * values.std()])
    assert (smooth.low, smooth.high) == pytest.approx((1.0 - 2.0 * 3.5, 1.0))
    both = cell_of("STDDEV_POP(age) + VAR_POP(age)").function.smooth
    assert both is not None
    expected = values.std() + values.var()
    assert both.values(np.concatenate([sums, sums])) == pytest.approx([expected])
    assert (both.low, both.high) == pytest.approx((0.0, 3.5 + 3.5**2))


def test_a_median_is_not_added_to_a_deviation() -> None:
    """One is told by the intervals of its counts, the other by draws of all errors."""
    with pytest.raises(SqlError, match="not calculate so with"):
        cell_of("MEDIAN(age) + STDDEV(age)")


def test_an_open_end_stays_open_at_the_side_that_it_moves_to() -> None:
    part = KnownPart(1.0, 1.0, math.inf)
    found = Moved(Single(), Fraction(-2), Fraction(1)).value([part])
    assert (found.low, found.high) == (-math.inf, -1.0)
    both = Total(Single(), Single(), 1, 1).value([part, UNKNOWN])
    assert (both.low, both.high) == (-math.inf, math.inf)


def test_the_length_that_is_asked_is_that_of_the_number_itself() -> None:
    """A third of a median within 1 is a median within 3; a sum of two shares the length."""
    values = tuple(map(Fraction, range(101)))
    median, least = (ByThresholds(p, values, values) for p in (Fraction(1, 2), Fraction(0)))

    def width(function: Moved | Total) -> float:
        [found] = set(widths_at_once(function, 1.0, 1000.0))
        return found

    assert width(Moved(median, Fraction(-1, 3), Fraction(9))) == 15.0
    assert width(Total(median, median, 101, 101)) == 2.5
    # WITHIN is about the counts behind an extreme, whatever is made of it.
    assert width(Moved(Total(least, least, 101, 101), Fraction(5), Fraction(0))) == 1.0


@pytest.mark.parametrize(
    ("item", "reason"),
    [
        ("MEDIAN(age) + COUNT(*)", "not calculate so with"),
        ("MEDIAN(age) * MEDIAN(age)", "not calculate so with"),
        ("STDDEV(age) - MIN(age)", "not calculate so with"),
        ("0 * MEDIAN(age)", "by zero"),
        ("MEDIAN(age) / 0", "by zero"),
        ("2 * MEDIAN(age) WITHIN 2 PERCENT", "in the units of the number"),
    ],
)
def test_what_has_no_interval_is_refused(item: str, reason: str) -> None:
    with pytest.raises(SqlError, match=reason):
        asked_of(f"SELECT {item} FROM people")


def asked_of(text: str) -> int:
    """How many numbers that are told by places in order a text asks for."""
    statement = parse_statement(text, DOMAIN, dataset="people")
    return len(order_asked(statement))
