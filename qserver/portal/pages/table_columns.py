"""The columns of a table as a page shows them: numbers in line, bars, panels, lines over time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from qserver.portal import words
from qserver.portal.drawing.over_time import MOST_PANELS, OverTime, over_time
from qserver.portal.drawing.whiskers import Scale, Whisker, whiskers
from qserver.query.sql.statement import Binning, Sum
from qserver.service.statement_answers import AnsweredCell, StatementAnswer
from qserver.text import group_texts

# A panel of fewer lines says less than a row.
_LEAST_IN_PANELS = 2
_BINNING = {
    "record": "each record",
    "numerator": "each record of the numerator",
    "average": "the average",
    "value": "the number",
}


@dataclass(frozen=True)
class TableLine:
    """One group's number, drawn on its column's scale; `consistent` as text, '–' for none.

    `value` is the estimate, to sort by.
    """

    group: tuple[str, ...]
    value: float | None
    estimate: str
    interval: str
    consistent: str
    whisker: Whisker


@dataclass(frozen=True)
class TableColumn:
    """One column of the table: its numbers, all on one scale.

    Args:
        note: what bins hide.
        over_time: the numbers over the periods of the table; None where it has none.
    """

    name: str
    scale: Scale
    lines: tuple[TableLine, ...]
    note: str
    over_time: OverTime | None = None

    @cached_property
    def panelled(self) -> int | None:
        """The first of two groups that gives a few tables by its values; None where none does."""
        for place in (0, 1):
            names = self._names(place)
            is_full = len(self.lines) >= _LEAST_IN_PANELS * len(names)
            if not self.over_time and 2 <= len(names) <= MOST_PANELS and is_full:
                return place
        return None

    @property
    def panels(self) -> list[tuple[str, list[TableLine]]]:
        """The lines by the values of the group that gives panels; else all of them."""
        place = self.panelled
        if place is None:
            return [("", list(self.lines))]
        return [
            (name, [line for line in self.lines if line.group[place] == name])
            for name in self._names(place)
        ]

    def _names(self, place: int) -> list[str]:
        """The values of one of two groups, in order; none where there are not two."""
        return list(dict.fromkeys(line.group[place] for line in self.lines if len(line.group) == 2))

    @property
    def ends(self) -> tuple[str, str]:
        """The values at both ends of the scale."""
        decimals = words.decimals_for(self.scale.high - self.scale.low)
        return words.number(self.scale.low, decimals), words.number(self.scale.high, decimals)


def column_of(answer: StatementAnswer, k: int) -> TableColumn:
    """The k-th column of a table."""
    statement = answer.asked.statement
    cells = [row[k] for row in answer.cells]
    is_sum = all(isinstance(row.cells[k], Sum) for row in statement.rows)
    scale, drawn = whiskers([numbers_of(cell) for cell in cells], with_zero=is_sum)
    texts, values = list(map(_texts, cells)), [cell.value.estimate for cell in cells]
    in_line = [words.in_line([text[i] for text in texts]) for i in range(3)]
    lines = tuple(
        TableLine(group_texts(row.group, row.together), *line)
        for row, *line in zip(statement.rows, values, *in_line, drawn, strict=True)
    )
    found = [b for b in (row.cells[k].binning for row in statement.rows) if b is not None]
    drawing = None
    if statement.course is not None:
        numbers = [numbers_of(cell) for cell in cells]
        drawing = over_time(statement.columns[k], statement.course, statement.rows, numbers)
    return TableColumn(statement.columns[k], scale, lines, _note(found), drawing)


def _note(found: Sequence[Binning]) -> str:
    if not found:
        return ""
    worst = max(found, key=lambda binning: binning.error)
    return (
        f"Values count as the middle of their bin: {_BINNING[worst.of]} may be off by up to "
        f"{words.plain(float(worst.error))}, which the intervals do not contain."
    )


def _texts(cell: AnsweredCell) -> tuple[str, str, str]:
    """Estimate, interval rounded outward, and consistent value, as people read them."""
    estimate, low, high = numbers_of(cell)
    if is_unknown(cell):
        return "–", "nothing known yet", "–"
    width = high - low if low is not None and high is not None else math.inf
    decimals = words.decimals_for(width) if math.isfinite(width) else 2
    ends = (
        "no lower end" if low is None else words.low_end(low, decimals),
        "no upper end" if high is None else words.high_end(high, decimals),
    )
    shown, consistent = (
        "–" if v is None else words.number(v, decimals) for v in (estimate, cell.consistent)
    )
    return shown, f"{ends[0]} to {ends[1]}", consistent


def numbers_of(cell: AnsweredCell) -> tuple[float | None, float | None, float | None]:
    """The estimate and both ends of its interval."""
    return cell.value.estimate, cell.value.interval.low, cell.value.interval.high


def is_unknown(cell: AnsweredCell) -> bool:
    """Whether nothing is known of a number."""
    return numbers_of(cell) == (None, None, None)
