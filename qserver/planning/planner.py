"""The plan that meets a requirement for the least rise of the ledger.

Every choice depends on rows, scales, requirements and released answers only.
"""

from __future__ import annotations

from dataclasses import dataclass

from qserver.answer import PlanKind
from qserver.charge import Charge
from qserver.errors import CapacityError
from qserver.inference.engine import InferenceEngine, RowEstimate
from qserver.lattice import lattice_step
from qserver.plan import PlannedRow
from qserver.planning.allocation import alpha_nano_up, fresh_alpha_nano
from qserver.planning.ledger import CellLedger
from qserver.primitive import Primitive
from qserver.requirement import Requirement


@dataclass(frozen=True)
class Plan:
    """How a requirement is met.

    Args:
        kind: `exact` (the query vanishes), `free` (history suffices), `fresh` or `combined`.
        rows: what to measure; empty when nothing is spent.
        price_nano: rise of the snapshot's spent budget, in nano-epsilon.
        spent_after_nano: the snapshot's spent budget afterwards.
        estimate: what history gives now at the asked confidence, or None.
    """

    kind: PlanKind
    rows: tuple[PlannedRow, ...]
    price_nano: int
    spent_after_nano: int
    estimate: RowEstimate | None


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
    estimate = engine.estimate(query, confidence=requirement.confidence)
    if estimate is not None and meets(estimate, query, requirement):
        return Plan("free", (), 0, spent, estimate)
    plans = [
        Plan(kind, (row,), after - spent, after, estimate)
        for kind, row in _candidates(query, requirement, engine, ledger, limit_nano, estimate)
        for after in [ledger.spent_after([Charge(row.row, row.alpha_nano, "plan")])]
    ]
    if not plans:
        raise CapacityError("The interval is shorter than the lattice of the noise allows.")
    return min(plans, key=lambda plan: (plan.price_nano, plan.rows[0].alpha_nano))


def meets(estimate: RowEstimate, query: Primitive, requirement: Requirement) -> bool:
    """Whether a row's estimate certainly meets the requirement on the query."""
    return estimate.half_width <= row_half_width(query, requirement)


def row_half_width(query: Primitive, requirement: Requirement) -> float:
    """The half-width that the query's row may have, in the row's units, rounded down."""
    return requirement.half_width / float(query.sensitivity) * (1 - 1e-15)


def row_step(query: Primitive, *, limit_nano: int, records_per_person: int) -> PlannedRow:
    """The row with its lattice step and nothing charged yet."""
    step = lattice_step(query.unit, limit_nano=limit_nano, records_per_person=records_per_person)
    return PlannedRow(query.row, query.key, 0, step)


def _candidates(
    query: Primitive,
    requirement: Requirement,
    engine: InferenceEngine,
    ledger: CellLedger,
    limit_nano: int,
    estimate: RowEstimate | None,
) -> list[tuple[PlanKind, PlannedRow]]:
    blank = row_step(query, limit_nano=limit_nano, records_per_person=ledger.records_per_person)
    found: list[tuple[PlanKind, PlannedRow]] = []
    try:
        alpha = fresh_alpha_nano(requirement, multiplier=query.multiplier, step=blank.step)
        found.append(("fresh", _with_alpha(blank, alpha)))
    except CapacityError:
        pass
    if estimate is not None:
        combined = engine.combined_alpha(
            query,
            half_width=row_half_width(query, requirement),
            confidence=requirement.confidence,
            step=blank.step,
        )
        if combined is not None:
            found.append(("combined", _with_alpha(blank, alpha_nano_up(combined))))
    return found


def _with_alpha(row: PlannedRow, alpha_nano: int) -> PlannedRow:
    return PlannedRow(row.row, row.key, alpha_nano, row.step)
