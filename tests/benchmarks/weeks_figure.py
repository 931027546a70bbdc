"""The figure of what arrivals cost, drawn from the kept results."""

from __future__ import annotations

from qserver.answering.plots.chart import Axis, Chart, Line, svg_of

from .results import kept
from .weeks import METHODS, N_WEEKS

STREAM = "dashboard"
_SHOWN = 2.0


def weeks() -> str:
    """The figure as SVG text; what passes two epsilon leaves it."""
    rows = [row for row in kept("weeks")["rows"] if row["stream"] == STREAM]
    lines = []
    for method in METHODS:
        points = [(float(r["arrivals"]), float(r[method])) for r in rows if r[method] <= _SHOWN]
        lines.append(Line(method, [at for at, _ in points], [spent for _, spent in points]))
    return svg_of(
        Chart(
            title="A dashboard that is asked again after each weekly arrival",
            description="The epsilon spent after arrivals: with the data replaced each week, with "
            "all weeks known from the start, and with weeks appended.",
            x=Axis("arrivals", 0.0, float(N_WEEKS)),
            y=Axis("epsilon spent in all", 0.0, _SHOWN),
            marks=tuple(lines),
        )
    )
