"""APEx's two workloads as batches: 100 bins, then 100 prefixes, then the bins at half the error."""

from __future__ import annotations

from collections.abc import Sequence

from qserver.charge import NANO
from qserver.planning.planner import Plan
from qserver.planning.rent_or_buy import DEFAULT_PHI
from qserver.planning.workload import Question, plan_workload, simultaneous

from .machine import times_of
from .play import snapshot_for
from .streams import APEX_BINS, APEX_RECORDS, Asked, apex_bins, apex_prefixes
from .synthetic_noise import Snapshot
from .tables import Report, Value

SEEDS = (311, 312, 313)
_REPEATS = 40
# What APEx pays for each in full, and the sum so far.
_REFERENCES = (0.01874, 0.09794, 0.1354)


def run(*, quick: bool) -> Report:
    """What is spent after each batch, and how often a batch has any interval that misses."""
    steps = (
        ("QW1: bins at 0.02", apex_bins(error=0.02)),
        ("QW2: prefixes at 0.02", apex_prefixes(error=0.02)),
        ("QW1 at 0.01", apex_bins(error=0.01)),
    )
    seeds = SEEDS[:1] if quick else SEEDS
    rows: list[dict[str, Value]] = []
    snapshots = [
        snapshot_for((APEX_BINS,), relation="add-remove", phi=DEFAULT_PHI, seed=1000 * seed + i)
        for seed in seeds
        for i in range(2 if quick else _REPEATS)
    ]
    for (name, asked), reference in zip(steps, _REFERENCES, strict=True):
        rows.append(_row(snapshots, name, asked, reference))
    return Report(
        name="apex",
        title="Budget spent on the APEx workloads, simultaneous confidence 0.9995",
        parameters={"records": APEX_RECORDS, "seeds": list(seeds), "runs": len(snapshots)},
        rows=tuple(rows),
    )


def _row(
    snapshots: Sequence[Snapshot], name: str, asked: Sequence[Asked], reference: float
) -> dict[str, Value]:
    questions = simultaneous([Question(a.query, a.requirement) for a in asked])
    first, plans = snapshots[0], list[Plan]()

    def plan_all() -> None:
        plans.append(
            plan_workload(
                questions, engine=first.engine, ledger=first.ledger, limit_nano=first.limit_nano
            )
        )

    times = times_of([plan_all])
    (plan,) = plans
    for snapshot in snapshots:
        snapshot.carry_out(plan)
    return {
        "batch": name,
        "plan": plan.kind,
        "price": plan.price_nano / NANO,
        "spent": first.ledger.spent_nano / NANO,
        "apex_spent": reference,
        "batches": len(snapshots),
        "violated_batches": sum(_has_miss(s, plan, questions) for s in snapshots),
        "plan_ms": times.median_ms,
    }


def _has_miss(snapshot: Snapshot, plan: Plan, questions: Sequence[Question]) -> bool:
    return any(
        abs(snapshot.error(q.query, plan, q.requirement))
        > q.requirement.half_width / float(q.query.sensitivity)
        for q in questions
    )
