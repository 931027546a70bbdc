"""Answers and prices of statements of SQL by group and column; intervals after looking.

A choice is made within a column. The cells of a column that are sums have the readings of
`qserver.inference.posterior.after_looking`. A quotient has one reading for every rule: that of its
posterior with its share of what all may miss, or else all values that its two parts allow when each
has the interval that holds for any choice. Both parts miss at most with the probability that their
quotient may miss with, so it holds as well.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from qserver.errors import NotEstimableError
from qserver.inference.estimate import CredibleInterval
from qserver.inference.posterior.after_looking import rule_that_holds, table_readings
from qserver.query.asking.after_looking import Ends, Rule, Selection
from qserver.query.linear_query import LinearQuery
from qserver.query.sql.cells import (
    CellQuestions,
    CellValue,
    StatementQuestions,
    cell_value,
    is_public,
)
from qserver.query.sql.exactness import Exactness
from qserver.query.sql.order_by import PLAIN
from qserver.query.sql.shaping.ranks import Rank, ranked
from qserver.query.sql.shaping.rounding import Rounding
from qserver.query.sql.statement import Bounds, Cell, Row, Statement, Sum
from qserver.query.sql.tables.cell_intervals import CellInterval, moved
from qserver.records.answer import (
    DatasetStatus,
    FactorPoint,
    Priced,
    Probability,
    Source,
)
from qserver.records.statement import Simultaneous
from qserver.records.statement import Statement as Law


@dataclass(frozen=True)
class CellReading:
    """The intervals of a cell for any choice, for the largest of its column, and for the smallest.

    Args:
        at_once: all hold at once, so for any choice.
        largest: interval of the largest number of its column.
        least: interval of the least number of its column.
    """

    at_once: CellInterval
    largest: CellInterval
    least: CellInterval

    def by(self, rule: Rule) -> CellInterval:
        """The interval that holds for a choice by this rule."""
        return {"any": self.at_once, "largest": self.largest, "least": self.least}[rule]


@dataclass(frozen=True)
class AnsweredCell:
    """A cell with its source: the dearest source of its parts.

    Args:
        consistent: the value by one non-negative table for all cells; None without CONSISTENT, or
            if the table has no record in the denominator.
        after_looking: intervals that hold after all numbers were looked at; None for one number,
            and where `interval` holds at once with all others or allows for a choice already.
        statement: meaning of the intervals; None if nothing is known.
    """

    value: CellValue
    source: Source
    consistent: float | None = None
    after_looking: CellReading | None = None
    statement: Law | None = None


@dataclass(frozen=True)
class StatementAnswer:
    """The table that a statement asked for.

    Args:
        cells: per group and column.
        simultaneous: None if not asked for.
        version: version of the history that the answers stand on.
    """

    asked: StatementQuestions
    cells: tuple[tuple[AnsweredCell, ...], ...]
    charged_nano: int
    remaining_nano: int
    simultaneous: Simultaneous | None
    version: int

    @property
    def as_of(self) -> str:
        """The last period that counts, where data arrive over time; else ''."""
        return self.asked.questions[0].as_of if self.asked.questions else ""


@dataclass(frozen=True, kw_only=True)
class StatementExplanation(Priced):
    """The price of a statement; nothing was spent.

    Args:
        price_apart_nano: sum of the prices of its questions if each was asked alone; None for one
            question, or if there was no time to plan them all.
        known: per group and column what is known at no cost, or None.
        curve: prices of shorter and longer intervals, all by one factor.
        is_most: whether `price` is an upper bound: averages and quotients are measured in steps,
            which nearly always cost far less, and never more.
    """

    asked: StatementQuestions
    price_apart_nano: int | None
    known: tuple[tuple[CellInterval | None, ...], ...]
    curve: tuple[FactorPoint, ...] = ()
    is_most: bool = False

    @property
    def of_whole_table(self) -> bool:
        """Whether HAVING, ORDER BY or LIMIT choose among released numbers; price and `free` are
        then those of the whole table."""
        return self.asked.statement.shape != PLAIN


AnyStatement = StatementAnswer | StatementExplanation


def looked(
    questions: StatementQuestions,
    cells: Sequence[Sequence[AnsweredCell]],
    estimates: Sequence[float],
    ends: Sequence[Ends | None],
) -> tuple[tuple[AnsweredCell, ...], ...]:
    """The cells with intervals that hold after a look at all of them, or after a named choice.

    One whose interval is all that is public has no estimate.

    Args:
        estimates, ends: one per question; no ends where there is nothing to choose.
    """
    statement = questions.statement
    selection = statement.clauses.looking.selected_from
    is_one = selection is None and sum(map(len, cells)) == 1
    if is_one or all(end is None for end in ends):
        alone = [[replace(cell, after_looking=None) for cell in row] for row in cells]
        told = _told(questions, alone)
        return _with_ranks(statement, told, [[None] * len(row) for row in cells])
    rules = _rules(statement, selection)
    known = cell_readings(questions, estimates, ends)
    readings = [
        [cell.after_looking or reading for cell, reading in zip(row, by_parts, strict=True)]
        for row, by_parts in zip(cells, known, strict=True)
    ]
    pairs = zip(cells, readings, strict=True)
    n_unknown = 0 if selection is None else selection.m - len(statement.rows)
    found = [
        tuple(_chosen(*one, n_unknown=n_unknown) for one in zip(row, read, rules, strict=True))
        for row, read in pairs
    ]
    return _with_ranks(statement, _told(questions, found), readings)


def _told(
    questions: StatementQuestions, cells: Sequence[Sequence[AnsweredCell]]
) -> list[tuple[AnsweredCell, ...]]:
    """The cells without an estimate where their interval is public alone."""
    return [
        tuple(_told_cell(*pair) for pair in zip(*row, strict=True))
        for row in zip(questions.cells, cells, strict=True)
    ]


def _told_cell(of: CellQuestions, cell: AnsweredCell) -> AnsweredCell:
    if not is_public(of, cell.value.interval):
        return cell
    return replace(cell, value=replace(cell.value, estimate=None))


def _with_ranks(
    statement: Statement,
    cells: Sequence[Sequence[AnsweredCell]],
    readings: Sequence[Sequence[CellReading | None]],
) -> tuple[tuple[AnsweredCell, ...], ...]:
    """The cells with those of the ranks behind them, by intervals that hold at once."""
    added = [_rank_cells(statement, cells, readings, rank) for rank in statement.ranks]
    return tuple((*row, *(column[i] for column in added)) for i, row in enumerate(cells))


def _rank_cells(
    statement: Statement,
    cells: Sequence[Sequence[AnsweredCell]],
    readings: Sequence[Sequence[CellReading | None]],
    rank: Rank,
) -> list[AnsweredCell]:
    numbers = [row[rank.column] for row in cells]
    ends: list[tuple[float | None, float | None]] = []
    for number, row in zip(numbers, readings, strict=True):
        reading = row[rank.column]
        if statement.clauses.simultaneous:
            ends.append((number.value.interval.low, number.value.interval.high))
        elif reading is None:
            # No known bound holds for all at once.
            ends.append((None, None))
        else:
            ends.append((reading.at_once.low, reading.at_once.high))
    found = ranked([number.value.estimate for number in numbers], ends, rank)
    return [
        AnsweredCell(
            CellValue(one.estimate, CellInterval(one.low, one.high)),
            number.source,
            statement=number.statement,
        )
        for number, one in zip(numbers, found, strict=True)
    ]


def _rules(statement: Statement, selection: Selection | None) -> list[Rule | None]:
    """The rule that chose each column's numbers; None without one."""
    said = None if selection is None else selection.rule
    shape, n = statement.shape, len(statement.columns)
    if said is None or shape.selection(len(statement.rows)) is None:
        return [said] * n
    return [shape.rule(k, said) for k in range(n)]


