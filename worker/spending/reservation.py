"""From a plan to its reservation and charges, and from a published reservation to its answer."""

from __future__ import annotations

from qserver.answering.answer import answer_from
from qserver.answering.decide import Free
from qserver.answering.models.purchase import learnt
from qserver.answering.remarks import told, told_of_all
from qserver.answering.replica import Replica
from qserver.answering.workload import WorkloadCost, answer_workload
from qserver.errors import MeasurementError
from qserver.inference.engine import RowEstimate
from qserver.planning.planner import Plan
from qserver.planning.workloads.workload import WorkloadPlan
from qserver.query.question import ModelAsked, Question, Workload
from qserver.records.charge import AnyCharge, Charge, TableCharge
from qserver.storage.encoding.queued_requests import Request, Reservation


def reservation_of(plan: Plan, *, job: str, request: Request, replica: Replica) -> Reservation:
    """The reservation of a plan for the replica's present state."""
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
        second=plan.second,
    )


def charges_of(reservation: Reservation) -> list[AnyCharge]:
    """One charge per row and table: the rise of its alpha, less the payments of its cells' rows.

    Where a sample decides the tables' alphas, there is one charge per stage, for any decision; so
    there is one for all tables of a second purchase.
    """
    job = reservation.job
    if reservation.sampled is not None:
        return list(reservation.sampled.charges(job))
    rows = [Charge(row.row, row.charge_nano, job) for row in reservation.rows]
    tables = [
        TableCharge(table.partition, table.charge_nano, table.paid, job)
        for table in reservation.tables
    ]
    second = [] if reservation.second is None else [reservation.second.charge(job)]
    return [*rows, *tables, *second]


def answer_spent(replica: Replica, reservation: Reservation) -> Free:
    """The answer and the weights to keep, on a replica with the release.

    Raises:
        MeasurementError: history does not give the answer. No released answer can cause that.
    """
    asked = reservation.request.asked
    if isinstance(asked, ModelAsked):
        remaining = _remaining_nano(replica, reservation)
        price = _price_nano(replica, reservation)
        return Free(learnt(replica, asked, charged_nano=price, remaining_nano=remaining))
    if isinstance(asked, Workload):
        return _workload(replica, reservation, asked)
    return _question(replica, reservation, asked)


def _question(replica: Replica, reservation: Reservation, asked: Question) -> Free:
    estimate = _estimate(replica, reservation, asked)
    answer = answer_from(
        asked,
        estimate,
        replica.engine.stated(asked.row, estimate, error=asked.reading.error),
        source=reservation.source,
        charged_nano=_price_nano(replica, reservation),
        remaining_nano=_remaining_nano(replica, reservation),
        version=replica.n_events,
    )
    kept = () if estimate.is_kept else (estimate.estimator(asked.row.key),)
    return Free(told(replica, asked, answer), kept)


def _estimate(replica: Replica, reservation: Reservation, asked: Question) -> RowEstimate:
    if asked.looking.independent:
        [(new, _)] = reservation.weights
        return replica.engine.alone(asked.row, new, confidence=asked.confidence)
    found = replica.engine.estimate_with(
        asked.row,
        reservation.weights,
        confidence=asked.confidence,
        enough=asked.row_half_width,
        tables_give_rest=reservation.tables_give_rest,
    )
    if found is None:
        raise MeasurementError
    return found


def _workload(replica: Replica, reservation: Reservation, asked: Workload) -> Free:
    found = answer_workload(
        replica.engine,
        asked,
        estimators=reservation.estimators,
        together=reservation.simultaneous,
        cost=WorkloadCost(
            _price_nano(replica, reservation),
            _remaining_nano(replica, reservation),
            reservation.sources,
        ),
        version=replica.n_events,
    )
    return Free(told_of_all(replica, asked, found.answer), found.estimators)


def _remaining_nano(replica: Replica, reservation: Reservation) -> int:
    limit = replica.present.budget.limit_nano
    return replica.meta.shown.rise_nano(reservation.after.lost_nano, limit)


def _price_nano(replica: Replica, reservation: Reservation) -> int:
    """The price as shown."""
    before, after = reservation.before, reservation.after
    return replica.meta.shown.rise_nano(before.lost_nano, after.lost_nano)
