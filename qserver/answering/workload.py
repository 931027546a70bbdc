"""From the estimates of a workload's questions to its answer.

Its intervals may hold at once, or after all numbers were looked at. A joint bound is about the
errors of all estimates. Where nothing disagrees, these have the law of all posteriors together, and
every interval has the asked length. Else the intervals are those of the joint posterior, around its
means, longer or shorter than asked by one factor. Where that cannot be had, each is the posterior's
at its share of what may be missed, by the union bound.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from qserver.answering.answer import answer_from, exact_answer, offer
from qserver.errors import MeasurementError
from qserver.inference.engine import InferenceEngine, RowEstimate
from qserver.inference.estimate import CredibleInterval
from qserver.inference.posterior.after_looking import (
    Law,
    TableReading,
    ends_of,
    rule_that_holds,
    table_readings,
)
from qserver.inference.posterior.disagreeing_rows import AnyPosterior, Stated
from qserver.inference.posterior.simultaneous import HeldAtOnce, held_at_once, normal_factor
from qserver.planning.holdings import estimate_of
from qserver.planning.workloads.workload import simultaneous
from qserver.query.asking.after_looking import Ends, Selection
from qserver.query.primitive import Primitive
from qserver.query.question import Question, Workload
from qserver.query.requirement import MAX_LENGTH, MIN_LENGTH, Requirement
from qserver.records.answer import Answer, Offer, Source, WorkloadAnswer
from qserver.records.history import Estimator
from qserver.records.statement import OF_ESTIMATOR, Simultaneous, Statement

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
    """A workload's answer, and weights to keep so that it stays free."""

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
    """The answers of all questions, by given weights or by inference's own.

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
    ends = [a.ends for a in found]
    pairs = zip(workload.questions, found, strict=True)
    numbers = [AtOnce(q, a.answer, a.estimate) for q, a in pairs]
    if together is not None and is_joint:
        answers, together = at_once(engine, numbers, together)
    elif together is not None and engine.law.is_additive:
        answers, together = _normal_at_once(engine, numbers, together)
    elif engine.law.is_additive:
        ends = _normal_ends(engine, numbers, ends)
    read = after_looking(workload, list(zip(answers, ends, strict=True)))
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
    """The questions, each with the confidence that its own interval needs.

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
        """Whether the number is as exact as asked, apart from disagreements."""
        return self.estimate is None or self.estimate.half_width <= question.row_half_width


@dataclass(frozen=True)
class _Each:
    """The inputs of one question's answer.

    Args:
        is_posterior: whether it is its posterior, else the law of its estimate's error.
    """

    engine: InferenceEngine
    workload: Workload
    cost: WorkloadCost
    version: int
    is_posterior: bool

    def answered(self, alone: Question, asked: Question, joint: Estimator | None) -> KnownNumber:
        """The answer of one question, by the weights of the joint bound if any."""
        if asked.row.is_zero:
            return self._zero(asked)
        return self._by(alone, asked, _estimate(self.engine, alone, joint))

    def known(self, alone: Question, asked: Question) -> KnownNumber | None:
        """The answer of history to one question; None without a finite interval."""
        if asked.row.is_zero:
            return self._zero(asked)
        estimate = estimate_of(self.engine, alone)
        found = None if estimate is None else self._by(alone, asked, estimate)
        if found is None or not math.isfinite(found.answer.high - found.answer.low):
            return None
        return found

    def wanted(self, alone: Question, asked: Question) -> RowEstimate | None:
        """The estimate whose posterior is the answer of history; None if none is needed."""
        if asked.row.is_zero or not self.is_posterior:
            return None
        return estimate_of(self.engine, alone)

    def work(self, alone: Question, asked: Question) -> float:
        """The work that remains for the answer of history, as of `ToState`."""
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
    """The inputs of each answer. Quotients combine laws of errors."""
    parts, questions = set(workload.for_quotients), workload.questions
    found = [_Each(engine, workload, cost, version, i not in parts) for i in range(len(questions))]
    asked = zip(questions, zip(found, each_alone(workload), questions, strict=True), strict=True)
    wanted = [(q.row, e) for q, one in asked if (e := one[0].wanted(*one[1:])) is not None]
    engine.ahead([row.row for row, _ in wanted], [estimate for _, estimate in wanted])
    return found


def open_work(engine: InferenceEngine, workload: Workload) -> float:
    """The posteriors still to compute for what history knows, in laws of single numbers."""
    each = _each(engine, workload, WorkloadCost(0, 0, {}), 0)
    asked = zip(each, each_alone(workload), workload.questions, strict=True)
    return sum(one.work(alone, question) for one, alone, question in asked)


