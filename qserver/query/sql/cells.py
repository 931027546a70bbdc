"""From a statement to questions with lengths and confidences, and from their answers to cells.

Two questions with intervals that hold together answer a quotient N / D. Its interval is the set of
all quotients of values in the two. So it holds whenever both do, without a normal law and without
linearisation. If the denominator may be zero, the interval is unbounded, as it must be.
If the joint law of both errors is known, `qserver.answering.quotient` shortens the interval.
`qserver.query.sql.parts` says how exact both parts must be.
The question for the numerator is N - m D, about its middle m, since N = m D says nothing about the
noise. The interval is m plus the quotients of N - m D and D.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from qserver.errors import RequirementError
from qserver.query.linear import LinearQuery
from qserver.query.measure import Measure
from qserver.query.question import Question
from qserver.query.requirement import MAX_LENGTH, MIN_LENGTH, Requirement
from qserver.query.sql.combined.asked import OfSeveral, several_at_most, several_confidence
from qserver.query.sql.combined.function import Combined, FunctionOfSums, KnownPart
from qserver.query.sql.parts import Halves, KnownQuotient, QuotientTarget
from qserver.query.sql.statement import Ratio, Statement
from qserver.query.sql.tables.bounds import centred
from qserver.query.sql.tables.exactness import least_base
from qserver.query.sql.tables.intervals import CellInterval, Centred, moved, quotient_interval
from qserver.query.sql.tables.relative import (
    Relative,
    confidence_of,
    relative_of,
    relatives,
)


@dataclass(frozen=True)
class CellQuestions:
    """The questions of one cell, by their index; `denominator` and `centred` for quotients.

    Args:
        offset: a number that is added to the answer of a count or sum.
        confidence: of its interval.
        several: all questions of a function of several sums, and the function.
    """

    main: int
    denominator: int | None = None
    centred: Centred | None = None
    offset: float = 0.0
    confidence: float = 0.95
    several: tuple[int, ...] = ()
    function: FunctionOfSums | None = None

    @property
    def parts(self) -> tuple[int, ...]:
        """The indexes of its questions."""
        if self.several:
            return self.several
        return (self.main,) if self.denominator is None else (self.main, self.denominator)


@dataclass(frozen=True)
class StatementQuestions:
    """The questions of a statement, none twice, and the cells that their answers fill.

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
        """How many numbers a choice is made from: those of the table, or as the statement says."""
        selection = self.statement.clauses.looking.selected_from
        return sum(map(len, self.cells)) if selection is None else selection.m

    @property
    def confidences(self) -> tuple[float, ...] | None:
        """Per column the confidence of its intervals; None where it is the same for all."""
        said = self.statement
        found = tuple(confidence_of(said, k) for k in range(len(said.columns)))
        return found if len(set(found)) > 1 else None


