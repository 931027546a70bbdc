"""The cells of numbers told by places in order: their intervals by what history knows."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from qserver.answering.order import OrderOf
from qserver.inference.order.search import State
from qserver.query.sql.cells import CellQuestions, CellValue, StatementQuestions
from qserver.query.sql.clauses import least_base
from qserver.query.sql.tables.intervals import CellInterval
from qserver.service.statement_answers import AnsweredCell, CellReading

if TYPE_CHECKING:
    from qserver.service.service import Service


class OrderCells:
    """Such numbers of a statement by the present history.

    Where all intervals hold at once there is none: these are those that the sums' allow.
    """

    def __init__(self, service: Service, name: str, questions: StatementQuestions) -> None:
        self._service, self._name, self._questions = service, name, questions
        self._least = least_base(questions.statement.clauses.assuming, 0.0)

    def cell(self, cell: CellQuestions, found: AnsweredCell) -> AnsweredCell:
        """A cell, by what is known of its number; as it is where that is nothing, or no such."""
        one = self._of(cell)
        if one is None:
            return found
        known = self._service.order.of(self._name, one)
        if not known.is_known:
            return found
        reading, among = known, self._questions.among
        if among > 1:
            missed = (1.0 - cell.confidence) / among
            reading = self._service.order.of(self._name, one, missed=missed)
        at_once = CellInterval(reading.low, reading.high)
        return replace(
            found,
            value=CellValue(known.estimate, CellInterval(known.low, known.high)),
            consistent=known.estimate if self._questions.statement.clauses.consistent else None,
            after_looking=CellReading(at_once, at_once, at_once),
            statement=known.statement,
        )

    def tells(self, cell: CellQuestions) -> bool:
        """Whether it is such a number."""
        return self._of(cell) is not None

    def is_few(self, cell: CellQuestions, half_width: float) -> bool:
        """Whether a number that is asked like this has surely fewer records than are assumed."""
        return self._state(cell, half_width) == "few"

    def is_open(self, cell: CellQuestions, half_width: float) -> bool:
        """Whether a number that is asked like this is not told so exactly."""
        return self._state(cell, half_width) == "open"

    def _state(self, cell: CellQuestions, half_width: float) -> State | None:
        one = self._of(cell)
        if one is None:
            return None
        known = self._service.order.of(self._name, one)
        return known.state(one.numbers(half_width, self._least))

    def _of(self, cell: CellQuestions) -> OrderOf | None:
        order = None if cell.function is None else cell.function.order
        if order is None or self._questions.simultaneous:
            return None
        queries = [self._questions.questions[i].query for i in cell.parts]
        return OrderOf.of(order, queries, cell.confidence)
