"""The work that a plan may take, counted in place of time: every process then plans alike.

One process shows the price of a question and another one charges it. If a clock ended the search,
a busy machine could charge another plan than the one that was shown.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from qserver.planning.constants import PLANNER


@dataclass
class Effort:
    """Work done so far, and how much of it is allowed.

    Args:
        limit: work after which searches take the best result found so far.
        within: the effort that this one is a part of; work is counted there, too.
    """

    limit: float = inf
    within: Effort | None = None
    done: float = 0.0

    @property
    def is_spent(self) -> bool:
        """Whether the work done has passed the limit, here or in `within`."""
        return self.done > self.limit or (self.within is not None and self.within.is_spent)

    def add(self, work: float) -> None:
        """Count work that was done."""
        self.done += work
        if self.within is not None:
            self.within.add(work)

    def allows(self, work: float) -> bool:
        """Whether this much more work stays within the limit."""
        return self.done + work <= self.limit and (self.within is None or self.within.allows(work))

    def part(self, share: float) -> Effort:
        """An effort that may do this share of the work that is left."""
        return Effort(share * max(0.0, self.limit - self.done), self)


def work_of_steps(n_steps: int, *, blocks: int, components: int, targets: int) -> float:
    """The work of this many steps on a problem of this size, by the sizes of its arrays."""
    return n_steps * (PLANNER.step_work + PLANNER.product_work * components * (blocks + targets))
