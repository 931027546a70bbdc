"""A plot as a notebook shows it: SVG that can be saved, without a plotting library.

Numbers of an answer or a table stand each on the band of its interval.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from qserver.answering.plots.intervals import IntervalChart, Panel, Row, svg_of_intervals
from qserver.errors import ConfigError
from qserver.text import interval_text


@dataclass(frozen=True)
class Plot:
    """An SVG document; a notebook shows it, `save` writes it."""

    title: str
    svg: str = field(repr=False)

    def _repr_svg_(self) -> str:
        return self.svg

    def save(self, path: str | Path) -> None:
        """Write it to a file; replaces an existing one.

        Raises:
            ConfigError: the name does not end in .svg, or the file cannot be written.
        """
        place = Path(path)
        if place.suffix.lower() != ".svg":
            raise ConfigError("path", "end in .svg", place.name)
        try:
            place.write_text(self.svg, encoding="utf-8")
        except OSError as exc:
            raise ConfigError("path", f"be a file that can be written ({exc.strerror})") from exc


def plot_of_panels(title: str, panels: tuple[Panel, ...], notes: tuple[str, ...]) -> Plot:
    """Each number on the band of its interval."""
    said = [
        f"{', '.join(part for part in (panel.label, row.name) if part)}: {row.text}".lstrip(": ")
        for panel in panels
        for row in panel.rows
    ]
    chart = IntervalChart(title, " ".join(("; ".join(said) + ".", *notes)), panels, notes)
    return Plot(title, svg_of_intervals(chart))


def row_of(name: str, estimate: float, ends: Iterable[float]) -> Row:
    """A number with the ends of its interval."""
    low, high = ends
    known = None if math.isnan(estimate) else estimate
    text = interval_text(estimate=known, low=low, high=high)
    said = f"{text.estimate or '-'}  [{text.low} to {text.high}]"
    return Row(name, known, low, high, said)
