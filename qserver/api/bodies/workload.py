"""Response bodies of workloads, and of jobs, which answer a question or a workload."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import BaseModel, BeforeValidator, Field, WithJsonSchema

from qserver.api.bodies.answers import (
    MOST,
    PROTECTED,
    AnswerBody,
    BothChoicesBody,
    Epsilon,
    Interval,
    OfferBody,
    OwnPriceBody,
    PlanRowBody,
    PlanTableBody,
    PriceOfFactor,
    RecordBody,
)
from qserver.api.bodies.model import LearntBody
from qserver.api.bodies.query import JSON_REF
from qserver.api.errors import job_problem
from qserver.inference.posterior.choice import table_readings
from qserver.records.answer import AnyAnswer, JobState, ModelAnswer, PlanKind, WorkloadAnswer
from qserver.records.statement import JointMethod

_ProblemBody = Annotated[dict[str, Any], BeforeValidator(job_problem)]
_PROBLEM_SCHEMA = WithJsonSchema({"anyOf": [{JSON_REF: "Problem"}, {"type": "null"}]})


class SimultaneousBody(RecordBody):
    """That all intervals hold at once."""

    confidence: float = Field(description="certified: at least what was asked", ge=0, le=1)
    method: JointMethod
    attained: float | None = Field(
        default=None,
        description="for `posterior`: the confidence that intervals of the asked lengths hold at "
        "once; null for the others",
        ge=0,
        le=1,
    )


class ConsistentBody(RecordBody):
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


class ConsistentPriceBody(RecordBody):
    """What consistent answers cost beside the workload: nothing."""

    price: Epsilon


class AfterLookingBody(BaseModel):
    """Intervals that hold after all answers were looked at, in the order of the questions.

    Those of `answers` hold each by itself.
    """

    m: int = Field(description="how many answers there are to look at")
    at_once: list[Interval] = Field(description="all hold at once, so for any choice")
    largest: list[Interval] = Field(description="holds for the one that is the largest")
    least: list[Interval] = Field(description="holds for the one that is the least")

    @classmethod
    def of(cls, found: WorkloadAnswer) -> Self | None:
        """The intervals of a workload; None where there is no choice, or it is allowed for."""
        if not found.ends or found.answers[0].selected_from is not None:
            return None
        readings = table_readings(found.ends)
        return cls(
            m=len(readings),
            at_once=[(r.at_once.low, r.at_once.high) for r in readings],
            largest=[(r.largest.low, r.largest.high) for r in readings],
            least=[(r.least.low, r.least.high) for r in readings],
        )


class WorkloadAnswerBody(RecordBody):
    """The answers of a workload in the order of its questions, what they cost, what is left."""

    answers: list[AnswerBody] = Field(
        description="the first that was not free bears the price of all as its `epsilon_charged`"
    )
    epsilon_charged: Epsilon = Field(validation_alias="charged_nano")
    epsilon_remaining: Epsilon = Field(validation_alias="remaining_nano")
    simultaneous: SimultaneousBody | None = Field(description="null where it was not asked for")
    consistent: ConsistentBody | None = Field(
        description="null where it was not asked for, and in the result of a job"
    )
    version: int = Field(description="version of the history that the answers stand on")
    after_looking: AfterLookingBody | None = Field(
        description="null for one question, and where all intervals hold at once or allow for a "
        "choice already"
    )
    epsilon_rest: Epsilon | None = Field(
        validation_alias="rest_nano",
        description="price of `independent` answers in place of all that are longer than asked; "
        "null where none is, where it is not known, and where all intervals hold at once",
    )
    remarks: list[str] = Field(
        description="what to know of the answers, a sentence each: that some are longer than "
        "asked, or count records with missing values"
    )

    @classmethod
    def of(cls, record: object, **more: object) -> Self:
        """The workload's answer as JSON has it."""
        looked = AfterLookingBody.of(record) if isinstance(record, WorkloadAnswer) else None
        return super().of(record, after_looking=looked, **more)


class WorkloadExplanationBody(RecordBody):
    """What a workload would cost and how it would be found; nothing was spent."""

    kind: PlanKind
    price: Epsilon
    most: Epsilon = Field(description=MOST)
    price_apart: Epsilon | None = Field(
        description="sum of the prices of the questions asked one by one, each for itself alone on "
        "the present state; null where there was no time to plan them all"
    )
    remaining: Epsilon
    affordable: bool
    plan: list[PlanRowBody | PlanTableBody]
    free: list[OfferBody | None] = Field(
        description="per question what history says at no cost, by the `law` that it names, or null"
    )
    curve: list[PriceOfFactor] = Field(
        description="[factor, price] with all lengths times the factor; null is out of reach"
    )
    measure: BothChoicesBody = Field(
        description="prices of both choices of what is measured: equal, as a workload buys nothing "
        "for other questions"
    )
    simultaneous: SimultaneousBody | None = Field(description="null where it was not asked for")
    consistent: ConsistentPriceBody | None = Field(description="null where it was not asked for")
    version: int
    own: OwnPriceBody | None = Field(
        description="the asker's own allowance; null where only the budget bounds it"
    )
    protected: str | None = Field(description=PROTECTED)


_AnyAnswerBody = AnswerBody | WorkloadAnswerBody | LearntBody


def answer_body(found: AnyAnswer) -> _AnyAnswerBody:
    """The answer of a question, of a workload or of a request for a model, as JSON has it."""
    if isinstance(found, ModelAnswer):
        return LearntBody.of(found)
    if isinstance(found, WorkloadAnswer):
        return WorkloadAnswerBody.of(found, consistent=None)
    return AnswerBody.of(found)


class JobBody(RecordBody):
    """The state of a job; `result` when done, `problem` when failed."""

    id: str
    state: JobState
    dataset: str
    result: Annotated[_AnyAnswerBody, BeforeValidator(answer_body)] | None
    problem: Annotated[_ProblemBody | None, _PROBLEM_SCHEMA]
