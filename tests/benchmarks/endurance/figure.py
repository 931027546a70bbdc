"""The figure of the test of endurance, drawn from the rows that were kept."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from qserver.answering.plots.chart import Axis, Chart, Line, document, element, svg_of

KEPT = Path(__file__).parent / "kept.json"
_WIDTH, _PLOT_HEIGHT = 680.0, 150.0
_PANELS: Sequence[tuple[str, str, Mapping[str, str]]] = (
    (
        "Memory of one process, MB",
        "MB",
        {"worker": "memory_worker_mb", "HTTP": "memory_http_mb", "store": "memory_store_mb"},
    ),
    (
        "Time of an answer, ms",
        "ms",
        {
            "history, median": "history_p50_ms",
            "history, p99": "history_p99_ms",
            "fresh, median": "fresh_p50_ms",
            "fresh, p99": "fresh_p99_ms",
        },
    ),
    (
        "Disk, MB",
        "MB",
        {
            "store": "disk_store_mb",
            "journals": "disk_journals_mb",
            "checkpoints": "disk_checkpoints_mb",
        },
    ),
    (
        "Seconds after a start until",
        "s",
        {
            "health": "restart_health_s",
            "one history": "restart_history_s",
            "all histories": "restart_all_histories_s",
            "a fresh answer": "restart_fresh_s",
        },
    ),
)


def endurance() -> str:
    """The figure as SVG text: four plots, one below the other."""
    rows = json.loads(KEPT.read_text(encoding="utf-8"))["rows"]
    panels = [svg_of(_chart(rows, *panel), plot_height=_PLOT_HEIGHT) for panel in _PANELS]
    placed, top = [], 0.0
    for panel in panels:
        placed.append(element("g", panel, transform=f"translate(0 {top:g})"))
        top += _height_of(panel)
    return document(
        placed,
        width=_WIDTH,
        height=top,
        name="A deployment over its questions",
        text="Memory, times of answers, disk and times after a start against the number of "
        "questions that were asked of ten datasets.",
    )


def _chart(
    rows: Sequence[Mapping[str, Any]], title: str, unit: str, columns: Mapping[str, str]
) -> Chart:
    xs = [float(row["questions"]) for row in rows]
    lines = [Line(label, xs, [float(row[name]) for row in rows]) for label, name in columns.items()]
    most = max(max(line.ys) for line in lines)
    return Chart(
        title=title,
        description=f"{', '.join(columns)} against the number of questions.",
        x=Axis("questions asked", 0.0, xs[-1]),
        y=Axis(unit, 0.0, 1.05 * most),
        marks=tuple(lines),
    )


def _height_of(panel: str) -> float:
    return float(panel.split('height="', 1)[1].split('"', 1)[0])
