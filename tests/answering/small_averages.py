"""Averages of groups of any size, asked in steps without a server, by the worker's own noise."""

from __future__ import annotations

import math
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
from qserver.inference.engine import InferenceEngine
from qserver.planning.holdings import estimate_of
from qserver.query.domain import Attribute, Domain
from qserver.query.linear import total_query
from qserver.query.primitive import primitive
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
from qserver.records.history import Measurement
from worker.noise.mechanism import release, release_refined
from worker.noise.randomness import SystemEntropy

LEAST, MOST = 17, 90
STEP = Fraction(1, 1 << 12)
_MOST_STEPS, _ROOM = 12, 1.0 + 1e-6
_OTHERS = 500
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
    _engine: InferenceEngine = field(init=False)
    _rows: dict[str, Measurement] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._engine = InferenceEngine(DOMAIN.sizes)
        self._entropy = SystemEntropy(self.rng.randbytes)
        if self.relation == "replace-one":
            row, n = primitive(total_query(DOMAIN.sizes)), len(self.values) + _OTHERS
            self._take("", Measurement(0, row.row, row.key, 0, Fraction(1), n))

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
                self._measure(question)
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
        joint = partial(joint_parts, self._engine)
        return joint_value(questions, cell, value, estimates, joint)

    def _posterior(self, quotient: QuotientAsked) -> QuotientPosterior | None:
        given = parts_given(self._engine, quotient)
        return None if given is None else quotient_posterior(given, quotient)

    def _estimate(self, question: Question) -> float:
        found = estimate_of(self._engine, question)
        assert found is not None
        return found.posterior.estimate * float(question.row.multiplier)

    def _ends(self, question: Question) -> tuple[float, float]:
        found = estimate_of(self._engine, question)
        assert found is not None
        ends = found.posterior.scaled(question.row.multiplier).interval(question.confidence)
        return ends.low, ends.high

    def _measure(self, question: Question) -> None:
        """Measure the question's row so exactly, where it is not known so."""
        row = question.row
        half = question.roomy_half_width / (1.0 + 1e-3)
        alpha = math.ceil(-1e9 * math.log1p(-question.confidence) / half)
        old = self._rows.get(row.key)
        if old is not None and old.alpha_nano >= alpha:
            return
        step = STEP / row.row.denominator
        sums = [row.row.value_at((value - LEAST, 0)) for value in self.values]
        truth = sum(sums, Fraction(0))
        if old is None:
            drawn = release(truth, step=step, alpha_nano=alpha, entropy=self._entropy)
        else:
            drawn = release_refined(
                truth,
                released_index=old.index,
                step=step,
                old_alpha_nano=old.alpha_nano,
                new_alpha_nano=alpha,
                entropy=self._entropy,
            )
        number = len(self._rows) if old is None else old.id
        self._take(row.key, Measurement(number, row.row, row.key, alpha, step, drawn))

    def _take(self, key: str, measured: Measurement) -> None:
        self._rows[key] = measured
        self._engine.extend([measured])
