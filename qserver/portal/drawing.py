"""Where the parts of a page's drawings stand. Pixels and style are the page's.

*A bar with its error bar*: places on a line from 0 to 1,000. *The heat map of losses*: which values
of which attributes have lost most. *Numbers over time*: lines with the band of their intervals.
There places are percent of the width from the left and of the height from the top; those of lines
and bands, which are stretched to that size, are thousandths.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from qserver.answering.plots.chart import nice_ticks
from qserver.portal import numbers
from qserver.query.sql.statement import Course, Row
from qserver.text import group_texts

WIDTH = 1000.0
_MARGIN = 0.01


@dataclass(frozen=True)
class Whisker:
    """A value with its interval, drawn on a scale that a column shares.

    Args:
        bar: start and length of the bar from zero, or None where zero is off the scale.
        low, high: ends of the interval on the scale; cut off where it goes beyond.
        at: place of the estimate, or None.
    """

    bar: tuple[float, float] | None
    low: float
    high: float
    at: float | None

    @property
    def length(self) -> float:
        """The interval's length, at least 2 so that it stays visible."""
        return max(2.0, self.high - self.low)


@dataclass(frozen=True)
class Scale:
    """The values from `low` to `high`, low < high, on the line."""

    low: float
    high: float

    @classmethod
    def of(cls, values: Iterable[float | None], *, with_zero: bool) -> Scale:
        """A scale with room for all finite values, and for zero where bars start there."""
        finite = [v for v in values if v is not None and math.isfinite(v)]
        finite += [0.0] if with_zero or not finite else []
        low, high = min(finite), max(finite)
        room = _MARGIN * ((high - low) or abs(high) or 1.0)
        return cls(low if with_zero and low == 0 else low - room, high + room)

    @property
    def zero(self) -> float | None:
        """The place of zero; None off the scale."""
        return self.place(0.0) if self.low <= 0 <= self.high else None

    def place(self, value: float) -> float:
        """The place of a value; off the scale, the nearer end."""
        inside = min(max(value, self.low), self.high)
        return round(WIDTH * (inside - self.low) / (self.high - self.low), 2)

    def whisker(
        self, estimate: float | None, low: float | None, high: float | None, *, with_bar: bool
    ) -> Whisker:
        """Place a value with its interval; an open end (None) is drawn to the edge."""
        at = None if estimate is None else self.place(estimate)
        bar = None
        if at is not None and with_bar and self.zero is not None:
            bar = (min(at, self.zero), abs(at - self.zero))
        ends = (
            0.0 if low is None else self.place(low),
            WIDTH if high is None else self.place(high),
        )
        return Whisker(bar, *ends, at)


def whiskers(
    values: Sequence[tuple[float | None, float | None, float | None]], *, with_zero: bool
) -> tuple[Scale, list[Whisker]]:
    """A shared scale, and each (estimate, low, high) on it."""
    scale = Scale.of((v for value in values for v in value), with_zero=with_zero)
    return scale, [scale.whisker(*value, with_bar=with_zero) for value in values]


N_SHADES = 9
MAX_CELLS = 60


@dataclass(frozen=True)
class HeatCell:
    """One or more neighbouring values of an attribute.

    Args:
        label: the value, or the first and the last.
        loss_nano: the largest loss of a cell with one of them.
        shade: from 0 (nothing) to 9 (the top).
    """

    label: str
    loss_nano: int
    shade: int


