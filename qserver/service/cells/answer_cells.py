"""The cells of a statement's table from the answers of its questions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from qserver.answering.consistency import ConsistentWorkload
from qserver.query.asking.after_looking import Ends
from qserver.query.question import Question, Workload
from qserver.query.sql.cells import (
    CellQuestions,
    StatementQuestions,
    cell_value,
    consistent_value,
    has_steps,
)
from qserver.query.sql.functions.function_of_sums import FunctionOfSums
from qserver.query.sql.tables.cell_intervals import CellInterval
from qserver.records.answer import Answer, Offer, dearest
from qserver.records.statement import joined
from qserver.service.statement_answers import AnsweredCell

UNKNOWN = CellInterval(None, None)


def answered_cell(
    cell: CellQuestions,
    answers: Sequence[Answer],
    ends: Sequence[Ends | None],
    nearest: Sequence[float] | None,
) -> AnsweredCell:
    """A cell from its questions' answers, with their sources."""
    estimates = {i: answers[i].estimate for i in cell.parts}
    value = cell_value(cell, estimates, part_intervals(cell, answers, ends))
    parts = [answers[i] for i in cell.parts]
    source, law = dearest(a.source for a in parts), joined([a.statement for a in parts])
    return AnsweredCell(value, source, consistent_of(cell, nearest), statement=law)


def part_intervals(
    cell: CellQuestions, found: Sequence[Answer | Offer | None], ends: Sequence[Ends | None]
) -> dict[int, CellInterval]:
    """The intervals of its questions by index; for a function of several, both ends miss alike.

    Some functions count on each end by itself, and the shortest interval of a posterior may miss at
    one end more often than at the other.
    """
    is_two_sided = cell.function is not None and len(ends) == len(found)
    intervals = dict[int, CellInterval]()
    for i in cell.parts:
        end = ends[i] if is_two_sided else None
        either = found[i] if end is None else end
        intervals[i] = UNKNOWN if either is None else CellInterval(either.low, either.high)
    return intervals


def consistent_of(cell: CellQuestions, nearest: Sequence[float] | None) -> float | None:
    """The cell's value by the consistent answers of all questions, where the statement asks for
    these."""
    return None if nearest is None else consistent_value(cell, nearest)


def for_quotients(questions: StatementQuestions) -> tuple[int, ...]:
    """The questions whose posteriors are not needed: those of functions of sums alone."""
    cells = _by_themselves(questions)
    if not cells:
        return ()
    needed = {i for cell in cells if cell.function is None for i in cell.parts}
    return tuple(i for i in range(len(questions.questions)) if i not in needed)


def _by_themselves(questions: StatementQuestions) -> list[CellQuestions]:
    """The cells whose intervals hold singly, and not for a choice among them."""
    is_chosen = questions.statement.clauses.looking.selected_from is not None
    is_together = questions.simultaneous or is_chosen
    return [] if is_together else [cell for row in questions.cells for cell in row]


def step_of(questions: StatementQuestions) -> Workload:
    """The questions of a step before the last, without posteriors.

    The numbers of values behind quantiles are left out: they follow from the counts that are asked.
    """
    kept = _without(questions, _counted)
    return Workload(
        kept,
        simultaneous=questions.simultaneous,
        selected_from=questions.statement.clauses.looking.selected_from,
        for_quotients=tuple(range(len(kept))),
        as_drawn=True,
    )


def without_smooth(questions: StatementQuestions) -> Workload | None:
    """The questions of all numbers that are not smooth; None without any."""
    kept = _without(questions, lambda cell, of: cell.parts if of.smooth is not None else ())
    return Workload(kept) if kept else None


def _counted(cell: CellQuestions, of: FunctionOfSums) -> Sequence[int]:
    """The questions in a cell that count the values of quantiles."""
    return () if of.order is None else [cell.parts[k] for k in of.order.counts_values]


def _without(
    questions: StatementQuestions,
    leaves_out: Callable[[CellQuestions, FunctionOfSums], Sequence[int]],
) -> tuple[Question, ...]:
    """The questions without those that only these cells need."""
    left, needed = set[int](), set[int]()
    for cell in (cell for row in questions.cells for cell in row):
        own = set[int]() if cell.function is None else set(leaves_out(cell, cell.function))
        left |= own
        needed |= set(cell.parts) - own
    left -= needed
    return tuple(q for i, q in enumerate(questions.questions) if i not in left)


def workload_of(questions: StatementQuestions) -> Workload:
    """The questions of a statement as one workload."""
    return Workload(
        questions.questions,
        simultaneous=questions.simultaneous,
        selected_from=questions.statement.clauses.looking.selected_from,
        for_quotients=for_quotients(questions),
        as_drawn=has_steps(questions.statement),
    )


_T = TypeVar("_T")


def consistent_workload(questions: StatementQuestions) -> ConsistentWorkload | None:
    """The search for consistent answers, where the statement asks for these."""
    if not questions.statement.clauses.consistent:
        return None
    return ConsistentWorkload([q.query for q in questions.questions])


def only_question(asked: StatementQuestions) -> Question | None:
    """The question of a statement that asks only one."""
    return asked.questions[0] if len(asked.questions) == 1 else None


def by_cell(
    asked: StatementQuestions, of: Callable[[CellQuestions], _T]
) -> tuple[tuple[_T, ...], ...]:
    """Items of each cell, per group and column."""
    return tuple(tuple(map(of, row)) for row in asked.cells)
