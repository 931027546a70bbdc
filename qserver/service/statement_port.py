"""What statements of SQL need of the service. `qserver.service.service` has this shape."""

from __future__ import annotations

from typing import Protocol

from qserver.inference.joint.quotient import JointParts
from qserver.query.domain import Domain
from qserver.query.linear import LinearQuery
from qserver.query.question import Question, Workload
from qserver.query.requirement import Requirement
from qserver.records.answer import (
    Answer,
    Explanation,
    JobStatus,
    Offer,
    WorkloadAnswer,
    WorkloadExplanation,
)
from qserver.service.ask import Idempotency


class Questions(Protocol):
    """The use cases that a statement is made of."""

    def domain(self, name: str) -> Domain:
        """The domain of a dataset; NotFoundError."""

    def known(self, name: str, query: LinearQuery, *, confidence: float) -> Offer | None:
        """The best interval available for nothing, or None."""

    def joint(self, name: str, over: Question, under: Question) -> JointParts | None:
        """Both estimates of a quotient with their noises, or None where history has none such."""

    def ask(
        self,
        name: str,
        query: LinearQuery,
        requirement: Requirement,
        *,
        wait_s: float,
        idempotency: Idempotency | None = None,
        by: str = "",
    ) -> Answer | JobStatus:
        """The answer, or the state of its job after `wait_s` seconds."""

    def ask_workload(
        self,
        name: str,
        workload: Workload,
        *,
        wait_s: float,
        idempotency: Idempotency | None = None,
        by: str = "",
    ) -> WorkloadAnswer | JobStatus:
        """The answers, or the state of their job after `wait_s` seconds."""

    def explain(
        self, name: str, query: LinearQuery, requirement: Requirement, *, by: str = ""
    ) -> Explanation:
        """What the answer would cost; spends nothing."""

    def explain_workload(
        self, name: str, workload: Workload, *, by: str = ""
    ) -> WorkloadExplanation:
        """What the answers would cost; spends nothing."""

    def is_payable(self, name: str, workload: Workload, *, by: str = "") -> bool:
        """Whether budget, guard and the asker's own ledger let a workload be measured."""
