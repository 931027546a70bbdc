"""One span for each job: from the worker's first look until its end was shown.

Both moments are seen by who asked, and are rounded to slots besides; nothing between them has a
time. It is handed over after the jobs of a group were acknowledged: docs/guarantee.md, 10.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Sequence

from qserver.program import telemetry
from qserver.storage.queue import Ended, Taken

_NS_PER_S = 1_000_000_000


class JobSpans:
    """Makes the spans of ended jobs.

    Args:
        slot_ms: the publication slot, in milliseconds.
        clock: Unix time in seconds.
        log: the worker's own log.
    """

    def __init__(self, *, slot_ms: int, clock: Callable[[], float], log: logging.Logger) -> None:
        self._slot_ms = slot_ms
        self._clock = clock
        self._log = log

    def now_ns(self) -> int:
        """Unix time in nanoseconds; 0 if traces are off."""
        return int(self._clock() * _NS_PER_S) if telemetry.is_on() else 0

    def tell(self, ended: Sequence[Ended], *, begun_ns: int) -> None:
        """Hand over the spans of traced requests' jobs; a fault here harms no job.

        Args:
            ended: jobs whose end is shown already.
            begun_ns: when the worker looked at them, by `now_ns`.
        """
        if not telemetry.is_on():
            return
        try:
            ended_ns = self.now_ns()
            for one in ended:
                self._tell(one, begun_ns, ended_ns)
        except Exception:  # noqa: BLE001 - what was asked is answered; a span is not worth a worker
            self._log.exception("the spans of a group are lost")

    def _tell(self, one: Ended, begun_ns: int, ended_ns: int) -> None:
        parent = telemetry.traceparent_of(one.taken.trace)
        if not parent:
            return
        span = telemetry.begin(
            "job", parent=parent, kind="CONSUMER", slot_ms=self._slot_ms, begun_ns=begun_ns
        )
        if span is not None:
            span.end(
                {"qserver.dataset": one.taken.dataset, "qserver.outcome": outcome_of(one)},
                ended_ns=ended_ns,
            )


def traced(taken: Taken) -> dict[str, str]:
    """The `extra` of a log line about a job: the id of its trace."""
    return {"trace_id": telemetry.trace_id_of(taken.trace)}


def outcome_of(one: Ended) -> str:
    """`done`, or the problem's code, as in the reply."""
    if one.outcome.state == "done":
        return "done"
    return str(json.loads(one.outcome.text).get("code", "failed"))
