"""Response bodies of plans: what an answer would cost and how it would be found."""

from __future__ import annotations

from operator import attrgetter
from typing import Annotated

from pydantic import BeforeValidator, Field, WithJsonSchema

from qserver.api.bodies.answers import OfferBody
from qserver.api.bodies.query import PRICE_POINT_SCHEMA
from qserver.api.bodies.record_body import Axes, Epsilon, FromNano, RecordBody, Terms
from qserver.query.measure import Measure
from qserver.records.answer import PlanKind

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
