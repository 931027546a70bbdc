"""The legend of a plot: a sample and a name for each mark, in as many rows as they need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from qserver.answering.plots.svg import element, text_at
from qserver.answering.plots.text import LINE_HEIGHT, shortened, text_width

_SAMPLE, _GAP, _BETWEEN = 26.0, 6.0, 18.0
# Of middling lightness: each has a contrast above 3 with white and with near-black.
COLOURS = ("#2f7fc1", "#c8601f", "#2c9565", "#a264c4", "#b9404f", "#7b7f2a")
DASHES = (None, "7 4", "2 3", "10 3 2 3", "5 2", "1 3")


@dataclass(frozen=True)
class Style:
    """How a mark is drawn."""

    colour: str
    dash: str | None
    is_area: bool

    def sample(self, x: float, y: float) -> str:
        """A piece of the mark; its left end is at x, its middle at y."""
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


def placed(labels: Sequence[str], styles: Sequence[Style], *, width: float) -> list[Entry]:
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


def height_of(entries: Sequence[Entry]) -> float:
    """The height of the rows."""
    return LINE_HEIGHT * (1 + entries[-1].row) if entries else 0


def drawn(entries: Sequence[Entry], *, left: float, top: float) -> list[str]:
    """The elements of a legend."""
    found = []
    for entry in entries:
        x, middle = left + entry.x, top + LINE_HEIGHT * (entry.row + 0.5)
        found.append(entry.style.sample(x, middle))
        found.append(text_at(x + _SAMPLE + _GAP, middle + 4.5, entry.label))
    return found
