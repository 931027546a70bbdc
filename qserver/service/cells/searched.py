"""The cells whose numbers were measured step by step: smooth ones, and by places in order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qserver.query.sql.cells import CellQuestions, StatementQuestions
from qserver.service.cells.order import OrderCells
from qserver.service.cells.smooth import SmoothCells
from qserver.service.statement_answers import AnsweredCell

if TYPE_CHECKING:
    from qserver.service.service import Service


class SearchedCells:
    """The cells of a statement by the present history, one of its kinds after the other."""

    def __init__(self, service: Service, name: str, questions: StatementQuestions) -> None:
        self._smooth = SmoothCells(service, name, questions)
        self._order = OrderCells(service, name, questions)
        self._kinds = (self._smooth, self._order)

    def cell(self, cell: CellQuestions, found: AnsweredCell) -> AnsweredCell:
        """A cell, by what is known of its number; as it is where that is nothing, or no such."""
        for kind in self._kinds:
            found = kind.cell(cell, found)
        return found

    def tells(self, cell: CellQuestions) -> bool:
        """Whether its number is told by more than the intervals of its sums, once these are."""
        return any(kind.tells(cell) for kind in self._kinds)

    def is_few(self, cell: CellQuestions, half_width: float) -> bool:
        """Whether a number that is asked like this has surely fewer records than are assumed."""
        return any(kind.is_few(cell, half_width) for kind in self._kinds)

    def is_open(self, cell: CellQuestions, half_width: float) -> bool:
        """Whether a number told by places in order is not told as exactly as asked like this."""
        return self._order.is_open(cell, half_width)

    def is_far(self, cell: CellQuestions) -> bool:
        """Whether a number is far from linear within the errors of its sums."""
        return self._smooth.is_far(cell)
