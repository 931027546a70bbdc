"""Response bodies of workloads, and of jobs, which answer a question or a workload."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import BaseModel, Field, WithJsonSchema

from qserver.answering.consistency import ConsistentAnswers
from qserver.api.bodies.answers import AnswerBody, Epsilon, OfferBody
from qserver.api.bodies.model import LearntBody
from qserver.api.bodies.plan import OwnPriceBody, PlanRowBody, PlanTableBody, PricePoint
from qserver.api.bodies.query import JSON_REF
from qserver.api.errors import job_problem
from qserver.api.wire import epsilon
from qserver.records.answer import (
    AnyAnswer,
    JobState,
    JobStatus,
    JointMethod,
    ModelAnswer,
    PlanKind,
    Simultaneous,
    WorkloadAnswer,
    WorkloadExplanation,
)


class SimultaneousBody(BaseModel):
    """That all intervals hold at once."""

    confidence: float = Field(description="certified: at least what was asked", ge=0, le=1)
    method: JointMethod

    @classmethod
    def of(cls, found: Simultaneous) -> Self:
        """The statement as JSON has it."""
        return cls(confidence=found.confidence, method=found.method)


class ConsistentBody(BaseModel):
    """What one non-negative table answers, as near to the answers as any; no statement of error."""

    estimates: list[float] = Field(description="in the order of the questions")
    total: int | None = Field(
        description="records of the table, where their number is public; null where it is not"
    )
    distance: float = Field(
        description="half the sum of squares of what the estimates were moved by, each over the "
        "scale of its interval",
        ge=0,
    )
    gap: float = Field(description="how much of `distance` is not proven to be needed", ge=0)

    @classmethod
    def of(cls, found: ConsistentAnswers) -> Self:
        """The consistent answers as JSON has them."""
        return cls(
            estimates=list(found.estimates),
            total=found.total,
            distance=found.distance,
            gap=found.gap,
        )


class ConsistentPriceBody(BaseModel):
    """What consistent answers cost beside the workload: nothing."""

    price: Epsilon


class WorkloadAnswerBody(BaseModel):
    """The answers of a workload in the order of its questions, what they cost, what is left."""

    answers: list[AnswerBody] = Field(
        description="the first that was not free bears the price of all as its `epsilon_charged`"
    )
    epsilon_charged: Epsilon
    epsilon_remaining: Epsilon
    simultaneous: SimultaneousBody | None = Field(description="null where it was not asked for")
    consistent: ConsistentBody | None = Field(
        description="null where it was not asked for, and in the result of a job"
    )
    version: int = Field(description="version of the history that the answers stand on")

    @classmethod
    def of(cls, found: WorkloadAnswer, consistent: ConsistentAnswers | None = None) -> Self:
        """The answers as JSON has them."""
        together = found.simultaneous
        return cls(
            answers=[AnswerBody.of(answer) for answer in found.answers],
            epsilon_charged=epsilon(found.charged_nano),
            epsilon_remaining=epsilon(found.remaining_nano),
            simultaneous=None if together is None else SimultaneousBody.of(together),
            consistent=None if consistent is None else ConsistentBody.of(consistent),
            version=found.version,
        )


class WorkloadExplanationBody(BaseModel):
    """What a workload would cost and how it would be found; nothing was spent."""

    kind: PlanKind
    price: Epsilon
    price_apart: Epsilon | None = Field(
        description="sum of the prices of the questions asked one by one, each on the present "
        "state; null where there was no time to plan them all"
    )
    remaining: Epsilon
    affordable: bool
    plan: list[PlanRowBody | PlanTableBody]
    free: list[OfferBody | None] = Field(
        description="per question the best interval available for nothing, or null"
    )
    curve: list[PricePoint] = Field(
        description="[factor, price] with all lengths times the factor; null is out of reach"
    )
    simultaneous: SimultaneousBody | None = Field(description="null where it was not asked for")
    consistent: ConsistentPriceBody | None = Field(description="null where it was not asked for")
    version: int
    own: OwnPriceBody | None = Field(
        description="the asker's own allowance; null where only the budget bounds it"
    )

    @classmethod
    def of(cls, found: WorkloadExplanation, *, consistent: bool = False) -> Self:
        """The explanation as JSON has it."""
        prices = [(p.factor, p.price_nano) for p in found.curve]
        apart, together = found.price_apart_nano, found.simultaneous
        return cls(
            kind=found.kind,
            price=epsilon(found.price_nano),
            price_apart=None if apart is None else epsilon(apart),
            remaining=epsilon(found.remaining_nano),
            affordable=found.affordable,
            plan=[
                *[PlanRowBody.of(row) for row in found.rows],
                *[PlanTableBody.of(table) for table in found.tables],
            ],
            free=[None if offer is None else OfferBody.of(offer) for offer in found.free],
            curve=[(factor, None if p is None else epsilon(p)) for factor, p in prices],
            simultaneous=None if together is None else SimultaneousBody.of(together),
            consistent=ConsistentPriceBody(price=epsilon(0)) if consistent else None,
            version=found.version,
            own=None if found.own is None else OwnPriceBody.of(found.own),
        )


class JobBody(BaseModel):
    """The state of a job; `result` when done, `problem` when failed."""

    id: str
    state: JobState
    dataset: str
    result: AnswerBody | WorkloadAnswerBody | LearntBody | None
    problem: Annotated[
        dict[str, Any] | None,
        WithJsonSchema({"anyOf": [{JSON_REF: "Problem"}, {"type": "null"}]}),
    ]

    @classmethod
    def of(cls, job: JobStatus) -> Self:
        """The job as JSON has it."""
        return cls(
            id=job.id,
            state=job.state,
            dataset=job.dataset,
            result=None if job.result is None else answer_body(job.result),
            problem=None if job.problem is None else job_problem(job.problem),
        )


def answer_body(found: AnyAnswer) -> AnswerBody | WorkloadAnswerBody | LearntBody:
    """The answer of a question, of a workload or of a request for a model, as JSON has it."""
    if isinstance(found, ModelAnswer):
        return LearntBody.of(found)
    if isinstance(found, WorkloadAnswer):
        return WorkloadAnswerBody.of(found)
    return AnswerBody.of(found)
