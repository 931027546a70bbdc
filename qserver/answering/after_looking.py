"""What the numbers of a workload say after all of them were looked at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from qserver.inference.posterior.choice import Law, ends_of, table_readings
from qserver.inference.posterior.interval import CredibleInterval
from qserver.inference.posterior.stated import AnyPosterior
from qserver.query.looking import Ends
from qserver.query.primitive import Primitive
from qserver.query.question import Workload
from qserver.records.answer import Answer


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

    None where all hold at once already, and for a single number.
    """
    selection, n = workload.selected_from, len(workload.questions)
    if workload.simultaneous or (n == 1 and selection is None):
        return None
    m, first = (n, 1) if selection is None else (selection.m, selection.first)
    return ends_of(law, confidence=confidence, m=m, first=first)


def after_looking(workload: Workload, found: Sequence[tuple[Answer, Ends | None]]) -> Looked:
    """The answers with the ends that readings after looking need.

    Where the workload says how a choice is made, its answers have the intervals for that.
    """
    answers = tuple(answer for answer, _ in found)
    ends = tuple(end for _, end in found if end is not None)
    selection = workload.selected_from
    if selection is None or not ends:
        return Looked(answers, ends)
    said = [reading.by(selection.rule) for reading in table_readings(ends)]
    chosen = tuple(
        replace(answer, low=interval.low, high=interval.high, selected_from=selection)
        for answer, interval in zip(answers, said, strict=True)
    )
    return Looked(chosen, ends)
