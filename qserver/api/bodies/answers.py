"""Response bodies: the results of the service in the shape that is documented."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PlainSerializer,
    RootModel,
    WithJsonSchema,
)

from qserver.api.bodies.query import AXES_SCHEMA, INTEGER_SCHEMA, PAIR_SCHEMA, TERMS_SCHEMA
from qserver.api.wire import epsilon, wire_integer, wire_value
from qserver.records.answer import (
    Answer,
    HistoryPage,
    HistoryRow,
    HistoryTable,
    Offer,
    Probability,
    Source,
)

WideInteger = Annotated[
    int, PlainSerializer(wire_integer, return_type=Any), WithJsonSchema(INTEGER_SCHEMA)
]
Terms = Annotated[list[list[Any]], PlainSerializer(wire_value), WithJsonSchema(TERMS_SCHEMA)]
Axes = Annotated[list[list[Any]], WithJsonSchema(AXES_SCHEMA)]
Epsilon = Annotated[float, Field(description="in epsilon, a multiple of 1e-9", ge=0)]
Interval = Annotated[
    tuple[float, float],
    WithJsonSchema({**PAIR_SCHEMA, "description": "[low, high], both ends rounded outward"}),
]


class OfferBody(BaseModel):
    """The best interval available for nothing."""

    interval: Interval
    confidence: float

    @classmethod
    def of(cls, offer: Offer) -> Self:
        """The offer as JSON has it."""
        return cls(interval=(offer.low, offer.high), confidence=offer.confidence)


class AnswerBody(BaseModel):
    """An estimate with its credible interval, what it cost and what is left."""

    estimate: float = Field(description="best linear unbiased estimate, in the query's units")
    interval: Interval
    confidence: float = Field(description="as asked")
    confidence_attained: float = Field(
        description="certified confidence of an interval of the asked length"
    )
    source: Source
    epsilon_charged: Epsilon
    epsilon_remaining: Epsilon
    evidence: list[int] = Field(description="ids of the history's rows and tables used")
    method: str = Field(
        description="how the weights were found: direct, planned, stored, blue, tail, blocks, exact"
    )
    version: int = Field(description="version of the history that the answer stands on")

    @classmethod
    def of(cls, answer: Answer) -> Self:
        """The answer as JSON has it."""
        return cls(
            estimate=answer.estimate,
            interval=(answer.low, answer.high),
            confidence=answer.confidence,
            confidence_attained=answer.confidence_attained,
            source=answer.source,
            epsilon_charged=epsilon(answer.charged_nano),
            epsilon_remaining=epsilon(answer.remaining_nano),
            evidence=list(answer.evidence),
            method=answer.method,
            version=answer.version,
        )


class ProbabilityBody(BaseModel):
    """A posterior probability from history alone."""

    probability: float = Field(ge=0, le=1)
    version: int

    @classmethod
    def of(cls, found: Probability) -> Self:
        """The probability as JSON has it."""
        return cls(probability=found.probability, version=found.version)


class HistoryRowBody(BaseModel):
    """A released row."""

    id: int
    terms: Terms
    key: str
    value: float = Field(description="the noisy answer that was released, in records")
    scale: float = Field(description="b of its Laplace noise, in records")
    alpha: Epsilon
    step: str = Field(description="lattice step of the noise, an exact fraction")

    @classmethod
    def of(cls, row: HistoryRow) -> Self:
        """The row as JSON has it."""
        return cls(
            id=row.id,
            terms=row.terms,
            key=row.key,
            value=row.value,
            scale=row.scale,
            alpha=epsilon(row.alpha_nano),
            step=row.step,
        )


class HistoryTableBody(BaseModel):
    """A released table; `values` is null in a list."""

    id: int
    table: Axes
    n_cells: int
    key: str
    scale: float = Field(description="b of each cell's Laplace noise, in records")
    alpha: Epsilon
    step: str = Field(description="lattice step of the noise, an exact fraction")
    values: list[float] | None = Field(
        description="the noisy answers that were released, in records, cells in row-major order"
    )

    @classmethod
    def of(cls, table: HistoryTable) -> Self:
        """The table as JSON has it."""
        return cls(
            id=table.id,
            table=table.axes,
            n_cells=table.n_cells,
            key=table.key,
            scale=table.scale,
            alpha=epsilon(table.alpha_nano),
            step=table.step,
            values=None if table.values is None else list(table.values),
        )


def released_body(found: HistoryRow | HistoryTable) -> HistoryRowBody | HistoryTableBody:
    """A row or a table as JSON has it."""
    if isinstance(found, HistoryTable):
        return HistoryTableBody.of(found)
    return HistoryRowBody.of(found)


class ReleasedBody(RootModel[HistoryRowBody | HistoryTableBody]):
    """A released row or table, with all its values."""


class HistoryBody(BaseModel):
    """Released rows and tables in order; `next_after` is null on the last page."""

    rows: list[HistoryRowBody | HistoryTableBody]
    version: int
    next_after: int | None

    @classmethod
    def of(cls, page: HistoryPage) -> Self:
        """The page as JSON has it."""
        rows = [released_body(row) for row in page.rows]
        return cls(rows=rows, version=page.version, next_after=page.next_after)


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
