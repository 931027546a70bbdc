"""The answer of a job once what it reserved is released and published."""

from __future__ import annotations

from qserver.answering.answer import answer_from
from qserver.answering.decide import Free
from qserver.answering.models.purchase import learnt
from qserver.answering.replica import Replica
from qserver.answering.workload import WorkloadCost, answer_workload
from qserver.errors import MeasurementError
from qserver.query.question import ModelAsked, Question, Workload
from qserver.storage.encoding.requests import Reservation


def answer_spent(replica: Replica, reservation: Reservation) -> Free:
    """The answer, and weights to be kept, on a replica that has read the release.

    Raises:
        MeasurementError: history does not give it, which no released answer can cause.
    """
    asked = reservation.request.asked
    if isinstance(asked, ModelAsked):
        remaining = _remaining_nano(replica, reservation)
        price = reservation.price_nano
        return Free(learnt(replica, asked, charged_nano=price, remaining_nano=remaining))
    if isinstance(asked, Workload):
        return _workload(replica, reservation, asked)
    return _question(replica, reservation, asked)


def _question(replica: Replica, reservation: Reservation, asked: Question) -> Free:
    estimate = replica.engine.estimate_with(
        asked.row,
        reservation.weights,
        confidence=asked.confidence,
        enough=asked.row_half_width,
        tables_give_rest=reservation.tables_give_rest,
    )
    if estimate is None:
        raise MeasurementError
    answer = answer_from(
        asked,
        estimate,
        source=reservation.source,
        charged_nano=reservation.price_nano,
        remaining_nano=_remaining_nano(replica, reservation),
        version=replica.n_events,
    )
    return Free(answer, () if estimate.is_kept else (estimate.estimator(asked.row.key),))


def _workload(replica: Replica, reservation: Reservation, asked: Workload) -> Free:
    found = answer_workload(
        replica.engine,
        asked,
        estimators=reservation.estimators,
        together=reservation.simultaneous,
        cost=WorkloadCost(
            reservation.price_nano,
            _remaining_nano(replica, reservation),
            reservation.sources,
        ),
        version=replica.n_events,
    )
    return Free(found.answer, found.estimators)


def _remaining_nano(replica: Replica, reservation: Reservation) -> int:
    return replica.present.budget.limit_nano - reservation.after.lost_nano
