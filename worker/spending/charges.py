"""What a plan reserves and what it is charged, line by line of the ledger."""

from __future__ import annotations

from qserver.answering.replica import Replica
from qserver.planning.planner import Plan
from qserver.planning.workloads.workload import WorkloadPlan
from qserver.records.charge import AnyCharge, Charge, TableCharge
from qserver.storage.encoding.requests import Request, Reservation


def reservation_of(plan: Plan, *, job: str, request: Request, replica: Replica) -> Reservation:
    """The reservation of a plan that was made on the replica's present state."""
    return Reservation(
        job=job,
        request=request,
        rows=plan.rows,
        before=replica.present.standing,
        after=replica.after(plan),
        n_history=replica.n_events,
        weights=plan.weights,
        tables_give_rest=plan.tables_give_rest,
        tables=plan.tables,
        paid=tuple(question.to_json() for question in plan.paid),
        estimators=plan.estimators if isinstance(plan, WorkloadPlan) else (),
        simultaneous=plan.simultaneous if isinstance(plan, WorkloadPlan) else None,
        n_measurements=replica.engine.n_measurements,
        sampled=plan.sampled,
    )


def charges_of(reservation: Reservation) -> list[AnyCharge]:
    """One charge per row and table: the rise of its alpha, less what cells' rows have paid.

    Where a sample decides the tables' alphas, one for each stage, whatever will be decided.
    """
    job = reservation.job
    if reservation.sampled is not None:
        return list(reservation.sampled.charges(job))
    rows = [Charge(row.row, row.charge_nano, job) for row in reservation.rows]
    tables = [
        TableCharge(table.partition, table.charge_nano, table.paid, job)
        for table in reservation.tables
    ]
    return [*rows, *tables]
