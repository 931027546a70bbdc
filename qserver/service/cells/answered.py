"""The cells of a statement's table from the answers of its questions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from qserver.answering.workload import MOST_OFFERED
from qserver.query.looking import Ends
from qserver.query.question import Workload
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
    """The questions whose posteriors nobody needs: those that are asked for quotients alone.

    And those of functions of many sums, as medians: a posterior of each would take seconds. Their
    intervals are by the laws of the estimates' errors, which hold as well.
    """
    if questions.simultaneous or questions.statement.clauses.looking.selected_from is not None:
        return ()
    cells = [cell for row in questions.cells for cell in row]
    apart = [c.denominator is not None or len(c.parts) > MOST_OFFERED for c in cells]
    needed = {i for c, is_apart in zip(cells, apart, strict=True) if not is_apart for i in c.parts}
    parts = {i for c, is_apart in zip(cells, apart, strict=True) if is_apart for i in c.parts}
    return tuple(sorted(parts - needed))


def step_of(questions: StatementQuestions) -> Workload:
    """The questions of a step before the last: nobody needs their posteriors."""
    return replace(workload_of(questions), for_quotients=tuple(range(len(questions.questions))))


def workload_of(questions: StatementQuestions) -> Workload:
    """The questions of a statement as one workload."""
    return Workload(
        questions.questions,
        simultaneous=questions.simultaneous,
        selected_from=questions.statement.clauses.looking.selected_from,
        for_quotients=for_quotients(questions),
    )
