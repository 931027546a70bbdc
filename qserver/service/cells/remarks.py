"""What is said of a table: which numbers are longer than asked, by which law, and all at once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from qserver.answering.remarks import longer, remark_on
from qserver.answering.workload import KnownNumber
from qserver.query.sql.cells import StatementQuestions
from qserver.query.sql.functions.function_of_sums import Combined
from qserver.query.sql.statement import Ratio
from qserver.records.answer import Answer, WorkloadAnswer
from qserver.service.statement_answers import AnsweredCell, StatementAnswer
from qserver.text import LookedNumber, laws_text, looking_text


def with_lengths(
    questions: StatementQuestions, found: Answer | WorkloadAnswer
) -> StatementQuestions:
    """The questions of a statement that says where plain numbers are longer than asked.

    Lengths are written as half-widths, as WITHIN has them. What is asked in steps has no length of
    its own to be held to.
    """
    answers = found.answers if isinstance(found, WorkloadAnswer) else (found,)
    each = [longer(*pair) for pair in zip(questions.questions, answers, strict=True)]
    plain = _plain(questions)
    is_all = all(one is None or i in plain for i, one in enumerate(each))
    said = remark_on(
        [each[i] for i in plain],
        together=found.simultaneous if isinstance(found, WorkloadAnswer) else None,
        rest_nano=found.rest_nano if is_all else None,
        halves=True,
    )
    return _with(questions, said)


def with_known_lengths(
    questions: StatementQuestions, known: Sequence[KnownNumber | None]
) -> StatementQuestions:
    """The same where nothing was asked yet, and the numbers are those known at no cost."""
    numbers = [(questions.questions[i], known[i]) for i in _plain(questions)]
    each = [
        longer(question, one.answer, is_met=one.meets(question))
        for question, one in numbers
        if one is not None
    ]
    return _with(questions, remark_on(each, halves=True))


def _with(questions: StatementQuestions, said: tuple[str, ...]) -> StatementQuestions:
    statement = questions.statement
    return replace(questions, statement=replace(statement, remarks=(*statement.remarks, *said)))


def _plain(questions: StatementQuestions) -> list[int]:
    """Places of the questions whose lengths are those that the text asks for."""
    statement, found = questions.statement, set[int]()
    for row, cells in zip(statement.rows, questions.cells, strict=True):
        for k, (cell, asked) in enumerate(zip(row.cells, cells, strict=True)):
            in_steps = isinstance(cell, Combined) and not questions.simultaneous
            in_steps = in_steps or (isinstance(cell, Combined) and cell.function.has_steps)
            if not (isinstance(cell, Ratio) or in_steps or statement.exactness_of(k).part):
                found.update(asked.parts)
    return sorted(found)


def said_beside(found: StatementAnswer) -> tuple[str, ...]:
    """A line on looking at all numbers, and one on their law, where there is anything to say."""
    cells = [cell for row in found.cells for cell in row]
    told = [cell.statement for cell in cells if cell.statement is not None]
    laws = laws_text(
        [one.law for one in told],
        error=max((one.error for one in told), default=0.0),
        disagreements=max((one.disagreements for one in told), default=0),
    )
    return tuple(line for line in (looking_text(looked_numbers(found), n=len(cells)), laws) if line)


def looked_numbers(found: StatementAnswer) -> list[LookedNumber]:
    """The lengths of the intervals of all numbers that have some after looking."""
    pairs = (_looked_number(cell) for row in found.cells for cell in row)
    return [one for one in pairs if one is not None]


def _looked_number(cell: AnsweredCell) -> LookedNumber | None:
    estimate, ends, looked = cell.value.estimate, cell.value.interval, cell.after_looking
    if estimate is None or ends.low is None or ends.high is None or looked is None:
        return None
    all_ends = [looked.at_once.low, looked.at_once.high, looked.largest.low, looked.largest.high]
    all_low, all_high, top_low, top_high = (math.nan if end is None else end for end in all_ends)
    lengths = ends.high - ends.low, all_high - all_low
    return LookedNumber(*lengths, (estimate - top_low, top_high - estimate))
