"""The plots of an answer and of a table: each number on the band of its interval."""

from __future__ import annotations

import math
from itertools import islice
from typing import TYPE_CHECKING

from qserver.answering.plots.intervals import IntervalChart, Panel, Row, svg_of_intervals
from qserver.client.drawing.plot import Plot
from qserver.errors import ConfigError
from qserver.text import interval_text

if TYPE_CHECKING:
    from qserver.client.results import Answer, Interval
    from qserver.client.tables import Table

MOST_ROWS = 40
"""How many rows of a table a plot shows."""


def plot_of_answer(answer: Answer, *, title: str, sure: str) -> Plot:
    """One row; `sure` says what the interval is."""
    row = _row("", answer.estimate, answer.interval)
    return _plot(title, (Panel("", (row,)),), (f"The band is the interval {sure}.",))


def plot_of_table(table: Table, *, title: str | None) -> Plot:
    """A panel for each column with numbers, of the first 40 rows.

    Raises:
        ConfigError: the table has no numbers.
    """
    if not (table.columns and table.cells):
        raise ConfigError("table", "have numbers to be plotted")
    names = [", ".join(texts) for texts in islice(table.group_texts(), MOST_ROWS)]
    panels = tuple(
        Panel(
            column,
            tuple(
                _row(name, cells[i].estimate, cells[i].interval)
                for name, cells in zip(names, table.cells, strict=False)
            ),
        )
        for i, column in enumerate(table.columns)
    )
    more = len(table.cells) - len(names)
    notes = (
        f"Bands are intervals, {table.sure}." if table.sure else "",
        table.looking,
        f"{more:,} more row{'s' * (more > 1)}." if more else "",
    )
    by = f" by {', '.join(table.groups)}" if table.groups else ""
    given = f"{', '.join(table.columns)}{by}" if title is None else title
    return _plot(given, panels, tuple(note for note in notes if note))


def _plot(title: str, panels: tuple[Panel, ...], notes: tuple[str, ...]) -> Plot:
    said = [
        f"{', '.join(part for part in (panel.label, row.name) if part)}: {row.text}".lstrip(": ")
        for panel in panels
        for row in panel.rows
    ]
    chart = IntervalChart(title, " ".join(("; ".join(said) + ".", *notes)), panels, notes)
    return Plot(title, svg_of_intervals(chart))


def _row(name: str, estimate: float, interval: Interval) -> Row:
    known = None if math.isnan(estimate) else estimate
    text = interval_text(estimate=known, low=interval.low, high=interval.high)
    said = f"{text.estimate or '-'}  [{text.low} to {text.high}]"
    return Row(name, known, interval.low, interval.high, said)
