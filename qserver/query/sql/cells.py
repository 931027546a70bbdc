"""From a statement to questions with lengths and confidences, and from their answers to cells.

A number other than a sum is a function of several sums, each a question. If the sums' intervals
hold at once, they give its interval; `qserver.service.cells` finds that of a smooth number alone. A
quotient N / D is asked about a number m as N - m D and D, since N = m D says nothing about the
noise.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from qserver.query.linear_query import LinearQuery
from qserver.query.question import Question
from qserver.query.requirement import MAX_LENGTH, MIN_LENGTH, Measure, Requirement
from qserver.query.sql.functions.function_of_sums import (
    Combined,
    FunctionOfSums,
    KnownPart,
    public_range,
)
from qserver.query.sql.statement import Statement, Sum
from qserver.query.sql.statistics.smooth_functions import (
    OfSeveral,
    function_cells,
    several_confidence,
)
from qserver.query.sql.tables.cell_intervals import CellInterval, moved
from qserver.query.sql.tables.relative_length import Relative, confidence_of, relative_of, relatives


@dataclass(frozen=True)
class CellQuestions:
    """The questions of one cell, by their index.

    Args:
        main: the first question.
        offset: added to the answer of a count or sum; None makes it NULL.
        confidence: of its interval.
        several: all questions of a function of several sums, and the function.
    """

    main: int
    offset: float | None = 0.0
    confidence: float = 0.95
    several: tuple[int, ...] = ()
    function: FunctionOfSums | None = None

    @property
    def parts(self) -> tuple[int, ...]:
        """The indexes of its questions."""
        return self.several or (self.main,)


@dataclass(frozen=True)
class StatementQuestions:
    """The distinct questions of a statement, and the cells that their answers fill.

    Args:
        confidence: of the interval of each cell, or of all at once where `simultaneous`; the least
            where columns differ.
    """

    statement: Statement
    questions: tuple[Question, ...]
    cells: tuple[tuple[CellQuestions, ...], ...]
    confidence: float
    simultaneous: bool

    @property
    def among(self) -> int:
        """Number of numbers in a choice: those of the table, or as stated."""
        selection = self.statement.clauses.looking.selected_from
        return sum(map(len, self.cells)) if selection is None else selection.m

    @property
    def confidences(self) -> tuple[float, ...] | None:
        """Confidence of the intervals of each column; None if it is the same for all."""
        said = self.statement
        found = tuple(confidence_of(said, k) for k in range(len(said.columns)))
        return found if len(set(found)) > 1 else None


@dataclass
class _Collected:
    """Distinct questions so far, with the least length asked at each confidence.

    So the questions and their order depend on the text alone.
    """

    places: dict[tuple[LinearQuery, float], int] = field(default_factory=dict)
    lengths: list[Fraction] = field(default_factory=list)

    def add(self, query: LinearQuery, length: Fraction, confidence: float) -> int:
        """The question's index."""
        i = self.places.setdefault((query, confidence), len(self.lengths))
        if i == len(self.lengths):
            self.lengths.append(length)
        self.lengths[i] = min(length, self.lengths[i])
        return i

    def questions(self, measure: Measure | None) -> tuple[Question, ...]:
        """The questions in order, all with this `measure`."""
        found = zip(self.places, self.lengths, strict=True)
        return tuple(
            Question(q, Requirement(float(length), c), measure) for (q, c), length in found
        )


def has_steps(statement: Statement) -> bool:
    """Whether a statement has functions of several sums, or lengths as parts of numbers."""
    combined = any(not isinstance(cell, Sum) for row in statement.rows for cell in row.cells)
    return combined or any(statement.exactness_of(k).part for k in range(len(statement.columns)))