def offers(
    engine: InferenceEngine, workload: Workload, told: Collection[int] | None = None
) -> tuple[Offer | None, ...]:
    """The best free interval of history per question, if any.

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
    """The number that history knows per question, if its interval is finite."""
    free = WorkloadCost(0, remaining_nano, {})
    each = _each(engine, workload, free, version)
    asked = zip(each, each_alone(workload), workload.questions, strict=True)
    return tuple(one.known(alone, question) for one, alone, question in asked)


def as_known(engine: InferenceEngine, workload: Workload) -> tuple[Question | None, ...]:
    """Each question as asked, or as exactly as history knows its number if that is less.

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
    """The estimate by the joint bound's weights, or else one that meets the requirement."""
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
    """The answers; the first one that was not free bears the whole price."""
    first = next((i for i, a in enumerate(answers) if a.source in ("measured", "refined")), 0)
    return tuple(
        replace(a, charged_nano=charged_nano) if i == first else a for i, a in enumerate(answers)
    )


@dataclass(frozen=True)
class AtOnce:
    """One of the numbers that hold at once.

    Args:
        answer: with the posterior's interval at its share of what may be missed.
        estimate: that the joint bound is about; None where the answer is exact.
    """

    asked: Question
    answer: Answer
    estimate: RowEstimate | None


def at_once(
    engine: InferenceEngine, numbers: Sequence[AtOnce], bound: Simultaneous
) -> tuple[tuple[Answer, ...], Simultaneous]:
    """The answers with intervals that all hold at once, and the statement of that.

    Args:
        bound: on the errors of all estimates.
    """
    if not any(number.answer.statement.disagreements for number in numbers):
        return tuple(_of_asked_length(number) for number in numbers), bound
    confidence = numbers[0].asked.confidence
    noisy = [n for n in numbers if n.estimate is not None and n.answer.statement.law != "exact"]
    held = _held(engine, noisy, confidence)
    if held is None:
        return tuple(n.answer for n in numbers), Simultaneous(confidence, "union")
    reaches = dict(zip(map(id, noisy), held.half_widths, strict=True))
    answers = tuple(
        _as_held(n, reaches[id(n)], held) if id(n) in reaches else n.answer for n in numbers
    )
    return answers, Simultaneous(confidence, "posterior", held.attained)


def _normal_at_once(
    engine: InferenceEngine, numbers: Sequence[AtOnce], bound: Simultaneous
) -> tuple[tuple[Answer, ...], Simultaneous]:
    """The answers by the joint normal law of all, where that gives more than the union bound."""
    known = [n.estimate for n in numbers]
    reaches = [e.half_width - e.posterior.allowance if e else 0.0 for e in known]
    missed = 1.0 - numbers[0].asked.confidence
    less = _normal_gains(engine, numbers, reaches, missed=missed)
    if not any(less):
        return tuple(n.answer for n in numbers), bound
    answers = tuple(
        replace(n.answer, low=_down(n.answer.low + by), high=_up(n.answer.high - by))
        for n, by in zip(numbers, less, strict=True)
    )
    return answers, Simultaneous(bound.confidence, "posterior", bound.confidence)


def _normal_ends(
    engine: InferenceEngine, numbers: Sequence[AtOnce], ends: Sequence[Ends | None]
) -> list[Ends | None]:
    """The ends for a choice among all numbers, by their joint normal law on either side."""
    reaches = [
        0.0
        if end is None or n.estimate is None
        else (end.estimate - end.lowest) / abs(float(n.asked.row.multiplier))
        - n.estimate.posterior.allowance
        for n, end in zip(numbers, ends, strict=True)
    ]
    missed = (1.0 - numbers[0].asked.confidence) / 2.0
    less = _normal_gains(engine, numbers, reaches, missed=missed, one_sided=True)
    return [
        end and replace(end, lowest=_down(end.lowest + by), highest=_up(end.highest - by))
        for end, by in zip(ends, less, strict=True)
    ]


def _normal_gains(
    engine: InferenceEngine,
    numbers: Sequence[AtOnce],
    reaches: Sequence[float],
    *,
    missed: float,
    one_sided: bool = False,
) -> list[float]:
    """The gain of each number's ends; 0 where the joint law is unknown.

    Args:
        reaches: how far the ends are by the union bound, less allowances, in records.
    """
    estimates = [n.estimate for n in numbers]
    known = [e for e in estimates if e is not None and not e.posterior.is_exact]
    together, factor = None, 1.0
    if len(known) == len(numbers) and min(reaches) > 0.0:
        together = engine.together([n.asked.row.row for n in numbers], known)
    is_one = len({n.asked.confidence for n in numbers}) == 1
    if is_one and together is not None and together.is_posterior:
        factor = normal_factor(together, np.array(reaches), missed=missed, one_sided=one_sided)
    sizes = [abs(float(n.asked.row.multiplier)) for n in numbers]
    return [(1.0 - factor) * r * size for r, size in zip(reaches, sizes, strict=True)]


