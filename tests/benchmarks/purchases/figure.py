"""The figure of the spend on one stream, drawn from what was kept."""

from __future__ import annotations

import json
from pathlib import Path

from qserver.answering.plots.chart import Axis, Chart, Line, svg_of

KEPT = Path(__file__).parent / "kept.json"


def purchases() -> str:
    """The figure as SVG text."""
    spent = json.loads(KEPT.read_text(encoding="utf-8"))["spent"]
    n = len(next(iter(spent.values())))
    lines = [Line(way, [float(i) for i in range(1, n + 1)], found) for way, found in spent.items()]
    return svg_of(
        Chart(
            title="Four pairs of attributes that return, among others that never do",
            description="The epsilon spent after each question, by an exact cache, by single "
            "answers alone, and with blocks.",
            x=Axis("questions", 0.0, float(n)),
            y=Axis("epsilon spent in all", 0.0, max(max(found) for found in spent.values())),
            marks=tuple(lines),
        )
    )
