"""Response bodies of datasets and of the owner's pages.

Of a dataset: schema, guarantee, budget, and where it went. For the owner: the audit log, and who
spent what.
"""

from __future__ import annotations

import json
from typing import Annotated, Literal

from pydantic import AliasPath, BeforeValidator, Field

from qserver.api.bodies.answers import Epsilon, FromNano, PublicDocument, RecordBody, WideInteger
from qserver.query.measure import Measure
from qserver.records.unit import Protects, Replaced


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
