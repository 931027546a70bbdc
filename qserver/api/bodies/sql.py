"""Bodies of statements of SQL: the text, and the table or the price that answers it."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import BaseModel, Field, StrictBool, StrictStr, WithJsonSchema

from qserver.api.bodies.answers import Epsilon
from qserver.api.bodies.requests import RequestBody
from qserver.api.bodies.workload import SimultaneousBody
from qserver.api.wire import epsilon
from qserver.query.sql.cells import Interval
from qserver.query.sql.statement import Binning, Ratio, Sum
from qserver.query.sql.tokens import MAX_CHARACTERS
from qserver.records.answer import PlanKind, Source
from qserver.service.statements import (
    AnsweredCell,
    AnyStatement,
    StatementAnswer,
    StatementExplanation,
)

_OPEN_PAIR: dict[str, Any] = {
    "type": "array",
    "items": {"type": ["number", "null"]},
    "minItems": 2,
    "maxItems": 2,
    "description": "[low, high], both ends rounded outward; null where there is no end",
}
OpenInterval = Annotated[tuple[float | None, float | None], WithJsonSchema(_OPEN_PAIR)]


class SqlRequest(RequestBody):
    """A statement of SQL."""

    sql: StrictStr = Field(
        description="SELECT ... FROM the dataset ... WITHIN half-width CONFIDENCE probability; "
        "after EXPLAIN its price",
        json_schema_extra={"maxLength": MAX_CHARACTERS},
    )
    explain: StrictBool = Field(
        default=False,
        description="asks for the price, as EXPLAIN before the text does, which stays as it is",
    )


class BinningBody(BaseModel):
    """What bins hide: an attribute stands for the middle of its bin."""

    error: float = Field(description="the true value is within +- this of the one by the middles")
    of: str = Field(
        description="whose value: of each `record`, of each record of the `numerator`, or the "
        "`average` itself"
    )

    @classmethod
    def of_cell(cls, cell: Sum | Ratio) -> Self | None:
        """What bins hide of a cell, or None."""
        found: Binning | None = cell.binning
        return None if found is None else cls(error=float(found.error), of=found.of)


class SqlCellBody(BaseModel):
    """One number of the table."""

    estimate: float | None = Field(description="null where the denominator may be zero")
    interval: OpenInterval
    source: Source
    consistent: float | None = Field(
        description="the value by one non-negative table for all cells; null where CONSISTENT was "
        "not said, or where the table has no record in the denominator"
    )
    binning: BinningBody | None

    @classmethod
    def of(cls, found: AnsweredCell, cell: Sum | Ratio) -> Self:
        """The cell as JSON has it."""
        return cls(
            estimate=found.value.estimate,
            interval=_pair(found.value.interval),
            source=found.source,
            consistent=found.consistent,
            binning=BinningBody.of_cell(cell),
        )


class SqlRowBody(BaseModel):
    """One group with its numbers."""

    group: list[str] = Field(description="a value of each attribute of GROUP BY")
    cells: list[SqlCellBody]


class SqlTableBody(BaseModel):
    """The table that a statement asked for."""

    groups: list[str] = Field(description="the attributes of GROUP BY")
    columns: list[str]
    rows: list[SqlRowBody]
    confidence: float = Field(description="of each interval, or of all where `simultaneous`")
    simultaneous: SimultaneousBody | None = Field(description="null where it was not asked for")
    epsilon_charged: Epsilon
    epsilon_remaining: Epsilon
    version: int = Field(description="version of the history that the answers stand on")

    @classmethod
    def of(cls, found: StatementAnswer) -> Self:
        """The table as JSON has it."""
        statement, together = found.asked.statement, found.simultaneous
        rows = [
            SqlRowBody(
                group=list(row.group),
                cells=[SqlCellBody.of(*pair) for pair in zip(cells, row.cells, strict=True)],
            )
            for row, cells in zip(statement.rows, found.cells, strict=True)
        ]
        return cls(
            groups=list(statement.groups),
            columns=list(statement.columns),
            rows=rows,
            confidence=found.asked.confidence,
            simultaneous=None if together is None else SimultaneousBody.of(together),
            epsilon_charged=epsilon(found.charged_nano),
            epsilon_remaining=epsilon(found.remaining_nano),
            version=found.version,
        )


class SqlKnownBody(BaseModel):
    """What is known of one group for nothing."""

    group: list[str]
    intervals: list[OpenInterval | None] = Field(description="per column; null: nothing yet")


class SqlPriceBody(BaseModel):
    """What a statement would cost; nothing was spent."""

    groups: list[str] = Field(description="the attributes of GROUP BY")
    columns: list[str]
    n_questions: int = Field(description="linear queries that answer it")
    kind: PlanKind
    price: Epsilon
    at_most: bool = Field(
        description="whether `price` is only the most that it costs: averages and quotients are "
        "measured in steps, no more exactly than they need be"
    )
    price_apart: Epsilon | None = Field(
        description="sum of the prices of its questions asked one by one; null where there is one, "
        "or was no time to plan them all"
    )
    remaining: Epsilon
    affordable: bool
    free: list[SqlKnownBody]
    confidence: float
    version: int

    @classmethod
    def of(cls, found: StatementExplanation) -> Self:
        """The price as JSON has it."""
        statement, apart = found.asked.statement, found.price_apart_nano
        known = [
            SqlKnownBody(
                group=list(row.group), intervals=[i if i is None else _pair(i) for i in intervals]
            )
            for row, intervals in zip(statement.rows, found.known, strict=True)
        ]
        return cls(
            groups=list(statement.groups),
            columns=list(statement.columns),
            n_questions=len(found.asked.questions),
            kind=found.kind,
            price=epsilon(found.price_nano),
            at_most=found.is_most,
            price_apart=None if apart is None else epsilon(apart),
            remaining=epsilon(found.remaining_nano),
            affordable=found.affordable,
            free=known,
            confidence=found.asked.confidence,
            version=found.version,
        )


class SqlBody(BaseModel):
    """The answer of a statement: a table, or its price where that was asked; the other is null."""

    table: SqlTableBody | None
    price: SqlPriceBody | None

    @classmethod
    def of(cls, found: AnyStatement) -> Self:
        """The answer as JSON has it."""
        if isinstance(found, StatementExplanation):
            return cls(table=None, price=SqlPriceBody.of(found))
        return cls(table=SqlTableBody.of(found), price=None)


def _pair(interval: Interval) -> tuple[float | None, float | None]:
    return interval.low, interval.high
