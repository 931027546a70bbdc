"""The tables of a second purchase, which the released answers of the first tables decide.

The charge of both was reserved before the first draw, for any decision: the rises of alpha must not
add up to more than the plan says. The decision follows from released answers and public facts
alone, and is in the journal before anything is drawn for it.
"""

from __future__ import annotations

from qserver.answering.models.purchase import second_tables
from qserver.answering.replica import Replica
from qserver.errors import MeasurementError
from qserver.query.question import ModelAsked
from qserver.records.plan import PlannedTable
from qserver.storage.encoding.queued_requests import events_of
from worker.journal.sections import Drawn
from worker.spending.answers_in_force import Live


def decided(first: Drawn, replica: Replica) -> tuple[tuple[PlannedTable, ...], Live]:
    """The tables that the first answers decide, and the measurements in force before them.

    Args:
        replica: as the plan was made on it.

    Raises:
        MeasurementError: the plan has one purchase, or the decision passes the reservation, or it
            has parts that the charge does not cover.
    """
    reservation = first.reservation
    second, asked = reservation.second, reservation.request.asked
    if second is None or not isinstance(asked, ModelAsked):
        raise MeasurementError
    after = replica.tried(events_of(reservation, first.indices))
    tables = second_tables(after, asked, alpha_nano=second.alpha_nano)
    if not tables or sum(table.charge_nano for table in tables) > second.alpha_nano:
        raise MeasurementError
    if any(table.sources for table in tables):
        # The charge covers whole tables only.
        raise MeasurementError
    live = Live(after.measurements)
    live.check(tables)
    return tables, live
