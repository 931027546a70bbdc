"""One period of the calendar as a whole number, and as ISO text.

The periods of a unit are numbered so that the next one has the next number. Weeks begin on Monday
(ISO 8601). A week belongs to the month, quarter and year of its Thursday, the other units to
those of their first day.
"""

from __future__ import annotations

import re
from datetime import date, timedelta
from typing import Literal, get_args

Unit = Literal["day", "week", "month", "quarter", "year"]

UNITS: tuple[Unit, ...] = get_args(Unit)  # from short to long
EXAMPLES: dict[Unit, str] = {
    "day": "2024-03-01",
    "week": "2024-W10",
    "month": "2024-03",
    "quarter": "2024-Q1",
    "year": "2024",
}
# Each has four digits, and so has the year after it.
FIRST_YEAR, LAST_YEAR = 1000, 9998

_SHAPES: dict[Unit, re.Pattern[str]] = {
    "day": re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})"),
    "week": re.compile(r"([0-9]{4})-W([0-9]{2})"),
    "month": re.compile(r"([0-9]{4})-([0-9]{2})"),
    "quarter": re.compile(r"([0-9]{4})-Q([0-9])"),
    "year": re.compile(r"([0-9]{4})"),
}
_A_WEEK, _TO_THURSDAY = 7, timedelta(days=3)


def number_of(unit: Unit, day: date) -> int:
    """The number of the period that holds a day."""
    match unit:
        case "day":
            return day.toordinal()
        case "week":
            return (day.toordinal() - 1) // _A_WEEK  # the first day of year 1 was a Monday
        case "month":
            return 12 * day.year + day.month - 1
        case "quarter":
            return 4 * day.year + (day.month - 1) // 3
        case "year":
            return day.year


def first_day(unit: Unit, number: int) -> date:
    """The first day of a period; ValueError or OverflowError outside years 1 to 9999."""
    match unit:
        case "day":
            return date.fromordinal(number)
        case "week":
            return date.fromordinal(_A_WEEK * number + 1)
        case "month":
            return date(number // 12, number % 12 + 1, 1)
        case "quarter":
            return date(number // 4, number % 4 * 3 + 1, 1)
        case "year":
            return date(number, 1, 1)


def last_day(unit: Unit, number: int) -> date:
    """The last day of a period."""
    return first_day(unit, number + 1) - timedelta(days=1)


def text_of(unit: Unit, number: int) -> str:
    """A period as ISO text: `2024-03-01`, `2024-W10`, `2024-03`, `2024-Q1`, `2024`."""
    day = first_day(unit, number)
    match unit:
        case "day":
            return day.isoformat()
        case "week":
            year, week, _ = day.isocalendar()
            return f"{year:04}-W{week:02}"
        case "month":
            return f"{day.year:04}-{day.month:02}"
        case "quarter":
            return f"{day.year:04}-Q{number % 4 + 1}"
        case "year":
            return f"{day.year:04}"


def unit_of(text: str) -> Unit | None:
    """The unit that a text is written in, whether or not there is such a period."""
    return next((unit for unit, shape in _SHAPES.items() if shape.fullmatch(text)), None)


def number_in(unit: Unit, text: str) -> int | None:
    """The number of the period that ISO text names, or None if there is none in these years."""
    found = _SHAPES[unit].fullmatch(text)
    if found is None:
        return None
    year, *parts = map(int, found.groups())
    if not FIRST_YEAR <= year <= LAST_YEAR:
        return None
    try:
        day = _begin(unit, year, parts)
    except ValueError:
        return None
    return number_of(unit, day)


def why_none(unit: Unit, text: str) -> str:
    """A sentence that says why text names no period of the unit; '' where its form does."""
    found = _SHAPES[unit].fullmatch(text)
    if found is None:
        return ""
    year = int(found[1])
    if not FIRST_YEAR <= year <= LAST_YEAR:
        return f"Years are {FIRST_YEAR} to {LAST_YEAR}."
    if unit == "week":
        return f"The last week of {year:04} is {last_week(year)}."
    return f"The calendar has no {text}."


def last_week(year: int) -> str:
    """The last ISO week of a year: the 28th of December is always in it."""
    return text_of("week", number_of("week", date(year, 12, 28)))


def longer(unit: Unit, number: int, to: Unit) -> int:
    """The number of the longer period that a period belongs to."""
    day = first_day(unit, number)
    return number_of(to, day + _TO_THURSDAY if unit == "week" else day)


def _begin(unit: Unit, year: int, parts: list[int]) -> date:
    match unit:
        case "day":
            return date(year, parts[0], parts[1])
        case "week":
            return date.fromisocalendar(year, parts[0], 1)
        case "month":
            return date(year, parts[0], 1)
        case "quarter":
            return date(year, 3 * parts[0] - 2, 1)
        case "year":
            return date(year, 1, 1)
