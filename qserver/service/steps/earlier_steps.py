"""All steps of a statement together: the last answers and the cost of every step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from qserver.query.question import Workload
from qserver.records.answer import Answer, JobStatus, WorkloadAnswer, dearest
from qserver.service.ask import Idempotency
from qserver.service.service import Service
from qserver.service.steps.statement import MOST_STEPS


@dataclass(frozen=True)
class TakenSteps:
    """The steps before the last of one statement, in this request and in earlier ones.

    Each step has an idempotency key of its own, made from the statement's. So a statement that is
    sent again under its key waits for the step that it had left as a job, and says what all cost.

    Args:
        idempotency: of the statement; without it earlier requests are not known.
    """

    service: Service
    dataset: str
    idempotency: Idempotency | None
    answers: list[WorkloadAnswer] = field(default_factory=list)

    def recall(self, *, wait_s: float = 0.0) -> JobStatus | None:
        """Recall the steps of earlier requests; the step that is still a job after `wait_s`, or
        None.

        Raises the problem of a step that failed.
        """
        while (key := self._key()) is not None and len(self.answers) < MOST_STEPS:
            found = self.service.workload_before(self.dataset, key, wait_s=wait_s)
            if not isinstance(found, WorkloadAnswer):
                return found
            self.answers.append(found)
        return None

    def take(
        self, workload: Workload, *, wait_s: float, by: str, most_nano: int | None
    ) -> JobStatus | None:
        """Ask the next step; its job, or None."""
        found = self.service.ask_workload(
            self.dataset,
            workload,
            wait_s=wait_s,
            idempotency=self._key(),
            by=by,
            most_nano=most_nano,
        )
        if isinstance(found, JobStatus):
            return found
        self.answers.append(found)
        return None

    @property
    def charged_nano(self) -> int:
        """The charge of all steps."""
        return sum(answer.charged_nano for answer in self.answers)

    def _key(self) -> Idempotency | None:
        """The key of the next step. A client's key holds no line end."""
        if self.idempotency is None:
            return None
        own = f"{self.idempotency.key}\nstep {len(self.answers) + 1}"
        return replace(self.idempotency, key=own)


def with_earlier(
    found: Answer | WorkloadAnswer, earlier: Sequence[WorkloadAnswer]
) -> Answer | WorkloadAnswer:
    """The answers of the last step, with the cost and effort of all steps.

    Steps of a quantile ask for counts between values, in place of the counts that are asked last.
    Each of these then has the source that cost most in such a step.
    """
    if not earlier:
        return found
    charged = found.charged_nano + sum(step.charged_nano for step in earlier)
    if isinstance(found, Answer):
        source = dearest([found.source, *(step.answers[0].source for step in earlier)])
        return replace(found, source=source, charged_nano=charged)
    steps = (*earlier, found)
    n = len(found.answers)
    of_steps = [[answer.source for answer in step.answers] for step in steps]
    each = [one if len(one) == n else [dearest(one)] * n for one in of_steps if one]
    answers = tuple(
        replace(answer, source=dearest(sources))
        for answer, sources in zip(found.answers, zip(*each, strict=True), strict=True)
    )
    return replace(found, answers=answers, charged_nano=charged)
