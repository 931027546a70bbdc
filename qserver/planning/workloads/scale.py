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
        holdings: on the lattice that answers are given on then.
        part_of: alphas of the blocks at a scale, in nano-epsilon; they rise with it.
        effort: once it is too much, the least scale that was found so far is taken.
    """

    holdings: Holdings
    part_of: Callable[[float], Mapping[BlockKey, int]]
    effort: Effort

    def meets(self, part: float, questions: Sequence[Question]) -> bool:
        """Whether each question meets its own requirement under the purchase at this scale."""
        return self.missed(part, questions, most=1) == []

    def missed(
        self, part: float, questions: Sequence[Question], *, most: int | None = None
    ) -> list[Question]:
        """The questions that are not met, in their order.

        Args:
            most: so many are enough.
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
        """About the least scale that meets all questions, sought on those that bind.

        None where that is beyond any that is tried.

        Args:
            ordered: by how hard they are, about; the hardest first, which fail soonest.
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
        # Also where the work was too much: what was fitted is lost if it is not enough.
        while not self.meets(high, questions):
            low, high = high, high * 1.1
            if high > PLANNER.largest_part:
                return None
        for _ in range(PLANNER.scalings):
            if self.effort.is_spent:
                break
            middle = 0.5 * (low + high)
            low, high = (low, middle) if self.meets(middle, questions) else (middle, high)
        return high
