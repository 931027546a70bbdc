"""Response bodies of datasets: schema, guarantee, budget, and where it went."""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import BaseModel, Field

from qserver.api.bodies.answers import Epsilon, WideInteger
from qserver.api.wire import epsilon, wire_value
from qserver.records.answer import DatasetStatus, Guard, LedgerReport


class LedgerBody(BaseModel):
    """Where the budget went."""

    limit: Epsilon
    spent: Epsilon
    remaining: Epsilon
    relation: Literal["add-remove", "replace-one"]
    n_charges: WideInteger
    loss: float = Field(
        description="largest loss of a cell in the asked set, in epsilon; a sound upper bound"
    )
    by_value: dict[str, float] | None = Field(
        description="for the asked attribute: the largest loss over the cells of each value"
    )

    @classmethod
    def of(cls, report: LedgerReport) -> Self:
        """The report as JSON has it."""
        values = report.by_value
        return cls(
            limit=epsilon(report.limit_nano),
            spent=epsilon(report.spent_nano),
            remaining=epsilon(report.remaining_nano),
            relation=report.relation,  # type: ignore[arg-type]
            n_charges=report.n_charges,
            loss=epsilon(report.loss_nano),
            by_value=None if values is None else {k: epsilon(v) for k, v in values.items()},
        )


class GuardBody(BaseModel):
    """What may be known of a cell."""

    cap: float = Field(description="with what probability the count of a cell may be known")
    loss_allowed: Epsilon = Field(description="the most that a cell may lose: 2 atanh(cap)")
    loss: Epsilon = Field(description="the most that a cell has lost")
    known: float = Field(description="with what probability a count may be known now, at most")
    binds: bool = Field(description="false where the limit is reached first")


class DatasetSummary(BaseModel):
    """A dataset's guarantee and budget."""

    name: str
    population: str = Field(description="the people, who own the limit; datasets may share it")
    snapshot: str = Field(description="random public id of the data as attached")
    n_cells: WideInteger
    relation: Literal["add-remove", "replace-one"]
    records_per_person: int
    records_verified: bool = Field(description="whether attach enforced `records_per_person`")
    limit: Epsilon
    spent: Epsilon
    remaining: Epsilon = Field(description="what this dataset may still spend under the limit")
    guard: GuardBody | None
    earlier_snapshots: list[str] = Field(
        description="snapshots that were replaced, oldest first; their history stays readable"
    )
    phi: float = Field(
        description="what may be spent on rows as asked before tables are bought, as a part of "
        "the tables' price"
    )
    version: int
    worker_alive: bool

    @classmethod
    def of(cls, status: DatasetStatus) -> Self:
        """The dataset as JSON has it."""
        return cls(**_dataset_members(status))


class DatasetBody(DatasetSummary):
    """A dataset's schema, guarantee and budget."""

    domain: dict[str, Any] = Field(description="the public attributes with their labels or bins")

    @classmethod
    def of(cls, status: DatasetStatus) -> Self:
        """The dataset as JSON has it."""
        return cls(domain=wire_value(status.domain), **_dataset_members(status))


class DatasetsBody(BaseModel):
    """Datasets by name; `next_after` is null on the last page."""

    datasets: list[DatasetSummary]
    next_after: str | None


def _guard_body(guard: Guard) -> GuardBody:
    return GuardBody(
        cap=guard.cap,
        loss_allowed=epsilon(guard.allowed_nano),
        loss=epsilon(guard.loss_nano),
        known=guard.known,
        binds=guard.binds,
    )


def _dataset_members(status: DatasetStatus) -> dict[str, Any]:
    return {
        "name": status.name,
        "population": status.population,
        "snapshot": status.snapshot,
        "n_cells": status.n_cells,
        "relation": status.relation,
        "records_per_person": status.records_per_person,
        "records_verified": status.records_verified,
        "limit": epsilon(status.limit_nano),
        "spent": epsilon(status.spent_nano),
        "remaining": epsilon(status.remaining_nano),
        "guard": None if status.guard is None else _guard_body(status.guard),
        "earlier_snapshots": list(status.earlier_snapshots),
        "phi": status.phi,
        "version": status.version,
        "worker_alive": status.worker_alive,
    }
