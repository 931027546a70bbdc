"""From the estimates of a workload's questions to its answer."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from qserver.answering.answer import answer_from, exact_answer, offer
from qserver.answering.at_once import AtOnce, after_looking, at_once, ends_for, law_of
from qserver.errors import MeasurementError
from qserver.inference.engine import InferenceEngine, RowEstimate
from qserver.inference.posterior.given_posterior import AnyPosterior, Stated
from qserver.planning.holdings import estimate_of
from qserver.planning.workloads.workload import simultaneous
from qserver.query.asking.looking import Ends
from qserver.query.question import Question, Workload
from qserver.query.requirement import MAX_LENGTH, MIN_LENGTH, Requirement
from qserver.records.answer import Answer, Offer, Source, WorkloadAnswer
from qserver.records.history import Estimator
from qserver.records.statement import OF_ESTIMATOR, Simultaneous

_ROOM: Final = 1.0 + 1e-6
"""A length that is known is asked for with so much room, so that rounding costs nothing."""
MOST_OFFERED: Final = 64
"""Most questions whose free intervals are posteriors; each takes some tens of milliseconds."""


@dataclass(frozen=True)
class WorkloadCost:
    """What a workload costs.

    Args:
        charged_nano: the price, in nano-epsilon.
        remaining_nano: the budget that is left afterwards.
        sources: whether a row or table was measured or refined for it, by id.
    """

    charged_nano: int
    remaining_nano: int
    sources: Mapping[int, Source]


@dataclass(frozen=True)
class AnsweredWorkload:
    """A workload's answer, and weights that must be kept so that it stays free."""

    answer: WorkloadAnswer
    estimators: tuple[Estimator, ...]


def answer_workload(
    engine: InferenceEngine,
    workload: Workload,
    *,
    estimators: Sequence[Estimator | None],
    together: Simultaneous | None,
    cost: WorkloadCost,
    version: int,
) -> AnsweredWorkload:
    """The answers of all questions, by given weights or by those that inference finds.

    If a joint bound certifies that all intervals hold at once, they have the weights of that bound,
    and the lengths that `at_once` gives them. Otherwise each holds by itself, at the asked
    confidence or at that of the union bound.

    Raises:
        MeasurementError: history does not give a question.
    """
    is_joint = together is not None and together.method != "union"
    kept = tuple(e for e in estimators if e is not None and not engine.has_kept(e))
    for estimator in kept:
        engine.keep(estimator)
    each = _each(engine, workload, cost, version)
    found = [
        one.answered(alone, q, e if is_joint else None)
        for one, alone, q, e in zip(
            each, each_alone(workload), workload.questions, estimators, strict=True
        )
    ]
    answers = tuple(a.answer for a in found)
    if together is not None and is_joint:
        numbers = zip(workload.questions, found, strict=True)
        answers, together = at_once(
            engine, [AtOnce(q, a.answer, a.estimate) for q, a in numbers], together
        )
    read = after_looking(workload, list(zip(answers, (a.ends for a in found), strict=True)))
    answer = WorkloadAnswer(
        borne(read.answers, cost.charged_nano),
        cost.charged_nano,
        cost.remaining_nano,
        together,
        version,
        read.ends,
    )
    more = tuple(a.estimator for a in found if a.estimator is not None and not is_joint)
    return AnsweredWorkload(answer, (*kept, *more))


def each_alone(workload: Workload) -> Sequence[Question]:
    """The questions, each with the confidence that its interval needs by itself.

    In a simultaneous workload this is the confidence that the union bound asks for.
    """
    questions = workload.questions
    return simultaneous(questions) if workload.simultaneous else questions


@dataclass(frozen=True)
class KnownNumber:
    """One number of a workload.

    Args:
        ends: what a choice among all of them needs; None where there is nothing to choose.
        estimate: that it is made of; None where it is zero.
        estimator: weights to be kept so that it stays free.
    """

    answer: Answer
    ends: Ends | None
    estimate: RowEstimate | None = None
    estimator: Estimator | None = None

    def meets(self, question: Question) -> bool:
        """Whether it is as exact as the question asks, but for what released answers disagree."""
        return self.estimate is None or self.estimate.half_width <= question.row_half_width


@dataclass(frozen=True)
class _Each:
    """What makes the answer of one of a workload's questions.

    Args:
        is_posterior: whether it is its posterior, else the law of its estimate's error.
    """

    engine: InferenceEngine
    workload: Workload
    cost: WorkloadCost
    version: int
    is_posterior: bool

    def answered(self, alone: Question, asked: Question, joint: Estimator | None) -> KnownNumber:
        """The answer of one question, by the weights of the joint bound where there is one."""
        if asked.row.is_zero:
            return self._zero(asked)
        return self._by(alone, asked, _estimate(self.engine, alone, joint))

    def known(self, alone: Question, asked: Question) -> KnownNumber | None:
        """What history gives for one question; None if it gives no finite interval."""
        if asked.row.is_zero:
            return self._zero(asked)
        estimate = estimate_of(self.engine, alone)
        found = None if estimate is None else self._by(alone, asked, estimate)
        if found is None or not math.isfinite(found.answer.high - found.answer.low):
            return None
        return found

    def wanted(self, alone: Question, asked: Question) -> RowEstimate | None:
        """The estimate whose posterior is the answer that history gives; None if it needs none."""
        if asked.row.is_zero or not self.is_posterior:
            return None
        return estimate_of(self.engine, alone)

    def work(self, alone: Question, asked: Question) -> float:
        """What is still to be computed for the answer that history gives, as of `ToState`."""
        estimate = self.wanted(alone, asked)
        return 0.0 if estimate is None else self.engine.to_state(asked.row, estimate).work

    def _zero(self, asked: Question) -> KnownNumber:
        left = self.cost.remaining_nano
        exact = exact_answer(asked, remaining_nano=left, version=self.version)
        return KnownNumber(exact, self._ends(asked, None))

    def _by(self, alone: Question, asked: Question, estimate: RowEstimate) -> KnownNumber:
        stated = self._stated(asked, estimate)
        answer = answer_from(
            alone,
            estimate,
            stated,
            source=_source(estimate, self.cost.sources),
            charged_nano=0,
            remaining_nano=self.cost.remaining_nano,
            version=self.version,
        )
        # At once, while the same sum at other probabilities is remembered.
        ends = self._ends(asked, stated.posterior)
        kept = estimate.estimator(asked.row.key) if estimate.needs_storing else None
        return KnownNumber(replace(answer, confidence=asked.confidence), ends, estimate, kept)

    def _stated(self, asked: Question, estimate: RowEstimate) -> Stated:
        if self.is_posterior:
            return self.engine.stated(asked.row, estimate)
        return Stated(estimate.posterior, OF_ESTIMATOR)

    def _ends(self, asked: Question, known: AnyPosterior | None) -> Ends | None:
        return ends_for(self.workload, law_of(asked.row, known), asked.confidence)


