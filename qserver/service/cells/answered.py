"""The cells of a statement's table from the answers of its questions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from qserver.answering.workload import MOST_OFFERED
from qserver.query.asking.marks import Marks
from qserver.query.looking import Ends
from qserver.query.question import Question, Workload
from qserver.query.sql.cells import (
    CellQuestions,
    StatementQuestions,
    cell_value,
    consistent_value,
    has_steps,
)
from qserver.query.sql.combined.function import FunctionOfSums, is_judged
from qserver.query.sql.tables.intervals import CellInterval
from qserver.records.answer import Answer, Offer, dearest
from qserver.records.statement import DECIDED, OF_ESTIMATOR, Statement, joined
from qserver.service.statement_answers import AnsweredCell

UNKNOWN = CellInterval(None, None)


def answered_cell(
    cell: CellQuestions,
    answers: Sequence[Answer],
    ends: Sequence[Ends | None],
    nearest: Sequence[float] | None,
) -> AnsweredCell:
    """A cell by its questions' answers, with where they come from."""
    estimates = {i: answers[i].estimate for i in cell.parts}
    value = cell_value(cell, estimates, part_intervals(cell, answers, ends))
    parts = [answers[i] for i in cell.parts]
    source, law = dearest(a.source for a in parts), _law_of(cell, parts)
    return AnsweredCell(value, source, consistent_of(cell, nearest), statement=law)


def _law_of(cell: CellQuestions, parts: Sequence[Answer]) -> Statement:
    """The law of what parts give together; those that decide nothing any more do not count."""
    marks = _marks(cell)
    left = [a.statement for a, m in zip(parts, marks, strict=True) if not _is_decided(a, m)]
    return joined(left) if left else DECIDED


def _is_decided(answer: Answer, marks: Marks | None) -> bool:
    """Whether the law of the error told all that mattered of an answer."""
    if marks is None or answer.statement != OF_ESTIMATOR:
        return False
    return marks.decide(answer.low, answer.high, confidence=answer.confidence)


def _marks(cell: CellQuestions) -> tuple[Marks | None, ...]:
    """Per question the marks by which alone it matters."""
    return (None,) * len(cell.parts) if cell.function is None else cell.function.marks


def part_intervals(
    cell: CellQuestions, found: Sequence[Answer | Offer | None], ends: Sequence[Ends | None]
) -> dict[int, CellInterval]:
    """The intervals of its questions by index; for a function of several both ends miss alike.

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
    """The cell's value by the consistent answers of all questions, where these were asked for."""
    return None if nearest is None else consistent_value(cell, nearest)


def for_quotients(questions: StatementQuestions) -> tuple[int, ...]:
    """The questions whose posteriors nobody needs: those of smooth numbers and quantiles alone."""
    cells = _by_themselves(questions)
    if not cells:
        return ()
    needed = {i for c in cells if c.function is None or is_judged(c.function) for i in c.parts}
    return tuple(i for i in range(len(questions.questions)) if i not in needed)


def marks_of(questions: StatementQuestions) -> tuple[tuple[int, Marks], ...]:
    """The questions that matter only by their side of two numbers, with these."""
    found, others = dict[int, Marks](), set[int]()
    for cell in _by_themselves(questions):
        for i, marks in zip(cell.parts, _marks(cell), strict=True):
            if marks is None or found.setdefault(i, marks) != marks:
                others.add(i)
    return tuple((i, marks) for i, marks in found.items() if i not in others)


def _by_themselves(questions: StatementQuestions) -> list[CellQuestions]:
    """The cells whose intervals hold one by one, and for no choice among them."""
    is_chosen = questions.statement.clauses.looking.selected_from is not None
    is_together = questions.simultaneous or is_chosen
    return [] if is_together else [cell for row in questions.cells for cell in row]


def step_of(questions: StatementQuestions) -> Workload:
    """The questions of a step before the last: nobody needs their posteriors.

    The numbers of values behind quantiles are left out: they follow from the counts that are asked.
    """
    kept = _without(questions, lambda of: of.order is not None)
    return Workload(
        kept,
        simultaneous=questions.simultaneous,
        selected_from=questions.statement.clauses.looking.selected_from,
        for_quotients=tuple(range(len(kept))),
        as_drawn=True,
    )


def offered_of(questions: StatementQuestions) -> Workload:
    """The questions of what is known for nothing: of many nobody needs the posteriors yet."""
    found = workload_of(questions)
    needed = len(questions.questions) - len(found.marks)
    return found if needed <= MOST_OFFERED else step_of(questions)


def without_smooth(questions: StatementQuestions) -> Workload | None:
    """The questions of all numbers that are not smooth; None where there is none."""
    kept = _without(questions, lambda of: of.smooth is not None)
    return Workload(kept) if kept else None


def _without(
    questions: StatementQuestions, leaves_out: Callable[[FunctionOfSums], bool]
) -> tuple[Question, ...]:
    """The questions but those that only cells of some functions need."""
    cells = [cell for row in questions.cells for cell in row]
    apart = [cell.function is not None and leaves_out(cell.function) for cell in cells]
    pairs = list(zip(cells, apart, strict=True))
    needed = {i for cell, is_apart in pairs if not is_apart for i in cell.parts}
    left = {i for cell, is_apart in pairs if is_apart for i in cell.parts} - needed
    return tuple(q for i, q in enumerate(questions.questions) if i not in left)


def workload_of(questions: StatementQuestions) -> Workload:
    """The questions of a statement as one workload."""
    return Workload(
        questions.questions,
        simultaneous=questions.simultaneous,
        selected_from=questions.statement.clauses.looking.selected_from,
        for_quotients=for_quotients(questions),
        marks=marks_of(questions),
        as_drawn=has_steps(questions.statement),
    )
