"""Response bodies of answers, prices, datasets and what was released, read from records.

`RecordBody` is what they have in common: how the values of a record are written. Bodies of plans
say what an answer would cost and how it would be found.

Response bodies of datasets and of the owner's pages.

Of a dataset: schema, guarantee, budget, and where it went. For the owner: the audit log, and who
spent what.
"""

from __future__ import annotations

import json
from operator import attrgetter
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AliasChoices,
    AliasGenerator,
    AliasPath,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    RootModel,
    WithJsonSchema,
)

from qserver.api.bodies.requests import (
    AXES_SCHEMA,
    INTEGER_SCHEMA,
    PAIR_SCHEMA,
    PRICE_POINT_SCHEMA,
    TERMS_SCHEMA,
)
from qserver.api.wire import epsilon, wire_integer, wire_value
from qserver.query.asking.reading import Method, PriorKind
from qserver.query.looking import Rule
from qserver.query.requirement import Measure
from qserver.records.answer import PlanKind, Source
from qserver.records.statement import Law
from qserver.records.unit import Protects, Replaced

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


class LedgerBody(RecordBody):
    """Where the budget went."""

    limit: Epsilon
    spent: Epsilon
    remaining: Epsilon
    relation: Literal["add-remove", "replace-one"]
    n_charges: WideInteger
    loss: FromNano = Field(
        description="largest loss of a cell in the asked set, in epsilon; a sound upper bound"
    )
    by_value: dict[str, FromNano] | None = Field(
        description="for the asked attribute: the largest loss over the cells of each value"
    )


class GuardBody(RecordBody):
    """What may be known of a cell."""

    cap: float = Field(description="with what probability the count of a cell may be known")
    loss_allowed: Epsilon = Field(
        description="the most that a cell may lose: 2 atanh(cap)", validation_alias="allowed_nano"
    )
    loss: Epsilon = Field(description="the most that a cell has lost")
    known: float = Field(description="with what probability a count may be known now, at most")
    binds: bool = Field(description="false where the limit is reached first")


class ClaimBody(RecordBody):
    """What may be known of a query."""

    name: str
    query: PublicDocument
    width: float = Field(description="of the interval that is claimed, in the query's unit")
    p: float = Field(
        description="with what probability the query may be known to lie within any such interval"
    )
    known: float = Field(description="with what probability it can be known so now, at most")


class UnitBody(RecordBody):
    """What is protected of a person, in data with periods."""

    protects: Protects = Field(
        description="`person`: up to `records_per_person` records in all; `person-period`: so many "
        "in any one period; `person-unbounded`: up to `records_per_period` in every period"
    )
    records_per_period: int = Field(description="most records of one person in one period")
    replaced: Replaced = Field(
        description="under `replace-one`: whether a replaced record may be of another period"
    )
    text: str = Field(description="the same in words")


class PeriodsBody(RecordBody):
    """Which periods of a dataset have their data."""

    attribute: str = Field(description="the attribute of periods")
    sealed: int = Field(description="how many of its first periods have their data, for good")
    last: str | None = Field(description="the last of them; null before the first")
    declared: int = Field(description="periods in all, those to come too")
    capacity: int = Field(
        description="most records of one period; the time of an answer follows from it"
    )
    retired: int = Field(
        description="of how many of its first periods the records are erased: answers about them "
        "stay, and nothing more is measured"
    )
    first_kept: str | None = Field(
        description="the first period whose records are kept; null where none are erased"
    )


class DatasetSummary(RecordBody):
    """A dataset's guarantee and budget."""

    name: str
    population: str = Field(description="the people, who own the limit; datasets may share it")
    snapshot: str = Field(description="random public id of the data as attached")
    n_cells: WideInteger
    relation: Literal["add-remove", "replace-one"]
    records_per_person: int
    records_verified: bool = Field(description="whether attach enforced `records_per_person`")
    unit: UnitBody | None = Field(
        description="what is protected of a person, for a domain with periods; else null"
    )
    limit: Epsilon
    spent: Epsilon
    remaining: Epsilon = Field(description="what this dataset may still spend under the limit")
    guard: GuardBody | None
    claims: list[ClaimBody]
    earlier_snapshots: list[str] = Field(
        description="snapshots that were replaced, oldest first; their history stays readable"
    )
    phi: float = Field(
        description="what may be spent on rows as asked before tables are bought, as a part of "
        "the tables' price"
    )
    capacity: int | None = Field(
        description="most records that it may ever have, as its owner declared; the time of an "
        "answer follows from it, not from their number. Null if nobody did"
    )
    measure: Measure = Field(
        description="what is measured for a question that does not say: `only_this`, or `auto`, "
        "which may buy tables that later questions use too"
    )
    version: int
    worker_alive: bool
    periods: PeriodsBody | None = Field(
        description="where data arrive over time: only sealed periods are counted; else null"
    )
    time: Annotated[str | None, BeforeValidator(lambda name: name or None)] = Field(
        description="the attribute that the owner calls the time, where all data are there: every "
        "table tells its values apart. Else null"
    )


class DatasetBody(DatasetSummary):
    """A dataset's schema, guarantee and budget."""

    domain: PublicDocument = Field(description="the public attributes with their labels or bins")


class DatasetsBody(RecordBody):
    """Datasets by name; `next_after` is null on the last page."""

    datasets: list[DatasetSummary]
    next_after: str | None


class AuditEntryBody(RecordBody):
    """An entry: `digest` is the SHA-256 of `text`, `entry` the same text read as JSON."""

    place: int
    digest: str
    entry: Annotated[PublicDocument, BeforeValidator(json.loads)] = Field(validation_alias="text")
    text: str


class AuditBody(RecordBody):
    """Entries of an audit log, oldest first; `next_after` is null on the last page."""

    entries: list[AuditEntryBody]
    next_after: int | None


class AccountSpendingBody(RecordBody):
    """What one account spent; a null `limit` or `per_day` is no bound of its own."""

    account: str = Field(description="empty for what was spent without accounts")
    spent: Epsilon
    spent_today: Epsilon = Field(validation_alias="today_nano")
    n_charges: int
    last_at: int | None = Field(description="Unix time of its last charge, in seconds")
    limit: Epsilon | None = Field(validation_alias=AliasPath("allowance", "limit_nano"))
    per_day: Epsilon | None = Field(validation_alias=AliasPath("allowance", "pace_nano"))


class SpendingBody(RecordBody):
    """Who spent what of a population's budget, the most first."""

    population: str
    limit: Epsilon
    spent: Epsilon
    accounts: list[AccountSpendingBody]
