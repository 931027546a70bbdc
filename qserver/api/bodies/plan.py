"""Response bodies of plans: what an answer would cost and how it would be found."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import BaseModel, Field, WithJsonSchema

from qserver.api.bodies.answers import Axes, Epsilon, OfferBody, Terms
from qserver.api.bodies.query import PRICE_POINT_SCHEMA
from qserver.api.wire import epsilon
from qserver.records.answer import Explanation, OwnPrice, PlanKind, PlanRow, PlanTable

PricePoint = Annotated[tuple[float, float | None], WithJsonSchema(PRICE_POINT_SCHEMA)]


class PlanRowBody(BaseModel):
    """A row that would be measured, or a row of the history that would be refined."""

    terms: Terms
    alpha: Annotated[Epsilon, Field(description="1 / scale afterwards, in epsilon per record")]
    key: str
    refines: int | None = Field(description="id of the history row that is refined; null if new")
    charge: Annotated[Epsilon, Field(description="rise of alpha, which is what the row costs")]

    @classmethod
    def of(cls, row: PlanRow) -> Self:
        """The row as JSON has it."""
        return cls(
            terms=row.terms,
            alpha=epsilon(row.alpha_nano),
            key=row.key,
            refines=row.refines,
            charge=epsilon(row.charge_nano),
        )


class PlanTableBody(BaseModel):
    """A table that would be measured, or a table of the history that would be refined."""

    table: Axes
    n_cells: int
    alpha: Annotated[Epsilon, Field(description="1 / scale afterwards, in epsilon per record")]
    key: str
    refines: int | None = Field(description="id of the table that is refined; null if new")
    charge: Annotated[Epsilon, Field(description="rise of alpha, which is what a cell pays")]

    @classmethod
    def of(cls, table: PlanTable) -> Self:
        """The table as JSON has it."""
        return cls(
            table=table.axes,
            n_cells=table.n_cells,
            alpha=epsilon(table.alpha_nano),
            key=table.key,
            refines=table.refines,
            charge=epsilon(table.charge_nano),
        )


class OwnPriceBody(BaseModel):
    """What the answer would cost the asker's own ledger; a null bound is none of its own."""

    price: Epsilon
    affordable: bool
    more_at: int | None = Field(
        description="Unix time, in seconds, when the pace will let it; null if not by waiting"
    )
    spent: Epsilon
    spent_today: Epsilon
    limit: Epsilon | None
    per_day: Epsilon | None

    @classmethod
    def of(cls, own: OwnPrice) -> Self:
        """The price as JSON has it."""
        limit, pace = own.limit_nano, own.pace_nano
        return cls(
            price=epsilon(own.price_nano),
            affordable=own.affordable,
            more_at=own.more_at,
            spent=epsilon(own.spent_nano),
            spent_today=epsilon(own.today_nano),
            limit=None if limit is None else epsilon(limit),
            per_day=None if pace is None else epsilon(pace),
        )


class ExplanationBody(BaseModel):
    """What an answer would cost and how it would be found; nothing was spent."""

    kind: PlanKind
    price: Epsilon
    remaining: Epsilon
    affordable: bool
    plan: list[PlanRowBody | PlanTableBody]
    free: OfferBody | None
    curve: list[PricePoint] = Field(
        description="[length, price] at the same confidence; a null price is out of reach"
    )
    sensitivity: float
    sensitivity_exact: bool
    version: int
    own: OwnPriceBody | None = Field(
        description="the asker's own allowance; null where only the budget bounds it"
    )

    @classmethod
    def of(cls, found: Explanation) -> Self:
        """The explanation as JSON has it."""
        prices = [(p.length, p.price_nano) for p in found.curve]
        return cls(
            kind=found.kind,
            price=epsilon(found.price_nano),
            remaining=epsilon(found.remaining_nano),
            affordable=found.affordable,
            plan=[
                *[PlanRowBody.of(row) for row in found.rows],
                *[PlanTableBody.of(table) for table in found.tables],
            ],
            free=None if found.free is None else OfferBody.of(found.free),
            curve=[(length, None if p is None else epsilon(p)) for length, p in prices],
            sensitivity=found.sensitivity,
            sensitivity_exact=found.sensitivity_exact,
            version=found.version,
            own=None if found.own is None else OwnPriceBody.of(found.own),
        )
