"""The cells of numbers measured step by step: smooth numbers, and numbers told by places in
order."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from qserver.answering.quantiles import OrderOf
from qserver.answering.smooth_numbers import SmoothKnown, SmoothOf
from qserver.inference.quantiles.search import State
from qserver.query.sql.cells import CellQuestions, CellValue, StatementQuestions
from qserver.query.sql.exactness import least_base
from qserver.query.sql.functions.function_of_sums import FunctionOfSums, KnownPart, Smooth
from qserver.query.sql.tables.cell_intervals import CellInterval, PublicBounds
from qserver.records.privacy.noise_law import NoiseLaw
from qserver.service.cache.quantiles import OrderView
from qserver.service.statement_answers import AnsweredCell, CellReading

if TYPE_CHECKING:
    from qserver.service.service import Service


class SearchedCells:
    """The cells of a statement by the present history, one kind of number after the other."""

    def __init__(self, service: Service, name: str, questions: StatementQuestions) -> None:
        self._smooth = SmoothCells(service, name, questions)
        self._order = OrderCells(service, name, questions)
        self._kinds = (self._smooth, self._order)

    def cell(self, cell: CellQuestions, found: AnsweredCell) -> AnsweredCell:
        """A cell by what history knows of its number; unchanged where it knows nothing or the kind
        differs."""
        for kind in self._kinds:
            found = kind.cell(cell, found)
        return found

    def tells(self, cell: CellQuestions) -> bool:
        """Whether more than the intervals of its sums tells the number, once these are known."""
        return any(kind.tells(cell) for kind in self._kinds)

    def is_few(self, cell: CellQuestions, half_width: float) -> bool:
        """Whether the number surely has fewer records than assumed."""
        return any(kind.is_few(cell, half_width) for kind in self._kinds)

    def is_open(self, cell: CellQuestions, half_width: float) -> bool:
        """Whether history tells a number by places in order less exactly than asked."""
        return self._order.is_open(cell, half_width)

    def is_met(self, cell: CellQuestions, half_width: float) -> bool:
        """Whether no measurement tells a number by places in order more exactly."""
        return self._order.is_met(cell, half_width)

    def is_far(self, cell: CellQuestions) -> bool:
        """Whether a number is far from linear within the errors of its sums."""
        return self._smooth.is_far(cell)


class OrderCells:
    """The cells of numbers told by places in order, by the present history.

    Where all intervals hold at once there is none: these are those that the sums' allow.
    """

    def __init__(self, service: Service, name: str, questions: StatementQuestions) -> None:
        self._service, self._name, self._questions = service, name, questions
        self._law = service.smooth.law(name)
        self._least = least_base(questions.statement.clauses.assuming, 0.0)

    @cached_property
    def _view(self) -> OrderView:
        return self._service.order.view(self._name)

    def cell(self, cell: CellQuestions, found: AnsweredCell) -> AnsweredCell:
        """A cell by what history knows of its number; unchanged where it knows nothing or the kind
        differs."""
        one = self._of(cell)
        if one is None:
            return found
        known = self._view.of(one)
        if not known.is_known:
            return found
        reading, among = known, self._questions.among
        if among > 1:
            missed = (1.0 - cell.confidence) / among
            reading = self._view.of(one, missed=missed)
        at_once = reading.value.interval
        return replace(
            found,
            value=known.value,
            consistent=known.value.estimate
            if self._questions.statement.clauses.consistent
            else None,
            after_looking=CellReading(at_once, at_once, at_once),
            statement=known.statement,
        )

    def tells(self, cell: CellQuestions) -> bool:
        """Whether the number is told by places in order."""
        return self._of(cell) is not None

    def is_few(self, cell: CellQuestions, half_width: float) -> bool:
        """Whether the number surely has fewer records than assumed."""
        return self._state(cell, half_width) == "few"

    def is_open(self, cell: CellQuestions, half_width: float) -> bool:
        """Whether history tells the number less exactly than asked."""
        return self._state(cell, half_width) == "open"

    def is_met(self, cell: CellQuestions, half_width: float) -> bool:
        """Whether history tells the number as exactly as asked, or as its bins allow."""
        return self._state(cell, half_width) == "met"

    def _state(self, cell: CellQuestions, half_width: float) -> State | None:
        one = self._of(cell)
        if one is None:
            return None
        known = self._view.of(one)
        return known.state(one.numbers(half_width, self._least))

    def _of(self, cell: CellQuestions) -> OrderOf | None:
        order = None if cell.function is None else cell.function.order
        if order is None or self._questions.simultaneous:
            return None
        queries = [self._questions.questions[i].query for i in cell.parts]
        return OrderOf.of(order, queries, cell.confidence, self._law)


class SmoothCells:
    """The smooth numbers of a statement by the present history.

    Where all intervals hold at once there is none: these are those that the sums' allow.
    """

    def __init__(self, service: Service, name: str, questions: StatementQuestions) -> None:
        self._among = questions.among
        self._least = least_base(questions.statement.clauses.assuming, 0.0)
        law = service.smooth.law(name)
        self._of = {} if questions.simultaneous else _smooth_of(questions, law)
        self._view = service.smooth.view(name, list(self._of.values()))

    def cell(self, cell: CellQuestions, found: AnsweredCell) -> AnsweredCell:
        """A cell by what history knows of its number; unchanged where it knows nothing or the kind
        differs."""
        one = self._of.get((cell.parts, cell.confidence, cell.function))
        known = None if one is None else self._view.known(one)
        if one is None or known is None or not known.is_known:
            return found
        ends, estimate = _ends(one, known, known.look.half_width), known.look.estimate
        reading = ends
        if self._among > 1:
            chosen = self._view.known(one, among=self._among)
            reading = _ends(one, known, chosen.look.half_width)
        if estimate is not None:
            estimate = min(max(estimate, ends[0]), ends[1]) if known.look.is_known else None
        at_once = _interval(reading)
        return replace(
            found,
            value=CellValue(estimate, _interval(ends)),
            after_looking=CellReading(at_once, at_once, at_once),
            statement=known.statement,
        )

    def tells(self, cell: CellQuestions) -> bool:
        """Whether the number is smooth."""
        return (cell.parts, cell.confidence, cell.function) in self._of

    def is_few(self, cell: CellQuestions, half_width: float) -> bool:
        """Whether the number surely has fewer records than assumed."""
        one = self._of.get((cell.parts, cell.confidence, cell.function))
        if one is None:
            return False
        return self._view.known(one).state(one.number(half_width, self._least)) == "few"

    def is_far(self, cell: CellQuestions) -> bool:
        """Whether a number is far from linear within the errors of its sums."""
        one = self._of.get((cell.parts, cell.confidence, cell.function))
        look = None if one is None else self._view.known(one).look
        return look is not None and look.is_far_from_linear


_Key = tuple[tuple[int, ...], float, FunctionOfSums | None]


def _smooth_of(questions: StatementQuestions, law: NoiseLaw) -> dict[_Key, SmoothOf]:
    found = dict[_Key, SmoothOf]()
    for cell in (cell for row in questions.cells for cell in row):
        smooth = None if cell.function is None else cell.function.smooth
        if cell.function is not None and smooth is not None:
            queries = tuple(questions.questions[i].query for i in cell.parts)
            one = SmoothOf(queries, cell.function, smooth, cell.confidence, law)
            found[cell.parts, cell.confidence, cell.function] = one
    return found


def _ends(one: SmoothOf, known: SmoothKnown, half_width: float) -> tuple[float, float]:
    """Both ends, clipped to the public bounds, with what bins hide."""
    smooth, estimate = one.smooth, known.look.estimate
    if estimate is None or not math.isfinite(half_width):
        return smooth.low, smooth.high
    below, above = _hidden(one, known) if smooth.hides else (0.0, 0.0)
    low = math.nextafter(estimate - half_width - below, -math.inf)
    high = math.nextafter(estimate + half_width + above, math.inf)
    return _within(smooth, low, high)


def _within(smooth: Smooth, low: float, high: float) -> tuple[float, float]:
    if math.isinf(smooth.low) and math.isinf(smooth.high):
        return low, high
    return PublicBounds(smooth.low, smooth.high).cut(low, high)


def _hidden(one: SmoothOf, known: SmoothKnown) -> tuple[float, float]:
    """How far bins may move the number below and above its estimate."""
    found = one.function.value([KnownPart(mean, mean, mean) for mean in known.means])
    if found.estimate is None:
        return 0.0, 0.0
    return max(found.estimate - found.low, 0.0), max(found.high - found.estimate, 0.0)


def _interval(ends: tuple[float, float]) -> CellInterval:
    low, high = (end if math.isfinite(end) else None for end in ends)
    return CellInterval(low, high)
