"""The price of a model before anything is spent, and the verdict of a check on its answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from qserver.answering.models.kinds.kind import ModelWork
from qserver.models.network.error_bounds import ErrorBounds
from qserver.records.answer import OwnPrice, PlanKind
from qserver.records.plan import PlannedTable
from qserver.records.statement import WantedError

Verdict = Literal["confirmed", "contradicted"]
Would = Literal["tell", "confirm", "contradict", "check"]


@dataclass(frozen=True)
class ModelExplanation:
    """The price of learning a model, and the tables to buy; nothing was spent.

    Args:
        kind: `free` (history suffices) or `blocks` (tables).
        price_nano: rise of the ledger, in nano-epsilon.
        sample_nano: part of the price that pays the sample of `arxiv` and `icml`; else None. With
            a sample, each table of `plan` has the most that it may get.
        second_nano: part of the price for tables that the first ones decide, on merged values; else
            None. `tables` has the first alone.
        remaining_nano: budget that remains now.
        affordable: whether the remaining budget covers the price.
        tables: the tables that would be measured or refined.
        version: of the history.
        work: time and memory that the model takes; None for a network.
        error: errors of a network; None if a sample decides on the noise, and for other models.
        wanted: expected error of each wanted marginal; empty for a network, or if nothing is
            bought.
        own: the asker's own allowance; None where only the budget bounds it.
    """

    kind: PlanKind
    price_nano: int
    sample_nano: int | None
    remaining_nano: int
    affordable: bool
    tables: tuple[PlannedTable, ...]
    version: int
    work: ModelWork | None = None
    error: ErrorBounds | None = None
    wanted: tuple[WantedError, ...] = ()
    own: OwnPrice | None = None
    second_nano: int | None = None


def verdict(estimate: float, *, low: float, high: float) -> Verdict:
    """Whether a check's interval contains the model's answer.

    A right answer is contradicted with the probability that the interval misses: 1 - confidence.
    """
    return "confirmed" if low <= estimate <= high else "contradicted"


def would(estimate: float, *, known: tuple[float, float] | None) -> Would:
    """The plan of a check: use an interval from history, or buy one first.

    Args:
        known: the check's interval if history gives it without a charge, else None.
    """
    if known is None:
        return "check"
    low, high = known
    return "confirm" if verdict(estimate, low=low, high=high) == "confirmed" else "contradict"
