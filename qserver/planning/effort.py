"""The work that a plan may take, counted in place of time: every process then plans alike.

A question is priced by one process and charged by another. Were a search ended by a clock, a busy
machine could charge another plan than was quoted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf

PLANNING_WORK = 150_000.0
"""What a plan for one question may take: about as many microseconds on a quiet machine."""
EVALUATION = 1_500.0
"""One look at what blocks would make of a query, by the exact tail."""
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
        out_of_time: a clock that may end them sooner, for prices that nobody is charged by.
    """

    limit: float = inf
    out_of_time: Callable[[], bool] = never
    done: float = 0.0

    def __call__(self) -> bool:
        """Whether more was done than may be."""
        return self.done > self.limit or self.out_of_time()


def count(out_of_time: Callable[[], bool], work: float) -> None:
    """Add work that was done, where it is counted."""
    if isinstance(out_of_time, Effort):
        out_of_time.done += work


def work_of_steps(n_steps: int, *, blocks: int, components: int, targets: int) -> float:
    """What so many steps on a problem of this size take, by the sizes of its arrays."""
    return n_steps * (_STEP + _PRODUCT * components * (blocks + targets))
