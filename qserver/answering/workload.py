"""From the estimates of a workload's questions to its answer."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from qserver.answering.after_looking import after_looking, ends_for, law_of
from qserver.answering.answer import answer_from, exact_answer, offer
from qserver.errors import MeasurementError
from qserver.inference.engine import InferenceEngine, RowEstimate
from qserver.inference.posterior.stated import Stated
from qserver.planning.holdings import estimate_of
from qserver.planning.workloads.workload import simultaneous
from qserver.query.looking import Ends
from qserver.query.question import Question, Workload
from qserver.records.answer import Answer, Offer, Simultaneous, Source, WorkloadAnswer
from qserver.records.history import Estimator
from qserver.records.statement import OF_ESTIMATOR


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

    If a joint bound certifies that all intervals hold at once, they have the asked lengths and the
    weights of that bound. Otherwise each holds by itself, at the asked confidence or at that of the
    union bound.

    Raises:
        MeasurementError: history does not give a question.
    """
    is_joint = together is not None and together.method != "union"
    kept = tuple(e for e in estimators if e is not None and not engine.has_kept(e))
    for estimator in kept:
        engine.keep(estimator)
    found = [
        _one(engine, workload, alone, q, e if is_joint else None, cost, version)
        for alone, q, e in zip(each_alone(workload), workload.questions, estimators, strict=True)
    ]
    read = after_looking(workload, [(a.answer, a.ends) for a in found])
    answer = WorkloadAnswer(
        _borne(read.answers, cost.charged_nano),
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
class _One:
    answer: Answer
    ends: Ends | None
    estimator: Estimator | None


def _one(
    engine: InferenceEngine,
    workload: Workload,
    alone: Question,
    asked: Question,
    joint: Estimator | None,
    cost: WorkloadCost,
    version: int,
) -> _One:
    """The answer of one question, by the weights of the joint bound where there is one."""
    remaining = cost.remaining_nano
    if asked.row.is_zero:
        exact = exact_answer(asked.requirement, remaining_nano=remaining, version=version)
        return _One(exact, ends_for(workload, law_of(asked.row, None), asked.confidence), None)
    estimate = _estimate(engine, alone, joint)
    answer = answer_from(
        alone,
        estimate,
        # Joint bounds, quotients, steps and choices combine the laws of the estimates' errors.
        Stated(estimate.posterior, OF_ESTIMATOR),
        source=_source(estimate, cost.sources),
        charged_nano=0,
        remaining_nano=remaining,
        version=version,
    )
    answer = replace(answer, confidence=asked.confidence)
    if joint is not None:
        answer = _of_asked_length(answer, asked, estimate)
    # At once, while the same sum at other probabilities is remembered.
    ends = ends_for(workload, law_of(asked.row, estimate), asked.confidence)
    return _One(answer, ends, estimate.estimator(asked.row.key) if estimate.needs_storing else None)


def offers(
    engine: InferenceEngine, workload: Workload, *, with_ends: bool = False
) -> tuple[Offer | None, ...]:
    """Per question the best interval that history gives without a charge, if it gives one.

    In a simultaneous workload each has the confidence with which all hold at once.

    Args:
        with_ends: also find the ends that a choice among all of them needs.
    """
    found = list[Offer | None]()
    for question in each_alone(workload):
        estimate = None if question.row.is_zero else estimate_of(engine, question)
        free = offer(question, estimate)
        if with_ends and free is not None:
            law = law_of(question.row, estimate)
            free = replace(free, ends=ends_for(workload, law, question.confidence))
        found.append(free)
    return tuple(found)


def _estimate(engine: InferenceEngine, alone: Question, joint: Estimator | None) -> RowEstimate:
    """The estimate by the weights of the joint bound, or else one that meets the requirement."""
    if joint is None:
        found = estimate_of(engine, alone)
    else:
        found = engine.estimate_after(alone.row, joint, confidence=alone.confidence)
    if found is None:
        raise MeasurementError
    return found


def _of_asked_length(answer: Answer, asked: Question, estimate: RowEstimate) -> Answer:
    """The answer with the interval of the asked length that the joint bound is about."""
    multiplier = asked.row.multiplier
    scaled = estimate.posterior.scaled(multiplier)
    size = abs(float(multiplier))
    half_width = asked.roomy_half_width + estimate.unforeseen
    rounding = scaled.allowance - size * estimate.posterior.allowance
    reach = size * half_width + max(0.0, rounding)
    return replace(
        answer,
        low=math.nextafter(scaled.estimate - reach, -math.inf),
        high=math.nextafter(scaled.estimate + reach, math.inf),
    )


def _source(estimate: RowEstimate, sources: Mapping[int, Source]) -> Source:
    """The source of an answer: whether rows or tables that it uses were measured or refined."""
    used = {sources[i] for i in (*estimate.ids, *estimate.tables) if i in sources}
    return "refined" if "refined" in used else "measured" if used else "history"


def _borne(answers: Sequence[Answer], charged_nano: int) -> tuple[Answer, ...]:
    """The answers; the first that was not free bears the whole price."""
    first = next((i for i, a in enumerate(answers) if a.source in ("measured", "refined")), 0)
    return tuple(
        replace(a, charged_nano=charged_nano) if i == first else a for i, a in enumerate(answers)
    )