def _chosen(
    cell: AnsweredCell, reading: CellReading | None, rule: Rule | None, *, n_unknown: int
) -> AnsweredCell:
    if rule is None or reading is None:
        return replace(cell, after_looking=reading)
    found = 0 if cell.statement is None else cell.statement.disagreements
    holds = rule_that_holds(rule, n_unknown=n_unknown, disagreements=found)
    value = CellValue(cell.value.estimate, reading.by(holds))
    return replace(cell, value=value, after_looking=None)


def shaped(found: StatementAnswer, *, chooses: bool = True) -> StatementAnswer:
    """The rows that HAVING and LIMIT leave of a whole table, in order, rounded as ROUND says.

    Args:
        chooses: whether all numbers are known; otherwise all rows are shown as they are.
    """
    statement = found.asked.statement
    if not statement.is_processed:
        return found
    numbers = [[cell.value.estimate for cell in row] for row in found.cells]
    places = statement.shape.places(numbers) if chooses else list(range(len(numbers)))
    rows = tuple(statement.rows[i] for i in places)
    columns = (*statement.columns, *(rank.name for rank in statement.ranks))
    asked = replace(
        found.asked,
        statement=replace(
            statement,
            rows=tuple(map(_with_rank_columns(statement), rows)),
            columns=columns,
            shape=PLAIN,
            digits=(),
            ranks=(),
            exactness=_with_rank_exactness(statement),
            units=(),
            stops=(),
        ),
        cells=tuple(found.asked.cells[i] for i in places),
    )
    digits = statement.digits or (None,) * len(statement.columns)
    digits = (*digits, *(None for _ in statement.ranks))
    cells = tuple(tuple(map(_rounded, found.cells[i], digits)) for i in places)
    return replace(found, asked=asked, cells=cells)


