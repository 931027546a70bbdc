"""The steps in which quotients, functions of sums and parts of numbers are asked.

Each looks at history first.
"""

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
    quotient_confidences,
)
from qserver.query.sql.combined.asked import OfSeveral
from qserver.query.sql.parts import Halves, KnownQuotient, KnownRange
from qserver.query.sql.statement import Ratio, Statement
from qserver.query.sql.tables.bounds import centred
from qserver.query.sql.tables.intervals import CellInterval
from qserver.query.sql.tables.relative import KnownSum, Relative, relatives
from qserver.records.answer import Offer
from qserver.service.service import Service
from qserver.service.unmeasured.several import SeveralSteps

MOST_STEPS = 12
"""After so many the questions that suffice in every case are asked."""
_ROOM = 1.0 + 1e-6
_Asked = tuple[LinearQuery, float]
"""A query and the confidence of its interval."""


class QuotientSteps:
    """The steps of one statement on one dataset.

    The narrowest intervals are fixed at the beginning, and no step asks for narrower ones. The sum
    of the steps might still be above the price of these, if the planner buys tables on the way:
    `qserver.service.quoted` stops before that. The lengths of a step depend on the text and on
    released answers alone.

    Raises:
        SqlError: nothing is known of a denominator, or the statement has no length.
    """

    def __init__(self, history: Service, name: str, statement: Statement) -> None:
        self._history = history
        self._name = name
        self._statement = statement
        self._relatives = relatives(statement)
        self._confidences = quotient_confidences(statement)
        self._several = SeveralSteps(history, name, statement)
        self._known = self._look()
        self._askings = askings(statement, known=self._known)
        self._met = {r for r, a in self._askings.items() if a.is_met(self._known[r])}
        self._sums = self._look_at_sums()

    @property
    def is_one(self) -> bool:
        """Whether there is one step: no quotient or part, or all intervals must hold together."""
        is_plain = not self._askings and not self._relatives and self._several.is_none
        return is_plain or self._statement.clauses.simultaneous

    @property
    def goes_on(self) -> bool:
        """Whether the interval of some quotient, or of a part of a number, is still too wide."""
        unmet = any(not target.is_met(self._sums[r]) for r, target in self._relatives.items())
        unmet = unmet or self._several.goes_on
        return not self.is_one and (unmet or len(self._met) < len(self._askings))

    def look(self) -> None:
        """Read the present history."""
        self._known = self._look()
        self._met |= {r for r, a in self._askings.items() if a.is_enough(self._known[r])}
        self._sums = self._look_at_sums()
        self._several.look()

    def next_step(self) -> StatementQuestions:
        """The next questions; their intervals are never narrower than those of `last_step`."""
        of_sums = {r: t.next_half(self._sums[r]) for r, t in self._relatives.items()}
        halves = {r: a.next_step(self._known[r]) for r, a in self._askings.items()}
        return self._asked(halves, of_sums, self._several.next_step())

    def last_step(self) -> StatementQuestions:
        """The questions that always suffice; where history is better, with its interval."""
        of_sums = {r: t.most for r, t in self._relatives.items()}
        of_several = self._several.last_step(at_once=self.is_one)
        return self._asked({r: a.most for r, a in self._askings.items()}, of_sums, of_several)

    @property
    def is_known(self) -> bool:
        """Whether history says something of all that is asked in steps."""
        ratios = all(self._known[ratio].halves.is_finite for ratio in self._askings)
        sums = all(math.isfinite(known.half_width) for known in self._sums.values())
        return ratios and sums and self._several.is_known

    def as_known(self) -> StatementQuestions:
        """The questions as exactly as history knows them, whether or not that suffices."""
        return asked(
            self._statement,
            halves={ratio: self._known[ratio].halves.scaled(_ROOM) for ratio in self._askings},
            of_sums={one: known.half_width * _ROOM for one, known in self._sums.items()},
            of_several=self._several.as_known(),
        )

    def _asked(
        self,
        halves: Mapping[Ratio, Halves],
        of_sums: Mapping[Relative, float],
        of_several: OfSeveral,
    ) -> StatementQuestions:
        """The questions with these half-widths; one that is met is asked at its known width."""
        met = {
            ratio: self._known[ratio].halves.scaled(_ROOM) for ratio in self._met if not self.is_one
        }
        met_sums = {
            r: self._sums[r].half_width * _ROOM
            for r, target in self._relatives.items()
            if target.is_met(self._sums[r]) and not self.is_one
        }
        return asked(
            self._statement,
            halves={**halves, **met},
            of_sums={**of_sums, **met_sums},
            of_several=of_several,
        )

    def _look_at_sums(self) -> dict[Relative, KnownSum]:
        found = dict[Relative, KnownSum]()
        for one in self._relatives:
            offer = self._history.insight.offer(self._name, one.query, confidence=one.confidence)
            found[one] = (
                KnownSum() if offer is None else KnownSum(offer.low, offer.high, offer.estimate)
            )
        return found

    def _look(self) -> dict[Ratio, KnownQuotient]:
        insight, offers = self._history.insight, dict[_Asked, Offer | None]()
        found = dict[Ratio, KnownQuotient]()
        for ratio, confidence in self._confidences.items():
            shape = centred(ratio)
            parts = [(query, confidence) for query in (shape.part, shape.denominator)]
            for query, _ in parts:
                if (query, confidence) not in offers:
                    offer = insight.offer(self._name, query, confidence=confidence)
                    offers[query, confidence] = offer
            found[ratio] = _parts_known(*(offers[part] for part in parts))
        if self._statement.clauses.simultaneous or not any(
            known.halves.is_finite for known in found.values()
        ):
            return found
        return self._with_intervals(found, offers)

    def _with_intervals(
        self, found: Mapping[Ratio, KnownQuotient], offers: Mapping[_Asked, Offer | None]
    ) -> dict[Ratio, KnownQuotient]:
        """The same, with the interval of each quotient whose two parts are known."""
        halves = {ratio: known.halves.scaled(_ROOM) for ratio, known in found.items()}
        questions = asked(
            self._statement, halves=halves, of_several=self._several.last_step(at_once=False)
        )
        best = [
            offers.get((question.query, question.requirement.confidence))
            for question in questions.questions
        ]
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
