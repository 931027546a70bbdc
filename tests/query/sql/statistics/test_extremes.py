"""Least and greatest values: what is sure of them, where all counts are asked at once too."""

from __future__ import annotations

import math
from datetime import date
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qserver.errors import SqlError
from qserver.query.calendar import Periods
from qserver.query.domain import Attribute, Domain
from qserver.query.linear_query import total_query
from qserver.query.sql.functions.function_of_sums import Combined, KnownPart
from qserver.query.sql.functions.quantile import DAYS_SAID, ByThresholds, Quantile, is_day
from qserver.query.sql.functions.thresholds import Bins, QuantileOf
from qserver.query.sql.parser import parse_statement
from qserver.query.sql.statistics.smooth_functions import combined_cells, order_asked
from tests.query.sql.at_most import at_most
from tests.query.sql.people import AGES, DOMAIN, People


def at_once(item: str, kept: str = "") -> Combined:
    text = f"SELECT {item} FROM people {kept} WITHIN 3 SIMULTANEOUS"
    [(_, _, cell)] = combined_cells(parse_statement(text, DOMAIN, dataset="people"))
    return cell


def function(item: str) -> ByThresholds:
    found = at_once(item).function
    assert isinstance(found, ByThresholds)
    return found


def known(counts: list[float], half: float) -> list[KnownPart]:
    return [KnownPart(d, d - half, d + half) for d in counts]


@pytest.mark.parametrize(("item", "p"), [("MIN(age)", 0), ("MAX(age)", 1)])
def test_an_extreme_is_asked_by_the_number_of_values_and_within_is_about_counts(
    item: str, p: int, people: People
) -> None:
    text = f"SELECT {item} FROM people WHERE region <> 'North' WITHIN 3"
    [row] = parse_statement(text, DOMAIN, dataset="people").rows
    [cell] = row.cells
    assert isinstance(cell, Combined)
    assert isinstance(cell.function, Quantile)
    assert (cell.function.of.p, cell.function.has_steps) == (p, False)
    [base] = cell.queries
    [(count,)] = people.duck("SELECT COUNT(*) FROM people WHERE region <> 'North'")
    assert people.value(base) == count


@pytest.mark.parametrize(("item", "duck"), [("MIN(age)", "<="), ("MAX(age)", ">=")])
def test_where_all_hold_at_once_it_is_asked_by_all_counts_from_its_end(
    item: str, duck: str, people: People
) -> None:
    cell = at_once(item, "WHERE region <> 'North'")
    sign = 1 if duck == "<=" else -1
    for age, query in zip(AGES, cell.queries, strict=True):
        [(count,)] = people.duck(
            f"SELECT COUNT(*) FROM people WHERE region <> 'North' AND age {duck} {age}"
        )
        assert people.value(query) == sign * int(str(count))
    text = f"SELECT {item} FROM people WITHIN 3 SIMULTANEOUS"
    asked = at_most(parse_statement(text, DOMAIN, dataset="people")).questions
    assert {q.requirement.length for q in asked} == {6.0}


@given(st.lists(st.sampled_from(AGES), min_size=1, max_size=9))
def test_without_noise_it_is_the_extreme_itself(ages: list[int]) -> None:
    """Whether somebody is beyond is left open all the same."""
    below = [float(sum(a <= v for a in ages)) for v in AGES]
    above = [-float(sum(a >= v for a in ages)) for v in AGES]
    least = function("MIN(age)").value(known(below, 0.0))
    assert (least.low, least.estimate, least.high) == (AGES[0], min(ages), min(ages))
    greatest = function("MAX(age)").value(known(above, 0.0))
    assert (greatest.low, greatest.estimate, greatest.high) == (max(ages), max(ages), AGES[-1])


def test_the_value_is_one_that_somebody_surely_reaches() -> None:
    """Counts of 2, 5 and 9 say nothing when they may be off by 10; one of 30 does."""
    counts = [2.0, 5.0, 9.0, 30.0, 50.0, 60.0, 61.0, 61.0]
    least = function("MIN(age)").value(known(counts, 10.0))
    assert (least.low, least.estimate, least.high) == (20, 23, 23)
    greatest = function("MAX(age)").value(known([-d for d in reversed(counts)], 10.0))
    assert (greatest.low, greatest.estimate, greatest.high) == (24, 24, 27)


def test_the_ends_are_those_of_bins() -> None:
    least = function("MIN(income)").value(known([0.0, 30.0, 60.0], 0.2))
    assert (least.low, least.estimate, least.high) == (0, 24, 24)
    greatest = function("MAX(income)").value(known([-60.0, -30.0, 0.0], 0.2))
    assert (greatest.low, greatest.estimate, greatest.high) == (10, 10, 59)


def test_without_a_record_there_is_no_value() -> None:
    found = function("MIN(age)").value(known([0.0] * 8, 5.0))
    assert (found.estimate, found.low, found.high) == (None, 20, 27)
    unknown = function("MAX(age)").value([KnownPart(0.0, -math.inf, math.inf)] * 8)
    assert (unknown.estimate, unknown.low, unknown.high) == (None, 20, 27)


@pytest.mark.parametrize("p", [0, 1])
def test_fewer_thresholds_stand_for_more_values_each(p: int) -> None:
    values = tuple(map(Fraction, range(100)))
    of = QuantileOf(Fraction(p), Bins(0, 100, values, values))
    queries, found = Quantile(of).at_once(total_query((100, 2)), 7)
    assert len(queries) == 7
    # One counts all values.
    assert {queries[p - 1].value_at((at, 0)) for at in (0, 99)} == {(-1) ** p}
    assert isinstance(found, ByThresholds)
    lows, highs = found.lows, found.highs
    assert [int(low) for low in lows[1:]] == [int(high) + 1 for high in highs[:-1]]
    assert (lows[0], highs[-1]) == (0, 99)


@pytest.mark.parametrize(
    ("item", "reason"),
    [
        ("MAX(region)", "have numbers there"),
        ("MIN(2 * age)", "one numeric attribute"),
        ("MAX(age, income)", "one attribute"),
        ("MIN(age) WITHIN 2 PERCENT", "in records"),
    ],
)
def test_what_is_no_extreme_of_an_attribute_is_refused(item: str, reason: str) -> None:
    with pytest.raises(SqlError, match=reason):
        order_asked(parse_statement(f"SELECT {item} FROM people", DOMAIN, dataset="people"))


def test_days_are_numbers_by_their_periods_first_days_and_alone_in_a_cell() -> None:
    day = Attribute("d", "date", periods=Periods("day", "2024-01-30", 3))
    week = Attribute("w", "period", periods=Periods("week", "2024-W05", 2))
    text = "SELECT MIN(d), MAX(w), MAX(d) - MIN(d), COUNT(*) FROM people WITHIN 3"
    found = parse_statement(text, Domain((day, week)), dataset="people")
    [row] = found.rows
    assert [is_day(cell) for cell in row.cells] == [True, True, False, False]
    assert found.remarks[0] == DAYS_SAID
    first = (date(2024, 1, 30) - date(1970, 1, 1)).days
    for cell, days in zip(
        row.cells, ((first, first + 1, first + 2), (first - 1, first + 6)), strict=False
    ):
        assert isinstance(cell, Combined)
        assert isinstance(cell.function, Quantile)
        assert cell.function.of.bins.lows == cell.function.of.bins.highs == days
    with pytest.raises(SqlError, match="`d` has none"):
        parse_statement("SELECT MEDIAN(d) FROM people", Domain((day, week)), dataset="people")
