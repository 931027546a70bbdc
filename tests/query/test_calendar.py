"""Periods of the calendar, held to `datetime.date` day by day, and the ends of conditions."""

from __future__ import annotations

from datetime import date, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qserver.errors import DomainError, QueryError
from qserver.query.calendar import (
    EXAMPLES,
    UNITS,
    Periods,
    Unit,
    first_day,
    last_day,
    longer,
    number_in,
    number_of,
    text_of,
    unit_of,
    why_none,
)
from qserver.query.domain import Attribute
from qserver.query.sealed_periods import range_between, range_from, range_up_to

DAYS = [date(1995, 1, 1) + timedelta(days=i) for i in range(365 * 40 + 10)]
units = st.sampled_from(UNITS)
days = st.dates(date(1000, 1, 6), date(9998, 12, 27))


def said(unit: Unit, day: date) -> str:
    """A day's period as text, from the fields of the day itself."""
    iso = day.isocalendar()
    quarter = {1: 1, 2: 1, 3: 1, 4: 2, 5: 2, 6: 2, 7: 3, 8: 3, 9: 3, 10: 4, 11: 4, 12: 4}
    return {
        "day": str(day),
        "week": f"{iso.year}-W{iso.week:02}",
        "month": f"{day:%Y-%m}",
        "quarter": f"{day.year}-Q{quarter[day.month]}",
        "year": f"{day.year}",
    }[unit]


@pytest.mark.parametrize("unit", UNITS)
def test_forty_years_of_days_are_in_the_periods_that_datetime_says(unit: Unit) -> None:
    for day in DAYS:
        number = number_of(unit, day)
        assert text_of(unit, number) == said(unit, day)
        assert first_day(unit, number) <= day <= last_day(unit, number)


@pytest.mark.parametrize("unit", UNITS)
def test_numbers_follow_each_other_exactly_where_the_text_changes(unit: Unit) -> None:
    for day, following in pairwise(DAYS):
        step = number_of(unit, following) - number_of(unit, day)
        assert step == (said(unit, following) != said(unit, day))


@given(units, days)
def test_text_of_a_period_is_read_back_as_its_number(unit: Unit, day: date) -> None:
    number = number_of(unit, day)
    assert number_in(unit, text_of(unit, number)) == number
    assert unit_of(text_of(unit, number)) == unit


def test_week_belongs_to_the_month_quarter_and_year_of_its_thursday() -> None:
    for monday in (day for day in DAYS if day.weekday() == 0):
        week = number_of("week", monday)
        for unit in ("month", "quarter", "year"):
            assert text_of(unit, longer("week", week, unit)) == said(
                unit, monday + timedelta(days=3)
            )


@pytest.mark.parametrize(
    ("unit", "text", "reason"),
    [
        ("week", "2023-W53", "The last week of 2023 is 2023-W52."),
        ("week", "2020-W54", "The last week of 2020 is 2020-W53."),
        ("week", "2024-W00", "The last week of 2024 is 2024-W52."),
        ("day", "2023-02-29", "The calendar has no 2023-02-29."),
        ("month", "2024-13", "The calendar has no 2024-13."),
        ("quarter", "2024-Q5", "The calendar has no 2024-Q5."),
        ("year", "0999", "Years are 1000 to 9998."),
        ("week", "9999-W01", "Years are 1000 to 9998."),
        ("week", "2024-10", ""),
        ("week", "2024-W1", ""),
        ("week", "2024-W10 ", ""),
        ("day", "٢٠٢٤-01-01", ""),
    ],
)
def test_text_that_names_no_period_says_why(unit: Unit, text: str, reason: str) -> None:
    assert number_in(unit, text) is None
    assert why_none(unit, text) == reason


@pytest.mark.parametrize("unit", UNITS)
def test_periods_may_end_with_the_last_year_and_not_later(unit: Unit) -> None:
    start = number_of(unit, date(9990, 1, 4))
    most = number_of(unit, date(9998, 12, 31)) - start + 1
    periods = Periods(unit, text_of(unit, start), most)
    assert date.fromordinal(periods.edges[-1]) >= date(9999, 1, 1)
    with pytest.raises(DomainError, match=f"`count` must be at most {most:,}, so that"):
        Periods(unit, text_of(unit, start), most + 1)


