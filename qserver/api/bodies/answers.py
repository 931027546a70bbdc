"""Response bodies of answers, of what was released, and of health and problems."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, RootModel

from qserver.api.bodies.record_body import Axes, Epsilon, Interval, RecordBody, Terms
from qserver.records.answer import Source


class OfferBody(RecordBody):
    """The best interval that costs nothing."""

    interval: Interval
    confidence: float


class AnswerBody(RecordBody):
    """An estimate with its credible interval, what it cost and what is left."""

    estimate: float = Field(description="best linear unbiased estimate, in the query's units")
    interval: Interval
    confidence: float = Field(description="as asked")
    confidence_attained: float = Field(
        description="certified: what an interval of the asked length reaches"
    )
    source: Source = Field(
        description="`history`: nothing was spent; `measured`; `refined`: an earlier row was "
        "released again with less noise, for the difference; `exact`: zero on every record"
    )
    epsilon_charged: Epsilon = Field(validation_alias="charged_nano")
    epsilon_remaining: Epsilon = Field(validation_alias="remaining_nano")
    evidence: list[int] = Field(description="ids of the history's rows and tables used")
    method: str = Field(
        description="how the weights were found: direct, planned, stored, blue, tail, blocks, exact"
    )
    version: int = Field(description="version of the history that the answer stands on")


class ProbabilityBody(RecordBody):
    """A posterior probability from history alone."""

    probability: float = Field(ge=0, le=1)
    version: int


class HistoryRowBody(RecordBody):
    """A released row."""

    id: int
    terms: Terms
    key: str
    value: float = Field(description="the noisy answer that was released, in records")
    scale: float = Field(description="b of its Laplace noise, in records")
    alpha: Epsilon
    step: str = Field(description="lattice step of the noise, an exact fraction")


class HistoryTableBody(RecordBody):
    """A released table; `values` is null in a list."""

    id: int
    table: Axes = Field(validation_alias="axes")
    n_cells: int
    key: str
    scale: float = Field(description="b of each cell's Laplace noise, in records")
    alpha: Epsilon
    step: str = Field(description="lattice step of the noise, an exact fraction")
    values: list[float] | None = Field(
        description="the noisy answers that were released, in records, cells in row-major order"
    )


class ReleasedBody(RootModel[HistoryRowBody | HistoryTableBody]):
    """A released row or table, with all its values."""

    model_config = ConfigDict(from_attributes=True)


class HistoryBody(RecordBody):
    """Released rows and tables in order; `next_after` is null on the last page."""

    rows: list[HistoryRowBody | HistoryTableBody]
    version: int
    next_after: int | None


class HealthBody(BaseModel):
    """The process is up."""

    status: Literal["ok"]


class ReadyBody(BaseModel):
    """The store is reachable and durable, and how many of the datasets have a worker.

    An open server names them; elsewhere `worker_alive` is empty, as this page needs no token.
    """

    status: Literal["ready"]
    workers: Literal["all", "some", "none"]
    worker_alive: dict[str, bool]


class FieldFault(BaseModel):
    """One field that is wrong."""

    field: str
    message: str


class Problem(BaseModel):
    """RFC 9457 problem details, `code`, and facts that depend on the code."""

    model_config = ConfigDict(extra="allow")

    type: str
    title: str
    status: int
    detail: str
    code: str = Field(description="stable; match on it")
