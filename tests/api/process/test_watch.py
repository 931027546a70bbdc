"""The thread that looks after the jobs that requests wait for: it goes on after any fault."""

from __future__ import annotations

import queue
import time
from collections.abc import Collection

import pytest

from qserver.api.process.parking import JobWatch
from qserver.service.parking import Parked, Visit

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


@pytest.mark.parametrize(("cost_s", "pause_s"), [(0.0, 0.002), (0.001, 0.039), (1.0, 0.25)])
def test_a_look_that_costs_more_is_made_less_often(cost_s: float, pause_s: float) -> None:
    """Looks take a fortieth of a processor, but for a longest pause: deadlines hold."""
    spent, n_looks, pauses = 0.0, 0, list[float]()

    def ended(jobs: Collection[str]) -> Collection[str]:
        nonlocal spent, n_looks
        spent, n_looks = spent + cost_s, n_looks + 1
        return jobs if n_looks == 3 else ()

    woken: queue.Queue[str] = queue.Queue()
    watch = JobWatch(woken.put, spent=lambda: spent, sleep=pauses.append)
    watch.start()
    parked = Parked(job="j1", wait_s=PATIENCE_S, ended=ended)
    watch.add("one", Visit(), parked, now=time.monotonic())
    assert woken.get(timeout=PATIENCE_S) == "one"
    assert pauses[:2] == pytest.approx([pause_s, pause_s])
