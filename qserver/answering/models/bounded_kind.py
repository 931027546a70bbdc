"""Kinds that bound the errors of their models' answers beforehand, from the noise of tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np

from qserver.answering.models.kinds.marginal_tables import Marginal, marginals
from qserver.answering.models.kinds.registry import kind_of
from qserver.answering.replica import Replica
from qserver.models.network.error_bounds import ErrorBounds
from qserver.planning.planner import Plan
from qserver.query.domain import Domain
from qserver.query.question import ModelAsked
from qserver.records.charge import NANO
from qserver.records.plan import PlannedTable


@runtime_checkable
class BoundedKind(Protocol):
    """A kind whose errors are bounded before anything is bought; pure and without state."""

    def error_bounds(
        self, specification: str, domain: Domain, released: Sequence[Marginal]
    ) -> ErrorBounds | None:
        """Bounds by the noise of the tables that will be released, times the number of records."""


def foretold_error(replica: Replica, asked: ModelAsked, plan: Plan | None) -> ErrorBounds | None:
    """Bounds on the errors of a model's answers once `plan` is carried out; reads no answer.

    Args:
        plan: the purchase; None for history alone.

    Returns:
        None if the kind gives no bounds, or if a secret sample decides on the noise.
    """
    kind = kind_of(asked.kind)
    if not isinstance(kind, BoundedKind) or (plan is not None and plan.sampled is not None):
        return None
    planned = () if plan is None else plan.tables
    raised = {table.refines for table in planned}
    kept = [one for one in marginals(replica.measurements) if one.id not in raised]
    released = (*kept, *map(_marginal, planned))
    return kind.error_bounds(asked.specification, replica.meta.domain, released)


def _marginal(table: PlannedTable) -> Marginal:
    """The table as it will be released, without its values."""
    parts = table.partition
    axes = tuple(a.axis for a in parts.axes)
    return Marginal(-1, axes, NANO / table.alpha_nano, np.broadcast_to(0.0, parts.shape))
