"""A question as the planner of workloads sees it."""

from __future__ import annotations

from dataclasses import dataclass

from qserver.query.primitive import Primitive
from qserver.query.requirement import Requirement


@dataclass(frozen=True, eq=False)
class Question:
    """A query with its requirement."""

    query: Primitive
    requirement: Requirement
