"""A chart as SVG: axes, marks, ticks and legend, with room for its texts first."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from math import ceil, floor, isfinite, log10

from qserver.errors import InputError


@dataclass(frozen=True)
class Axis:
    """An axis from `low` to `high`; low < high, both finite."""

    label: str
    low: float
    high: float

    def __post_init__(self) -> None:
        if not (isfinite(self.low) and isfinite(self.high) and self.low < self.high):
            raise InputError("axis", "go from a finite `low` to a greater `high`", self.label)


@dataclass(frozen=True)
class Line:
    """A line through points, drawn within the axes; one of 2 points or more, all finite."""

    label: str
    xs: Sequence[float]
    ys: Sequence[float]
    steps: bool = False

    def __post_init__(self) -> None:
        _check_points(self.label, self.xs, self.ys)


@dataclass(frozen=True)
class Area:
    """The shaded area between two curves over the same xs."""

    label: str
    xs: Sequence[float]
    low: Sequence[float]
    high: Sequence[float]

    def __post_init__(self) -> None:
        _check_points(self.label, self.xs, self.low)
        _check_points(self.label, self.xs, self.high)


@dataclass(frozen=True)
class Rule:
    """A straight line across the plot at one x or one y."""

    label: str
    x: float | None = None
    y: float | None = None

    def __post_init__(self) -> None:
        given = [v for v in (self.x, self.y) if v is not None]
        if len(given) != 1 or not isfinite(given[0]):
            raise InputError("rule", "have one finite place, `x` or `y`", self.label)


Mark = Line | Area | Rule


@dataclass(frozen=True)
class Chart:
    """A plot: its axes and its marks, back to front.

    Args:
        title: one line that says what is shown.
        description: what a reader who cannot see the plot should know of it.
        x, y: the axes.
        marks: each is named in the legend, in this order, and has a colour and dashes of its own.
    """

    title: str
    description: str
    x: Axis
    y: Axis
    marks: tuple[Mark, ...]


def _check_points(label: str, xs: Sequence[float], ys: Sequence[float]) -> None:
    if len(xs) != len(ys) or len(xs) < 2:
        raise InputError("points", "be two or more, with as many ys as xs", label)
    if not all(map(isfinite, (*xs, *ys))):
        raise InputError("points", "be finite", label)


# XML 1.0 allows no other characters, not even escaped.
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_STYLE = (
    "svg{color:#1f2328;background:#fff}"
    "@media(prefers-color-scheme:dark){svg{color:#e6edf3;background:#0d1117}}"
)


def element(tag: str, content: str | None = None, **attributes: object) -> str:
    """An element; attribute names have `_` for `-`, None leaves one out, `content` is markup."""
    parts = [tag]
    for name, value in attributes.items():
        if value is not None:
            parts.append(f'{name.rstrip("_").replace("_", "-")}="{escaped(_plain(value))}"')
    opened = " ".join(parts)
    return f"<{opened}/>" if content is None else f"<{opened}>{content}</{tag}>"


def escaped(text: str) -> str:
    """Text escaped for XML; characters that XML forbids are replaced."""
    return escape(_NOT_XML.sub("�", text))


def text_at(x: float, y: float, text: str, **attributes: object) -> str:
    """A line of text in the colour of the surroundings."""
    return element("text", escaped(text), x=x, y=y, fill="currentColor", **attributes)


def path(points: Sequence[tuple[float, float]], *, closed: bool = False) -> str:
    """The `d` of a path through points."""
    steps = " L".join(f"{_number(x)} {_number(y)}" for x, y in points)
    return f"M{steps}{'Z' if closed else ''}"


def document(body: Iterable[str], *, width: float, height: float, name: str, text: str) -> str:
    """A whole SVG document.

    Args:
        body: elements, back to front.
        width, height: in pixels.
        name, text: what a screen reader says: the plot's title, and what it shows.
    """
    head = element("title", escaped(name)) + element("desc", escaped(text))
    return element(
        "svg",
        element("style", _STYLE) + head + "\n" + "\n".join(body) + "\n",
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {_number(width)} {_number(height)}",
        width=width,
        height=height,
        role="img",
        aria_label=f"{name}. {text}",
        font_family="system-ui, sans-serif",
        font_size=13,
    )


def _plain(value: object) -> str:
    return _number(value) if isinstance(value, float) else str(value)


def _number(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") or "0"


FONT_SIZE = 13
LINE_HEIGHT = 18
_NARROW = frozenset("iljtfrI.,:;'|()[]{}!/ -")
_WIDE = frozenset("mwMW@%&")


def text_width(text: str, *, size: float = FONT_SIZE) -> float:
    """An upper estimate of the width of a line of sans-serif text, in the units of `size`."""
    return size * sum(map(_em, text))


def _em(character: str) -> float:
    if character in _NARROW:
        return 0.42
    if character in _WIDE or ord(character) > 0x2E7F:
        return 1.0
    return 0.78 if character.isupper() else 0.64


def wrapped(text: str, *, width: float, size: float = FONT_SIZE) -> list[str]:
    """`text` in lines of at most `width`; a longer word is cut."""
    lines: list[str] = []
    for word in text.split():
        joined = f"{lines[-1]} {word}" if lines else word
        if lines and text_width(joined, size=size) <= width:
            lines[-1] = joined
        else:
            lines.append(shortened(word, width=width, size=size))
    return lines


def shortened(text: str, *, width: float, size: float = FONT_SIZE) -> str:
    """`text`, or as much as fits before an ellipsis."""
    if text_width(text, size=size) <= width:
        return text
    kept = text
    while kept and text_width(kept + "…", size=size) > width:
        kept = kept[:-1]
    return kept + "…"


_STEPS = (1, 2, 5, 10)
_TINY, _HUGE = 1e-5, 1e7
_CLOSEST = 1e-12


@dataclass(frozen=True)
class Ticks:
    """Marks of an axis, ascending, with their texts."""

    values: tuple[float, ...]
    texts: tuple[str, ...]


def nice_ticks(low: float, high: float, *, most: int) -> Ticks:
    """At most `most` multiples of 1, 2 or 5 times a power of ten within [low, high].

    Args:
        low, high: ends of the axis, finite, low < high.
        most: >= 2.

    Raises:
        InputError: the ends are no interval, or too close for floats.
    """
    if not (isfinite(low) and isfinite(high) and low < high):
        raise InputError("high", "be above `low`, both finite", high)
    if high - low < _CLOSEST * max(abs(low), abs(high)):
        raise InputError("high", "be further from `low` than floats can tell", high)
    step = _step((high - low) / most, low, high, most)
    first, last = ceil(low / step - 1e-9), floor(high / step + 1e-9)
    values = tuple(i * step for i in range(first, last + 1))
    return Ticks(values, tuple(tick_text(v, step=step) for v in values))


def _step(least: float, low: float, high: float, most: int) -> float:
    """The least nice step with which at most `most` multiples lie in [low, high]."""
    power = 10.0 ** floor(log10(least))
    for factor in (*_STEPS, 20, 50):
        step = factor * power
        if floor(high / step + 1e-9) - ceil(low / step - 1e-9) + 1 <= most and step >= least * 0.99:
            return step
    return 100 * power


def tick_text(value: float, *, step: float) -> str:
    """`value` with as many decimals as multiples of `step` need."""
    if value == 0:
        return "0"
    if step < _TINY or abs(value) >= _HUGE:
        digits = max(0, floor(log10(abs(value))) - floor(log10(step) + 1e-9))
        return f"{value:.{digits}e}".replace("e+0", "e").replace("e-0", "e-").replace("e+", "e")
    decimals = max(0, -floor(log10(step) + 1e-9))
    return f"{value:,.{decimals}f}"


_SAMPLE, _GAP, _BETWEEN = 26.0, 6.0, 18.0
# Of middling lightness: each has a contrast above 3 with white and with near-black.
COLOURS = ("#2f7fc1", "#c8601f", "#2c9565", "#a264c4", "#b9404f", "#7b7f2a")
DASHES = (None, "7 4", "2 3", "10 3 2 3", "5 2", "1 3")


@dataclass(frozen=True)
class Style:
    """The style of a mark."""

    colour: str
    dash: str | None
    is_area: bool

    def sample(self, x: float, y: float) -> str:
        """A piece of the mark, its left end at x, its middle at y."""
        if self.is_area:
            return element(
                "rect", x=x, y=y - 6, width=_SAMPLE, height=12, fill=self.colour, fill_opacity=0.25
            )
        return element(
            "line",
            x1=x,
            y1=y,
            x2=x + _SAMPLE,
            y2=y,
            stroke=self.colour,
            stroke_width=2,
            stroke_dasharray=self.dash,
        )


def styles_of(are_areas: Sequence[bool]) -> list[Style]:
    """A style for each mark in turn: colours over all of them, dashes over the lines alone."""
    lines = [i for i, is_area in enumerate(are_areas) if not is_area]
    dashes = {i: DASHES[place % len(DASHES)] for place, i in enumerate(lines)}
    return [
        Style(COLOURS[i % len(COLOURS)], dashes.get(i), is_area)
        for i, is_area in enumerate(are_areas)
    ]


@dataclass(frozen=True)
class Entry:
    """One mark of the legend, placed: x from the left, row from the top."""

    label: str
    style: Style
    x: float
    row: int


def legend_entries(labels: Sequence[str], styles: Sequence[Style], *, width: float) -> list[Entry]:
    """The entries in rows of at most `width`; a name longer than a row is shortened."""
    entries: list[Entry] = []
    x, row = 0.0, 0
    for label, style in zip(labels, styles, strict=True):
        name = shortened(label, width=width - _SAMPLE - _GAP)
        needed = _SAMPLE + _GAP + text_width(name)
        if x > 0 and x + needed > width:
            x, row = 0.0, row + 1
        entries.append(Entry(name, style, x, row))
        x += needed + _BETWEEN
    return entries


def legend_height(entries: Sequence[Entry]) -> float:
    """The height of the rows."""
    return LINE_HEIGHT * (1 + entries[-1].row) if entries else 0


def drawn_legend(entries: Sequence[Entry], *, left: float, top: float) -> list[str]:
    """The elements of a legend."""
    found = []
    for entry in entries:
        x, middle = left + entry.x, top + LINE_HEIGHT * (entry.row + 0.5)
        found.append(entry.style.sample(x, middle))
        found.append(text_at(x + _SAMPLE + _GAP, middle + 4.5, entry.label))
    return found


WIDTH, PLOT_HEIGHT = 680.0, 320.0
TITLE_SIZE = 15
_MARGIN, _TICK = 14.0, 6.0
_CLIP = "plot"


@dataclass(frozen=True)
class Frame:
    """The rectangle between the axes, in pixels and in the data's units."""

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


def svg_of(chart: Chart, *, width: float = WIDTH, plot_height: float = PLOT_HEIGHT) -> str:
    """The chart as the text of an SVG document.

    Args:
        chart: what is shown.
        width: of the whole, in pixels.
        plot_height: of the part between the axes, in pixels; the texts add theirs.
    """
    styles = styles_of([isinstance(mark, Area) for mark in chart.marks])
    titles = wrapped(chart.title, width=width - 2 * _MARGIN, size=TITLE_SIZE)
    entries = legend_entries([m.label for m in chart.marks], styles, width=width - 2 * _MARGIN)
    legend_top = _MARGIN + LINE_HEIGHT * len(titles) + 4
    label_y = legend_top + legend_height(entries) + LINE_HEIGHT
    y_ticks = nice_ticks(chart.y.low, chart.y.high, most=7)
    left = _MARGIN + max(map(text_width, y_ticks.texts)) + _TICK + 4
    top = label_y + 10
    frame = Frame(left, top, width - 2 * _MARGIN, top + plot_height, chart.x, chart.y)
    x_ticks = _fitting_ticks(chart.x, frame.right - frame.left)
    body = [
        *_title_lines(titles),
        *drawn_legend(entries, left=_MARGIN, top=legend_top),
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
