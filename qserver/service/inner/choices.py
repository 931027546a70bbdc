"""The choices that inner SELECTs make by released numbers, and tables that allow for all of them.

The true choice is one of those that the intervals of all these numbers at once leave possible. It
is fixed by the records alone, and so is what is asked about it. So the hull of the intervals about
all possible choices misses only where those of the inner numbers do, or where the one about the
true choice does: what an interval may miss with is divided between the two.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product

from qserver.query.sql.cells import CellValue, is_public
from qserver.query.sql.functions.function_of_sums import KnownPart
from qserver.query.sql.shaping.inner_select import InnerSelect, Values
from qserver.query.sql.statement import Statement
from qserver.query.sql.tables.cell_intervals import CellInterval
from qserver.service.inner.parts import Choice
from qserver.service.statement_answers import AnsweredCell, CellReading, StatementAnswer

_MOST_CHOICES = 64
_MOST_NAMES = 12
_AS_EXACT = 2.0
"""What is at most so many times as long is about as exact: another choice is far off anyway."""


@dataclass(frozen=True)
class Told:
    """The choices of the SELECTs by their released numbers.

    Args:
        possible: all that they may give; None for too much.
    """

    chosen: Choice
    possible: tuple[Choice, ...] | None
    charged_nano: int

    @classmethod
    def by(cls, inner: Sequence[InnerSelect[Statement]], tables: Sequence[StatementAnswer]) -> Told:
        """The choices by the tables of their numbers."""
        pairs = [(one, _at_once(table)) for one, table in zip(inner, tables, strict=True)]
        each = [one.possible(parts) for one, parts in pairs]
        sets, possible = [one for one in each if one is not None], None
        if len(sets) == len(each) and math.prod(map(len, sets)) <= _MOST_CHOICES:
            possible = tuple(one for one in product(*sets) if _is_one_choice(inner, one))
        chosen = tuple(one.chosen(parts) for one, parts in pairs)
        return cls(chosen, possible, sum(table.charged_nano for table in tables))

    @property
    def others(self) -> list[Choice]:
        """The other choices, nearest first."""
        found = [one for one in self.possible or () if one != self.chosen]
        return sorted(found, key=lambda one: sum(map(_distance, one, self.chosen)))

    @property
    def remarks(self) -> list[str]:
        """Remarks on the choice, a sentence each."""
        gives = "By its released numbers the inner SELECT gives"
        found = [f"{gives} {_shown(one)}." for one in self.chosen]
        if self.possible is None:
            found.append(
                "Too many of its groups are in doubt for the rest to be told: a shorter WITHIN "
                "tells more of them apart."
            )
        elif self.others:
            each = zip(*self.possible, strict=True)
            doubt = [frozenset.union(*sets) - frozenset.intersection(*sets) for sets in each]
            found.append(
                f"Whether it gives {_shown(frozenset.union(*doubt))} is not sure: intervals allow "
                "for both."
            )
        return found


def _is_one_choice(inner: Sequence[InnerSelect[Statement]], choice: Choice) -> bool:
    """Whether equal SELECTs choose equally; only NOT IN distinguishes them."""
    known = [one - {None} for one in choice]
    return all(
        one == other
        for (of, one), (by, other) in combinations(zip(inner, known, strict=True), 2)
        if (of.statement, of.shape) == (by.statement, by.shape)
    )


def around(first: StatementAnswer, others: Sequence[StatementAnswer | None]) -> StatementAnswer:
    """The table of the released choice, with intervals that hold all others' intervals.

    Args:
        others: None for one that is not known.
    """
    rows = [dict(zip(_groups(one), one.cells, strict=True)) for one in others if one is not None]
    is_known = None not in others
    cells = list[tuple[AnsweredCell, ...]]()
    for i, (group, own) in enumerate(zip(_groups(first), first.cells, strict=True)):
        found = [row[group] for row in rows if group in row]
        hulls = [_hull(each, is_known=is_known) for each in zip(own, *found, strict=True)]
        for k, parts in enumerate(first.asked.cells[i] if first.asked.cells else ()):
            if is_public(parts, hulls[k].value.interval):
                hulls[k] = replace(hulls[k], value=CellValue(None, hulls[k].value.interval))
        cells.append(tuple(hulls))
    return replace(first, cells=tuple(cells))


def is_told_beside(first: StatementAnswer, other: StatementAnswer) -> bool:
    """Whether the numbers of another choice are known about as exactly as the first's."""
    own = dict(zip(_groups(first), first.cells, strict=True))
    pairs = zip(_groups(other), other.cells, strict=True)
    return all(
        _length(there) <= _AS_EXACT * _length(here)
        for group, row in pairs
        if group in own
        for here, there in zip(own[group], row, strict=True)
    )


def _length(cell: AnsweredCell) -> float:
    ends = cell.value.interval
    if cell.value.estimate is None or ends.low is None or ends.high is None:
        return math.inf
    return ends.high - ends.low


def _at_once(table: StatementAnswer) -> list[list[KnownPart]]:
    """The numbers, with intervals that all hold at once."""

    def part(cell: AnsweredCell) -> KnownPart:
        looked, own = cell.after_looking, cell.value
        ends = own.interval if looked is None else looked.at_once
        return KnownPart.of(own.estimate or 0.0, ends.low, ends.high)

    return [[part(cell) for cell in row] for row in table.cells]


def _groups(table: StatementAnswer) -> list[tuple[object, ...]]:
    return [(row.group, row.together) for row in table.asked.statement.rows]


def _distance(one: Values, other: Values) -> int:
    return len(one ^ other)


def _hull(cells: Sequence[AnsweredCell], *, is_known: bool) -> AnsweredCell:
    """A cell whose intervals hold the intervals of some cells; all numbers where one is unknown."""
    first = cells[0]
    if not is_known:
        unknown = CellValue(None, CellInterval(None, None))
        return replace(first, value=unknown, after_looking=None)
    looked = [one for cell in cells if (one := cell.after_looking) is not None]
    reading = None
    if len(looked) == len(cells):
        reading = CellReading(
            _around([one.at_once for one in looked]),
            _around([one.largest for one in looked]),
            _around([one.least for one in looked]),
        )
    interval = _around([cell.value.interval for cell in cells])
    return replace(first, value=CellValue(first.value.estimate, interval), after_looking=reading)


def _around(intervals: Sequence[CellInterval]) -> CellInterval:
    lows, highs = [one.low for one in intervals], [one.high for one in intervals]
    known = [low for low in lows if low is not None], [high for high in highs if high is not None]
    return CellInterval(
        min(known[0]) if len(known[0]) == len(lows) else None,
        max(known[1]) if len(known[1]) == len(highs) else None,
    )


def _shown(values: Values) -> str:
    names = sorted("NULL" if one is None else f"'{one[:40]}'" for one in values)
    more = len(names) - _MOST_NAMES
    shown = ", ".join(names[:_MOST_NAMES]) or "nothing"
    return f"{shown} and {more} more" if more > 0 else shown
