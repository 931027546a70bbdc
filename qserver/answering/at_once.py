"""Intervals of a workload that hold at once, or after all numbers were looked at.

A joint bound is about the errors of all estimates. Where nothing disagrees, these have the law of
all posteriors together, and every interval has the asked length. Else the intervals are those of
the joint posterior, around its means, longer or shorter than asked by one factor. Where that cannot
be had, each is the posterior's at its share of what may be missed, by the union bound.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from qserver.inference.engine import InferenceEngine, RowEstimate
from qserver.inference.estimate import CredibleInterval
from qserver.inference.posterior.at_once import HeldAtOnce, held_at_once
from qserver.inference.posterior.choice import (
    Law,
    TableReading,
    ends_of,
    rule_that_holds,
    table_readings,
)
from qserver.inference.posterior.given_posterior import AnyPosterior
from qserver.query.asking.looking import Ends, Selection
from qserver.query.primitive import Primitive
from qserver.query.question import Question, Workload
from qserver.records.answer import Answer
from qserver.records.statement import Simultaneous, Statement


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
    """The answers, all intervals of which hold at once, and what says so.

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
    """The answer with the interval of the asked length that the joint bound is about."""
    if number.estimate is None:
        return number.answer
    scaled = number.estimate.posterior.scaled(number.asked.row.multiplier)
    half_width = number.asked.roomy_half_width + number.estimate.unforeseen
    return _within(number, scaled.estimate, half_width)


def _within(number: AtOnce, middle: float, half_width: float) -> Answer:
    """The answer with an interval around a middle.

    Args:
        half_width: of the row, in records.
    """
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
    """What is known of a query by that of its row; None for one that vanishes on every cell."""
    return _ExactlyZero() if known is None else known.scaled(query.multiplier)


@dataclass(frozen=True)
class Looked:
    """The answers of a workload, and per question its ends; no ends where nothing can be chosen."""

    answers: tuple[Answer, ...]
    ends: tuple[Ends, ...]


def ends_for(workload: Workload, law: Law, confidence: float) -> Ends | None:
    """The ends of one of a workload's numbers that a choice among them needs.

    None where all hold at once already, and where there is one number to choose from.
    """
    selection, n = workload.selected_from, len(workload.questions)
    m, first = (n, 1) if selection is None else (selection.m, selection.first)
    if workload.simultaneous or m == 1:
        return None
    return ends_of(law, confidence=confidence, m=m, first=first)


def after_looking(workload: Workload, found: Sequence[tuple[Answer, Ends | None]]) -> Looked:
    """The answers with the ends that readings after looking need.

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
