"""The thread that looks after the jobs that requests wait for goes on after any fault."""

from __future__ import annotations

import queue
import time
from collections.abc import Collection

from qserver.api.process.watch import JobWatch
from qserver.service.visits import Parked, Visit

PATIENCE_S = 60.0


def test_a_look_that_fails_in_any_way_is_made_again() -> None:
    n_looks = 0

    def ended(jobs: Collection[str]) -> Collection[str]:
        nonlocal n_looks
        n_looks += 1
        if n_looks == 1:
            raise RuntimeError("nobody expected this")
        return jobs

    woken: queue.Queue[str] = queue.Queue()
    watch = JobWatch(woken.put)
    watch.start()
    visit = Visit()
    parked = Parked(job="j1", wait_s=PATIENCE_S, ended=ended)
    watch.add("one", visit, parked, now=time.monotonic())
    assert woken.get(timeout=PATIENCE_S) == "one"
    assert not visit.is_over
