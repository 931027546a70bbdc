"""Numbers as dots on the bands of their intervals, row by row; a panel for each kind of number."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isfinite

from qserver.answering.plots.chart import (
    COLOURS,
    LINE_HEIGHT,
    document,
    element,
    nice_ticks,
    shortened,
    text_at,
    text_width,
    wrapped,
)
from qserver.errors import InputError

_WIDTH, _MARGIN, _GAP = 680.0, 14.0, 10.0
_STEP, _BAND, _DOT, _TITLE_SIZE = 24.0, 12.0, 3.5, 15
_MOST_NAME, _MOST_TEXT = 0.3, 0.35
_ROOM, _HALF_A_TICK = 0.04, 34.0


@dataclass(frozen=True)
class Row:
    """One number.

    Args:
        estimate: None for none.
        low, high: ends of its interval, low <= high; an open end is infinite.
        text: the same as people read it.
    """

    name: str
    estimate: float | None
    low: float
    high: float
    text: str

    def __post_init__(self) -> None:
        if not self.low <= self.high or not (self.estimate is None or isfinite(self.estimate)):
            raise InputError("row", "have low <= high, and a finite estimate or none", self.name)


@dataclass(frozen=True)
class Panel:
    """Rows on one axis, whose label says what they count. At least one row."""

    label: str
    rows: tuple[Row, ...]

    def __post_init__(self) -> None:
        if not self.rows:
            raise InputError("rows", "be one or more", self.label)

    def ends(self) -> tuple[float, float]:
        """The axis: all finite ends, and zero if that takes at most half of it."""
        values = [v for row in self.rows for v in (row.estimate, row.low, row.high)]
        finite = [v for v in values if v is not None and isfinite(v)] or [0.0, 1.0]
        low, high = min(finite), max(finite)
        if 0 < low <= high / 2:
            low = 0.0
        elif low / 2 <= high < 0:
            high = 0.0
        room = _ROOM * ((high - low) or abs(high) or 1.0)
        return (low if low == 0 < high else low - room, high if low < 0 == high else high + room)


@dataclass(frozen=True)
class IntervalChart:
    """Panels below each other, with the same names on the left.

    Args:
        title, description: as of a Chart.
        notes: lines below, as of what the bands mean.
    """

    title: str
    description: str
    panels: tuple[Panel, ...]
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.panels:
            raise InputError("panels", "be one or more", self.title)


def svg_of_intervals(chart: IntervalChart, *, width: float = _WIDTH) -> str:
    """The intervals as the text of an SVG document; see `chart.svg_of`."""
    room = width - 2 * _MARGIN
    titles = wrapped(chart.title, width=room, size=_TITLE_SIZE)
    body = _lines(titles, top=_MARGIN, font_size=_TITLE_SIZE, font_weight=600)
    frame = _Frame.of(chart, width=width)
    top = _MARGIN + LINE_HEIGHT * len(titles)
    for i, panel in enumerate(chart.panels):
        body += _panel(panel, frame, top=top, colour=COLOURS[i % len(COLOURS)])
        top += _height(panel)
    notes = [line for note in chart.notes for line in wrapped(note, width=room)]
    body += _lines(notes, top=top + _GAP)
    return document(
        body,
        width=width,
        height=top + _GAP + LINE_HEIGHT * len(notes) + _MARGIN,
        name=chart.title,
        text=chart.description,
    )


@dataclass(frozen=True)
class _Frame:
    """Where bands begin and end, for names and texts beside them; in pixels."""

    left: float
    right: float
    most_name: float
    most_text: float

    @classmethod
    def of(cls, chart: IntervalChart, *, width: float) -> _Frame:
        rows = [row for panel in chart.panels for row in panel.rows]
        names, texts = _MOST_NAME * width, _MOST_TEXT * width
        name = max(text_width(shortened(row.name, width=names)) for row in rows)
        text = max(text_width(shortened(row.text, width=texts)) for row in rows)
        # Without names, half of a tick's text still has room at the left end.
        return cls(
            _MARGIN + max(name + _GAP, _HALF_A_TICK), width - _MARGIN - text - _GAP, names, texts
        )


def _height(panel: Panel) -> float:
    return LINE_HEIGHT + _GAP + _STEP * len(panel.rows) + LINE_HEIGHT + _GAP


def _lines(lines: Sequence[str], *, top: float, **attributes: object) -> list[str]:
    return [
        text_at(_MARGIN, top + LINE_HEIGHT * (i + 0.75), line, **attributes)
        for i, line in enumerate(lines)
    ]


def _panel(panel: Panel, frame: _Frame, *, top: float, colour: str) -> list[str]:
    low, high = panel.ends()
    scale = (frame.right - frame.left) / (high - low)

    def place(value: float) -> float:
        """The place of a value; off the axis, the nearer end."""
        return frame.left + scale * (min(max(value, low), high) - low)

    first = top + LINE_HEIGHT + _GAP
    bottom = first + _STEP * len(panel.rows)
    label = shortened(panel.label, width=frame.right - frame.left)
    found = [text_at(frame.left, top + LINE_HEIGHT, label, font_weight=600)]
    ticks = nice_ticks(low, high, most=max(2, int((frame.right - frame.left) / 80)))
    for value, text in zip(ticks.values, ticks.texts, strict=True):
        found.append(_upright(place(value), first, bottom, is_zero=value == 0))
        found.append(text_at(place(value), bottom + LINE_HEIGHT, text, text_anchor="middle"))
    for i, row in enumerate(panel.rows):
        middle = first + _STEP * (i + 0.5)
        name = shortened(row.name, width=frame.most_name)
        said = shortened(row.text, width=frame.most_text)
        found.append(text_at(frame.left - _GAP, middle + 4.5, name, text_anchor="end"))
        found.append(text_at(frame.right + _GAP, middle + 4.5, said))
        ends = (place(row.low), place(row.high))
        at = None if row.estimate is None else place(row.estimate)
        found += _band(ends, at, middle=middle, colour=colour)
    return found


def _upright(x: float, top: float, bottom: float, *, is_zero: bool) -> str:
    opacity = 0.6 if is_zero else 0.15
    return element(
        "line", x1=x, y1=top, x2=x, y2=bottom, stroke="currentColor", stroke_opacity=opacity
    )


def _band(
    ends: tuple[float, float], at: float | None, *, middle: float, colour: str
) -> Iterator[str]:
    low, high = ends
    yield element(
        "rect",
        x=low,
        y=middle - _BAND / 2,
        width=max(1.0, high - low),
        height=_BAND,
        fill=colour,
        fill_opacity=0.3,
    )
    if at is not None:
        yield element("circle", cx=at, cy=middle, r=_DOT, fill=colour)
