"""What models cost before anything is spent, and what a check says of a model's answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from qserver.answering.models.kinds.model_work import ModelWork
from qserver.models.network.error_bounds import ErrorBounds
from qserver.records.answer import OwnPrice, PlanKind, PlanTable

Verdict = Literal["confirmed", "contradicted"]
Would = Literal["tell", "confirm", "contradict", "check"]


@dataclass(frozen=True)
class ModelExplanation:
    """What learning a model would cost and which tables it would buy; nothing was spent.

    Args:
        kind: `free` (history suffices) or `blocks` (tables).
        price_nano: rise of the ledger, in nano-epsilon.
        sample_nano: what of the price is for a sample that is looked at first; None where none is.
            Each of the tables then has the greatest alpha that it may get.
        remaining_nano: what is left now.
        affordable: whether the price fits into what is left.
        tables: what would be measured or refined.
        version: of the history.
        work: what measuring and making the model takes; None for a kind that does not say.
        error: bounds on the errors of its answers, times the number of records; None where none
            are foretold.
        own: the same for the asker's own ledger; None where only the budget bounds it.
    """

    kind: PlanKind
    price_nano: int
    sample_nano: int | None
    remaining_nano: int
    affordable: bool
    tables: tuple[PlanTable, ...]
    version: int
    work: ModelWork | None = None
    error: ErrorBounds | None = None
    own: OwnPrice | None = None


def verdict(estimate: float, *, low: float, high: float) -> Verdict:
    """Whether a check's interval holds the model's answer.

    A right answer is contradicted with the probability that the interval misses: 1 - confidence.
    """
    return "confirmed" if low <= estimate <= high else "contradicted"


def would(estimate: float, *, known: tuple[float, float] | None) -> Would:
    """What a check would do: say what history tells already, or buy its interval first.

    Args:
        known: the check's interval where history gives it for nothing, else None.
    """
    if known is None:
        return "check"
    low, high = known
    return "confirm" if verdict(estimate, low=low, high=high) == "confirmed" else "contradict"
