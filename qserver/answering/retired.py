"""Old periods whose records are erased: what was released stays, and nothing more is measured."""

from __future__ import annotations

from qserver.answering.replica import Replica
from qserver.planning.planner import Plan
from qserver.query.calendar.refused import PeriodRetiredError
from qserver.query.calendar.sealed import periods_of
from qserver.records.plan import Planned, PlannedRow


def period_retired(plan: Plan, replica: Replica) -> PeriodRetiredError | None:
    """Why a plan cannot be carried out: it measures retired periods; None if it does not.

    The caller adds the free interval.
    """
    n_retired = replica.present.n_retired
    if not n_retired:
        return None
    meta = replica.meta
    bought: tuple[Planned, ...] = (*plan.rows, *plan.tables)
    if not any(_measures(one, meta.period_axis, n_retired) for one in bought):
        return None
    attribute = meta.domain.attributes[meta.period_axis]
    return PeriodRetiredError(attribute=attribute.name, first_kept=attribute.value_names[n_retired])


def _measures(planned: Planned, axis: int, n_retired: int) -> bool:
    """Whether a row weighs one of the first periods, or a table has cells there."""
    row = planned.row if isinstance(planned, PlannedRow) else planned.partition.inside
    return any(run.start < n_retired for run in periods_of(row, axis))
