"""Horizontal bars: an amount per name, and a limit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import isfinite

from qserver.answering.plots.legend import COLOURS
from qserver.answering.plots.svg import document, element, text_at
from qserver.answering.plots.text import LINE_HEIGHT, shortened, text_width, wrapped
from qserver.errors import InputError

_WIDTH, _MARGIN, _GAP = 680.0, 14.0, 8.0
_BAR, _STEP, _TITLE_SIZE = 16.0, 26.0, 15


@dataclass(frozen=True)
class Bar:
    """An amount with its text."""

    name: str
    value: float
    text: str


@dataclass(frozen=True)
class BarChart:
    """Amounts from 0 to `limit`, top to bottom.

    Args:
        title, description: as of a Chart.
        bars: one or more; values are cut off at the limit.
        limit: where the widest bar ends, finite, > 0.
        limit_text: what that end means.

    Raises:
        InputError: no bar, an amount below 0, or no limit.
    """

    title: str
    description: str
    bars: tuple[Bar, ...]
    limit: float
    limit_text: str

    def __post_init__(self) -> None:
        if not self.bars or any(not (isfinite(b.value) and b.value >= 0) for b in self.bars):
            raise InputError("bars", "be one or more, finite, >= 0")
        if not (isfinite(self.limit) and self.limit > 0):
            raise InputError("limit", "be finite and > 0", self.limit)


def svg_of_bars(chart: BarChart, *, width: float = _WIDTH, standalone: bool = True) -> str:
    """The bars as the text of an SVG document; see `render.svg_of`."""
    titles = wrapped(chart.title, width=width - 2 * _MARGIN, size=_TITLE_SIZE)
    top = _MARGIN + LINE_HEIGHT * len(titles) + 2 * LINE_HEIGHT
    bottom = top + _STEP * len(chart.bars)
    body = [
        *(
            text_at(
                _MARGIN,
                _MARGIN + LINE_HEIGHT * (i + 0.75),
                line,
                font_size=_TITLE_SIZE,
                font_weight=600,
            )
            for i, line in enumerate(titles)
        ),
        *_rows(chart, width=width, top=top, bottom=bottom),
    ]
    return document(
        body,
        width=width,
        height=bottom + _MARGIN,
        name=chart.title,
        text=chart.description,
        standalone=standalone,
    )


def _rows(chart: BarChart, *, width: float, top: float, bottom: float) -> Iterator[str]:
    most_name = 0.4 * width
    names = [shortened(b.name, width=most_name) for b in chart.bars]
    left = _MARGIN + max(map(text_width, names)) + _GAP
    right = width - _MARGIN - max(text_width(b.text) for b in chart.bars) - _GAP
    limit = shortened(chart.limit_text, width=width - 2 * _MARGIN)
    yield text_at(max(right, _MARGIN + text_width(limit)), top - 8, limit, text_anchor="end")
    yield element("line", x1=right, y1=top - 4, x2=right, y2=bottom, stroke="currentColor")
    for i, (bar, name) in enumerate(zip(chart.bars, names, strict=True)):
        y = top + _STEP * i + (_STEP - _BAR) / 2
        length = (right - left) * min(1.0, bar.value / chart.limit)
        yield text_at(left - _GAP, y + 12.5, name, text_anchor="end")
        yield element("rect", x=left, y=y, width=length, height=_BAR, fill=COLOURS[0])
        yield text_at(right + _GAP, y + 12.5, bar.text)
