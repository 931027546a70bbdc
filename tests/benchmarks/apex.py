"""APEx's two workloads as batches: 100 bins, then 100 prefixes, then the bins at half the error.

`bound` certifies that all intervals of a batch hold at once; `union_spent` is what the union bound
alone would have spent, `apex_spent` what APEx pays, each batch in full.
"""

from __future__ import annotations

from collections.abc import Sequence

from qserver.planning.constants import PLANNER
from qserver.planning.effort import Effort
from qserver.planning.workloads.simultaneous import plan_together
from qserver.planning.workloads.workload import WorkloadPlan, plan_workload, simultaneous
from qserver.query.question import Question
from qserver.query.requirement import DEFAULT_PHI
from qserver.records.charge import NANO
from tests.benchmarks.synthetic_noise import question_of

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
        _snapshot(1000 * seed + i) for seed in seeds for i in range(2 if quick else _REPEATS)
    ]
    by_union = _snapshot(1)
    for (name, asked), reference in zip(steps, _REFERENCES, strict=True):
        rows.append(_row(snapshots, by_union, name, asked, reference))
    return Report(
        name="apex",
        title="Budget spent on the APEx workloads, simultaneous confidence 0.9995",
        parameters={"records": APEX_RECORDS, "seeds": list(seeds), "runs": len(snapshots)},
        rows=tuple(rows),
    )


def _snapshot(seed: int) -> Snapshot:
    return snapshot_for((APEX_BINS,), relation="add-remove", phi=DEFAULT_PHI, seed=seed)


def _row(
    snapshots: Sequence[Snapshot],
    by_union: Snapshot,
    name: str,
    asked: Sequence[Asked],
    reference: float,
) -> dict[str, Value]:
    questions = [question_of(a.query, a.requirement) for a in asked]
    first, plans = snapshots[0], list[WorkloadPlan]()

    def plan_all() -> None:
        plans.append(
            plan_together(
                questions,
                first.holdings,
                rule=first.rule,
                single=first.single,
                effort=Effort(PLANNER.workload_work),
            )
        )

    times = times_of([plan_all])
    (plan,) = plans
    for snapshot in snapshots:
        _carry_out(snapshot, plan)
    _carry_out(by_union, _planned_by_union(by_union, questions))
    together = plan.simultaneous
    return {
        "batch": name,
        "plan": plan.kind,
        "bound": "none" if together is None else together.method,
        "price": plan.price_nano / NANO,
        "spent": first.ledger.spent_nano / NANO,
        "union_spent": by_union.ledger.spent_nano / NANO,
        "apex_spent": reference,
        "batches": len(snapshots),
        "violated_batches": sum(_has_miss(s, plan, questions) for s in snapshots),
        "plan_ms": times.median_ms,
    }


def _planned_by_union(by_union: Snapshot, questions: Sequence[Question]) -> WorkloadPlan:
    return plan_workload(
        simultaneous(questions),
        by_union.holdings,
        rule=by_union.rule,
        single=by_union.single,
        effort=Effort(PLANNER.workload_work),
    )


def _carry_out(snapshot: Snapshot, plan: WorkloadPlan) -> None:
    snapshot.carry_out(plan)
    for estimator in plan.estimators:
        if estimator is not None:
            snapshot.engine.keep(estimator)


def _has_miss(snapshot: Snapshot, plan: WorkloadPlan, questions: Sequence[Question]) -> bool:
    """Whether any answer is further off than half of the asked length."""
    each = zip(simultaneous(questions), plan.estimators, strict=True)
    for q, estimator in each:
        confidence, enough = q.confidence, q.roomy_half_width
        if estimator is None:
            found = snapshot.engine.estimate(q.row, confidence=confidence, enough=enough)
        else:
            found = snapshot.engine.estimate_after(q.row, estimator, confidence=confidence)
        if found is None or abs(found.posterior.estimate) > enough:
            return True
    return False