def asked(
    statement: Statement,
    *,
    of_sums: Mapping[Relative, float] | None = None,
    of_several: OfSeveral | None = None,
) -> StatementQuestions:
    """The questions that answer a statement.

    Args:
        of_sums: half-width of each number with a length as a part of itself; by default sufficient
            in every case.
        of_several: half-widths of the sums behind each function; cut to the range of requirements.

    Raises:
        SqlError: the statement gives no length.
        RequirementError: a length or a confidence is out of range.
    """
    if of_sums is None:
        of_sums = {one: target.most for one, target in relatives(statement).items()}
    functions = {(i, k): cell for i, k, cell in function_cells(statement)}
    collected = _Collected()
    cells = []
    for i, row in enumerate(statement.rows):
        found = []
        for k, cell in enumerate(row.cells):
            if not isinstance(cell, Sum):
                lengths = map(_length, (of_several or {})[i, k])
                one = functions[i, k]
                found.append(_several(collected, one, statement, k, tuple(lengths)))
                continue
            confidence = confidence_of(statement, k)
            half = of_sums.get(relative_of(cell, statement, k)) if of_sums else None
            length = 2 * _half_width(statement, k) if half is None else _length(half)
            place = collected.add(cell.query, length, confidence)
            offset = None if cell.offset is None else float(cell.offset)
            found.append(CellQuestions(place, offset=offset, confidence=confidence))
        cells.append(tuple(found))
    return StatementQuestions(
        statement,
        collected.questions(statement.clauses.measure),
        tuple(cells),
        min((confidence_of(statement, k) for k in range(len(statement.columns))), default=1.0),
        simultaneous=statement.clauses.simultaneous,
    )


def at_any_length(statement: Statement) -> StatementQuestions:
    """The questions of a statement with lengths; any length behind functions."""
    any_length = {
        (i, k): (math.inf,) * len(cell.queries) for i, k, cell in function_cells(statement)
    }
    return asked(statement, of_several=any_length)


def _several(
    collected: _Collected,
    cell: Combined,
    statement: Statement,
    column: int,
    lengths: Sequence[Fraction],
) -> CellQuestions:
    confidence = several_confidence(statement, column, cell)
    asked_of = zip(cell.queries, lengths, strict=True)
    places = tuple(collected.add(query, length, confidence) for query, length in asked_of)
    own = confidence_of(statement, column)
    return CellQuestions(places[0], confidence=own, several=places, function=cell.function)


def _length(half: float) -> Fraction:
    return Fraction(min(max(2.0 * half, MIN_LENGTH), MAX_LENGTH))


def _half_width(statement: Statement, column: int) -> Fraction:
    half_width = statement.exactness_of(column).half_width
    if half_width is None:
        raise statement.without_length()
    return half_width


@dataclass(frozen=True)
class CellValue:
    """The value of a cell.

    Args:
        estimate: None if unknown: only the public interval is known, or the denominator may be
            zero.
    """

    estimate: float | None
    interval: CellInterval


def cell_value(
    cell: CellQuestions, estimates: Mapping[int, float], intervals: Mapping[int, CellInterval]
) -> CellValue:
    """The value of a cell, from the answers of its questions by their index."""
    if cell.function is None:
        number = None if cell.offset is None else estimates[cell.main] + cell.offset
        return CellValue(number, moved(intervals[cell.main], cell.offset))
    parts = [(estimates[i], intervals[i]) for i in cell.several]
    found = cell.function.value([KnownPart.of(one, of.low, of.high) for one, of in parts])
    low, high = (end if math.isfinite(end) else None for end in (found.low, found.high))
    return CellValue(found.estimate, CellInterval(low, high))


def is_public(cell: CellQuestions, interval: CellInterval) -> bool:
    """Whether an interval adds nothing to a function's public bounds."""
    if cell.function is None:
        return False
    least, most = public_range(cell.function, len(cell.parts))
    known = KnownPart.of(0.0, interval.low, interval.high)
    return known.low <= least < most <= known.high


def consistent_value(cell: CellQuestions, estimates: Sequence[float]) -> float | None:
    """The value of a cell by the consistent answers of all questions; None if it divides by zero.

    A table has one value for each quotient.
    """
    if cell.function is None:
        return None if cell.offset is None else estimates[cell.main] + cell.offset
    exact = [KnownPart(estimates[i], estimates[i], estimates[i]) for i in cell.several]
    return cell.function.value(exact).estimate
