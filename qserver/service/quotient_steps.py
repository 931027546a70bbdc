"""The steps in which the quotients of a statement are asked; each step looks at history first."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial

from qserver.answering.quotient import joint_value
from qserver.query.linear import LinearQuery
from qserver.query.sql.cells import (
    CellQuestions,
    StatementQuestions,
    asked,
    askings,
    cell_value,
    centred,
    part_confidence,
    ratios,
)
from qserver.query.sql.parts import Halves, KnownQuotient, KnownRange
from qserver.query.sql.statement import Ratio, Statement
from qserver.query.sql.tables.intervals import CellInterval
from qserver.records.answer import Offer
from qserver.service.service import Service

MOST_STEPS = 12
"""After so many the questions that suffice in every case are asked."""
_ROOM = 1.0 + 1e-6


class QuotientSteps:
    """The steps of one statement on one dataset.

    The narrowest intervals are fixed at the beginning, and no step asks for narrower ones. The sum
    of the steps may still be above the price of these, if the planner buys tables on the way. The
    lengths of a step depend on the text and on released answers alone.

    Raises:
        SqlError: nothing is known of a denominator, or the statement has no length.
    """

    def __init__(self, history: Service, name: str, statement: Statement) -> None:
        self._history = history
        self._name = name
        self._statement = statement
        self._known = self._look()
        self._askings = askings(statement, known=self._known)
        self._met = {r for r, a in self._askings.items() if a.is_met(self._known[r])}

    @property
    def is_one(self) -> bool:
        """Whether there is one step: no quotient, or all intervals must hold together."""
        return not self._askings or self._statement.clauses.simultaneous

    @property
    def goes_on(self) -> bool:
        """Whether the interval of some quotient is still too wide."""
        return not self.is_one and len(self._met) < len(self._askings)

    def look(self) -> None:
        """Read the present history."""
        self._known = self._look()
        self._met |= {r for r, a in self._askings.items() if a.is_enough(self._known[r])}

    def next_step(self) -> StatementQuestions:
        """The next questions; their intervals are never narrower than those of `last_step`."""
        return self._asked({r: a.next_step(self._known[r]) for r, a in self._askings.items()})

    def last_step(self) -> StatementQuestions:
        """The questions that always suffice; where history is better, with its interval."""
        return self._asked({r: a.most for r, a in self._askings.items()})

    def _asked(self, halves: Mapping[Ratio, Halves]) -> StatementQuestions:
        """The questions with these half-widths; one that is met is asked at its known width."""
        met = {
            ratio: self._known[ratio].halves.scaled(_ROOM) for ratio in self._met if not self.is_one
        }
        return asked(self._statement, halves={**halves, **met})

    def _look(self) -> dict[Ratio, KnownQuotient]:
        insight, offers = self._history.insight, dict[LinearQuery, Offer | None]()
        confidence, found = part_confidence(self._statement), dict[Ratio, KnownQuotient]()
        for ratio in ratios(self._statement):
            shape = centred(ratio)
            for query in (shape.part, shape.denominator):
                if query not in offers:
                    offers[query] = insight.offer(self._name, query, confidence=confidence)
            found[ratio] = _parts_known(offers[shape.part], offers[shape.denominator])
        if self._statement.clauses.simultaneous or not any(
            known.halves.is_finite for known in found.values()
        ):
            return found
        return self._with_intervals(found, offers)

    def _with_intervals(
        self, found: Mapping[Ratio, KnownQuotient], offers: Mapping[LinearQuery, Offer | None]
    ) -> dict[Ratio, KnownQuotient]:
        """The same, with the interval of each quotient whose two parts are known."""
        halves = {ratio: known.halves.scaled(_ROOM) for ratio, known in found.items()}
        questions = asked(self._statement, halves=halves)
        best = [offers.get(question.query) for question in questions.questions]
        with_intervals = dict(found)
        for row, cells in zip(self._statement.rows, questions.cells, strict=True):
            for ratio, cell in zip(row.cells, cells, strict=True):
                if isinstance(ratio, Ratio) and found[ratio].halves.is_finite:
                    with_intervals[ratio] = self._known_of(questions, cell, best, found[ratio])
        return with_intervals

    def _known_of(
        self,
        questions: StatementQuestions,
        cell: CellQuestions,
        best: list[Offer | None],
        known: KnownQuotient,
    ) -> KnownQuotient:
        shape, joint_of = cell.centred, partial(self._history.insight.joint, self._name)
        if shape is None or cell.denominator is None:
            return known
        estimates = [0.0 if o is None else o.estimate for o in best]
        ends = [
            CellInterval(None, None) if o is None else CellInterval(o.low, o.high) for o in best
        ]
        value = cell_value(cell, estimates, ends)
        value = joint_value(questions, cell, value, estimates, joint_of)
        over, under = (questions.questions[i] for i in cell.parts)
        middle = float(shape.middle)
        low = -math.inf if value.interval.low is None else value.interval.low
        high = math.inf if value.interval.high is None else value.interval.high
        return KnownQuotient(
            known.halves,
            known.denominator,
            KnownRange(low - middle, high - middle),
            (high - low) / 2.0,
            is_joint=joint_of(over, under) is not None,
        )


def _parts_known(part: Offer | None, denominator: Offer | None) -> KnownQuotient:
    return KnownQuotient(
        Halves(*(math.inf if o is None else (o.high - o.low) / 2.0 for o in (part, denominator))),
        KnownRange(-math.inf, math.inf)
        if denominator is None
        else KnownRange(denominator.low, denominator.high),
    )