@dataclass
class _Collected:
    """The questions so far, each once, with the least length asked at its confidence.

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
        """The questions in order, all with this choice of what may be measured."""
        found = zip(self.places, self.lengths, strict=True)
        return tuple(
            Question(q, Requirement(float(length), c), measure) for (q, c), length in found
        )


def ratios(statement: Statement) -> tuple[Ratio, ...]:
    """The quotients of a statement, each once."""
    cells = (cell for row in statement.rows for cell in row.cells)
    return tuple(dict.fromkeys(cell for cell in cells if isinstance(cell, Ratio)))


def has_steps(statement: Statement) -> bool:
    """Whether it has a quotient, a function of sums, or asks for a part of a number."""
    combined = any(isinstance(cell, Combined) for row in statement.rows for cell in row.cells)
    return (
        combined
        or bool(ratios(statement))
        or any(statement.exactness_of(k).part for k in range(len(statement.columns)))
    )


def askings(
    statement: Statement, *, known: Mapping[Ratio, KnownQuotient]
) -> dict[Ratio, QuotientTarget]:
    """How exact each quotient of a statement shall be, given the known facts about it.

    Raises:
        SqlError: the statement gives no length of intervals.
        RequirementError: a quotient is the same for all data.
    """
    found, exact = dict[Ratio, QuotientTarget](), _of_ratios(statement)
    for row in statement.rows:
        for cell in row.cells:
            if not isinstance(cell, Ratio) or cell in found:
                continue
            radius = centred(cell).radius
            if radius == 0:
                raise RequirementError(
                    "sql", "not ask for a quotient that is the same for all records"
                )
            here = known.get(cell, KnownQuotient())
            half_width, confidence = exact[cell]
            found[cell] = QuotientTarget.of(
                here,
                width=float(half_width),
                base=least_base(statement.clauses.assuming, here.denominator.low),
                radius=float(radius),
                confidence=confidence,
                part_confidence=part_confidence(statement, confidence),
            )
    return found


def _of_ratios(statement: Statement) -> dict[Ratio, tuple[Fraction, float]]:
    """Per quotient the half-width and the confidence: the most exact of its columns."""
    found = dict[Ratio, tuple[Fraction, float]]()
    for row in statement.rows:
        for k, cell in enumerate(row.cells):
            if isinstance(cell, Ratio):
                half_width, confidence = (
                    _half_width_of(cell, statement, k),
                    confidence_of(statement, k),
                )
                before = found.get(cell, (half_width, confidence))
                found[cell] = min(half_width, before[0]), max(confidence, before[1])
    return found


def _half_width_of(cell: Ratio, statement: Statement, column: int) -> Fraction:
    """The half-width of a quotient; of a percentage that of the least that it can be."""
    part = statement.exactness_of(column).part
    if part is None:
        return _half_width(statement, column)
    shape = centred(cell)
    least = max(shape.middle - shape.radius, -shape.middle - shape.radius)
    if not shape.is_bounded or least <= 0:
        raise statement.source.refuse(
            "not ask for a percentage of a quotient that may be zero",
            statement.source.end,
            hint="Nearest: WITHIN 0.02, in the units of the quotient.",
        )
    return part * least


def at_most(statement: Statement, *, known: Mapping[Ratio, KnownQuotient]) -> StatementQuestions:
    """The questions that suffice for all data; raises as `askings` and `asked` do."""
    found = askings(statement, known=known)
    halves = {ratio: asking.most for ratio, asking in found.items()}
    return asked(statement, halves=halves, of_several=several_at_most(statement))


def asked(
    statement: Statement,
    *,
    halves: Mapping[Ratio, Halves],
    of_sums: Mapping[Relative, float] | None = None,
    of_several: OfSeveral | None = None,
) -> StatementQuestions:
    """The questions that answer a statement.

    Args:
        halves: per quotient the half-widths of both parts; cut to the range of requirements.
        of_sums: the half-width of each number of which a part is asked; those that suffice in
            every case where left out.
        of_several: the half-widths of the sums behind each function of several.

    Raises:
        SqlError: the statement gives no length of intervals.
        RequirementError: a length or a confidence is out of range.
    """
    exact = _of_ratios(statement)
    if of_sums is None:
        of_sums = {one: target.most for one, target in relatives(statement).items()}
    collected = _Collected()
    cells = []
    for i, row in enumerate(statement.rows):
        found = []
        for k, cell in enumerate(row.cells):
            if isinstance(cell, Combined):
                lengths = map(_length, (of_several or {})[i, k])
                found.append(_several(collected, cell, statement, k, tuple(lengths)))
                continue
            if isinstance(cell, Ratio):
                confidence = exact[cell][1]
                part = part_confidence(statement, confidence)
                one = _ratio(collected, cell, halves[cell], part)
                found.append(replace(one, confidence=confidence))
                continue
            confidence = confidence_of(statement, k)
            half = of_sums.get(relative_of(cell, statement, k)) if of_sums else None
            length = 2 * _half_width(statement, k) if half is None else _length(half)
            place = collected.add(cell.query, length, confidence)
            found.append(CellQuestions(place, offset=float(cell.offset), confidence=confidence))
        cells.append(tuple(found))
    return StatementQuestions(
        statement,
        collected.questions(statement.clauses.measure),
        tuple(cells),
        min((confidence_of(statement, k) for k in range(len(statement.columns))), default=1.0),
        simultaneous=statement.clauses.simultaneous,
    )


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
        raise statement.source.refuse(
            "say how long the interval may be",
            statement.source.end,
            hint="Nearest: WITHIN 50 CONFIDENCE 0.95, 50 more or less with 95 percent confidence.",
        )
    return half_width


def part_confidence(statement: Statement, confidence: float) -> float:
    """The confidence of each of the two intervals behind a quotient of this confidence.

    Each may miss with half of the cell's chance. Then both hold at once with the confidence of the
    cell, for any dependence of their errors. Simultaneous intervals hold at once already.
    """
    return confidence if statement.clauses.simultaneous else 1 - (1 - confidence) / 2


def quotient_confidences(statement: Statement) -> dict[Ratio, float]:
    """Per quotient the confidence of both of its parts."""
    exact = _of_ratios(statement)
    return {ratio: part_confidence(statement, c) for ratio, (_, c) in exact.items()}


def _ratio(collected: _Collected, cell: Ratio, halves: Halves, confidence: float) -> CellQuestions:
    shape = centred(cell)
    over, under = _length(halves.over), _length(halves.under)
    return CellQuestions(
        main=collected.add(shape.part, over, confidence),
        denominator=collected.add(shape.denominator, under, confidence),
        centred=shape,
    )


@dataclass(frozen=True)
class CellValue:
    """The value of a cell; the estimate is None if the denominator may be zero."""

    estimate: float | None
    interval: CellInterval


def cell_value(
    cell: CellQuestions, estimates: Sequence[float], intervals: Sequence[CellInterval]
) -> CellValue:
    """The value of a cell, from the answers of all questions."""
    if cell.function is not None:
        return _value_of_several(
            cell.function, [(estimates[i], intervals[i]) for i in cell.several]
        )
    if cell.denominator is None or cell.centred is None:
        return CellValue(
            estimates[cell.main] + cell.offset, moved(intervals[cell.main], cell.offset)
        )
    shape = cell.centred
    interval = quotient_interval(intervals[cell.main], intervals[cell.denominator], shape)
    return CellValue(_estimate(cell, estimates, interval), interval)


def _value_of_several(
    function: FunctionOfSums, parts: Sequence[tuple[float, CellInterval]]
) -> CellValue:
    found = function.value(
        [KnownPart.of(estimate, ends.low, ends.high) for estimate, ends in parts]
    )
    low, high = (end if math.isfinite(end) else None for end in (found.low, found.high))
    return CellValue(found.estimate, CellInterval(low, high))


def consistent_value(cell: CellQuestions, estimates: Sequence[float]) -> float | None:
    """The value of a cell by the consistent answers of all questions; None if it divides by zero.

    A table has one value for each quotient.
    """
    if cell.function is not None:
        exact = [KnownPart(estimates[i], estimates[i], estimates[i]) for i in cell.several]
        return cell.function.value(exact).estimate
    if cell.denominator is None or cell.centred is None:
        return estimates[cell.main] + cell.offset
    if estimates[cell.denominator] <= 0.0:
        return None
    quotient = float(cell.centred.middle) + estimates[cell.main] / estimates[cell.denominator]
    return quotient if math.isfinite(quotient) else None


def _estimate(
    cell: CellQuestions, estimates: Sequence[float], interval: CellInterval
) -> float | None:
    """The quotient of the estimates, moved into the interval; None if it is not finite.

    A weighted average of no record, or by the estimate of less, is no number either.
    """
    if cell.denominator is None or cell.centred is None:
        return None
    over, under = estimates[cell.main], estimates[cell.denominator]
    if under == 0.0 or (under < 0.0 and cell.centred.is_bounded):
        return None
    quotient = over / under
    if not math.isfinite(quotient):
        return None
    found = float(cell.centred.middle) + quotient
    low = -math.inf if interval.low is None else interval.low
    high = math.inf if interval.high is None else interval.high
    return min(max(found, low), high)
