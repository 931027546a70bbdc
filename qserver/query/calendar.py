"""Periods of the calendar as whole numbers and as ISO text, and their refusals.

The periods of a unit are numbered so that the next one has the next number. Weeks begin on Monday
(ISO 8601). A week belongs to the month, quarter and year of its Thursday, the other units to
those of their first day.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cached_property
from typing import Any, Literal, get_args

from qserver.errors import DomainError, InputError, QServerError

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
    """The unit of a text's form, even if there is no such period."""
    return next((unit for unit, shape in _SHAPES.items() if shape.fullmatch(text)), None)


def number_in(unit: Unit, text: str) -> int | None:
    """The number of the period that ISO text names, or None."""
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
    """A sentence why a text names no period of the unit; '' if its form is right."""
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


@dataclass(frozen=True)
class Periods:
    """`count` consecutive periods.

    Args:
        every: their unit.
        first: the first of them as ISO text.
        count: their number, >= 1; the last ends in year 9998, or with its last week.

    Raises:
        DomainError: one of these is wrong; the message names the field.
    """

    every: Unit
    first: str
    count: int

    def __post_init__(self) -> None:
        if not isinstance(self.every, str) or self.every not in UNITS:
            choices = ", ".join(f"`{unit}`" for unit in UNITS)
            raise DomainError("every", f"be one of {choices}", self.every)
        if not isinstance(self.first, str) or number_in(self.every, self.first) is None:
            raise DomainError(
                "first",
                f"be a {self.every} such as {EXAMPLES[self.every]}",
                self.first,
                hint=_mended(self.every, self.first) if isinstance(self.first, str) else "",
            )
        if not isinstance(self.count, int) or isinstance(self.count, bool) or self.count < 1:
            raise DomainError("count", "be a whole number of 1 or more", self.count)
        room = self._most
        if self.count > room:
            raise DomainError(
                "count",
                f"be at most {room:,}, so that the periods end with {LAST_YEAR}",
                self.count,
            )

    @cached_property
    def start(self) -> int:
        """The number of the first period in its unit."""
        number = number_in(self.every, self.first)
        if number is None:
            raise DomainError("first", "be a period", self.first)
        return number

    @property
    def _most(self) -> int:
        return number_of(self.every, first_day("day", _LAST_DAY)) - self.start + 1

    @cached_property
    def texts(self) -> tuple[str, ...]:
        """The periods as ISO texts, in order."""
        return tuple(text_of(self.every, self.start + i) for i in range(self.count))

    @cached_property
    def edges(self) -> tuple[int, ...]:
        """The first day of every period and of the one after the last, by `date.toordinal`."""
        numbers = range(self.start, self.start + self.count + 1)
        return tuple(first_day(self.every, n).toordinal() for n in numbers)

    @property
    def span(self) -> str:
        """The first and the last period in words."""
        return f"{self.first} to {text_of(self.every, self.start + self.count - 1)}"

    def days_of(self, i: int) -> str:
        """The first and the last day of the period at index `i`, in words."""
        number = self.start + i
        ends = (first_day(self.every, number), last_day(self.every, number))
        return " to ".join(day.isoformat() for day in ends)


def _mended(unit: Unit, text: str) -> str:
    """The fault of a first period, or the period that holds a date."""
    day = number_in("day", text)
    if day is None:
        return why_none(unit, text)
    return f"{text} lies in {text_of(unit, number_of(unit, first_day('day', day)))}."


_LAST_DAY = last_day("year", LAST_YEAR).toordinal()


class PeriodNotSealedError(InputError):
    """A question about a period without data yet.

    Args:
        last: the last sealed period; '' for none.
    """

    code = "period_not_sealed"

    def __init__(self, name: str, value: object = ..., *, last: str = "") -> None:
        self.last = last
        hint = f"The last sealed one is {last}." if last else "No period is sealed yet."
        super().__init__(name, "name periods that are sealed", value, hint=hint)


class PeriodRetiredError(QServerError):
    """An answer would need fresh noise about erased periods.

    Args:
        attribute: the attribute of periods.
        first_kept: the first period whose records are kept.
    """

    code = "period_retired"
    kept = ("attribute", "first_kept")

    def __init__(self, *, attribute: str, first_kept: str) -> None:
        self.attribute, self.first_kept = attribute, first_kept
        # The best interval that costs nothing, or None; of a workload a tuple of these.
        self.free: Any = None
        super().__init__(
            f"The records before {first_kept} are erased, so nothing more is measured about them. "
            f"Ask about `{attribute}` from {first_kept} on, or for an interval so long that what "
            "was released suffices."
        )
