"""Ask a small deployment until its planner would buy tables for later questions."""

from __future__ import annotations

from typing import Any

from qserver.query.question import Question
from qserver.query.requirement import Measure, Requirement
from qserver.records.answer import Explanation, JobStatus
from tests.deployment import Deployment

LENGTH = 40.0
Where = dict[str, Any]


def ranges() -> list[Where]:
    """Every range of ages, in an order that mixes long and short ones."""
    pairs = [(low, high) for low in range(20, 30) for high in range(low, 30)]
    return [{"age": {"between": list(pairs[i * 17 % len(pairs)])}} for i in range(len(pairs))]


def explained(
    town: Deployment, where: Where, measure: Measure | None = None, *, length: float = LENGTH
) -> Explanation:
    """The price of a count at this length."""
    service = town.service()
    query = service.parse("people", {"where": where})
    return service.explain("people", Question(query, Requirement(length, 0.95), measure=measure))


def asked(town: Deployment, where: Where, measure: Measure | None = None) -> int:
    """Ask it and work it off; what it cost, in nano-epsilon."""
    service = town.service()
    query, before = service.parse("people", {"where": where}), service.dataset("people").spent_nano
    found = service.ask(
        "people", Question(query, Requirement(LENGTH, 0.95), measure=measure), wait_s=0
    )
    if isinstance(found, JobStatus):
        town.work_off()
        assert service.job(found.id).state == "done"
    return service.dataset("people").spent_nano - before


def next_that_buys(town: Deployment) -> Where:
    """Ask ranges until one comes for which the planner would buy tables; that one."""
    for where in ranges():
        if explained(town, where).measure.buys:
            return where
        asked(town, where)
    raise AssertionError("The planner never bought tables.")
