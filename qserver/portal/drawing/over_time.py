"""Numbers over time, as lines with the band of their intervals.

Places are percent of the width from the left and of the height from the top; those of lines and
bands, which are stretched to that size, are thousandths.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from qserver.answering.plots.ticks import nice_ticks
from qserver.portal import words
from qserver.portal.drawing.whiskers import Scale
from qserver.query.sql.statement import Course, Row
from qserver.text import group_texts

MOST_PANELS = 12
_MOST_TICKS = 10
# A phone has room for about a third of the names.
_ON_A_PHONE = 3
_MOST_LETTERS = 12

Number = tuple[float | None, float | None, float | None]
"""An estimate and both ends of its interval; None for none."""


@dataclass(frozen=True)
class Tick:
    """A mark of an axis; `is_minor` where a narrow drawing leaves it out."""

    at: float
    text: str
    is_minor: bool = False


@dataclass(frozen=True)
class Dot:
    """One period's number: its place, and what it says."""

    x: float
    y: float
    text: str


@dataclass(frozen=True)
class Run:
    """Periods that follow each other without a gap, as points of a line and corners of its band.

    `is_single` where there is one period alone, whose band is a line from end to end.
    """

    line: str
    band: str
    is_single: bool


@dataclass(frozen=True)
class Panel:
    """The line of one group; `name` is '' where there is one line alone."""

    name: str
    text: str
    dots: tuple[Dot, ...]
    runs: tuple[Run, ...]


@dataclass(frozen=True)
class OverTime:
    """The drawing of a column: panels of equal axes, and how many groups have none."""

    panels: tuple[Panel, ...]
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    n_hidden: int

    @property
    def is_broken(self) -> bool:
        """Whether any line has a gap."""
        return any(len(panel.runs) != 1 for panel in self.panels)


def over_time(
    column: str,
    course: Course,
    rows: Sequence[Row],
    numbers: Sequence[Number],
) -> OverTime | None:
    """The drawing of a column of a table, or None where no group has two periods.

    Args:
        course: which part of a group is its period.
        rows, numbers: of each group; those of all periods together are left out, and totals
            beside their parts.
    """
    place = {name: i for i, name in enumerate(course.names)}
    series: dict[Row, dict[int, Number]] = {}
    for row, number in zip(rows, numbers, strict=True):
        period = row.group[course.group]
        if period in place:
            series.setdefault(_without(row, course.group), {})[place[period]] = number
    parts = {rest: line for rest, line in series.items() if not rest.together}
    # Totals beside their parts would press these against the axis.
    drawn = list((parts or series).items())
    shown = drawn[:MOST_PANELS]
    if max((len(line) for _, line in shown), default=0) < 2:
        return None
    used = sorted({i for _, line in shown for i in line})
    scale = _scale([number for _, line in shown for number in line.values()])
    frame = _Frame(used[0], used[-1], scale, course.names[used[0] : used[-1] + 1])
    return OverTime(
        tuple(_panel(column, rest, line, frame) for rest, line in shown),
        frame.x_ticks,
        frame.y_ticks,
        len(drawn) - len(shown),
    )


@dataclass(frozen=True)
class _Frame:
    first: int
    last: int
    scale: Scale
    names: tuple[str, ...]

    def x(self, i: int) -> float:
        """The place of the i-th period."""
        return round(100 * (i - self.first) / (self.last - self.first), 2)

    def y(self, value: float) -> float:
        """The place of a value."""
        return round(100 - self.scale.place(value) / 10, 2)

    @property
    def x_ticks(self) -> tuple[Tick, ...]:
        """Names of periods, evenly apart."""
        step = -(-len(self.names) // _MOST_TICKS)
        return tuple(
            Tick(self.x(self.first + i), _short(name), bool(i % (step * _ON_A_PHONE)))
            for i, name in enumerate(self.names)
            if i % step == 0
        )

    @property
    def y_ticks(self) -> tuple[Tick, ...]:
        """Round values."""
        found = nice_ticks(self.scale.low, self.scale.high, most=6)
        return tuple(
            Tick(self.y(v), text) for v, text in zip(found.values, found.texts, strict=True)
        )


def _scale(numbers: Sequence[Number]) -> Scale:
    """Room for all intervals, and for zero where that takes at most half of the height."""
    ends = [end for number in numbers for end in number if end is not None]
    low, high = min(ends, default=0.0), max(ends, default=0.0)
    with_zero = min(low, 0.0) < 0 or low <= high / 2
    return Scale.of(ends, with_zero=with_zero)


def _without(row: Row, k: int) -> Row:
    """The group without its k-th value, and without numbers."""
    rest = (*row.group[:k], *row.group[k + 1 :])
    return Row(rest, (), tuple(i - (i > k) for i in row.together if i != k))


def _panel(column: str, rest: Row, line: dict[int, Number], frame: _Frame) -> Panel:
    known = sorted((i, number) for i, number in line.items() if number[0] is not None)
    name = ", ".join(group_texts(rest.group, rest.together))
    dots = tuple(
        Dot(frame.x(i), frame.y(number[0] or 0.0), f"{_name(i, frame)}: {_said(number)}")
        for i, number in known
    )
    about = f"{column} of {name}" if name else column
    text = f"{about} over time: nothing is known yet"
    if known:
        ends = [f"{_said(number)} in {_name(i, frame)}" for i, number in (known[0], known[-1])]
        text = f"{about} over time: {' to '.join(dict.fromkeys(ends))}"
    return Panel(name, text, dots, tuple(_runs(known, frame)))


def _runs(known: Sequence[tuple[int, Number]], frame: _Frame) -> Iterator[Run]:
    """What follows without a gap."""
    cuts = [k + 1 for k, (a, b) in enumerate(pairwise(known)) if b[0] != a[0] + 1]
    for start, stop in pairwise([0, *cuts, len(known)]):
        part = known[start:stop]
        if part:
            yield _run(part, frame)


def _run(part: Sequence[tuple[int, Number]], frame: _Frame) -> Run:
    line, upper, lower = [], [], []
    for i, (estimate, low, high) in part:
        x = 10 * frame.x(i)
        line.append(_corner(x, frame.y(estimate or 0.0)))
        upper.append(_corner(x, 0.0 if high is None else frame.y(high)))
        lower.append(_corner(x, 100.0 if low is None else frame.y(low)))
    return Run(" ".join(line), " ".join([*upper, *reversed(lower)]), len(part) == 1)


def _corner(x: float, y: float) -> str:
    return f"{round(x, 1):g},{round(10 * y, 1):g}"


def _name(i: int, frame: _Frame) -> str:
    return frame.names[i - frame.first]


def _said(number: Number) -> str:
    """`123, 110 to 130`."""
    estimate, low, high = number
    decimals = words.decimals_for(high - low) if low is not None and high is not None else 2
    ends = (
        "no lower end" if low is None else words.low_end(low, decimals),
        "no upper end" if high is None else words.high_end(high, decimals),
    )
    return f"{words.number(estimate or 0.0, decimals)}, {ends[0]} to {ends[1]}"


def _short(name: str) -> str:
    return name if len(name) <= _MOST_LETTERS else f"{name[: _MOST_LETTERS - 1]}…"
