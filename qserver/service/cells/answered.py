"""The cells of a statement's table from the answers of its questions."""

from __future__ import annotations

from collections.abc import Sequence

from qserver.query.looking import Ends
from qserver.query.sql.cells import (
    CellQuestions,
    StatementQuestions,
    cell_value,
    consistent_value,
)
from qserver.query.sql.tables.intervals import CellInterval
from qserver.records.answer import Answer, Offer
from qserver.records.statement import joined
from qserver.service.statement_answers import AnsweredCell
from qserver.service.unmeasured.steps import dearest

UNKNOWN = CellInterval(None, None)


def answered_cell(
    cell: CellQuestions,
    answers: Sequence[Answer],
    ends: Sequence[Ends | None],
    nearest: Sequence[float] | None,
) -> AnsweredCell:
    """A cell by its questions' answers, with where they come from."""
    estimates = [answer.estimate for answer in answers]
    value = cell_value(cell, estimates, part_intervals(cell, answers, ends))
    parts = [answers[i] for i in cell.parts]
    source, law = dearest(a.source for a in parts), joined([a.statement for a in parts])
    return AnsweredCell(value, source, consistent_of(cell, nearest), statement=law)


def part_intervals(
    cell: CellQuestions, found: Sequence[Answer | Offer | None], ends: Sequence[Ends | None]
) -> list[CellInterval]:
    """The intervals of all questions; for a function of several both ends miss alike.

    Some functions count on each end by itself, and the shortest interval of a posterior may miss at
    one end more often than at the other.
    """
    is_two_sided = cell.function is not None and len(ends) == len(found)
    intervals = list[CellInterval]()
    for i, one in enumerate(found):
        end = ends[i] if is_two_sided else None
        either = one if end is None else end
        known = UNKNOWN if either is None else CellInterval(either.low, either.high)
        intervals.append(known)
    return intervals


def consistent_of(cell: CellQuestions, nearest: Sequence[float] | None) -> float | None:
    """The cell's value by the consistent answers of all questions, where these were asked for."""
    return None if nearest is None else consistent_value(cell, nearest)


def for_quotients(questions: StatementQuestions) -> tuple[int, ...]:
    """The questions that are asked for quotients alone, whose posteriors these do not need."""
    if questions.simultaneous or questions.statement.clauses.looking.selected_from is not None:
        return ()
    cells = [cell for row in questions.cells for cell in row]
    parts = {i for cell in cells if cell.denominator is not None for i in cell.parts}
    return tuple(sorted(parts.difference(*(c.parts for c in cells if c.denominator is None))))
