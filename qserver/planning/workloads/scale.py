"""How much of a purchase of blocks meets many questions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from qserver.inference.tables.blocks.pattern import BlockKey
from qserver.planning.constants import PLANNER
from qserver.planning.effort import Effort
from qserver.planning.holdings import Holdings
from qserver.query.question import Question


@dataclass(frozen=True, eq=False)
class Scaling:
    """The search for the least scale at which a purchase of blocks meets all questions.

    Args:
        holdings: on the lattice used for answering then.
        part_of: alphas of the blocks at a scale, in nano-epsilon; they rise with it.
        effort: counts the work. Once it is spent, the least scale found so far is taken.
        is_dear: whether the purchase at a scale costs too much to be taken. It rises with the
            scale, so a search ends without a result once a scale that fails is too dear.
    """

    holdings: Holdings
    part_of: Callable[[float], Mapping[BlockKey, int]]
    effort: Effort
    is_dear: Callable[[float], bool] = lambda _part: False

    def meets(self, part: float, questions: Sequence[Question]) -> bool:
        """Whether the purchase at this scale meets every question."""
        return self.missed(part, questions, most=1) == []

    def missed(
        self, part: float, questions: Sequence[Question], *, most: int | None = None
    ) -> list[Question]:
        """The questions that are not met, in their order.

        Args:
            most: the search ends after this number of questions.
        """
        blocks = self.holdings.engine.tables.blocks_with(self.part_of(part))
        found = list[Question]()
        for q in questions:
            self.effort.add(PLANNER.evaluation_work)
            own = self.holdings.own(q.row)
            known = self.holdings.beside(q.row, blocks, own=own).known
            half_width = q.roomy_half_width
            if not known.is_within(half_width, q.confidence):
                found.append(q)
                if len(found) == most:
                    break
        return found

    def least_part(self, ordered: Sequence[Question]) -> float | None:
        """About the least scale that meets all questions, searched on those that bind.

        None if no scale that is tried meets them, or all that do are too dear.

        Args:
            ordered: the questions, about the hardest first.
        """
        hardest, part = list(ordered[: PLANNER.hardest]), 0.0
        for _ in range(PLANNER.scaling_rounds):
            found = self._least(hardest, part)
            if found is None:
                return None
            part = found
            failing = self.missed(part, ordered)
            if not failing:
                return part
            hardest = failing + hardest
        return self._least(ordered, part)

    def _least(self, questions: Sequence[Question], low: float) -> float | None:
        high = max(low, 1.0)
        # Continue even if the effort is spent: a base that misses a question would be lost.
        while not self.meets(high, questions):
            low, high = high, high * 1.1
            if high > PLANNER.largest_part or self.is_dear(low):
                return None
        for _ in range(PLANNER.scalings):
            if self.effort.is_spent:
                break
            middle = 0.5 * (low + high)
            if self.meets(middle, questions):
                high = middle
                continue
            low = middle
            if self.is_dear(low):
                return None
        return high
