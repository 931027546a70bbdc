"""What the steps of a statement cost and did is said of its last answers."""

from __future__ import annotations

import pytest

from qserver.records.answer import Answer, Source, WorkloadAnswer
from qserver.service.steps.earlier_steps import with_earlier


def workload(*sources: Source, charged_nano: int = 0) -> WorkloadAnswer:
    answers = tuple(
        Answer(1.0, 0.0, 2.0, 0.95, 0.96, source, 0, 9, (), "direct", 1) for source in sources
    )
    return WorkloadAnswer(answers, charged_nano, 9, None, 1)


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ([workload("measured", "history", "exact")], ["measured", "history", "exact"]),
        ([workload("history"), workload("measured")], ["measured"] * 3),
        ([workload("history", "refined")], ["refined"] * 3),
        ([workload("history", "exact", "exact", "refined"), workload()], ["refined"] * 3),
    ],
)
def test_a_step_may_have_fewer_counts_than_the_statement_and_others(
    steps: list[WorkloadAnswer], expected: list[Source]
) -> None:
    """Steps of quantiles ask for counts between values: MAX by sex asked one, and was answered by
    two."""
    found = with_earlier(workload("history", "history", "exact"), steps)
    assert isinstance(found, WorkloadAnswer)
    assert [answer.source for answer in found.answers] == expected


def test_what_every_step_was_charged_adds_up() -> None:
    found = with_earlier(
        workload("history", charged_nano=1),
        [workload("measured", charged_nano=20), workload("measured", charged_nano=300)],
    )
    assert found.charged_nano == 321
