"""The count of faults in ways of planning, for the operator."""

from __future__ import annotations

from prometheus_client import Counter

from qserver.answering.faults import note_fault
from qserver.planning.ways import WayFault

PLANNING_FAULTS = Counter(
    "qserver_planning_faults", "Ways of planning that failed, and cost no answer.", ["way"]
)


def counted(fault: WayFault) -> None:
    """Count the fault and write it down."""
    PLANNING_FAULTS.labels(fault.way).inc()
    note_fault(fault)
