"""Averages of groups of any size, asked in steps without a server, by the worker's own noise."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache, partial

from qserver.answering.quotient import joint_parts, joint_value, posterior_value
from qserver.answering.quotient_posterior import (
    QuotientAsked,
    QuotientPosterior,
    parts_given,
    quotient_posterior,
)
from qserver.planning.holdings import estimate_of
from qserver.query.domain import Attribute, Domain
from qserver.query.question import Question
from qserver.query.sql.cells import (
    CellValue,
    StatementQuestions,
    asked,
    askings,
    cell_value,
)
from qserver.query.sql.parser import parse_statement
from qserver.query.sql.parts import Halves, KnownQuotient, KnownRange
from qserver.query.sql.statement import Ratio, Statement
from qserver.query.sql.tables.intervals import CellInterval
from qserver.records.charge import Relation
from tests.answering.own_noise import Measured

LEAST, MOST = 17, 90
_MOST_STEPS, _ROOM = 12, 1.0 + 1e-6
DOMAIN = Domain(
    (
        Attribute(
            "age",
            "integer",
            edges=tuple(map(Fraction, range(LEAST, MOST + 2))),
            outside="clamp",
            missing="other",
        ),
        Attribute("kind", "labels", ("this", "rest"), outside="other", missing="other"),
    )
)


@cache
def statement() -> Statement:
    """The average that is asked."""
    text = "SELECT AVG(age) FROM t WHERE kind = 'this' WITHIN 3"
    return parse_statement(text, DOMAIN, dataset="t")


def the_ratio() -> Ratio:
    """Its quotient."""
    [cell] = statement().rows[0].cells
    assert isinstance(cell, Ratio)
    return cell


@dataclass
class Group:
    """A group whose average is asked, in steps as `QuotientSteps` takes them.

    Args:
        values: of its records.
        relation: under replace-one the number of all records is public.
        rng: of the noise.
    """

    values: list[int]
    relation: Relation
    rng: random.Random
    measured: Measured = field(init=False)

    def __post_init__(self) -> None:
        records = [(value - LEAST, 0) for value in self.values]
        self.measured = Measured(DOMAIN, records, self.relation, self.rng)

    @property
    def truth(self) -> float | None:
        """The average; None of no record."""
        return sum(self.values) / len(self.values) if self.values else None

    def answered(self) -> CellValue:
        """The cell of the answer, after all steps."""
        known = KnownQuotient()
        [(ratio, target)] = askings(statement(), known={}).items()
        for _ in range(_MOST_STEPS):
            step = target.next_step(known)
            for question in self._asked(step).questions:
                self.measured.measure(question)
            known = self._known()
            if target.is_enough(known):
                break
        questions = self._asked(known.halves.scaled(_ROOM))
        cell, value = questions.cells[0][0], self._by_errors(questions)
        assert ratio == the_ratio()
        found = posterior_value(questions, cell, value, self._posterior)
        return value if found is None else found.value

    def _asked(self, halves: Halves) -> StatementQuestions:
        return asked(statement(), halves={the_ratio(): halves})

    def _known(self) -> KnownQuotient:
        questions = self._asked(Halves(1.0, 1.0))
        ends = [self._ends(question) for question in questions.questions]
        halves = Halves(*((high - low) / 2.0 for low, high in ends))
        interval, middle = self._by_errors(questions).interval, (LEAST + MOST) / 2
        assert interval.low is not None
        assert interval.high is not None
        t = KnownRange(interval.low - middle, interval.high - middle)
        return KnownQuotient(halves, KnownRange(*ends[1]), t, (t.high - t.low) / 2.0)

    def _by_errors(self, questions: StatementQuestions) -> CellValue:
        cell, estimates = questions.cells[0][0], [self._estimate(q) for q in questions.questions]
        ends = [CellInterval(*self._ends(question)) for question in questions.questions]
        value = cell_value(cell, estimates, ends)
        joint = partial(joint_parts, self.measured.engine)
        return joint_value(questions, cell, value, estimates, joint)

    def _posterior(self, quotient: QuotientAsked) -> QuotientPosterior | None:
        given = parts_given(self.measured.engine, quotient)
        return None if given is None else quotient_posterior(given, quotient)

    def _estimate(self, question: Question) -> float:
        found = estimate_of(self.measured.engine, question)
        assert found is not None
        return found.posterior.estimate * float(question.row.multiplier)

    def _ends(self, question: Question) -> tuple[float, float]:
        found = estimate_of(self.measured.engine, question)
        assert found is not None
        ends = found.posterior.scaled(question.row.multiplier).interval(question.confidence)
        return ends.low, ends.high
