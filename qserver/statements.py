"""Statements of SQL asked and explained: from questions of the service to cells of a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from qserver.answer import (
    Answer,
    Explanation,
    FactorPoint,
    JobStatus,
    Offer,
    OwnPrice,
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
        curve: prices of shorter and longer intervals, all by one factor.
        own: the same for the asker's own ledger; None where only the budget bounds it.
    """

    asked: Asked
    kind: PlanKind
    price_nano: int
    price_apart_nano: int | None
    remaining_nano: int
    affordable: bool
    known: tuple[tuple[Interval | None, ...], ...]
    version: int
    curve: tuple[FactorPoint, ...] = ()
    own: OwnPrice | None = None


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
        if statement.explains:
            return self.explain(name, statement, by=by)
        return self.answer(name, statement, wait_s=wait_s, idempotency=idempotency, by=by)

    def answer(
        self,
        name: str,
        statement: Statement,
        *,
        wait_s: float,
        idempotency: Idempotency | None = None,
        by: str = "",
    ) -> StatementAnswer | JobStatus:
        """The table of a statement, whether or not it explains; raises as `run` does."""
        questions = self.asked(name, statement)
        found = self._answered(name, questions, wait_s=wait_s, idempotency=idempotency, by=by)
        return found if isinstance(found, JobStatus) else table_of(questions, found)

    def explain(self, name: str, statement: Statement, *, by: str = "") -> StatementExplanation:
        """What a statement would cost; spends nothing. Raises as `run` does."""
        return self._explained(name, self.asked(name, statement), by)

    def asked(self, name: str, statement: Statement) -> Asked:
        """The questions of a statement, by what history says of its denominators."""
        return asked(statement, known=self._known(name, statement))

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
            name, workload_of(questions), wait_s=wait_s, idempotency=idempotency, by=by
        )

    def _explained(self, name: str, questions: Asked, by: str) -> StatementExplanation:
        found: Explanation | WorkloadExplanation
        if (only := _only(questions)) is not None:
            found = self._questions.explain(name, only.query, only.requirement, by=by)
            free: tuple[Offer | None, ...] = (found.free,)
            apart, length = None, only.requirement.length
            curve = tuple(FactorPoint(p.length / length, p.price_nano) for p in found.curve)
        else:
            found = self._questions.explain_workload(name, workload_of(questions), by=by)
            free, apart, curve = found.free, found.price_apart_nano, found.curve
        return StatementExplanation(
            questions,
            found.kind,
            found.price_nano,
            apart,
            found.remaining_nano,
            found.affordable,
            _by_cell(questions, lambda cell: _known_cell(cell, free)),
            found.version,
            curve,
            found.own,
        )


def _only(questions: Asked) -> Question | None:
    """The question of a statement that asks for just one."""
    return questions.questions[0] if len(questions.questions) == 1 else None


def workload_of(questions: Asked) -> Workload:
    """The questions of a statement as one workload."""
    return Workload(questions.questions, simultaneous=questions.simultaneous)


def table_of(questions: Asked, found: Answer | WorkloadAnswer) -> StatementAnswer:
    """The table that the answers of a statement's questions fill."""
    answers = found.answers if isinstance(found, WorkloadAnswer) else (found,)
    return StatementAnswer(
        questions,
        _by_cell(questions, lambda cell: _answered_cell(cell, answers)),
        found.charged_nano,
        found.remaining_nano,
        found.simultaneous if isinstance(found, WorkloadAnswer) else None,
        found.version,
    )


def known_table(
    questions: Asked, free: Sequence[Offer | None], *, remaining_nano: int, version: int
) -> StatementAnswer:
    """The table that history fills for nothing; a cell of which it knows nothing has no value.

    Args:
        free: per question the interval that history gives, whose middle is the estimate.
    """
    middles = [0.0 if o is None else (o.low + o.high) / 2 for o in free]

    def cell_of(cell: CellQuestions) -> AnsweredCell:
        if any(free[i] is None for i in cell.parts):
            return AnsweredCell(CellValue(None, _UNKNOWN), "history")
        return AnsweredCell(cell_value(cell, middles, _intervals(free)), "history")

    cells = _by_cell(questions, cell_of)
    return StatementAnswer(questions, cells, 0, remaining_nano, None, version)


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
    return cell_value(cell, [0.0] * len(free), _intervals(free)).interval


def _intervals(free: Sequence[Offer | None]) -> list[Interval]:
    return [_UNKNOWN if offer is None else Interval(offer.low, offer.high) for offer in free]
