"""Learn a model with a real worker, for the tests of its kinds."""

from __future__ import annotations

from typing import Any

from qserver.records.answer import JobStatus, ModelAnswer
from qserver.records.charge import NANO
from qserver.records.problem import error_from_problem
from tests.deployment import Deployment
from worker.spending.spend import Spender


def learn(
    at: Deployment,
    kind: str,
    document: dict[str, Any],
    epsilon: float,
    *,
    spender: Spender | None = None,
) -> ModelAnswer:
    """Ask for a model and work it off; raises what the service raises."""
    service = at.service()
    found = service.models.learn("people", kind, document, int(epsilon * NANO), wait_s=0)
    assert isinstance(found, JobStatus)
    at.work_off(spender)
    status = service.job(found.id)
    if status.problem is not None:
        raise error_from_problem(status.problem)
    assert isinstance(status.result, ModelAnswer)
    return status.result
