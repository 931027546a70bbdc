"""Consecutive periods of the calendar, as a domain file declares them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from qserver.errors import DomainError
from qserver.query.calendar.units import (
    EXAMPLES,
    LAST_YEAR,
    UNITS,
    Unit,
    first_day,
    last_day,
    number_in,
    number_of,
    text_of,
    why_none,
)


@dataclass(frozen=True)
class Periods:
    """`count` consecutive periods.

    Args:
        every: their unit.
        first: the first of them as ISO text.
        count: how many there are, >= 1; the last ends in year 9998, or with its last week.

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
    """What is wrong with a first period, or in which period a date lies."""
    day = number_in("day", text)
    if day is None:
        return why_none(unit, text)
    return f"{text} lies in {text_of(unit, number_of(unit, first_day('day', day)))}."


_LAST_DAY = last_day("year", LAST_YEAR).toordinal()