def _with_rank_columns(statement: Statement) -> Callable[[Row], Row]:
    """A function that gives a row cells for its ranks: the numbers that rank it."""
    return lambda row: replace(
        row,
        cells=(*row.cells, *(replace(row.cells[r.column], binning=None) for r in statement.ranks)),
    )


def _with_rank_exactness(statement: Statement) -> tuple[Exactness, ...]:
    """The exactness of each column; a rank has that of its number."""
    own = statement.exactness
    return (*own, *(own[rank.column] for rank in statement.ranks)) if own else own


def _rounded(cell: AnsweredCell, digits: Rounding | None) -> AnsweredCell:
    """A cell rounded to so many digits, its interval outward: it holds both forms of the number."""
    if digits is None:
        return cell

    def outward(ends: CellInterval) -> CellInterval:
        return CellInterval(digits.low(ends.low), digits.high(ends.high))

    looked = cell.after_looking
    if looked is not None:
        looked = CellReading(*map(outward, (looked.at_once, looked.largest, looked.least)))
    return replace(
        cell,
        value=CellValue(digits.number(cell.value.estimate), outward(cell.value.interval)),
        consistent=digits.number(cell.consistent),
        after_looking=looked,
    )


def cell_readings(
    questions: StatementQuestions, estimates: Sequence[float], ends: Sequence[Ends | None]
) -> list[list[CellReading | None]]:
    """The readings of the cells by group and column; None where a cell's ends are unknown.

    Args:
        estimates, ends: one per question.
    """
    found = [[_at_once(cell, estimates, ends) for cell in row] for row in questions.cells]
    for k in range(len(questions.statement.columns)):
        sums = [
            (i, end)
            for i, row in enumerate(questions.cells)
            if row[k].function is None and (end := ends[row[k].main]) is not None
        ]
        readings = table_readings([end for _, end in sums])
        for (i, _), reading in zip(sums, readings, strict=True):
            by = questions.cells[i][k].offset
            readings_of = (reading.at_once, reading.largest, reading.least)
            found[i][k] = CellReading(*(moved(_cell(one), by) for one in readings_of))
    return found


def _at_once(
    cell: CellQuestions, estimates: Sequence[float], ends: Sequence[Ends | None]
) -> CellReading | None:
    known = {i: end for i in cell.parts if (end := ends[i]) is not None}
    if len(known) < len(set(cell.parts)):
        return None
    intervals = {i: CellInterval(end.lowest, end.highest) for i, end in known.items()}
    found = cell_value(cell, {i: estimates[i] for i in known}, intervals).interval
    return CellReading(found, found, found)


def _cell(interval: CredibleInterval) -> CellInterval:
    return CellInterval(interval.low, interval.high)


class _ProbabilityOf(Protocol):
    def __call__(self, query: LinearQuery, *, low: float, high: float) -> Probability: ...


def probability_table(
    statement: Statement, probability: _ProbabilityOf, status: DatasetStatus
) -> StatementAnswer:
    """The table of PROBABILITY, from history alone; nothing is spent.

    A cell has a probability in place of a number, and no value where history does not give the
    number.
    """

    def cell_of(cell: Cell, bounds: Bounds) -> AnsweredCell:
        if isinstance(cell, Sum):
            with contextlib.suppress(NotEstimableError):
                found = probability(cell.query, low=bounds.low, high=bounds.high)
                ends = CellInterval(found.probability, found.probability)
                value = CellValue(found.probability, ends)
                return AnsweredCell(value, "history", statement=found.statement)
        return AnsweredCell(CellValue(None, CellInterval(None, None)), "history")

    cells = tuple(
        tuple(cell_of(c, bounds) for c, bounds in zip(row.cells, statement.bounds, strict=True))
        for row in statement.rows
    )
    asked = StatementQuestions(statement, (), (), 1.0, simultaneous=False)
    return StatementAnswer(asked, cells, 0, status.remaining_nano, None, status.version)


def facts_table(statement: Statement, status: DatasetStatus, *, explains: bool) -> StatementAnswer:
    """The table of a statement about public names alone; nothing is spent.

    Raises:
        SqlError: its price is asked for.
    """
    if explains or statement.explains:
        raise statement.source.refuse(
            "leave out EXPLAIN: names alone cost nothing",
            statement.source.end,
        )
    asked = StatementQuestions(statement, (), (), 1.0, simultaneous=False)
    rows = tuple(() for _ in statement.rows)
    return StatementAnswer(asked, rows, 0, status.remaining_nano, None, status.version)
