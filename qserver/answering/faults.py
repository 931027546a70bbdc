"""Faults of the program in a way of planning, for the operator: they cost nobody an answer."""

from __future__ import annotations

import logging

from qserver.planning.ways import WayFault

_log = logging.getLogger(__name__)


def note_fault(fault: WayFault) -> None:
    """Write the fault down; the next way of planning is taken."""
    _log.error(
        "planning by way of %s failed, and the next way is taken", fault.way, exc_info=fault.error
    )