def _each(
    engine: InferenceEngine, workload: Workload, cost: WorkloadCost, version: int
) -> list[_Each]:
    """What makes each answer. Quotients combine laws of errors."""
    parts, questions = set(workload.for_quotients), workload.questions
    found = [_Each(engine, workload, cost, version, i not in parts) for i in range(len(questions))]
    asked = zip(questions, zip(found, each_alone(workload), questions, strict=True), strict=True)
    wanted = [(q.row, e) for q, one in asked if (e := one[0].wanted(*one[1:])) is not None]
    engine.ahead([row.row for row, _ in wanted], [estimate for _, estimate in wanted])
    return found


def open_work(engine: InferenceEngine, workload: Workload) -> float:
    """What posteriors are still to be computed of what history knows, in laws of single numbers."""
    each = _each(engine, workload, WorkloadCost(0, 0, {}), 0)
    asked = zip(each, each_alone(workload), workload.questions, strict=True)
    return sum(one.work(alone, question) for one, alone, question in asked)


def offers(
    engine: InferenceEngine, workload: Workload, told: Collection[int] | None = None
) -> tuple[Offer | None, ...]:
    """Per question the best interval that history gives without a charge, if it gives one.

    In a simultaneous workload each has the confidence with which all hold at once. Of many
    questions it is that of the estimate's error: nobody asked for an answer, and posteriors take
    long.

    Args:
        told: the questions whose posteriors are wanted; None for all.
    """
    alone = each_alone(workload)
    found = [None if one.row.is_zero else estimate_of(engine, one) for one in alone]
    wanted = range(len(alone)) if told is None else told
    by_law = set(wanted) if len(wanted) <= MOST_OFFERED else set[int]()
    known = [(alone[i].row.row, e) for i in sorted(by_law) if (e := found[i]) is not None]
    engine.ahead([row for row, _ in known], [estimate for _, estimate in known])
    pairs = enumerate(zip(alone, found, strict=True))
    return tuple(offer(*pair, engine if i in by_law else None) for i, pair in pairs)


def known_numbers(
    engine: InferenceEngine, workload: Workload, *, remaining_nano: int, version: int
) -> tuple[KnownNumber | None, ...]:
    """Per question what history says of it, if it gives a finite interval, short or long."""
    free = WorkloadCost(0, remaining_nano, {})
    each = _each(engine, workload, free, version)
    asked = zip(each, each_alone(workload), workload.questions, strict=True)
    return tuple(one.known(alone, question) for one, alone, question in asked)


def as_known(engine: InferenceEngine, workload: Workload) -> tuple[Question | None, ...]:
    """Each question as it is, or as exactly as history knows its number if that is less.

    None where history says nothing finite of it.
    """
    pairs = zip(each_alone(workload), workload.questions, strict=True)
    return tuple(_as_known(engine, *pair) for pair in pairs)


def _as_known(engine: InferenceEngine, alone: Question, asked: Question) -> Question | None:
    if asked.row.is_zero:
        return asked
    found = estimate_of(engine, alone)
    if found is None or not math.isfinite(found.half_width):
        return None
    if found.half_width <= alone.row_half_width:
        return asked
    length = 2.0 * found.half_width * abs(float(asked.row.multiplier)) * _ROOM
    if not MIN_LENGTH <= length <= MAX_LENGTH:
        return None
    return asked.with_requirement(Requirement(length, asked.confidence))


def _estimate(engine: InferenceEngine, alone: Question, joint: Estimator | None) -> RowEstimate:
    """The estimate by the weights of the joint bound, or else one that meets the requirement."""
    if joint is None:
        found = estimate_of(engine, alone)
    else:
        found = engine.estimate_after(alone.row, joint, confidence=alone.confidence)
    if found is None:
        raise MeasurementError
    return found


def _source(estimate: RowEstimate, sources: Mapping[int, Source]) -> Source:
    """The source of an answer: whether rows or tables that it uses were measured or refined."""
    used = {sources[i] for i in (*estimate.ids, *estimate.tables) if i in sources}
    return "refined" if "refined" in used else "measured" if used else "history"


def borne(answers: Sequence[Answer], charged_nano: int) -> tuple[Answer, ...]:
    """The answers; the first that was not free bears the whole price."""
    first = next((i for i, a in enumerate(answers) if a.source in ("measured", "refined")), 0)
    return tuple(
        replace(a, charged_nano=charged_nano) if i == first else a for i, a in enumerate(answers)
    )
