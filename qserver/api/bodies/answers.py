"""Response bodies of answers, of what was released, and of health and problems."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, RootModel

from qserver.api.bodies.record_body import AsOf, Axes, Epsilon, Interval, RecordBody, Terms
from qserver.query.asking.prior import PriorKind
from qserver.query.asking.reading import Method
from qserver.query.looking import Rule
from qserver.records.answer import Source
from qserver.records.statement import Law

_LAW = (
    "`posterior`: given the released answers; `estimator`: of the estimate's error, whatever the "
    "released answers disagree about; `exact`: there is no noise"
)


class OfferBody(RecordBody):
    """What history says at no cost."""

    interval: Interval
    confidence: float
    free_length: float = Field(
        description="from this length on the question is free; it is that of the `interval` but "
        "where released answers disagree, and after a choice"
    )
    law: Law = Field(description=_LAW)


class SelectionBody(RecordBody):
    """A choice among released numbers that were looked at."""

    m: int = Field(description="how many numbers were looked at")
    rule: Rule
    first: int = Field(description="how many are reported")


class PriorBody(RecordBody):
    """What was held true of the answer beforehand; what is said is then Bayesian."""

    kind: PriorKind
    low: float | None = Field(description="null where there is no lower end")
    high: float | None = Field(description="null where there is no upper end")


class StatementBody(RecordBody):
    """The law behind an interval or a probability."""

    law: Law = Field(description=_LAW)
    error: float = Field(
        description="bound on the numerical error of a probability; intervals are widened by it",
        ge=0,
    )
    disagreements: int = Field(
        description="known disagreements among released answers that are counted in", ge=0
    )
    method: Method = Field(
        description="how probabilities were computed; `auto` where another method was asked for "
        "that is too rough under the prior"
    )
    step: float | None = Field(description="of the lattice of `convolution`, else null")
    draws: int | None = Field(description="of `monte-carlo`, else null")
    prior: PriorBody | None = Field(
        description="what was held true beforehand: what is said is then a Bayesian statement, "
        "and no frequency. null where there was none, and where an answer that was paid for "
        "contradicts it"
    )


class AnswerBody(RecordBody):
    """An estimate with its credible interval, what it cost and what is left."""

    estimate: float = Field(description="the best unbiased estimate, in the query's units")
    interval: Interval
    confidence: float = Field(description="as asked")
    confidence_attained: float = Field(
        description="the probability of the best interval of the asked length, rounded down"
    )
    source: Source = Field(
        description="`history`: nothing was spent; `measured`; `refined`: an earlier row was "
        "released again with less noise, for the difference; `exact`: zero on every record"
    )
    epsilon_charged: Epsilon = Field(validation_alias="charged_nano")
    epsilon_remaining: Epsilon = Field(validation_alias="remaining_nano")
    evidence: list[int] = Field(description="ids of the history's rows and tables used")
    weights: str = Field(
        description="how the estimate's weights were found: direct, planned, stored, blue, tail, "
        "blocks, exact, independent"
    )
    version: int = Field(description="version of the history that the answer stands on")
    selected_from: SelectionBody | None = Field(
        description="the choice that the interval allows for; null where it holds by itself"
    )
    statement: StatementBody = Field(description="what the interval is a statement of")
    epsilon_rest: Epsilon | None = Field(
        validation_alias="rest_nano",
        description="where released answers disagree so much that the interval is longer than "
        "asked: the price of an `independent` one of the asked length; else null",
    )
    as_of: AsOf
    remarks: list[str] = Field(
        description="what to know of it, a sentence each: that it is longer than asked, or counts "
        "records with missing values; of a workload they stand beside its answers"
    )


class ProbabilityBody(RecordBody):
    """A posterior probability from history alone."""

    probability: float = Field(ge=0, le=1)
    version: int
    statement: StatementBody


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
