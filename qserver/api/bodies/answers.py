"""Response bodies of answers, prices and what was released, read from records field by field.

`RecordBody` is what they have in common: how the values of a record are written. Bodies of plans
say what an answer would cost and how it would be found.
"""

from __future__ import annotations

from operator import attrgetter
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AliasChoices,
    AliasGenerator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    RootModel,
    WithJsonSchema,
)

from qserver.api.bodies.query import (
    AXES_SCHEMA,
    INTEGER_SCHEMA,
    PAIR_SCHEMA,
    PRICE_POINT_SCHEMA,
    TERMS_SCHEMA,
)
from qserver.api.wire import epsilon, wire_integer, wire_value
from qserver.query.asking.prior import PriorKind
from qserver.query.asking.reading import Method
from qserver.query.looking import Rule
from qserver.query.measure import Measure
from qserver.records.answer import PlanKind, Source
from qserver.records.statement import Law

_OPEN_PAIR: dict[str, Any] = {
    **PRICE_POINT_SCHEMA,
    "description": "[low, high], both ends rounded outward; null where there is no end",
}
_CLOSED_PAIR = {**PAIR_SCHEMA, "description": "[low, high], both ends rounded outward"}
_ends = attrgetter("low", "high")

FromNano = Annotated[float, BeforeValidator(epsilon)]
"""Epsilon without a bound or a description of its kind; records have it in nano-epsilon."""
Epsilon = Annotated[
    float, Field(description="in epsilon, a multiple of 1e-9", ge=0), BeforeValidator(epsilon)
]
AsOf = Annotated[
    str | None,
    BeforeValidator(lambda period: period or None),
    Field(
        description="where data arrive over time: the last period that was counted. A question "
        "without an end on the periods counts the sealed ones alone. Else null"
    ),
]
WideInteger = Annotated[
    int, PlainSerializer(wire_integer, return_type=Any), WithJsonSchema(INTEGER_SCHEMA)
]
Terms = Annotated[list[list[Any]], PlainSerializer(wire_value), WithJsonSchema(TERMS_SCHEMA)]
Axes = Annotated[list[list[Any]], WithJsonSchema(AXES_SCHEMA)]
PublicDocument = Annotated[dict[str, Any], BeforeValidator(wire_value)]
OpenInterval = Annotated[
    tuple[float | None, float | None], BeforeValidator(_ends), WithJsonSchema(_OPEN_PAIR)
]
Interval = Annotated[tuple[float, float], WithJsonSchema(_CLOSED_PAIR)]


def _of_epsilon(name: str) -> AliasChoices:
    return AliasChoices(name, f"{name}_nano")


class RecordBody(BaseModel):
    """A body whose fields are read from the attributes of a record.

    A field `name` is read from `name`, or else from `name_nano`. A field that is called otherwise
    in the record says so by its `validation_alias`.
    """

    model_config = ConfigDict(
        from_attributes=True, alias_generator=AliasGenerator(validation_alias=_of_epsilon)
    )

    @classmethod
    def of(cls, record: object, **more: object) -> Self:
        """The record as JSON has it.

        Args:
            more: fields that the record lacks.
        """
        return cls.model_validate(_Joined(record, more) if more else record)


class _Joined:
    """A record with further attributes."""

    def __init__(self, record: object, more: dict[str, object]) -> None:
        self._record = record
        vars(self).update(more)

    def __getattr__(self, name: str) -> object:
        return getattr(self._record, name)


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


_POINT = tuple[float, FromNano | None]
_POINT_SCHEMA = WithJsonSchema(PRICE_POINT_SCHEMA)
PricePoint = Annotated[_POINT, BeforeValidator(attrgetter("length", "price_nano")), _POINT_SCHEMA]
PriceOfFactor = Annotated[
    _POINT, BeforeValidator(attrgetter("factor", "price_nano")), _POINT_SCHEMA
]


class PlanRowBody(RecordBody):
    """A row that would be measured, or a row of the history that would be refined."""

    terms: Terms
    alpha: Annotated[Epsilon, Field(description="1 / scale afterwards, in epsilon per record")]
    key: str
    refines: int | None = Field(description="id of the history row that is refined; null if new")
    charge: Annotated[Epsilon, Field(description="rise of alpha, which is what the row costs")]


class PlanTableBody(RecordBody):
    """A table that would be measured, or a table of the history that would be refined."""

    table: Axes = Field(validation_alias="axes")
    n_cells: int
    alpha: Annotated[Epsilon, Field(description="1 / scale afterwards, in epsilon per record")]
    key: str
    refines: int | None = Field(description="id of the table that is refined; null if new")
    charge: Annotated[Epsilon, Field(description="rise of alpha, which is what a cell pays")]


class OwnPriceBody(RecordBody):
    """What the answer would cost the asker's own ledger; a null bound is none of its own."""

    price: Epsilon
    affordable: bool
    more_at: int | None = Field(
        description="Unix time, in seconds, when the pace will let it; null if not by waiting"
    )
    spent: Epsilon
    spent_today: Epsilon = Field(validation_alias="today_nano")
    limit: Epsilon | None
    per_day: Epsilon | None = Field(validation_alias="pace_nano")


class BothChoicesBody(RecordBody):
    """What both choices of `measure` cost, and what the dearer one is for."""

    chosen: Measure = Field(description="the choice that the other fields are about")
    only_this: Epsilon = Field(description="price where nothing is measured for later questions")
    auto: Epsilon = Field(description="price where the planner may buy tables for later ones, too")
    buys: str = Field(
        description="the tables of `auto`, which later questions use too, in words; empty for none"
    )
    independent: Epsilon | None = Field(
        validation_alias="independent_nano",
        description="price of the question with `independent`: fresh noise, combined with nothing; "
        "null for several questions, and where no noise is fine enough",
    )


MOST = (
    "most that may be charged: an interval that is longer than asked, since released answers "
    "disagree, is refined within it"
)
PROTECTED = "of whom the price is the loss, in words, for a domain with periods; else null"


class ExplanationBody(RecordBody):
    """What an answer would cost and how it would be found; nothing was spent."""

    kind: PlanKind = Field(
        description="`free`; `exact`: public; `fresh`: a new measurement alone; `combined`: "
        "together with history; `refined`: rows of history get less noise; `blocks`: tables that "
        "will answer later questions too"
    )
    price: Epsilon = Field(description="rise of the ledger, in epsilon")
    most: Epsilon = Field(description=MOST)
    remaining: Epsilon
    affordable: bool
    plan: list[PlanRowBody | PlanTableBody] = Field(description="what would be measured or refined")
    free: OfferBody | None = Field(
        description="what history says at no cost, or null: its `interval` by `law`"
    )
    curve: list[PricePoint] = Field(
        description="[length, price] at the same confidence; a null price is out of reach"
    )
    measure: BothChoicesBody = Field(description="prices of both choices of what is measured")
    sensitivity: float
    sensitivity_exact: bool
    version: int
    own: OwnPriceBody | None = Field(
        description="the asker's own allowance; null where only the budget bounds it"
    )
    protected: str | None = Field(description=PROTECTED)
