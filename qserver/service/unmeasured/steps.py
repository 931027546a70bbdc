"""What all steps of a statement say together: the last answers, and what every step cost."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from qserver.records.answer import Answer, Source, WorkloadAnswer

_DEAREST_FIRST: tuple[Source, ...] = ("measured", "refined", "history", "exact")


def with_earlier(
    found: Answer | WorkloadAnswer, earlier: Sequence[WorkloadAnswer]
) -> Answer | WorkloadAnswer:
    """The answers of the last step, with what all steps cost and did."""
    if not earlier:
        return found
    charged = found.charged_nano + sum(step.charged_nano for step in earlier)
    if isinstance(found, Answer):
        source = dearest([found.source, *(step.answers[0].source for step in earlier)])
        return replace(found, source=source, charged_nano=charged)
    steps = (*earlier, found)
    answers = tuple(
        replace(answer, source=dearest(step.answers[i].source for step in steps))
        for i, answer in enumerate(found.answers)
    )
    return replace(found, answers=answers, charged_nano=charged)


def dearest(sources: Iterable[Source]) -> Source:
    """The source that cost most."""
    among = set(sources)
    return next(source for source in _DEAREST_FIRST if source in among)
