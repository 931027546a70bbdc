"""Intervals of quotients by the joint law of both parts, where history lets it be told."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from qserver.answering.quotient_posterior import QuotientAsked, QuotientPosterior
from qserver.inference.engine import InferenceEngine, RowEstimate
from qserver.inference.joint.quotient import JointParts, QuotientPart
from qserver.planning.holdings import estimate_of
from qserver.query.primitive import Primitive
from qserver.query.question import Question
from qserver.query.sql.cells import CellQuestions, CellValue, StatementQuestions
from qserver.query.sql.tables.intervals import CellInterval, Centred, shifted_interval
from qserver.records.statement import Statement

JointOf = Callable[[Question, Question], JointParts | None]
_SAME = 1e-9
_BEYOND = 3.0
"""How far an interval is followed over the public bounds, in parts of their distance from the
middle: the cut asks no more."""


def joint_parts(engine: InferenceEngine, over: Question, under: Question) -> JointParts | None:
    """Both estimates as in their answers; None if one does not come from measured rows alone.

    An estimate from tables has noise of every cell. Its joint law is not computed here.
    """
    parts = [_part(engine, question) for question in (over, under)]
    if parts[0] is None or parts[1] is None:
        return None
    return JointParts(parts[0], parts[1])


def _part(engine: InferenceEngine, question: Question) -> QuotientPart | None:
    if question.row.is_zero:
        return QuotientPart(0.0, {}, 0.0)
    found = estimate_of(engine, question)
    if found is None or found.tables or found.beside or found.at is not None:
        return None
    return _by_rows(engine, question.row, found)


def _by_rows(engine: InferenceEngine, row: Primitive, found: RowEstimate) -> QuotientPart:
    scaled, factor = found.posterior.scaled(row.multiplier), float(row.multiplier)
    loads = {i: factor * w * engine.measurement(i).scale for i, w in found.weights}
    return QuotientPart(scaled.estimate, loads, scaled.allowance)


def joint_value(
    questions: StatementQuestions,
    cell: CellQuestions,
    value: CellValue,
    estimates: Sequence[float],
    joint_of: JointOf,
) -> CellValue:
    """A cell with the interval of the joint law, where there is one; else as it is.

    Args:
        value: with the interval by the union bound, which is longer.
        estimates: of all questions, as they were answered: if history says something else of a
            part by now, the interval stays.
    """
    shape, low, high = cell.centred, value.interval.low, value.interval.high
    if shape is None or cell.denominator is None or questions.simultaneous:
        return value
    if low is None or high is None or (shape.is_bounded and value.estimate is None):
        return value
    parts = joint_of(questions.questions[cell.main], questions.questions[cell.denominator])
    if parts is None or not all(
        math.isclose(part.estimate, estimates[i], rel_tol=_SAME, abs_tol=_SAME)
        for part, i in ((parts.over, cell.main), (parts.under, cell.denominator))
    ):
        return value
    middle = float(shape.middle)
    room = 4.0 * math.ulp(abs(low) + abs(high) + abs(middle))
    start = low - middle - room, high - middle + room
    found = parts.bounds(*start, confidence=cell.confidence)
    if found is None:
        return value
    if shape.is_bounded and _touches(found, shape):
        found = _beyond_bounds(parts, found, shape, cell.confidence)
    interval = _within(shifted_interval(*found, shape), value.interval)
    estimate = value.estimate
    if estimate is not None and interval.low is not None and interval.high is not None:
        estimate = min(max(estimate, interval.low), interval.high)
    return CellValue(estimate, interval)


def _touches(found: tuple[float, float], shape: Centred) -> bool:
    """Whether an interval about the middle reaches a public bound."""
    return found[0] <= -float(shape.radius) or found[1] >= float(shape.radius)


def _beyond_bounds(
    parts: JointParts, found: tuple[float, float], shape: Centred, confidence: float
) -> tuple[float, float]:
    """The same as far as it goes on beyond the public bounds: their cut says how short it may be.

    Ends that are between the bounds stay where they were found, which is more exact.
    """
    far = _BEYOND * float(shape.radius)
    wide = parts.bounds(-far, far, confidence=confidence) or found
    low = min(found[0], wide[0]) if found[0] <= -float(shape.radius) else found[0]
    high = max(found[1], wide[1]) if found[1] >= float(shape.radius) else found[1]
    return low, high


def _within(interval: CellInterval, other: CellInterval) -> CellInterval:
    """The part of an interval within a longer one."""
    low, high = interval.low, interval.high
    if low is None or high is None or other.low is None or other.high is None:
        return interval
    return CellInterval(max(low, other.low), min(high, other.high))


PosteriorOf = Callable[[QuotientAsked], QuotientPosterior | None]


@dataclass(frozen=True)
class ValueGiven:
    """A quotient by its posterior.

    Args:
        at_once: the interval that holds for any choice among the numbers looked at.
    """

    value: CellValue
    at_once: CellInterval
    statement: Statement


def posterior_value(
    questions: StatementQuestions, cell: CellQuestions, value: CellValue, posterior_of: PosteriorOf
) -> ValueGiven | None:
    """A quotient by its posterior; None where that is not known.

    Args:
        value: by the laws of the errors of both estimates; the search starts from its interval.
        posterior_of: finds the posterior of a quotient.
    """
    shape, low, high = cell.centred, value.interval.low, value.interval.high
    if shape is None or cell.denominator is None or low is None or high is None or low >= high:
        return None
    middle = float(shape.middle)
    over, under = questions.questions[cell.main], questions.questions[cell.denominator]
    start = low - middle, high - middle
    found = posterior_of(QuotientAsked(over, under, start, cell.confidence, questions.among))
    if found is None:
        return None
    interval = shifted_interval(found.low, found.high, shape)
    chosen = CellInterval(None, None)
    if found.at_once is not None:
        chosen = shifted_interval(*found.at_once, shape)
    elif shape.is_bounded:
        least, most = shape.bounds.whole
        chosen = shifted_interval(float(least), float(most), shape)
    estimate = middle + found.estimate
    if interval.low is not None and interval.high is not None:
        estimate = min(max(estimate, interval.low), interval.high)
        # Where nothing disagrees the errors' law is the posterior's, and exact where rows tell it.
        if not found.statement.disagreements and interval.high - interval.low >= high - low:
            return ValueGiven(value, chosen, found.statement)
    return ValueGiven(CellValue(estimate, interval), chosen, found.statement)
