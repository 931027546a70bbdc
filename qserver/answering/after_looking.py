"""What the numbers of a workload say after all of them were looked at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from qserver.inference.posterior.choice import (
    Law,
    TableReading,
    ends_of,
    rule_that_holds,
    table_readings,
)
from qserver.inference.posterior.posterior import AnyPosterior, CredibleInterval
from qserver.query.looking import Ends, Selection
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
