"""Waiting at a start for what the last start left behind, or what died meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from qserver.cli.processes.supervisor import StopSignals
from qserver.cli.runtime import Runtime
from qserver.errors import QServerError

T = TypeVar("T")

WAIT_S = 30.0
"""Seconds for which a start waits. What a killed server leaves behind ends once the kernel tells
it, and a store that was killed loads its data anew. Not measured."""
_POLL_S = 0.1


def patiently(
    find: Callable[[], T],
    *,
    passing: tuple[type[QServerError], ...],
    runtime: Runtime,
    signals: StopSignals,
) -> T:
    """What `find` returns once it does; the first refusal is told in one line.

    Raises:
        QServerError: one of `passing`, when the time is over or a signal asks to stop.
    """
    deadline, is_told = runtime.clock() + WAIT_S, False
    while True:
        try:
            return find()
        except passing as exc:
            if signals.stop_requested or runtime.clock() >= deadline:
                raise
            if not is_told:
                runtime.console.note(f"{exc} Waiting for that, {WAIT_S:g} s at most.")
                is_told = True
        signals.wait(_POLL_S)