def _down(value: float) -> float:
    return math.nextafter(value, -math.inf)


def _up(value: float) -> float:
    return math.nextafter(value, math.inf)


def _held(
    engine: InferenceEngine, numbers: Sequence[AtOnce], confidence: float
) -> HeldAtOnce | None:
    rows, estimates = [n.asked.row.row for n in numbers], [n.estimate for n in numbers]
    found = engine.together(rows, [one for one in estimates if one is not None])
    if found is None:
        return None
    means = tuple(n.answer.estimate / float(n.asked.row.multiplier) for n in numbers)
    halves = tuple(n.asked.roomy_half_width for n in numbers)
    return held_at_once(found, means, halves, confidence)


def _as_held(number: AtOnce, half_width: float, held: HeldAtOnce) -> Answer:
    """The answer with its interval of all that hold at once."""
    error = max(number.answer.statement.error, held.error)
    law = Statement("posterior", error, held.disagreements)
    return replace(_within(number, number.answer.estimate, half_width), statement=law)


def _of_asked_length(number: AtOnce) -> Answer:
    """The answer with the interval of the asked length, which the joint bound is about."""
    if number.estimate is None:
        return number.answer
    scaled = number.estimate.posterior.scaled(number.asked.row.multiplier)
    half_width = number.asked.roomy_half_width + number.estimate.unforeseen
    return _within(number, scaled.estimate, half_width)


def _within(number: AtOnce, middle: float, half_width: float) -> Answer:
    """The answer with an interval around a middle; `half_width`: of the row, in records."""
    if number.estimate is None:
        return number.answer
    multiplier, known = number.asked.row.multiplier, number.estimate.posterior
    size = abs(float(multiplier))
    rounding = known.scaled(multiplier).allowance - size * known.allowance
    reach = size * half_width + max(0.0, rounding)
    return replace(
        number.answer,
        low=math.nextafter(middle - reach, -math.inf),
        high=math.nextafter(middle + reach, math.inf),
    )


@dataclass(frozen=True)
class _ExactlyZero:
    """The law of a query that vanishes on every cell."""

    estimate: float = 0.0

    def interval(self, confidence: float) -> CredibleInterval:  # noqa: ARG002 - of every law
        return CredibleInterval(0.0, 0.0)

    def low_at(self, probability: float) -> float:  # noqa: ARG002 - of every law
        return 0.0

    def high_at(self, probability: float) -> float:  # noqa: ARG002 - of every law
        return 0.0


def law_of(query: Primitive, known: AnyPosterior | None) -> Law:
    """The law of a query by its row's; None for a query that vanishes on every cell."""
    return _ExactlyZero() if known is None else known.scaled(query.multiplier)


@dataclass(frozen=True)
class Looked:
    """The answers of a workload, and ends per question; none where nothing can be chosen."""

    answers: tuple[Answer, ...]
    ends: tuple[Ends, ...]


def ends_for(workload: Workload, law: Law, confidence: float) -> Ends | None:
    """The ends of a workload's number that a choice among all needs.

    None where all hold at once already, and where there is one number to choose from.
    """
    selection, n = workload.selected_from, len(workload.questions)
    m, first = (n, 1) if selection is None else (selection.m, selection.first)
    if workload.simultaneous or m == 1:
        return None
    return ends_of(law, confidence=confidence, m=m, first=first)


def after_looking(workload: Workload, found: Sequence[tuple[Answer, Ends | None]]) -> Looked:
    """The answers with the ends for readings after looking.

    Where the workload says how a choice is made, its answers have the intervals for that.
    """
    answers = tuple(answer for answer, _ in found)
    ends = tuple(end for _, end in found if end is not None)
    selection = workload.selected_from
    if selection is None:
        return Looked(answers, ends)
    if not ends:
        return Looked(tuple(replace(a, selected_from=selection) for a in answers), ends)
    pairs = zip(answers, table_readings(ends), strict=True)
    return Looked(tuple(_chosen(answer, one, selection, len(ends)) for answer, one in pairs), ends)


def _chosen(answer: Answer, known: TableReading, selection: Selection, n_known: int) -> Answer:
    found, n_unknown = answer.statement.disagreements, selection.m - n_known
    said = known.by(rule_that_holds(selection.rule, n_unknown=n_unknown, disagreements=found))
    return replace(answer, low=said.low, high=said.high, selected_from=selection)
