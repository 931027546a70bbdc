"""The work that a plan may take, counted in place of time: every process then plans alike.

What is asked is priced by one process and charged by another. Were a search ended by a clock, a
busy machine could charge another plan than was quoted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf

PLANNING_WORK = 150_000.0
"""What a plan for one question may take: about as many microseconds on a quiet machine."""
WORKLOAD_WORK = 5_000_000.0
"""What the base of a workload may take."""
APART_WORK = 3_000_000.0
"""What the plans of a workload's questions by themselves may take."""
EVALUATION = 1_500.0
"""One look at what blocks would make of a query, by the exact tail."""
SIGHT = 500.0
"""One look at a query from a lattice."""
ROWS_ALONE = 3_000.0
"""The plan of one question by rows alone, which is never ended early."""
OWN_ROW = 1_000.0
"""The least raise of a query's own row beside tables."""
_STEP = 20.0
_PRODUCT = 6e-4


def never() -> bool:
    """No: there is all the time in the world."""
    return False


@dataclass
class Effort:
    """Work done so far; to be called like a clock, it says whether it is too much.

    Args:
        limit: work after which searches take the best that was found so far.
        within: what this is a part of; work is counted there, too.
    """

    limit: float = inf
    within: Effort | None = None
    done: float = 0.0

    def __call__(self) -> bool:
        """Whether more was done than may be."""
        return self.done > self.limit or (self.within is not None and self.within())

    def add(self, work: float) -> None:
        """Count work that was done."""
        self.done += work
        if self.within is not None:
            self.within.add(work)

    def allows(self, work: float) -> bool:
        """Whether so much more is not too much."""
        return self.done + work <= self.limit and (self.within is None or self.within.allows(work))

    def part(self, share: float) -> Effort:
        """An effort that may do this share of what is left."""
        return Effort(share * max(0.0, self.limit - self.done), self)


def count(out_of_time: Callable[[], bool], work: float) -> None:
    """Add work that was done, where it is counted."""
    if isinstance(out_of_time, Effort):
        out_of_time.add(work)


def work_of_steps(n_steps: int, *, blocks: int, components: int, targets: int) -> float:
    """What so many steps on a problem of this size take, by the sizes of its arrays."""
    return n_steps * (_STEP + _PRODUCT * components * (blocks + targets))
