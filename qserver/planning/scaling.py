"""How much of a purchase of blocks meets many questions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from qserver.inference.lattice.pattern import BlockKey
from qserver.planning.bought import Bought
from qserver.planning.question import Question

_SCALINGS = 10
_LARGEST_PART = 64.0
_HARDEST = 32
_ROUNDS = 3

Verdict = Callable[[Bought, Sequence[Question], Mapping[BlockKey, int]], bool]
"""Whether all questions are met once blocks are raised to these alphas, in nano-epsilon."""


@dataclass(frozen=True, eq=False)
class Scaling:
    """The search for the least scale at which a purchase of blocks meets all questions.

    Args:
        part_of: alphas of the blocks at a scale, in nano-epsilon; they rise with it.
        out_of_time: once it says so, the least scale that was found so far is taken.
    """

    bought: Bought
    part_of: Callable[[float], Mapping[BlockKey, int]]
    verdict: Verdict
    out_of_time: Callable[[], bool]

    def meets(self, part: float, questions: Sequence[Question]) -> bool:
        """Whether the purchase at this scale meets the questions."""
        return self.verdict(self.bought, questions, self.part_of(part))

    def least_part(self, ordered: Sequence[Question]) -> float | None:
        """About the least scale that meets all questions, sought on those that bind.

        Args:
            ordered: by how hard they are, about; the hardest first, which fail soonest.
        """
        hardest, part = list(ordered[:_HARDEST]), 0.0
        for _ in range(_ROUNDS):
            found = self._least(hardest, part)
            if found is None:
                return None
            part = found
            failing = [q for q in ordered if not self.meets(part, [q])]
            if not failing:
                return part
            hardest = failing + hardest
        return self._least(ordered, part)

    def _least(self, questions: Sequence[Question], low: float) -> float | None:
        high = max(low, 1.0)
        while not self.meets(high, questions):
            low, high = high, high * 1.1
            if high > _LARGEST_PART or self.out_of_time():
                return None
        for _ in range(_SCALINGS):
            if self.out_of_time():
                break
            middle = 0.5 * (low + high)
            low, high = (low, middle) if self.meets(middle, questions) else (middle, high)
        return high
