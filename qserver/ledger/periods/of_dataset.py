"""The neighbours that the unit of privacy of a dataset means."""

from __future__ import annotations

from qserver.ledger.neighbours import Neighbours
from qserver.ledger.periods.by_period import ByPeriod
from qserver.records.dataset import DatasetMeta


def neighbours_of(meta: DatasetMeta) -> Neighbours:
    """The neighbours that a dataset's unit of privacy means."""
    return Neighbours(meta.relation, meta.most_together, meta.has_null_cell, _by_period(meta))


def _by_period(meta: DatasetMeta) -> ByPeriod | None:
    axis, unit, k = meta.domain.period_axis, meta.unit, meta.most_together
    if axis is None:
        return None
    most = unit.most_in_period(k)
    same = meta.relation == "replace-one" and unit.replaced == "same-period"
    if most >= k and not same:
        return None  # all records may be in one cell, or move between any two
    return ByPeriod(axis, meta.domain.sizes[axis], min(most, k), same)
