"""The steps that ask functions of sums and parts of numbers.

Each looks at history first.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from qserver.query.question import Question
from qserver.query.sql.cells import StatementQuestions, asked
from qserver.query.sql.statement import Statement
from qserver.query.sql.statistics.smooth_functions import OfSeveral, Place, order_at_once
from qserver.query.sql.tables.relative_length import KnownSum, Relative, relatives
from qserver.service.service import Service
from qserver.service.steps.quantiles import OrderSteps
from qserver.service.steps.search import ROOM
from qserver.service.steps.smooth_numbers import SmoothSteps

MOST_STEPS = 16
"""After so many the questions that are asked at most are asked."""


class StatementSteps:
    """The steps of one statement on one dataset.

    What is asked at most is fixed at the beginning. The steps might cost more than that in all:
    `qserver.service.steps.quote_cap` stops before. The lengths of a step depend on the text and on
    released answers alone.

    Raises:
        SqlError: the statement has no length.
    """

    def __init__(self, history: Service, name: str, statement: Statement) -> None:
        self._history = history
        self._name = name
        self._statement = statement
        self._relatives = relatives(statement)
        self._smooth = SmoothSteps(history, name, statement)
        self._order = OrderSteps(history, name, statement)
        self._sums = self._look_at_sums()

    @property
    def is_one(self) -> bool:
        """Whether one step suffices: all numbers are sums, or all intervals must hold together."""
        is_plain = not self._relatives and self._smooth.is_none and self._order.is_none
        return is_plain or self._statement.clauses.simultaneous

    @property
    def goes_on(self) -> bool:
        """Whether the interval of a number asked in steps is still too wide."""
        searched = self._smooth.goes_on or self._order.goes_on
        return not self.is_one and (self.has_others or searched)

    @property
    def open_places(self) -> list[Place]:
        """The searched numbers to measure further, dearest first."""
        found = {**self._smooth.open_places, **self._order.open_places}
        return sorted(found, key=lambda place: (-found[place], place))

    @property
    def has_others(self) -> bool:
        """Whether the interval of a number other than a searched one is still too wide."""
        return any(not target.is_met(self._sums[r]) for r, target in self._relatives.items())

    @property
    def has_next(self) -> bool:
        """Whether a step before the last remains."""
        return self.has_others or bool(self.open_places)

    @property
    def by_rows(self) -> float:
        """The most that a record loses by rows for the smooth numbers."""
        return 0.0 if self.is_one else self._smooth.by_rows

    def leave_out(self, places: list[Place]) -> None:
        """Measure these searched numbers no further."""
        self._smooth.leave_out(places)
        self._order.leave_out(places)

    def look(self) -> None:
        """Read the present history."""
        self._sums = self._look_at_sums()
        self._smooth.look()
        self._order.look()

    def next_step(self) -> StatementQuestions:
        """The next questions."""
        of_sums = {r: t.next_half(self._sums[r]) for r, t in self._relatives.items()}
        several = {**self._smooth.next_step(), **self._order.next_halves()}
        return self._with(self._asked(of_sums, several), self._order.next_step())

    def last_step(self) -> StatementQuestions:
        """The last questions to ask; where history is better, with its interval.

        The counts that quantiles follow from are left out: `with_tables` adds them.
        """
        of_sums = {r: t.most for r, t in self._relatives.items()}
        smooth, order = self._smooth.last_step(at_once=self.is_one), self._order.last_halves()
        return self._asked(of_sums, {**smooth, **order, **order_at_once(self._statement)})

    def with_tables(self, questions: StatementQuestions) -> StatementQuestions:
        """The questions with the counts that open quantiles may need."""
        return questions if self.is_one else self._with(questions, self._order.at_most())

    def last_of_others(self) -> StatementQuestions:
        """The last questions to ask of numbers other than searched ones."""
        of_sums = {r: t.most for r, t in self._relatives.items()}
        return self._asked(of_sums, {**self._smooth.as_known(), **self._order.as_known()})

    @property
    def is_known(self) -> bool:
        """Whether history tells all numbers asked in steps."""
        sums = all(math.isfinite(known.half_width) for known in self._sums.values())
        return sums and self._smooth.is_known and self._order.is_known

    def as_known(self) -> StatementQuestions:
        """The questions as exactly as history knows them, sufficient or not."""
        return asked(
            self._statement,
            of_sums={one: known.half_width * ROOM for one, known in self._sums.items()},
            of_several={**self._smooth.as_known(), **self._order.as_known()},
        )

    @staticmethod
    def _with(questions: StatementQuestions, more: tuple[Question, ...]) -> StatementQuestions:
        return replace(questions, questions=(*questions.questions, *more))

    def _asked(
        self, of_sums: Mapping[Relative, float], of_several: OfSeveral
    ) -> StatementQuestions:
        """The questions with these half-widths; a satisfied one keeps its known width."""
        met_sums = {
            r: self._sums[r].half_width * ROOM
            for r, target in self._relatives.items()
            if target.is_met(self._sums[r]) and not self.is_one
        }
        return asked(self._statement, of_sums={**of_sums, **met_sums}, of_several=of_several)

    def _look_at_sums(self) -> dict[Relative, KnownSum]:
        found = dict[Relative, KnownSum]()
        for one in self._relatives:
            offer = self._history.insight.offer(self._name, one.query, confidence=one.confidence)
            found[one] = (
                KnownSum() if offer is None else KnownSum(offer.low, offer.high, offer.estimate)
            )
        return found