def attribute(unit: Unit = "week", first: str = "2024-W10", count: int = 52) -> Attribute:
    return Attribute("t", "period", periods=Periods(unit, first, count))


@given(units, days, st.integers(1, 400), st.integers(-500, 500), st.integers(0, 900))
def test_range_of_dates_holds_the_periods_whose_days_all_lie_within(
    unit: Unit, begin: date, count: int, offset: int, length: int
) -> None:
    """By brute force over days, or refused because a period lies in part within."""
    start = min(number_of(unit, begin), number_of(unit, date(9998, 12, 1)) - count)
    periods = Periods(unit, text_of(unit, start), count)
    low = date.fromordinal(max(1, min(first_day(unit, start).toordinal() + offset, 3_652_059)))
    high = date.fromordinal(min(low.toordinal() + length, 3_652_059))
    inside = []
    for i, (one, end) in enumerate(pairwise(periods.edges)):
        n = max(0, min(end, high.toordinal() + 1) - max(one, low.toordinal()))
        inside += [(i, n == end - one)] if n else []
    found = Attribute("t", "period", periods=periods)
    if all(whole for _, whole in inside):
        indexes = range_between(found, low, high, name="t")
        assert list(indexes) == [i for i, _ in inside]
    else:
        with pytest.raises(QueryError, match=r"must not cut through a period of `t`.* lies in"):
            range_between(found, low, high, name="t")


def test_ends_are_labels_dates_and_longer_periods_that_begin_or_end_one() -> None:
    weeks = attribute()
    assert (
        range_from(weeks, "2024-W10", name="t").start
        == range_from(weeks, "2024-03-04", name="t").start
        == 0
    )
    assert (
        range_up_to(weeks, "2024-W10", name="t", after=True).stop
        == range_up_to(weeks, "2024-03-10", name="t", after=True).stop
    )
    assert (
        range_up_to(weeks, "2024-06-30", name="t", after=True).stop
        == range_up_to(weeks, "2024-Q2", name="t", after=True).stop
    )
    assert range_from(weeks, "2024-04", name="t").start == 4
    assert (
        range_from(weeks, "1900-01-01", name="t").start
        == range_from(weeks, "0001-01-01", name="t").start
    )
    assert range_from(weeks, "9999-12-31", name="t").start == 52
    assert range_from(attribute("year", "2020", 9), 2024, name="t").start == 4
    days_ = attribute("day", "2024-03-01", 60)
    assert range_between(days_, "2024-03", "2024-03", name="t") == range(31)


@pytest.mark.parametrize(
    ("end", "message"),
    [
        ("2024-03-06", "2024-03-06 lies in 2024-W10, 2024-03-04 to 2024-03-10. Name that week, or"),
        ("2023-W53", "be a week such as 2024-W10, or a date such as 2024-03-01, got '2023-W53'"),
        ("2024-W3", "be a week such as 2024-W10"),
        (None, "be a week such as 2024-W10"),
        (True, "be a week such as 2024-W10"),
        (5, "be a week such as 2024-W10"),
        ([], "be a week such as 2024-W10"),
    ],
)
def test_end_that_is_none_or_cuts_a_period_is_refused_with_the_place(
    end: object, message: str
) -> None:
    with pytest.raises(QueryError) as caught:
        range_from(attribute(), end, name="t")
    assert message in str(caught.value)


def test_labels_without_a_calendar_are_ordered_as_declared() -> None:
    waves = Attribute("t", "period", ("spring", "autumn", "winter"))
    assert range_between(waves, "spring", "autumn", name="t") == range(2)
    with pytest.raises(QueryError, match=r"`t` must have low <= high"):
        range_between(waves, "winter", "autumn", name="t")
    with pytest.raises(QueryError, match=r"be a label of `t`, got '2024'. Labels: spring, autumn,"):
        range_from(waves, "2024", name="t")


def test_example_of_every_unit_is_a_period_of_it() -> None:
    assert all(number_in(unit, EXAMPLES[unit]) is not None for unit in UNITS)
