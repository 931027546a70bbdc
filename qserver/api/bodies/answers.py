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
from typing import Annotated, Any, Literal

from pydantic import (
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
from qserver.api.wire import EpsilonBody, FromNano, RecordBody, wire_integer, wire_value
from qserver.query.asking.after_looking import Selection
from qserver.query.asking.method_and_prior import Prior
from qserver.query.class_grid import ProductPartition
from qserver.query.linear_query import LinearQuery
from qserver.query.sql.tables.cell_intervals import CellInterval
from qserver.records.answer import (
    Answer,
    BothChoices,
    DatasetStatus,
    Explanation,
    Guard,
    LedgerReport,
    Offer,
    OwnPrice,
    Probability,
    Zcdp,
)
from qserver.records.charge import Relation
from qserver.records.history import HistoryPage, HistoryRow, HistoryTable
from qserver.records.plan import PlannedRow, PlannedTable
from qserver.records.statement import ClaimStatus, Statement
from qserver.records.unit import SealedPeriods, UnitStatus
from qserver.service.ledger import AccountSpending, AuditEntry, AuditPage, SpendingReport

_OPEN_PAIR: dict[str, Any] = {
    **PRICE_POINT_SCHEMA,
    "description": "[low, high], both ends rounded outward; null for an end without a bound",
}
_CLOSED_PAIR = {**PAIR_SCHEMA, "description": "[low, high], both ends rounded outward"}
_ends = attrgetter("low", "high")

AsOf = Annotated[
    str | None,
    BeforeValidator(lambda period: period or None),
    Field(
        description="last period that was counted, where data arrive over time; else null. A "
        "question that names no last period counts all sealed ones"
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
RecordBody.bodies[CellInterval] = OpenInterval


class OfferBody(RecordBody, record=Offer, shows="interval confidence free_length law"):
    """What history says at no cost."""

    interval: Interval


class SelectionBody(RecordBody, record=Selection, shows="m rule first"):
    """A choice among released numbers that were looked at."""


class PriorBody(RecordBody, record=Prior, shows="kind low high"):
    """What was held true of the answer beforehand; what is said is then Bayesian."""


class StatementBody(
    RecordBody, record=Statement, shows="law error disagreements method step draws prior"
):
    """The law behind an interval or a probability."""

    error: Annotated[float, Field(ge=0)]
    disagreements: Annotated[int, Field(ge=0)]


class AnswerBody(
    EpsilonBody,
    record=Answer,
    shows="estimate interval confidence confidence_attained source epsilon_charged=charged_nano "
    "epsilon_remaining=remaining_nano evidence weights version selected_from statement "
    "epsilon_rest=rest_nano as_of remarks",
):
    """An estimate with its credible interval, what it cost and what is left."""

    interval: Interval
    as_of: AsOf


class ProbabilityBody(RecordBody, record=Probability, shows="probability version statement"):
    """A posterior probability from history alone."""

    probability: Annotated[float, Field(ge=0, le=1)]


class HistoryRowBody(RecordBody, record=HistoryRow, shows="id terms key value scale alpha step"):
    """A released row."""

    terms: Terms


class HistoryTableBody(
    RecordBody, record=HistoryTable, shows="id table=axes n_cells key scale alpha step values"
):
    """A released table; `values` is null in a list."""

    table: Axes


class ReleasedBody(RootModel[HistoryRowBody | HistoryTableBody]):
    """A released row or table, with all its values."""

    model_config = ConfigDict(from_attributes=True)


class HistoryBody(RecordBody, record=HistoryPage, shows="rows version next_after"):
    """Released rows and tables in order; `next_after` is null on the last page."""


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


class PlanRowBody(RecordBody, record=PlannedRow, shows="terms=row alpha key refines charge"):
    """A row that would be measured, or a row of the history that would be refined."""

    terms: Annotated[Terms, BeforeValidator(LinearQuery.to_document)]


class PlanTableBody(
    RecordBody,
    record=PlannedTable,
    shows="table=partition n_cells=partition.n_cells alpha key refines charge",
):
    """A table that would be measured, or a table of the history that would be refined."""

    table: Annotated[Axes, BeforeValidator(ProductPartition.to_document)]


class OwnPriceBody(
    RecordBody,
    record=OwnPrice,
    shows="price affordable more_at spent spent_today=today_nano limit per_day=pace_nano",
):
    """What the answer would cost the asker's own ledger; a null bound is none of its own."""


class BothChoicesBody(
    RecordBody, record=BothChoices, shows="chosen only_this auto buys independent"
):
    """What both choices of `measure` cost, and what the dearer one is for."""


class ExplanationBody(
    EpsilonBody,
    record=Explanation,
    shows="kind price most remaining affordable plan free curve measure sensitivity "
    "sensitivity_exact version own protected",
):
    """What an answer would cost and how it would be found; nothing was spent."""

    curve: list[PricePoint] = Field(
        description="[length, price] at the same confidence; a null price is out of reach"
    )


class LedgerBody(
    EpsilonBody,
    record=LedgerReport,
    shows="limit spent remaining relation n_charges loss by_value",
):
    """Where the budget went."""

    relation: Relation
    n_charges: WideInteger
    loss: FromNano
    by_value: dict[str, FromNano] | None


class GuardBody(RecordBody, record=Guard, shows="cap loss_allowed=allowed_nano loss known binds"):
    """What may be known of a cell."""


class ClaimBody(RecordBody, record=ClaimStatus, shows="name query width p known"):
    """What may be known of a query."""

    query: PublicDocument


class UnitBody(RecordBody, record=UnitStatus, shows="protects records_per_period replaced text"):
    """What is protected of a person, in data with periods."""


class PeriodsBody(
    RecordBody,
    record=SealedPeriods,
    shows="attribute sealed last declared capacity retired first_kept",
):
    """Which periods of a dataset have their data."""


class ZcdpBody(
    RecordBody, record=Zcdp, shows="delta limit_rho=limit_rho_nano spent_rho=spent_rho_nano"
):
    """A population whose limit is epsilon at a delta; absent under pure privacy."""

    limit_rho: FromNano
    spent_rho: FromNano


class DatasetSummary(
    RecordBody,
    record=DatasetStatus,
    shows="name population snapshot n_cells relation records_per_person records_verified unit "
    "limit spent remaining guard claims earlier_snapshots phi capacity measure version "
    "worker_alive periods time expected zcdp",
):
    """A dataset's guarantee and budget."""

    zcdp: ZcdpBody | None = Field(
        exclude_if=lambda found: found is None,
        description="of a population under zcdp: its limit and prices are epsilon at `delta`, and "
        "its charges are rho. Absent under pure privacy",
    )

    n_cells: WideInteger
    relation: Relation
    time: Annotated[str | None, BeforeValidator(lambda name: name or None)]
    expected: Annotated[int | None, BeforeValidator(lambda number: number or None)]


class DatasetBody(DatasetSummary):
    """A dataset's schema, guarantee and budget."""

    domain: PublicDocument = Field(description="the public attributes with their labels or bins")


class DatasetsBody(RecordBody):
    """Datasets by name; `next_after` is null on the last page."""

    datasets: list[DatasetSummary]
    next_after: str | None


class AuditEntryBody(RecordBody, record=AuditEntry, shows="place digest entry text"):
    """An entry: `digest` is the SHA-256 of `text`, `entry` the same text read as JSON."""

    entry: Annotated[PublicDocument, BeforeValidator(json.loads)] = Field(validation_alias="text")


class AuditBody(RecordBody, record=AuditPage, shows="entries next_after"):
    """Entries of an audit log, oldest first; `next_after` is null on the last page."""


class AccountSpendingBody(
    RecordBody,
    record=AccountSpending,
    shows="account spent spent_today=today_nano n_charges last_at limit=allowance.limit_nano "
    "per_day=allowance.pace_nano",
):
    """What one account spent; a null `limit` or `per_day` is no bound of its own."""


class SpendingBody(RecordBody, record=SpendingReport, shows="population limit spent accounts"):
    """Who spent what of a population's budget, the most first."""
