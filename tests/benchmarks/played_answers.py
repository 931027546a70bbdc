"""Answers as the server prints them, with noise from a seed; planner, engine and law are its own.

An answer's error does not depend on the counts. So the noise alone is released, and the true answer
is added to what is shown.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from qserver.answering.answer import answer_from
from qserver.inference.engine import RowEstimate
from qserver.inference.estimate import Posterior
from qserver.inference.posterior.disagreeing_rows import AnyPosterior, GivenPosterior, Stated
from qserver.ledger.noise_step import lattice_step
from qserver.planning.fresh_row import fresh_alpha_nano
from qserver.planning.holdings import estimate_of
from qserver.planning.planner import Plan, plan_answer
from qserver.planning.purchase import Purchase
from qserver.query.asking.after_looking import NOTHING_SEEN, Looking
from qserver.query.asking.method_and_prior import AS_EVER, Reading
from qserver.query.class_grid import product_partition
from qserver.query.linear_query import LinearQuery, linear_query
from qserver.query.primitive import primitive
from qserver.query.question import Question
from qserver.query.requirement import Requirement
from qserver.query.weights import interval
from qserver.records.answer import Answer
from qserver.records.history import TableMeasurement
from qserver.records.plan import PlannedTable

from .synthetic_noise import LIMIT_NANO, Snapshot

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Shown:
    """An answer, and the truth that its asker does not see."""

    answer: Answer
    truth: float

    @property
    def estimate(self) -> float:
        """The estimate that is printed."""
        return self.answer.estimate

    @property
    def holds(self) -> bool:
        """Whether the printed interval holds the truth."""
        return self.answer.low <= self.truth <= self.answer.high


@dataclass
class PlayedServer:
    """A server without a store, on one attribute, that measures what is asked and nothing more.

    Args:
        counts: the true count of each value.
        generator: of the noise.
    """

    counts: npt.NDArray[np.int64]
    generator: np.random.Generator
    _snapshot: Snapshot = field(init=False)

    def __post_init__(self) -> None:
        sizes = (len(self.counts),)
        self._snapshot = Snapshot(sizes, rule=None, generator=self.generator)

    def ask(
        self,
        low: int,
        high: int,
        *,
        length: float,
        looking: Looking = NOTHING_SEEN,
        reading: Reading = AS_EVER,
    ) -> Shown:
        """The count of the values low <= v < high: from history if that suffices, else measured."""
        requirement = Requirement(length, CONFIDENCE)
        query = ranged(len(self.counts), low, high)
        reading = reading.on(primitive(query), total=None)
        question = Question(query, requirement, looking=looking, reading=reading)
        plan = plan_answer(question, self._snapshot.holdings)
        if plan.rows or plan.tables:
            self._snapshot.carry_out(plan, question.row)
        return self._shown(question, plan, truth=float(self.counts[low:high].sum()))

    def buy_table(self, *, length: float) -> npt.NDArray[np.float64]:
        """Measure every value at once, each as exactly as a question of this length; what is seen.

        Returns:
            The noisy counts, of the shape of `counts`.
        """
        n = len(self.counts)
        step = lattice_step(Fraction(1), limit_nano=LIMIT_NANO, records_per_person=1)
        alpha = fresh_alpha_nano(Requirement(length, CONFIDENCE), multiplier=Fraction(1), step=step)
        partition = product_partition((n,), {0: range(n)})
        self._snapshot.buy(Purchase((), (PlannedTable(partition, alpha, step),)))
        measured = self._snapshot.live[-1]
        assert isinstance(measured, TableMeasurement)
        return measured.values + self.counts

    def _estimate(self, question: Question, plan: Plan) -> RowEstimate:
        """As the service finds it for a free answer, and the worker for a measured one."""
        engine = self._snapshot.engine
        if question.looking.independent:
            [(new, _)] = plan.weights
            return engine.alone(question.row, new, confidence=CONFIDENCE)
        if plan.rows:
            found = engine.estimate_with(
                question.row,
                plan.weights,
                confidence=CONFIDENCE,
                enough=question.row_half_width,
                tables_give_rest=plan.tables_give_rest,
            )
        else:
            found = estimate_of(engine, question)
        if found is None:
            raise RuntimeError("A question that was planned must have an estimate.")
        return found

    def _shown(self, question: Question, plan: Plan, *, truth: float) -> Shown:
        found = self._estimate(question, plan)
        stated = self._snapshot.engine.stated(question.row, found)
        answer = answer_from(
            question,
            replace(found, posterior=_around(found.posterior, truth)),
            Stated(_moved(stated.posterior, truth), stated.statement),
            source="measured" if plan.rows else "history",
            charged_nano=0,
            remaining_nano=0,
            version=0,
        )
        return Shown(answer, truth)


def ranged(n: int, low: int, high: int) -> LinearQuery:
    """The count of the values low <= v < high of n."""
    return linear_query((n,), [(1, {0: interval(n, low, high)})])


def _moved(posterior: AnyPosterior, by: float) -> AnyPosterior:
    """The posterior around another truth."""
    if isinstance(posterior, GivenPosterior):
        return replace(posterior, linear=posterior.linear + by)
    return _around(posterior, by)


def _around(posterior: Posterior, truth: float) -> Posterior:
    return replace(posterior, estimate=posterior.estimate + truth)
