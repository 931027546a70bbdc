"""A budget for each test: half a second of the processor, unless it is marked as of a stage.

A whole run makes all of every sweep, so it has none.

Time that others take from the processor does not count, nor do fixtures that several tests share.
A test is held to a loop that is timed when it seems too dear: what a slow or busy machine adds to
the test it adds to the loop. A run fails only above four times the budget: one test has taken half
a second on one machine and 1.2 on the next, since the loop does not feel caches, disks and another
processor on the same core. The collector of cycles, which looks through what all tests before
left, is on nobody's account.
"""

from __future__ import annotations

import gc
import resource
import sys
import time
from collections.abc import Iterator

import pytest

from tests.sweeps import is_whole

BUDGET_S = 0.5
ROOM = 4.0
OF_STAGE = ("slow", "whole", "engines", "tools", "spark")
"""Marks of what the README's command does not run."""
_TURNS = 400_000
_LOOP_S = 0.010
"""What the loop takes where half a second is half a second."""


class Collector:
    """What the collector of cycles has used, in seconds of the processor."""

    def __init__(self) -> None:
        self.used_s, self._begin = 0.0, 0.0
        gc.callbacks.append(self._note)

    def _note(self, phase: str, _info: dict[str, int]) -> None:
        if phase == "start":
            self._begin = time.thread_time()
        else:
            self.used_s += time.thread_time() - self._begin


COLLECTOR = Collector()


def used_s() -> float:
    """What this process has used of the processor, with the programs that it waited for."""
    return -COLLECTOR.used_s + sum(
        used.ru_utime + used.ru_stime
        for used in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    )


def slowness() -> float:
    """How many times longer than elsewhere this machine takes now; at least 1."""
    begin = time.process_time()
    for _ in range(_TURNS):
        pass
    return max(1.0, (time.process_time() - begin) / _LOOP_S)


@pytest.fixture(autouse=True)
def budget(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test that used more; but whoever loads a library first does so for all others."""
    is_free = is_whole() or any(mark.name in OF_STAGE for mark in request.node.iter_markers())
    loaded, begin = len(sys.modules), used_s()
    yield
    used = used_s() - begin
    if used > ROOM * BUDGET_S and not is_free and len(sys.modules) == loaded:
        used /= slowness()
        if used > ROOM * BUDGET_S:
            pytest.fail(f"took {used:.2f} s of the processor: make it cheaper, or mark it `slow`")
