"""The plan that meets a requirement for the least rise of the ledger.

Every choice depends on rows, scales, requirements and released answers only.
"""

from __future__ import annotations

from dataclasses import dataclass

from qserver.answer import PlanKind
from qserver.errors import CapacityError
from qserver.inference.engine import InferenceEngine, RowEstimate
from qserver.inference.refined import Weights
from qserver.plan import PlannedRow
from qserver.planning.candidates import Question, row_half_width, row_step
from qserver.planning.ledger import CellLedger
from qserver.primitive import Primitive
from qserver.requirement import Requirement

__all__ = ["Plan", "meets", "plan_answer", "row_half_width", "row_step"]


@dataclass(frozen=True)
class Plan:
    """How a requirement is met.

    Args:
        kind: `exact` (the query vanishes), `free` (history suffices), `fresh`, `combined` (a new
            row with history) or `refined` (measured rows get less noise, perhaps beside a new
            row).
        rows: what to measure or refine; empty when nothing is spent.
        price_nano: rise of the snapshot's spent budget, in nano-epsilon.
        spent_after_nano: the snapshot's spent budget afterwards.
        estimate: what history gives now at the asked confidence, or None.
        weights: pairs of a measurement's id and its weight in the query's row that meet the
            requirement once `rows` are released; a new row has the next id.
    """

    kind: PlanKind
    rows: tuple[PlannedRow, ...]
    price_nano: int
    spent_after_nano: int
    estimate: RowEstimate | None
    weights: Weights = ()


def plan_answer(
    query: Primitive,
    requirement: Requirement,
    *,
    engine: InferenceEngine,
    ledger: CellLedger,
    limit_nano: int,
) -> Plan:
    """The cheapest plan for an answer to `query` within the requirement.

    Args:
        engine: inference over the snapshot's history.
        ledger: the snapshot's charges.
        limit_nano: the population's limit, which fixes the lattice of a new row.

    Raises:
        CapacityError: the requirement is finer than the lattice.
    """
    spent = ledger.spent_nano
    if query.is_zero:
        return Plan("exact", (), 0, spent, None)
    target = row_half_width(query, requirement)
    estimate = engine.estimate(query, confidence=requirement.confidence, enough=target)
    if estimate is not None and meets(estimate, query, requirement):
        return Plan("free", (), 0, spent, estimate, estimate.weights)
    question = Question(query, requirement, engine, ledger, limit_nano, estimate)
    plans = [
        Plan(found.kind, found.rows, after - spent, after, estimate, found.weights)
        for found in question.candidates()
        for after in [ledger.spent_after(found.charges)]
    ]
    if not plans:
        raise CapacityError("The interval is shorter than the lattice of the noise allows.")
    return min(plans, key=_preference)


def meets(estimate: RowEstimate, query: Primitive, requirement: Requirement) -> bool:
    """Whether a row's estimate certainly meets the requirement on the query."""
    return estimate.half_width <= row_half_width(query, requirement)


def _preference(plan: Plan) -> tuple[int, int, int]:
    """The least price; of equal ones the least charge in all, then the fewest rows."""
    return plan.price_nano, sum(row.charge_nano for row in plan.rows), len(plan.rows)
