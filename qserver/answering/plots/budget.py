"""Plots of a budget: the loss by value of an attribute."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from qserver.answering.plots.bars import Bar, BarChart
from qserver.errors import InputError

_MOST_BARS = 60


@dataclass(frozen=True)
class BudgetFacts:
    """A population's budget, in epsilon; limit > 0, 0 <= spent."""

    dataset: str
    limit: float
    spent: float
    remaining: float


def budget_chart(facts: BudgetFacts, losses: Mapping[str, float], *, attribute: str) -> BarChart:
    """The loss of the records of each value of an attribute, and the limit.

    Args:
        facts: the budget.
        losses: the largest loss of a cell, by value; empty for the budget as a whole.
        attribute: the attribute, or '' for the budget as a whole.

    Raises:
        InputError: there are more than 60 values.
    """
    if len(losses) > _MOST_BARS:
        raise InputError("attribute", f"have at most {_MOST_BARS} values", attribute)
    amounts = dict(losses) or {"spent": facts.spent, "remaining": facts.remaining}
    what = f"largest loss by {attribute}" if losses else "spent and remaining"
    return BarChart(
        title=f"Budget of {facts.dataset}: {what}",
        description=f"{facts.spent:.6g} of {facts.limit:.6g} epsilon are spent, "
        f"{facts.remaining:.6g} remain.",
        bars=tuple(Bar(name, value, f"{value:.4g}") for name, value in amounts.items()),
        limit=facts.limit,
        limit_text=f"limit {facts.limit:.6g} epsilon",
    )
