"""Small readings of a statement's questions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from qserver.answering.consistency import ConsistentWorkload
from qserver.query.question import Question
from qserver.query.sql.cells import CellQuestions, StatementQuestions

_T = TypeVar("_T")


def consistent_workload(questions: StatementQuestions) -> ConsistentWorkload | None:
    """What will find consistent answers, where the statement asks for them."""
    if not questions.statement.clauses.consistent:
        return None
    return ConsistentWorkload([q.query for q in questions.questions])


def only_question(asked: StatementQuestions) -> Question | None:
    """The question of a statement that asks for just one."""
    return asked.questions[0] if len(asked.questions) == 1 else None


def by_cell(
    asked: StatementQuestions, of: Callable[[CellQuestions], _T]
) -> tuple[tuple[_T, ...], ...]:
    """Something of each cell, per group and column."""
    return tuple(tuple(map(of, row)) for row in asked.cells)
