"""A chart as SVG: room for its texts first, the plot in what is left."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from qserver.answering.plots import legend
from qserver.answering.plots.chart import Area, Axis, Chart, Line, Mark, Rule
from qserver.answering.plots.legend import Style, styles_of
from qserver.answering.plots.svg import document, element, path, text_at
from qserver.answering.plots.text import LINE_HEIGHT, shortened, text_width, wrapped
from qserver.answering.plots.ticks import Ticks, nice_ticks

WIDTH, PLOT_HEIGHT = 680.0, 320.0
TITLE_SIZE = 15
_MARGIN, _TICK = 14.0, 6.0
_CLIP = "plot"


@dataclass(frozen=True)
class Frame:
    """The rectangle between the axes, in pixels, and what its sides mean."""

    left: float
    top: float
    right: float
    bottom: float
    x: Axis
    y: Axis

    def at(self, x: float, y: float) -> tuple[float, float]:
        """The pixel of a point of the data."""
        across = (x - self.x.low) / (self.x.high - self.x.low)
        up = (y - self.y.low) / (self.y.high - self.y.low)
        return (
            self.left + across * (self.right - self.left),
            self.bottom - up * (self.bottom - self.top),
        )


def svg_of(
    chart: Chart, *, width: float = WIDTH, plot_height: float = PLOT_HEIGHT, standalone: bool = True
) -> str:
    """The chart as the text of an SVG document.

    Args:
        chart: what is shown.
        width: of the whole, in pixels.
        plot_height: of the part between the axes, in pixels; the texts add theirs.
        standalone: False for a plot that is set into a page.
    """
    styles = styles_of([isinstance(mark, Area) for mark in chart.marks])
    titles = wrapped(chart.title, width=width - 2 * _MARGIN, size=TITLE_SIZE)
    entries = legend.placed([m.label for m in chart.marks], styles, width=width - 2 * _MARGIN)
    legend_top = _MARGIN + LINE_HEIGHT * len(titles) + 4
    label_y = legend_top + legend.height_of(entries) + LINE_HEIGHT
    y_ticks = nice_ticks(chart.y.low, chart.y.high, most=7)
    left = _MARGIN + max(map(text_width, y_ticks.texts)) + _TICK + 4
    top = label_y + 10
    frame = Frame(left, top, width - 2 * _MARGIN, top + plot_height, chart.x, chart.y)
    x_ticks = _fitting_ticks(chart.x, frame.right - frame.left)
    body = [
        *_title_lines(titles),
        *legend.drawn(entries, left=_MARGIN, top=legend_top),
        text_at(_MARGIN, label_y, shortened(chart.y.label, width=width - 2 * _MARGIN)),
        *_axes(frame, x_ticks, y_ticks),
        *_marks(frame, chart.marks, styles),
        _x_label(frame, chart.x.label, width),
    ]
    height = frame.bottom + _TICK + 2 * LINE_HEIGHT + _MARGIN
    return document(
        body,
        width=width,
        height=height,
        name=chart.title,
        text=chart.description,
        standalone=standalone,
    )


def _title_lines(titles: Sequence[str]) -> Iterator[str]:
    for i, title in enumerate(titles):
        y = _MARGIN + LINE_HEIGHT * (i + 0.75)
        yield text_at(_MARGIN, y, title, font_size=TITLE_SIZE, font_weight=600)


def _fitting_ticks(axis: Axis, width: float) -> Ticks:
    """As many ticks as fit side by side, at most ten."""
    for most in range(10, 2, -1):
        ticks = nice_ticks(axis.low, axis.high, most=most)
        if len(ticks.values) >= 2 and _has_room(axis, ticks, width):
            return ticks
    return nice_ticks(axis.low, axis.high, most=2)


def _has_room(axis: Axis, ticks: Ticks, width: float) -> bool:
    scale = width / (axis.high - axis.low)
    placed = list(zip(ticks.values, map(text_width, ticks.texts), strict=True))
    return all((b - a) * scale > (v + w) / 2 + 8 for (a, v), (b, w) in pairwise(placed))


def _axes(frame: Frame, x_ticks: Ticks, y_ticks: Ticks) -> Iterator[str]:
    for value, text in zip(y_ticks.values, y_ticks.texts, strict=True):
        _, y = frame.at(frame.x.low, value)
        yield _faint_line(frame.left, y, frame.right, y)
        yield text_at(frame.left - _TICK - 2, y + 4.5, text, text_anchor="end")
    for value, text in zip(x_ticks.values, x_ticks.texts, strict=True):
        x, _ = frame.at(value, frame.y.low)
        yield _faint_line(x, frame.top, x, frame.bottom + _TICK)
        yield text_at(x, frame.bottom + _TICK + LINE_HEIGHT - 4, text, text_anchor="middle")
    corners = [(frame.left, frame.top), (frame.left, frame.bottom), (frame.right, frame.bottom)]
    yield element("path", d=path(corners), fill="none", stroke="currentColor", stroke_width=1)


def _faint_line(x1: float, y1: float, x2: float, y2: float) -> str:
    return element("line", x1=x1, y1=y1, x2=x2, y2=y2, stroke="currentColor", stroke_opacity=0.15)


def _x_label(frame: Frame, label: str, width: float) -> str:
    text = shortened(label, width=width - 2 * _MARGIN)
    # Centred below the axis, but never beyond the sides.
    half = text_width(text) / 2
    middle = min(max((frame.left + frame.right) / 2, _MARGIN + half), width - _MARGIN - half)
    y = frame.bottom + _TICK + 2 * LINE_HEIGHT
    return text_at(middle, y, text, text_anchor="middle")


def _marks(frame: Frame, marks: Sequence[Mark], styles: Sequence[Style]) -> Iterator[str]:
    shape = element(
        "rect",
        x=frame.left,
        y=frame.top,
        width=frame.right - frame.left,
        height=frame.bottom - frame.top,
    )
    # Two plots in one page must not share an id: another frame has another name.
    name = f"{_CLIP}-{frame.left:.0f}-{frame.top:.0f}-{frame.right:.0f}-{frame.bottom:.0f}"
    yield element("clipPath", shape, id=name)
    drawn = (_mark(frame, mark, style) for mark, style in zip(marks, styles, strict=True))
    yield element("g", "\n".join(drawn), clip_path=f"url(#{name})")


def _mark(frame: Frame, mark: Mark, style: Style) -> str:
    if isinstance(mark, Area):
        upper = [frame.at(x, y) for x, y in zip(mark.xs, mark.high, strict=True)]
        lower = [frame.at(x, y) for x, y in zip(mark.xs, mark.low, strict=True)]
        outline = path([*upper, *reversed(lower)], closed=True)
        return element("path", d=outline, fill=style.colour, fill_opacity=0.25)
    points = _rule_points(frame, mark) if isinstance(mark, Rule) else _line_points(frame, mark)
    return element(
        "path",
        d=path(points),
        fill="none",
        stroke=style.colour,
        stroke_width=2,
        stroke_dasharray=style.dash,
        stroke_linejoin="round",
    )


def _rule_points(frame: Frame, rule: Rule) -> list[tuple[float, float]]:
    if rule.x is not None:
        return [frame.at(rule.x, y) for y in (frame.y.low, frame.y.high)]
    y = 0.0 if rule.y is None else rule.y
    return [frame.at(x, y) for x in (frame.x.low, frame.x.high)]


def _line_points(frame: Frame, line: Line) -> list[tuple[float, float]]:
    points = list(zip(line.xs, line.ys, strict=True))
    if not line.steps:
        return [frame.at(x, y) for x, y in points]
    corners = [points[0]]
    for (_, before), (x, y) in pairwise(points):
        corners += [(x, before), (x, y)]
    return [frame.at(x, y) for x, y in corners]