def heat_cells(
    names: Sequence[str], losses_nano: Sequence[int], *, low_nano: int, top_nano: int
) -> tuple[HeatCell, ...]:
    """At most 60 cells for an attribute's values in order; joined neighbours show their maximum.

    Args:
        names, losses_nano: per value.
        low_nano, top_nano: what the lightest and the deepest shade stand for.
    """
    size = -(-len(names) // MAX_CELLS)
    cells = []
    for start in range(0, len(names), size):
        group = names[start : start + size]
        loss = max(losses_nano[start : start + size])
        label = group[0] if len(group) == 1 else f"{group[0]} – {group[-1]}"
        cells.append(HeatCell(label, loss, shade(loss, low_nano, top_nano)))
    return tuple(cells)


def shade(loss_nano: int, low_nano: int, top_nano: int) -> int:
    """The shade of a loss: 0 for no loss, else 1 to 9 in equal parts from the least to the top.

    Relative to the spread it still tells losses apart when all of them are large.
    """
    if loss_nano <= 0:
        return 0
    if top_nano <= low_nano:
        return N_SHADES
    return min(N_SHADES, 1 + (loss_nano - low_nano) * N_SHADES // (top_nano - low_nano))


@dataclass(frozen=True)
class HeatRow:
    """An attribute's row of the heat map."""

    attribute: str
    cells: tuple[HeatCell, ...]
    loss_nano: int

    @property
    def worst(self) -> HeatCell:
        """The cell of the largest loss."""
        return max(self.cells, key=lambda cell: cell.loss_nano)


@dataclass(frozen=True)
class HeatMap:
    """The losses of all attributes on one scale, from the least to the largest."""

    rows: tuple[HeatRow, ...]
    low_nano: int
    top_nano: int

    @property
    def is_even(self) -> bool:
        """Whether no value lost more than another."""
        return self.low_nano == self.top_nano


def heat_map(losses: Mapping[str, Mapping[str, int]]) -> HeatMap:
    """The map of the losses of each value of each attribute, in nano-epsilon."""
    every = [loss for by_value in losses.values() for loss in by_value.values()]
    low, top = min(every, default=0), max(every, default=0)
    rows = (
        HeatRow(
            name,
            heat_cells(list(by_value), list(by_value.values()), low_nano=low, top_nano=top),
            max(by_value.values()),
        )
        for name, by_value in losses.items()
    )
    return HeatMap(tuple(rows), low, top)


MOST_PANELS = 12
_MOST_TICKS = 10
# A phone has room for about a third of the names.
_ON_A_PHONE = 3
_MOST_LETTERS = 12

Number = tuple[float | None, float | None, float | None]
"""An estimate and both ends of its interval; None for none."""


@dataclass(frozen=True)
class Tick:
    """A mark of an axis; a narrow drawing leaves `is_minor` marks out."""

    at: float
    text: str
    is_minor: bool = False


@dataclass(frozen=True)
class Dot:
    """The number of one period: its place and its text."""

    x: float
    y: float
    text: str


@dataclass(frozen=True)
class Run:
    """Periods in a row without a gap, as points of a line and corners of its band.

    `is_single` where there is one period alone, whose band is a line from end to end.
    """

    line: str
    band: str
    is_single: bool


@dataclass(frozen=True)
class Panel:
    """The line of one group; `name` is '' for a single line."""

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
    of_rows: Sequence[Number],
) -> OverTime | None:
    """The drawing of a column of a table, or None where no group has two periods.

    Args:
        course: which part of a group is its period.
        rows, of_rows: of each group; those of all periods together are left out, and totals
            beside their parts.
    """
    place = {name: i for i, name in enumerate(course.names)}
    series: dict[Row, dict[int, Number]] = {}
    for row, number in zip(rows, of_rows, strict=True):
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
        """Names of periods at even distances."""
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


def _scale(shown: Sequence[Number]) -> Scale:
    """Room for all intervals, and for zero where that takes at most half of the height."""
    ends = [end for number in shown for end in number if end is not None]
    low, high = min(ends, default=0.0), max(ends, default=0.0)
    with_zero = min(low, 0.0) < 0 or low <= high / 2
    return Scale.of(ends, with_zero=with_zero)


def _without(row: Row, k: int) -> Row:
    """The group without its k-th value and without numbers."""
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
    """The runs without a gap."""
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
    """The text `123, 110 to 130`."""
    estimate, low, high = number
    decimals = numbers.decimals_for(high - low) if low is not None and high is not None else 2
    ends = (
        "no lower end" if low is None else numbers.low_end(low, decimals),
        "no upper end" if high is None else numbers.high_end(high, decimals),
    )
    return f"{numbers.number(estimate or 0.0, decimals)}, {ends[0]} to {ends[1]}"


def _short(name: str) -> str:
    return name if len(name) <= _MOST_LETTERS else f"{name[: _MOST_LETTERS - 1]}…"
