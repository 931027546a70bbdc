"""Statements of SQL asked and explained: from questions of the service to cells of a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from qserver.answer import (
    Answer,
    Explanation,
    JobStatus,
    Offer,
    PlanKind,
    Simultaneous,
    Source,
    WorkloadAnswer,
    WorkloadExplanation,
)
from qserver.asked import Question, Workload
from qserver.asking import Idempotency
from qserver.domain import Domain
from qserver.query import LinearQuery
from qserver.requirement import Requirement
from qserver.sql.questions import (
    Asked,
    CellQuestions,
    CellValue,
    Interval,
    asked,
    cell_value,
    denominators,
    part_confidence,
)
from qserver.sql.reading import parse_statement
from qserver.sql.statement import Statement

_T = TypeVar("_T")
_UNKNOWN = Interval(None, None)
_DEAREST_FIRST: tuple[Source, ...] = ("measured", "refined", "history", "exact")


class Questions(Protocol):
    """The use cases that a statement is made of."""

    def domain(self, name: str) -> Domain:
        """The domain of a dataset; NotFoundError."""

    def known(self, name: str, query: LinearQuery, *, confidence: float) -> Offer | None:
        """The best interval available for nothing, or None."""

    def ask(
        self,
        name: str,
        query: LinearQuery,
        requirement: Requirement,
        *,
        wait_s: float,
        idempotency: Idempotency | None = None,
        by: str = "",
    ) -> Answer | JobStatus:
        """The answer, or the state of its job after `wait_s` seconds."""

    def ask_workload(
        self,
        name: str,
        workload: Workload,
        *,
        wait_s: float,
        idempotency: Idempotency | None = None,
        by: str = "",
    ) -> WorkloadAnswer | JobStatus:
        """The answers, or the state of their job after `wait_s` seconds."""

    def explain(
        self, name: str, query: LinearQuery, requirement: Requirement, *, by: str = ""
    ) -> Explanation:
        """What the answer would cost; spends nothing."""

    def explain_workload(
        self, name: str, workload: Workload, *, by: str = ""
    ) -> WorkloadExplanation:
        """What the answers would cost; spends nothing."""


@dataclass(frozen=True)
class AnsweredCell:
    """A cell with where it comes from: the dearest source of its parts."""

    value: CellValue
    source: Source


@dataclass(frozen=True)
class StatementAnswer:
    """The table that a statement asked for.

    Args:
        cells: per group and column.
        simultaneous: None where that was not asked for.
    """

    asked: Asked
    cells: tuple[tuple[AnsweredCell, ...], ...]
    charged_nano: int
    remaining_nano: int
    simultaneous: Simultaneous | None
    version: int


@dataclass(frozen=True)
class StatementExplanation:
    """What a statement would cost; nothing was spent.

    Args:
        price_apart_nano: sum of the prices of its questions asked one by one; None where there is
            one question, or was no time.
        known: per group and column what is known for nothing, or None.
    """

    asked: Asked
    kind: PlanKind
    price_nano: int
    price_apart_nano: int | None
    remaining_nano: int
    affordable: bool
    known: tuple[tuple[Interval | None, ...], ...]
    version: int


AnyStatement = StatementAnswer | StatementExplanation


class Statements:
    """Statements on the use cases of a service."""

    def __init__(self, questions: Questions) -> None:
        self._questions = questions

    def run(
        self,
        name: str,
        text: str,
        *,
        wait_s: float,
        idempotency: Idempotency | None = None,
        by: str = "",
    ) -> AnyStatement | JobStatus:
        """The table that a text asks for, its price after EXPLAIN, or a job after `wait_s`.

        Raises:
            SqlError: the text cannot be answered; points at the place.
            NotFoundError, BudgetExhaustedError and others: as of `ask` and `ask_workload`.
        """
        statement = parse_statement(text, self._questions.domain(name), dataset=name)
        questions = asked(statement, known=self._known(name, statement))
        if statement.explains:
            return self._explained(name, questions, by)
        found = self._answered(name, questions, wait_s=wait_s, idempotency=idempotency, by=by)
        if isinstance(found, JobStatus):
            return found
        answers = found.answers if isinstance(found, WorkloadAnswer) else (found,)
        return StatementAnswer(
            questions,
            _by_cell(questions, lambda cell: _answered_cell(cell, answers)),
            found.charged_nano,
            found.remaining_nano,
            found.simultaneous if isinstance(found, WorkloadAnswer) else None,
            found.version,
        )

    def _known(self, name: str, statement: Statement) -> Mapping[LinearQuery, float]:
        """What history says the denominators have at least."""
        confidence = part_confidence(statement)
        found = {}
        for query in denominators(statement):
            offer = self._questions.known(name, query, confidence=confidence)
            if offer is not None:
                found[query] = offer.low
        return found

    def _answered(
        self,
        name: str,
        questions: Asked,
        *,
        wait_s: float,
        idempotency: Idempotency | None,
        by: str,
    ) -> Answer | WorkloadAnswer | JobStatus:
        if (only := _only(questions)) is not None:
            return self._questions.ask(
                name,
                only.query,
                only.requirement,
                wait_s=wait_s,
                idempotency=idempotency,
                by=by,
            )
        return self._questions.ask_workload(
            name, _workload(questions), wait_s=wait_s, idempotency=idempotency, by=by
        )

    def _explained(self, name: str, questions: Asked, by: str) -> StatementExplanation:
        found: Explanation | WorkloadExplanation
        if (only := _only(questions)) is not None:
            found = self._questions.explain(name, only.query, only.requirement, by=by)
            free: tuple[Offer | None, ...] = (found.free,)
            apart = None
        else:
            found = self._questions.explain_workload(name, _workload(questions), by=by)
            free, apart = found.free, found.price_apart_nano
        return StatementExplanation(
            questions,
            found.kind,
            found.price_nano,
            apart,
            found.remaining_nano,
            found.affordable,
            _by_cell(questions, lambda cell: _known_cell(cell, free)),
            found.version,
        )


def _only(questions: Asked) -> Question | None:
    """The question of a statement that asks for just one."""
    return questions.questions[0] if len(questions.questions) == 1 else None


def _workload(questions: Asked) -> Workload:
    return Workload(questions.questions, simultaneous=questions.simultaneous)


def _by_cell(questions: Asked, of: Callable[[CellQuestions], _T]) -> tuple[tuple[_T, ...], ...]:
    return tuple(tuple(of(cell) for cell in row) for row in questions.cells)


def _answered_cell(cell: CellQuestions, answers: Sequence[Answer]) -> AnsweredCell:
    value = cell_value(
        cell,
        [answer.estimate for answer in answers],
        [Interval(answer.low, answer.high) for answer in answers],
    )
    parts = {answers[i].source for i in cell.parts}
    return AnsweredCell(value, next(s for s in _DEAREST_FIRST if s in parts))


def _known_cell(cell: CellQuestions, free: Sequence[Offer | None]) -> Interval | None:
    """What is known of a cell: of a quotient only where both of its parts are known."""
    if any(free[i] is None for i in cell.parts):
        return None
    intervals = [_UNKNOWN if offer is None else Interval(offer.low, offer.high) for offer in free]
    return cell_value(cell, [0.0] * len(free), intervals).interval
